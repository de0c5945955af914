// SPDX-License-Identifier: MIT
#include "sinks/decimal.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace slotscope {
namespace {

constexpr size_t kRoom = 20;  // what AppendDecimal() asks for
constexpr char kUntouched = '#';

// What it writes; also checks that nothing behind the end that it returns was written.
std::string Decimal(uint64_t value) {
  std::array<char, kRoom + 8> room;
  room.fill(kUntouched);
  const char* end = AppendDecimal(room.data(), value);
  for (const char* at = end; at < room.data() + room.size(); at++)
    EXPECT_TRUE(*at == kUntouched || at < room.data() + kRoom) << "wrote over its room for " << value;
  return {room.data(), static_cast<size_t>(end - room.data())};
}

uint64_t PowerOfTen(int exponent) {
  uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

TEST(AppendDecimal, EveryNumberBelowAHundredThousand) {
  for (uint64_t value = 0; value < 100'000; value++) ASSERT_EQ(Decimal(value), std::to_string(value));
}

TEST(AppendDecimal, BordersBetweenLengths) {
  for (int digits = 1; digits <= 19; digits++)
    for (uint64_t value : {PowerOfTen(digits) - 1, PowerOfTen(digits), PowerOfTen(digits) + 1})
      EXPECT_EQ(Decimal(value), std::to_string(value));
}

TEST(AppendDecimal, BordersBetweenTypes) {
  for (uint64_t border : {uint64_t{INT32_MAX}, uint64_t{UINT32_MAX}, uint64_t{INT64_MAX}})
    for (uint64_t value : {border - 1, border, border + 1})
      EXPECT_EQ(Decimal(value), std::to_string(value));
  EXPECT_EQ(Decimal(UINT64_MAX), "18446744073709551615");
}

TEST(AppendDecimal, InnerZerosStay) {
  for (int first = 0; first < 20; first++)
    for (int second = 0; second < first; second++) {
      uint64_t value = PowerOfTen(first) + PowerOfTen(second);
      EXPECT_EQ(Decimal(value), std::to_string(value));
    }
}

TEST(AppendDecimal, RandomNumbersOfEachLength) {
  std::mt19937_64 random(1);
  for (int digits = 1; digits <= 20; digits++) {
    uint64_t low = PowerOfTen(digits - 1);
    uint64_t count = digits == 20 ? UINT64_MAX - low + 1 : 9 * low;
    for (int i = 0; i < 10'000; i++) {
      uint64_t value = low + random() % count;
      ASSERT_EQ(Decimal(value), std::to_string(value));
    }
  }
}

TEST(AppendDecimal, NumbersCanFollowEachOther) {
  std::array<char, 3 * kRoom> room;
  char* end = AppendDecimal(room.data(), 7);
  *end++ = ',';
  end = AppendDecimal(end, 12345678);
  *end++ = ',';
  end = AppendDecimal(end, 100);
  EXPECT_EQ(std::string(room.data(), end), "7,12345678,100");
}

}  // namespace
}  // namespace slotscope
