// SPDX-License-Identifier: MIT
// What another producer says, in the slots. A slot is 1 ms; times are in ms.
#include "join/remote_state.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/go_on_anew.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

class Joined : public SlotSink {
 public:
  void OnSlot(Slot* slot) override {
    for (const Row& row : slot->rows)
      if (row.key.tgid == 42) gpu_ = row.gpu ? slot->gpu[row.gpu - 1] : GpuRow{{}, ~0u};
  }
  // What the slot that begins at `ms` says of process 42: "500 -", "? 2/45.2%". Slots come one by one.
  std::string At(uint64_t ms, const GpuRow* own = nullptr, uint64_t started_ms = 0) {
    Slot slot;
    slot.start_ns = ms * kMs;
    slot.end_ns = slot.start_ns + kMs;
    Row row;
    row.key = {42, started_ms * kMs};
    if (own) {
      slot.gpu.push_back(*own);
      row.gpu = 1;
    }
    slot.rows = {row};
    GoOnAnew(&state, this);
    state.OnSlot(&slot);
    std::string text =
        gpu_.unmeasured >> kGpuMemBytes & 1 ? "?" : std::to_string(gpu_.values[kGpuMemBytes]);
    if (gpu_.straggle == Straggle::kUnknown) return text + " -";
    return text + " " + std::to_string(static_cast<int>(gpu_.straggle)) + "/" +
           std::to_string(gpu_.drop_ppm / 1000);
  }
  void Memory(uint64_t ms, uint64_t bytes, uint32_t gpu_id = 0, int32_t tgid = 42) {
    state.OnMemory({tgid, gpu_id, bytes, ms * kMs});
  }
  void Straggles(uint64_t ms, bool sustained) { state.OnStraggle({42, sustained, 452'000, ms * kMs}); }

  RemoteState state{this};

 private:
  GpuRow gpu_;
};

TEST(RemoteState, MemoryIsAsOfTheSlotsEnd) {
  Joined joined;
  joined.Memory(12, 700);
  joined.Memory(11, 500);
  joined.Memory(12, 30, 1);
  EXPECT_EQ(joined.At(10), "? -");
  EXPECT_EQ(joined.At(11), "500 -");
  EXPECT_EQ(joined.At(12), "730 -") << "over all GPUs";
  EXPECT_EQ(joined.At(13), "730 -");
  EXPECT_EQ(joined.state.stats().nr_joined, 3u);
  EXPECT_EQ(joined.state.stats().nr_late, 0u);
  joined.Memory(5, 900);
  EXPECT_EQ(joined.At(14), "930 -") << "what is late is so from now on";
  EXPECT_EQ(joined.state.stats().nr_late, 1u);
}

TEST(RemoteState, StragglingIsSaidOrGetsStale) {
  Joined joined;
  joined.Straggles(10, false);
  joined.Straggles(1010, true);
  EXPECT_EQ(joined.At(10), "? 1/452");
  EXPECT_EQ(joined.At(1009), "? 1/452");
  EXPECT_EQ(joined.At(1010), "? 2/452");
  EXPECT_EQ(joined.At(3009), "? 2/452");
  EXPECT_EQ(joined.At(3010), "? 0/0") << "it has ceased to say so";
}

TEST(RemoteState, WhatIsMeasuredHereComesFirst) {
  Joined joined;
  joined.Memory(10, 500);
  joined.Straggles(10, true);
  GpuRow own;
  own.values = {7, 8, 9};
  own.straggle = Straggle::kNone;
  EXPECT_EQ(joined.At(10, &own), "7 0/0");
  own.unmeasured = 1u << kGpuMemBytes;
  own.straggle = Straggle::kUnknown;
  EXPECT_EQ(joined.At(11, &own), "500 2/452") << "and the rest is filled in";
}

TEST(RemoteState, MemoryIsNotKnownLongAfterTheConnectionEnded) {
  Joined joined;
  joined.Memory(10, 500);
  joined.state.OnGone(20 * kMs);
  EXPECT_EQ(joined.At(20), "500 -");
  EXPECT_EQ(joined.At(5019), "500 -");
  EXPECT_EQ(joined.At(5020), "? -");
  joined.Memory(5030, 600);
  EXPECT_EQ(joined.At(5030), "600 -") << "it is back";
  EXPECT_EQ(joined.At(20'000), "600 -") << "and while it is there memory does not get stale";
}

TEST(RemoteState, WhatWasNotSaidAgainAfterTheConnectionEndedGetsStale) {
  Joined joined;
  joined.Memory(10, 500);
  joined.Straggles(10, true);
  joined.state.OnGone(20 * kMs);
  joined.Memory(1000, 7, 0, 43);  // it is back, and speaks of another process
  EXPECT_EQ(joined.At(1000), "500 2/452");
  EXPECT_EQ(joined.At(3000), "500 -") << "who knows whether it still straggles";
  EXPECT_EQ(joined.At(5020), "? -") << "it may have changed meanwhile";
}

TEST(RemoteState, ANumberThatIsUsedAgainIsAnotherProcess) {
  Joined joined;
  joined.Memory(10, 500);
  EXPECT_EQ(joined.At(10), "500 -");
  EXPECT_EQ(joined.At(30, nullptr, 20), "? -") << "it was born since";
  joined.Memory(40, 600);
  EXPECT_EQ(joined.At(40, nullptr, 20), "600 -");
}

TEST(RemoteState, HasAnEnd) {
  Joined joined;
  for (uint32_t i = 0; i < RemoteState::kMaxGpus + 5; i++) joined.Memory(10, 1, i);
  for (int32_t i = 0; i < static_cast<int32_t>(RemoteState::kMaxProcesses) + 5; i++)
    joined.Memory(10, 1, 0, 1000 + i);
  EXPECT_EQ(joined.At(10), std::to_string(RemoteState::kMaxGpus) + " -");
  EXPECT_EQ(joined.state.stats().nr_rejected, 5u + 6u);
  joined.Memory(61'000, 1, 0, 999);
  (void)joined.At(61'000);
  EXPECT_EQ(joined.state.stats().nr_rejected, 5u + 6u) << "of the others nothing was said for a minute";
}

}  // namespace
}  // namespace slotscope
