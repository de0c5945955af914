// SPDX-License-Identifier: MIT
// What a stage knows, as bytes: written where a raw segment begins, and read where a replay begins with
// that segment. A class has one member for both, which names what it consists of:
//
//   template <typename Archive> void State(Archive& state) { state(first_ns_, rows_); }
//
// Numbers are little endian and as long as they are in memory; a container is its length and what is in
// it. What is read is untrusted: a reader fails at the first value that cannot be, and then reads zeros;
// what else has to hold says the class, by state.Require(). Another order of anything is another
// kStateVersion.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace slotscope {

inline constexpr uint32_t kStateVersion = 10;

class StateWriter {
 public:
  static constexpr bool kReads = false;

  template <typename... T>
  void operator()(const T&... values) {
    (Put(values), ...);
  }
  void Bytes(std::span<const std::byte> bytes) {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  static void Require(bool holds) { (void)holds; }
  // Of numbers only, without holes: any bytes are one.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Plain(const T& value) { Bytes(std::as_bytes(std::span(&value, 1))); }
  template <typename T>
  void Enum(const T& value, T last) {
    (void)last;
    Put(static_cast<uint32_t>(value));
  }
  // Of what is not put as one.
  size_t Count(size_t nr) {
    Put(uint64_t{nr});
    return nr;
  }

  std::string text() && { return std::move(text_); }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      Bytes(std::as_bytes(std::span(&value, 1)));
    } else if constexpr (requires { const_cast<T&>(value).State(*this); }) {
      const_cast<T&>(value).State(*this);
    } else {
      PutAll(value);
    }
  }
  template <typename T, size_t N>
  void PutAll(const std::array<T, N>& values) {
    for (const T& value : values) Put(value);
  }
  template <typename A, typename B>
  void PutAll(const std::pair<A, B>& both) {
    Put(both.first);
    Put(both.second);
  }
  template <typename Container>
  requires requires(const Container& all) { all.size(), all.begin(); }
  void PutAll(const Container& all) {
    Count(all.size());
    for (const auto& value : all) Put(value);
  }

  std::string text_;
};

class StateReader {
 public:
  static constexpr bool kReads = true;

  explicit StateReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Nothing was wrong so far.
  bool ok() const { return ok_; }
  // And nothing is left.
  bool done() const { return ok_ && bytes_.empty(); }

  template <typename... T>
  void operator()(T&... values) {
    (Get(&values), ...);
  }
  // Of that many; empty where there are fewer.
  std::span<const std::byte> Bytes(size_t size) {
    Require(size <= bytes_.size());
    if (!ok_) return {};
    const auto bytes = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return bytes;
  }
  void Require(bool holds) { ok_ &= holds; }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Plain(T& value) {
    const auto bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
  }
  template <typename T>
  void Enum(T& value, T last) {
    uint32_t number = 0;
    Get(&number);
    Require(number <= static_cast<uint32_t>(last));
    value = static_cast<T>(ok_ ? number : 0);
  }
  // Each of them takes a byte at least. (The number that a writer has does not matter.)
  size_t Count(size_t nr_now = 0) {
    uint64_t nr = nr_now;
    Get(&nr);
    Require(nr <= bytes_.size());
    return ok_ ? nr : 0;
  }

 private:
  template <typename T>
  void Get(T* value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      Get(&byte);
      Require(byte <= 1);
      *value = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      *value = {};
      const auto bytes = Bytes(sizeof(T));
      if (!bytes.empty()) std::memcpy(value, bytes.data(), sizeof(T));
      if constexpr (std::is_floating_point_v<T>) Require(std::isfinite(*value));
    } else if constexpr (requires { value->State(*this); }) {
      value->State(*this);
    } else {
      GetAll(value);
    }
  }
  template <typename T, size_t N>
  void GetAll(std::array<T, N>* values) {
    for (T& value : *values) Get(&value);
  }
  template <typename A, typename B>
  void GetAll(std::pair<A, B>* both) {
    Get(const_cast<std::remove_const_t<A>*>(&both->first));
    Get(&both->second);
  }
  // In the order in which they were written; of sets of keys none comes twice.
  template <typename Container>
  void GetAll(Container* all) {
    all->clear();
    for (size_t nr = Count(); nr > 0 && ok_; nr--) {
      if constexpr (requires { typename Container::mapped_type; }) {
        typename Container::key_type key = {};
        typename Container::mapped_type mapped = {};
        Get(&key);
        Get(&mapped);
        const size_t before = all->size();
        all->emplace(key, std::move(mapped));
        Require(all->size() == before + 1);
      } else {
        typename Container::value_type value = {};
        Get(&value);
        all->push_back(std::move(value));
      }
    }
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace slotscope
