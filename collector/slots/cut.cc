// SPDX-License-Identifier: MIT
#include "slots/cut.h"

#include "slots/share.h"

namespace slotscope {

Sums Cut::TakeUntil(uint64_t at_ns) {
  Sums piece = left_;
  if (at_ns != measure_.hdr.ts_ns) {
    const uint64_t part_ns = at_ns - measure_.start_ns;
    piece[kCpuNs] = part_ns - (whole_[kCpuNs] - left_[kCpuNs]);
    if (!(measure_.flags & SS_MEASURE_TICK)) piece[kSwitches] = piece[kPreemptions] = 0;
    for (size_t i = kCycles; i < kNrAdditive; i++)
      piece[i] = Share(whole_[i], part_ns, whole_[kCpuNs]) - (whole_[i] - left_[i]);
  }
  for (size_t i = 0; i < kNrAdditive; i++) left_[i] -= piece[i];
  return piece;
}

}  // namespace slotscope
