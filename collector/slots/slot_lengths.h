// SPDX-License-Identifier: MIT
// How long slots are, and from when on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace slotscope {

// All lengths are multiples of the shortest, and a slot begins at a multiple of its own: where the
// length changes, one of both lengths would begin.
class SlotLengths {
 public:
  // What a recording goes over to when it is to cost less; the same as slot_ns if that is long already.
  static constexpr uint64_t LongerOf(uint64_t slot_ns) {
    return std::max(slot_ns, std::min(10 * slot_ns, kMaxNs));
  }
  static constexpr uint64_t kMaxNs = 1'000'000'000;

  explicit SlotLengths(uint64_t shortest_ns) : shortest_ns_(shortest_ns), eras_{{0, shortest_ns}} {}

  uint64_t shortest_ns() const { return shortest_ns_; }
  // Of the slot that contains ts_ns.
  uint64_t StartOf(uint64_t ts_ns) const { return ts_ns - ts_ns % LengthAt(ts_ns); }
  uint64_t LengthAt(uint64_t ts_ns) const {
    auto era = eras_.end() - 1;
    while (era->from_ns > ts_ns && era != eras_.begin()) --era;
    return era->slot_ns;
  }
  // From from_ns on, or soon behind it, slots are so long, or as near to it as a multiple of the
  // shortest comes. Nothing happens to slots that begin before. REQUIRES: slot_ns <= kMaxNs.
  void Change(uint64_t from_ns, uint64_t slot_ns);
  // Nobody asks for anything before that any more.
  void Forget(uint64_t before_ns);

  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    state(eras_);
    if constexpr (Archive::kReads) {
      if (IsValid()) return;
      state.Require(false);
      eras_ = {{0, shortest_ns_}};  // it is asked all the same
    }
  }

 private:
  // What goes up and down more often than slots retire is not followed.
  static constexpr size_t kMaxEras = 64;

  struct Era {
    uint64_t from_ns;
    uint64_t slot_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(from_ns, slot_ns);
    }
  };

  bool IsValid() const;

  uint64_t shortest_ns_;
  std::vector<Era> eras_;  // the first is of everything before the second
};

}  // namespace slotscope
