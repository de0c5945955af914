// SPDX-License-Identifier: MIT
// How often a recording says how it goes where nobody overwrites the line: a file, a journal.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slotscope {

// Until the next line, by the time since the start: a quarter of that, between two seconds and an hour.
// A day is 57 lines, a month 753.
constexpr uint64_t PlainProgressNs(uint64_t since_start_ns) {
  return std::clamp<uint64_t>(since_start_ns / 4, 2'000'000'000, 3'600'000'000'000);
}

}  // namespace slotscope
