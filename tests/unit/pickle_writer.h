// SPDX-License-Identifier: MIT
// Writes pickles as PyTorch's flight recorder does: protocol 2, texts once and then by their memo id,
// containers filled at once.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace slotscope {

class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02", 2) {}

  PickleWriter& None() { return Op('N'); }
  PickleWriter& Bool(bool value) { return Op(value ? '\x88' : '\x89'); }
  PickleWriter& Int(int64_t value) {
    if (value >= 0 && value < 256) return Op('K').Little(static_cast<uint64_t>(value), 1);
    if (value >= 0 && value < 65536) return Op('M').Little(static_cast<uint64_t>(value), 2);
    if (value >= INT32_MIN && value <= INT32_MAX) return Op('J').Little(static_cast<uint64_t>(value), 4);
    return Op('\x8a').Little(8, 1).Little(static_cast<uint64_t>(value), 8);
  }
  PickleWriter& Float(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    Op('G');
    for (int shift = 56; shift >= 0; shift -= 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  PickleWriter& Text(std::string_view text) {
    const auto [at, is_new] = memo_.try_emplace(std::string(text), next_id_);
    if (!is_new) return Memo('h', 'j', at->second);
    Op('X').Little(text.size(), 4);
    bytes_ += text;
    return Memo('q', 'r', next_id_++);
  }
  PickleWriter& List(const std::function<void()>& items) {
    bytes_ += "](";
    items();
    return Op('e');
  }
  PickleWriter& Dict(const std::function<void()>& items) {
    bytes_ += "}(";
    items();
    return Op('u');
  }
  PickleWriter& Pair(std::string_view first, std::string_view second) {
    return Text(first).Text(second).Op('\x86');
  }
  PickleWriter& Op(char opcode) {
    bytes_ += opcode;
    return *this;
  }
  PickleWriter& Little(uint64_t value, int nr) {
    for (int i = 0; i < nr; i++) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  // The root is remembered, too, though nobody asks for it.
  std::string Done() { return Memo('q', 'r', next_id_).Op('.').bytes_; }

 private:
  PickleWriter& Memo(char small, char large, uint32_t id) {
    return id < 256 ? Op(small).Little(id, 1) : Op(large).Little(id, 4);
  }

  std::string bytes_;
  std::map<std::string, uint32_t> memo_;
  uint32_t next_id_ = 0;
};

}  // namespace slotscope
