// SPDX-License-Identifier: MIT
// Measures of one CPU, each of which begins where the last one ended: what a ring has most of.
#pragma once

#include <linux/perf_event.h>
#include <slotscope/events.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "merge/message.h"

namespace slotscope {

// PERF_SAMPLE_RAW: behind the record's header a u32 size, then the message, padded to 8 bytes behind.
inline constexpr size_t kRawSizeAt = sizeof(perf_event_header);
inline constexpr size_t kMessageAt = kRawSizeAt + sizeof(uint32_t);
// A record that has one measure and nothing more.
inline constexpr size_t kMeasureRecord = (kMessageAt + sizeof(ss_measure) + 7) / 8 * 8;

// Far enough for memory to answer in time. The processor's own prefetching ends with each page.
inline constexpr size_t kPrefetchAhead = 2048;
inline constexpr size_t kCacheLine = 64;

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// The times that the messages of a drain can have.
struct TimeRange {
  uint64_t earliest_ns;
  uint64_t latest_ns;

  bool Contains(uint64_t ts_ns) const { return ts_ns >= earliest_ns && ts_ns <= latest_ns; }
};

// Pulled by whom the measures are for: each is looked at, and added up, while the next ones are still on
// their way from memory. (Handing out a dozen at a time takes a third longer.)
class Run {
 public:
  // `records`: of the ring of `cpu`, message by message at an address that is a multiple of 8.
  Run(std::span<const std::byte> records, uint32_t cpu, const TimeRange& possible,
      uint64_t continues_at_ns)
      : records_(records), cpu_(cpu), possible_(possible), continues_at_ns_(continues_at_ns) {}

  uint32_t cpu() const { return cpu_; }
  // Null: what comes next is something else, or not valid.
  const ss_measure* Next() {
    if (!IsPlainMeasure()) return nullptr;
    const auto* measure = reinterpret_cast<const ss_measure*>(records_.data() + kMessageAt);
    if (measure->start_ns != continues_at_ns_ || measure->hdr.cpu != cpu_ || !IsValidMeasure(*measure) ||
        !possible_.Contains(measure->hdr.ts_ns))
      return nullptr;
    records_ = records_.subspan(kMeasureRecord);
    for (size_t line = 0; line < kMeasureRecord; line += kCacheLine)
      __builtin_prefetch(records_.data() + kPrefetchAhead + line);
    continues_at_ns_ = measure->hdr.ts_ns;
    nr_++;
    return measure;
  }

  uint64_t nr() const { return nr_; }  // so far
  uint64_t continues_at_ns() const { return continues_at_ns_; }
  std::span<const std::byte> rest() const { return records_; }

 private:
  // A measure as it is today: what its sizes then are is compared at once.
  bool IsPlainMeasure() const {
    if (records_.size() < kMeasureRecord) return false;
    const auto header = Load<perf_event_header>(records_.data());
    const auto hdr = Load<ss_hdr>(records_.data() + kMessageAt);
    return header.type == PERF_RECORD_SAMPLE && header.size == kMeasureRecord &&
           Load<uint32_t>(records_.data() + kRawSizeAt) == kMeasureRecord - kMessageAt &&
           hdr.type == SS_MEASURE && hdr.size == sizeof(ss_measure);
  }

  std::span<const std::byte> records_;
  const uint32_t cpu_;
  const TimeRange possible_;
  uint64_t continues_at_ns_;
  uint64_t nr_ = 0;
};

}  // namespace slotscope
