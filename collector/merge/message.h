// SPDX-License-Identifier: MIT
// Validation of one message. What comes out of a ring or a file is untrusted: nothing may be read from
// it before this has said yes.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
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

// By ABI version.
inline constexpr size_t kMeasureSizes[] = SS_MEASURE_SIZES;
static_assert(std::size(kMeasureSizes) == SS_ABI_VERSION + 1 &&
              kMeasureSizes[SS_ABI_VERSION] == sizeof(ss_measure));

// How many counters are behind it, of those that we know.
inline size_t NrMore(const ss_measure& measure) {
  const size_t size = std::min(size_t{measure.hdr.size}, sizeof(ss_long_measure));
  return (size - sizeof(ss_measure)) / sizeof(ss_counter);
}

// A copy of a measure of hdr->size bytes, of which the counters that it may have begin at measure_size;
// REQUIRES: it is that long, and measure_size no more than sizeof(ss_measure). What a newer writer has
// behind all that we know is left out, a field or counter that is not there is zero: not measured.
inline ss_long_measure CopyLongMeasure(const ss_hdr* hdr, size_t measure_size) {
  const size_t nr_more = std::min<size_t>((hdr->size - measure_size) / sizeof(ss_counter), SS_MAX_MORE);
  const auto* bytes = reinterpret_cast<const std::byte*>(hdr);
  ss_long_measure copy = {};
  std::memcpy(&copy.measure, bytes, measure_size);
  std::memcpy(copy.more, bytes + measure_size, nr_more * sizeof(ss_counter));
  copy.measure.hdr.size = static_cast<uint16_t>(hdr->size + sizeof(ss_measure) - measure_size);
  return copy;
}

// Copies `bytes` into *message (the rest of it is zeroed) and checks type, size and the values that
// later stages rely on. A message longer than its type is valid: newer writers may append fields. What
// is behind a measure is left out.
Decoded DecodeMessage(std::span<const std::byte> bytes, ss_any_message* message);

inline bool IsText(uint16_t type) { return type >= SS_EXEC && type <= SS_CGROUP_MOVE; }
// The same for one of those, which have their own buffer, as they are long.
Decoded DecodeText(std::span<const std::byte> bytes, ss_text* text);

}  // namespace slotscope
