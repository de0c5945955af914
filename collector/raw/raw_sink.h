// SPDX-License-Identifier: MIT
// Where the blocks of a recording go, as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace slotscope {

// The clock of the latest item.
struct RawMoment {
  uint64_t clock_ns = 0;
  int64_t unix_offset_ns = 0;

  int64_t unix_ns() const { return static_cast<int64_t>(clock_ns) + unix_offset_ns; }
};

struct RawSink {
  virtual ~RawSink() = default;
  // Merge thread, between two blocks, once the first slot is known. True: what the engine knows now is
  // to be given to BeginSegment(), in front of the next block. It then asks for no other before it has
  // got that.
  virtual bool WantsSegment(const RawMoment& now) {
    (void)now;
    return false;
  }
  // The raw writer's thread, in the order of the recording.
  virtual Status BeginSegment(std::string_view state, const RawMoment& now) {
    (void)state, (void)now;
    return {};
  }
  virtual Status WriteItems(std::span<const std::byte> items, const RawMoment& now) = 0;
};

}  // namespace slotscope
