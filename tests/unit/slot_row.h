// SPDX-License-Identifier: MIT
// Rows of slots as a reader of a recording has them, of a machine that waits for others only.
#pragma once

#include <cstdint>

#include "explain/history.h"

namespace slotscope {

inline constexpr int64_t kRowsUnixNs = 1'795'754'628'000'000'000;

// One of a slot of 1 ms, that long behind kRowsUnixNs.
inline SlotRow MakeSlotRow(int64_t at_ns, int32_t tgid, const char* comm, uint64_t cpu_ns,
                           uint64_t others_ns = 0, const char* kind = "user") {
  SlotRow row;
  row.start_ns = kRowsUnixNs + at_ns;
  row.slot_ns = 1'000'000;
  row.key = {tgid, 7};
  row.comm = comm;
  row.kind = kind;
  row.cpu_ns = cpu_ns;
  row.has_waits = true;
  row.measured_waits = (1u << kNrWaitHindrances) - 1;
  row.wait_ns[kByOthers] = others_ns;
  return row;
}

}  // namespace slotscope
