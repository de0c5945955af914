// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace slotscope {

static_assert(std::endian::native == std::endian::little, "the first character is in the lowest byte");

// [number] -> its three digits as characters, and above them 8 times the number of zeros in front.
inline constexpr std::array<uint32_t, 1000> kThreeDigits = [] {
  std::array<uint32_t, 1000> digits = {};
  for (uint32_t i = 0; i < 1000; i++) {
    const uint32_t zeros = i < 10 ? 2 : i < 100 ? 1 : 0;
    digits[i] = ('0' + i / 100) | ('0' + i / 10 % 10) << 8 | ('0' + i % 10) << 16 | 8 * zeros << 24;
  }
  return digits;
}();

// With zeros in front. REQUIRES: below 100'000'000.
inline uint64_t EightDigits(uint32_t number) {
  const uint32_t high = number / 1'000'000, middle = number / 1'000 % 1'000, low = number % 1'000;
  return (kThreeDigits[high] >> 8 & 0xffff) | uint64_t{kThreeDigits[middle] & 0xffffff} << 16 |
         uint64_t{kThreeDigits[low]} << 40;
}

// REQUIRES: below 100'000'000.
inline char* AppendShort(char* out, uint32_t number) {
  if (number < 1'000) {
    const uint32_t digits = kThreeDigits[number], zero_bits = digits >> 24;
    const uint32_t text = digits >> zero_bits;
    std::memcpy(out, &text, sizeof(text));
    return out + 3 - zero_bits / 8;
  }
  // No branch has to guess the length, and what is written behind does not wait for the digits.
  const int length =
      4 + (number >= 10'000) + (number >= 100'000) + (number >= 1'000'000) + (number >= 10'000'000);
  const uint64_t text = EightDigits(number) >> (64 - 8 * length);
  std::memcpy(out, &text, sizeof(text));
  return out + length;
}

// Of a point in time.
[[gnu::noinline]] inline char* AppendLong(char* out, uint64_t value) {
  constexpr uint64_t kEight = 100'000'000;
  const uint64_t high = value / kEight;
  out = high < kEight ? AppendShort(out, static_cast<uint32_t>(high)) : AppendLong(out, high);
  const uint64_t text = EightDigits(static_cast<uint32_t>(value % kEight));
  std::memcpy(out, &text, sizeof(text));
  return out + sizeof(text);
}

// Writes `value` and returns the end. REQUIRES: room for 20 characters. std::to_chars does the same and
// takes twice as long for the short numbers that rows are made of (see bench/README.md).
inline char* AppendDecimal(char* out, uint64_t value) {
  return value < 100'000'000 ? AppendShort(out, static_cast<uint32_t>(value)) : AppendLong(out, value);
}

}  // namespace slotscope
