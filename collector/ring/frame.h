// SPDX-License-Identifier: MIT
// What a reader tells the merge stage about one stream, in order: the messages it took out of a ring
// and what it knows beside them. A stream is a CPU's ring; the last stream carries state dumps.
#pragma once

#include <cstdint>

#include <slotscope/events.h>

namespace slotscope {

enum class FrameKind : uint16_t {
  kMessage = 1,    // one message, `size` bytes, not validated
  kRound = 2,      // the ring was drained completely; `value` is the clock read before (ns)
  kLost = 3,       // the kernel could not write `value` records (PERF_RECORD_LOST)
  kDropped = 4,    // we could not queue `value` messages
  kMalformed = 5,  // `value` ring records were too short or too long to be a message
  kOnline = 6,     // from `value` (ns) on this CPU may write into its new ring
  kOffline = 7,    // the CPU went away, noticed at `value` (ns)
  kDumpBegin = 8,  // a state dump begins at `value` (ns)
  kDumpEnd = 9,    // it ended at `value`: every process alive at its begin has been named
  kExpected = 10,  // measures of this CPU are to be expected from about `value` on
};

struct FrameHeader {
  FrameKind kind;
  uint16_t size;  // of the payload that follows
  uint32_t zero;
  uint64_t value;
};
static_assert(sizeof(FrameHeader) == 16);

// Room for fields that a newer writer appends.
inline constexpr uint16_t kMaxMessageSize = 256;
static_assert(sizeof(ss_any_message) <= kMaxMessageSize);

}  // namespace slotscope
