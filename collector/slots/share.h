// SPDX-License-Identifier: MIT
// Cutting a whole into pieces, exactly.
#pragma once

#include <cstdint>

namespace slotscope {

// The share of `value` that falls to [0, part) of `whole`, rounded down. A piece is what the share grows
// by from border to border, so the last one gets the remainders. REQUIRES: part <= whole.
inline uint64_t Share(uint64_t value, uint64_t part, uint64_t whole) {
  if (value == whole) return part;  // as of times that were counted all along
  if (value == 0) return 0;         // as of counters that are none
  if ((value | part) >> 32 == 0) return value * part / whole;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * part / whole);
}

}  // namespace slotscope
