// SPDX-License-Identifier: MIT
// Bytes that grow at their end: room is made once for some that are then put there, so that a number is
// a store, and no call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace slotscope {

class Bytes {
 public:
  size_t size() const { return size_; }
  std::string_view text() const { return {data_.get(), size_}; }
  void Clear() { size_ = 0; }

  // The lower bytes of a number, little endian. REQUIRES: nr <= 8.
  void AddNumber(uint64_t number, size_t nr) {
    std::memcpy(Room(sizeof(number)), &number, sizeof(number));
    size_ += nr;
  }
  void Add(char byte) {
    *Room(1) = byte;
    size_++;
  }
  void Add(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(Room(text.size()), text.data(), text.size());
    size_ += text.size();
  }
  void AddTimes(size_t nr, char byte) {
    if (nr == 0) return;
    std::memset(Room(nr), byte, nr);
    size_ += nr;
  }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };

  char* Room(size_t nr) {
    if (capacity_ - size_ < nr) Grow(nr);
    return data_.get() + size_;
  }
  void Grow(size_t nr) {
    constexpr size_t kLeast = 4096;
    const size_t wanted = std::max({size_ + nr, capacity_ + capacity_ / 2, kLeast});
    char* const grown = static_cast<char*>(std::realloc(data_.get(), wanted));
    if (!grown) throw std::bad_alloc();
    (void)data_.release();  // it is the grown one now, or is freed
    data_.reset(grown);
    capacity_ = wanted;
  }

  std::unique_ptr<char, Free> data_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace slotscope
