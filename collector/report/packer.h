// SPDX-License-Identifier: MIT
// Numbers for a page, packed: a stream is numbers of seven bits a byte, the lowest first, all streams
// lie one behind the other. (page/data.js unpacks them.)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace slotscope {

class Packer {
 public:
  void Begin() { begin_ = bytes_.size(); }
  void Put(uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_ += static_cast<char>(number | 0x80);
    bytes_ += static_cast<char>(number);
  }
  // Where the stream is: [offset, length].
  nlohmann::ordered_json End() const { return {begin_, bytes_.size() - begin_}; }
  template <typename Numbers>
  nlohmann::ordered_json PutAll(const Numbers& numbers) {
    Begin();
    for (const auto number : numbers) Put(number);
    return End();
  }

  size_t size() const { return bytes_.size(); }
  // Deflated (zlib's format), as base64.
  std::string Text() const;

 private:
  std::string bytes_;
  size_t begin_ = 0;
};

}  // namespace slotscope
