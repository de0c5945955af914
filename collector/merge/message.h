// SPDX-License-Identifier: MIT
// Validation of one message. What comes out of a ring or a file is untrusted: nothing may be read from
// it before this has said yes.
#pragma once

#include <slotscope/events.h>

#include <cstddef>
#include <span>

namespace slotscope {

enum class Decoded {
  kValid,
  kUnknownType,
  kMalformed,  // shorter than its type needs, or with impossible values
};

// Do the values of a measure that later stages rely on make sense? Without a branch per value: it is
// asked for every measure there is.
inline bool IsValidMeasure(const ss_measure& measure) {
  bool bad = measure.start_ns > measure.hdr.ts_ns;
  bad |= measure.tgid < 0;
  bad |= measure.preemptions > measure.switches;
  for (const ss_counter& counter : measure.counters) bad |= counter.running_ns > counter.enabled_ns;
  return !bad;
}

// Copies `bytes` into *message (the rest of it is zeroed) and checks type, size and the values that
// later stages rely on. A message longer than its type is valid: newer writers may append fields.
Decoded DecodeMessage(std::span<const std::byte> bytes, ss_any_message* message);

}  // namespace slotscope
