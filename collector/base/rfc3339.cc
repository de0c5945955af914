// SPDX-License-Identifier: MIT
#include "base/rfc3339.h"

#include <fmt/chrono.h>

#include <ctime>

namespace slotscope {

std::string Rfc3339(int64_t unix_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = unix_ns / kSecond, rest = unix_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    seconds--;
  }
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(static_cast<time_t>(seconds)), rest);
}

}  // namespace slotscope
