// SPDX-License-Identifier: MIT
// Validation of one message. What comes out of a ring or a file is untrusted: nothing may be read from
// it before this has said yes.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
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

// The same for one with counters behind it.
inline bool IsValidMeasure(const ss_long_measure& measure) {
  bool bad = !IsValidMeasure(measure.measure);
  for (const ss_counter& counter : measure.more) bad |= counter.running_ns > counter.enabled_ns;
  return !bad;
}

// How many counters are behind it, of those that we know.
inline size_t NrMore(const ss_measure& measure) {
  const size_t size = std::min(size_t{measure.hdr.size}, sizeof(ss_long_measure));
  return (size - sizeof(ss_measure)) / sizeof(ss_counter);
}

// A copy of a measure that is hdr.size bytes long, at least sizeof(ss_measure): what a newer writer has
// behind all that we know is left out, a counter that is not there was not measured.
inline ss_long_measure CopyLongMeasure(const ss_measure* measure) {
  ss_long_measure copy = {};
  std::memcpy(&copy, measure, sizeof(*measure) + NrMore(*measure) * sizeof(ss_counter));
  return copy;
}

// Copies `bytes` into *message (the rest of it is zeroed) and checks type, size and the values that
// later stages rely on. A message longer than its type is valid: newer writers may append fields. What
// is behind a measure is left out.
Decoded DecodeMessage(std::span<const std::byte> bytes, ss_any_message* message);

}  // namespace slotscope
