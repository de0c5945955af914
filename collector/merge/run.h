// SPDX-License-Identifier: MIT
// Measures of one CPU, each of which begins where the last one ended, and the ticks between them: what a
// ring has most of.
#pragma once

#include <linux/perf_event.h>
#include <slotscope/events.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "merge/message.h"

namespace slotscope {

// PERF_SAMPLE_RAW: behind the record's header a u32 size, then the message, padded to 8 bytes behind.
inline constexpr size_t kRawSizeAt = sizeof(perf_event_header);
inline constexpr size_t kMessageAt = kRawSizeAt + sizeof(uint32_t);
// A record that has one such message and nothing more.
template <typename Message>
inline constexpr size_t kRecordOf = (kMessageAt + sizeof(Message) + 7) / 8 * 8;
inline constexpr size_t kMeasureRecord = kRecordOf<ss_measure>;

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
      : records_(records),
        cpu_(cpu),
        measure_word_(WordOf({0, SS_MEASURE, sizeof(ss_measure), cpu})),
        tick_word_(WordOf({0, SS_TICK, sizeof(ss_tick), cpu})),
        possible_(possible),
        continues_at_ns_(continues_at_ns) {}

  uint32_t cpu() const { return cpu_; }
  // Null: what comes next is something else, or not valid.
  const ss_measure* NextMeasure() {
    const auto* measure = Front<ss_measure>(measure_word_);
    if (!measure || measure->start_ns != continues_at_ns_ || !IsValidMeasure(*measure) ||
        !possible_.Contains(measure->hdr.ts_ns))
      return nullptr;
    Take(kMeasureRecord);
    continues_at_ns_ = measure->hdr.ts_ns;
    return measure;
  }
  const ss_tick* NextTick() {
    const auto* tick = Front<ss_tick>(tick_word_);
    // One of the past may be late, which is not ours to see.
    if (!tick || tick->hdr.ts_ns < continues_at_ns_ || !possible_.Contains(tick->hdr.ts_ns))
      return nullptr;
    Take(kRecordOf<ss_tick>);
    return tick;
  }

  // Hands out all that there is, in its order.
  template <typename OnMeasure, typename OnTick>
  void TakeAll(const OnMeasure& on_measure, const OnTick& on_tick) {
    for (;;) {
      if (const ss_measure* measure = NextMeasure())
        on_measure(*measure);
      else if (const ss_tick* tick = NextTick())
        on_tick(*tick);
      else
        return;
    }
  }

  uint64_t nr() const { return nr_; }  // so far
  uint64_t continues_at_ns() const { return continues_at_ns_; }
  std::span<const std::byte> rest() const { return records_; }

 private:
  // The second word of a message's header.
  static uint64_t WordOf(const ss_hdr& hdr) {
    static_assert(sizeof(ss_hdr) == sizeof(hdr.ts_ns) + sizeof(uint64_t));
    return Load<uint64_t>(reinterpret_cast<const std::byte*>(&hdr.type));
  }

  // The message of the first record, if it is one as it is today, of this CPU: what types and sizes then
  // are is compared by the word.
  template <typename Message>
  const Message* Front(uint64_t word) const {
    constexpr size_t kRecord = kRecordOf<Message>;
    constexpr auto kHeader = std::bit_cast<uint64_t>(
        perf_event_header{PERF_RECORD_SAMPLE, 0, static_cast<uint16_t>(kRecord)});
    constexpr auto kAllButMisc = std::bit_cast<uint64_t>(perf_event_header{UINT32_MAX, 0, UINT16_MAX});
    if (records_.size() < kRecord) return nullptr;
    const auto* hdr = reinterpret_cast<const ss_hdr*>(records_.data() + kMessageAt);
    const bool is_one = (Load<uint64_t>(records_.data()) & kAllButMisc) == kHeader &&
                        Load<uint32_t>(records_.data() + kRawSizeAt) == kRecord - kMessageAt &&
                        WordOf(*hdr) == word;
    return is_one ? reinterpret_cast<const Message*>(hdr) : nullptr;
  }

  void Take(size_t size) {
    records_ = records_.subspan(size);
    for (size_t line = 0; line < size; line += kCacheLine)
      __builtin_prefetch(records_.data() + kPrefetchAhead + line);
    nr_++;
  }

  std::span<const std::byte> records_;
  const uint32_t cpu_;
  const uint64_t measure_word_;
  const uint64_t tick_word_;
  const TimeRange possible_;
  uint64_t continues_at_ns_;
  uint64_t nr_ = 0;
};

}  // namespace slotscope
