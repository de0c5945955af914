// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace slotscope {

// "00" to "99".
inline constexpr std::array<char, 200> kTwoDigits = [] {
  std::array<char, 200> digits = {};
  for (size_t i = 0; i < 100; i++) {
    digits[2 * i] = static_cast<char>('0' + i / 10);
    digits[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return digits;
}();

// Writes `value` and returns the end. REQUIRES: room for 20 characters. std::to_chars does the same and
// takes twice as long for the short numbers that rows are made of (see bench/README.md).
inline char* AppendDecimal(char* out, uint64_t value) {
  auto put = [&](uint32_t below_100) {
    std::memcpy(out, &kTwoDigits[2 * below_100], 2);
    out += 2;
  };
  auto put_first = [&](uint32_t below_100) {
    if (below_100 < 10)
      *out++ = static_cast<char>('0' + below_100);
    else
      put(below_100);
  };
  if (value >= 100'000'000) return std::to_chars(out, out + 20, value).ptr;
  const auto number = static_cast<uint32_t>(value);
  if (number < 100) {
    put_first(number);
  } else if (number < 10'000) {
    put_first(number / 100);
    put(number % 100);
  } else {
    const uint32_t high = number / 10'000, low = number % 10'000;
    if (high < 100) {
      put_first(high);
    } else {
      put_first(high / 100);
      put(high % 100);
    }
    put(low / 100);
    put(low % 100);
  }
  return out;
}

}  // namespace slotscope
