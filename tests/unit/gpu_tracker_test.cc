// SPDX-License-Identifier: MIT
// What CUDA calls add up to, slot by slot. Times are in us; the slots are 1 ms.
#include "gpu/tracker.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heap.h"

namespace slotscope {
namespace {

constexpr uint64_t kUs = 1000, kSlotNs = 1'000'000;
constexpr uint32_t kNoBytes = 1u << kGpuMemBytes, kNoLaunches = 1u << kGpuLaunches;
constexpr ProcessKey kA = {100, 5}, kB = {200, 6};

// Two whole ones, and one with two instances.
std::vector<GpuDevice> SomeGpus() {
  std::vector<GpuDevice> gpus(5);
  for (size_t i = 0; i < gpus.size(); i++)
    gpus[i].uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(i);
  gpus[2].divided = true;
  return gpus;
}

// Without the time in which there was no work, of which tests of their own tell.
void LeaveOutNoWork(GpuRow* row) {
  for (size_t i = kGpuNoWork; i < kNrGpuValues; i++) row->values[i] = 0;
  row->unmeasured &= (1u << kGpuNoWork) - 1;
}

class Gpu {
 public:
  explicit Gpu(bool complete = true) {
    if (complete)
      for (const ProcessKey& key : {kA, kB}) Call(SS_CUDA_INIT, 0, 0, {}, key);
  }

  void Call(ss_cuda_op op, uint64_t from_us, uint64_t to_us, std::initializer_list<uint64_t> values,
            ProcessKey key = kA, int32_t tid = 1, uint32_t flags = 0) {
    ss_cuda_call call = {};
    call.hdr = {to_us * kUs, SS_CUDA_CALL, sizeof(call), 0};
    call.start_ns = from_us * kUs;
    call.start_time_ns = key.start_time_ns;
    call.tgid = key.tgid;
    call.tid = tid;
    call.op = op;
    call.flags = flags;
    size_t i = 0;
    for (uint64_t value : values) call.values[i++] = value;
    tracker_.OnCall(call);
  }
  void Launch(uint64_t at_us, uint64_t stream = 0, ProcessKey key = kA, int32_t tid = 1) {
    Call(SS_CUDA_LAUNCH, at_us, at_us + 2,
         {stream, 0xf, 2 | uint64_t{3} << 32, 1, 4 | uint64_t{1} << 32, 1}, key, tid);
  }
  void Wait(uint64_t from_us, uint64_t to_us, uint64_t stream = 0, ProcessKey key = kA,
            int32_t tid = 1) {
    Call(SS_CUDA_STREAM_DONE, from_us, to_us, {stream}, key, tid);
  }
  void Alloc(uint64_t at_us, uint64_t address, uint64_t bytes, ss_cuda_memory kind = SS_CUDA_LINEAR,
             ProcessKey key = kA, int32_t tid = 1) {
    Call(SS_CUDA_ALLOC, at_us, at_us, {address, bytes, 1, 1, static_cast<uint64_t>(kind)}, key, tid);
  }
  void Free(uint64_t at_us, uint64_t address, ss_cuda_memory kind = SS_CUDA_LINEAR, int32_t tid = 1) {
    Call(SS_CUDA_FREE, at_us, at_us, {address, static_cast<uint64_t>(kind)}, kA, tid);
  }
  void View(uint64_t at_us, const std::vector<int32_t>& gpus, ProcessKey key = kA) {
    tracker_.OnView(key.tgid, gpus, at_us * kUs);
  }
  // The driver says that a device is a GPU.
  void Device(uint64_t at_us, uint64_t device, uint64_t gpu, ProcessKey key = kA) {
    Call(SS_CUDA_DEVICE_IS, at_us, at_us, {device, 0, gpu << 56}, key);
  }
  // enum ss_turn and ss_left; `op`: of the call that it is in.
  void Turn(uint64_t at_us, uint32_t turn, uint32_t left = 0, uint32_t op = 0, int32_t tid = 1,
            uint32_t missed = 0, ProcessKey key = kA) {
    ss_cuda_turn message = {};
    message.hdr = {at_us * kUs, SS_CUDA_TURN, sizeof(message), 0};
    message.start_time_ns = key.start_time_ns;
    message.tgid = key.tgid;
    message.tid = tid;
    message.turn = turn;
    message.left = left;
    message.op = op;
    message.missed = missed;
    tracker_.OnTurn(message);
  }
  void Runs(uint64_t at_us, int32_t tid = 1) { Turn(at_us, SS_TURN_RUNS, 0, 0, tid); }
  void Leaves(uint64_t at_us, ss_left left, uint32_t op = 0, int32_t tid = 1) {
    Turn(at_us, SS_TURN_LEFT, left, op, tid);
  }
  void IsWoken(uint64_t at_us, int32_t tid = 1) { Turn(at_us, SS_TURN_WOKEN, 0, 0, tid); }
  void Sample(uint64_t at_us, const GpuSample& sample) { tracker_.OnSample(sample, at_us * kUs); }
  void Exit(uint64_t at_us, ProcessKey key = kA) { tracker_.OnExit(key, at_us * kUs); }
  void Exec(uint64_t at_us, ProcessKey key = kA) { tracker_.OnExec(key, at_us * kUs); }
  void Missing(uint64_t at_us, ProcessKey key = kA) { tracker_.OnMissing(key, at_us * kUs); }
  void Loss(uint64_t at_us) { LossIn(at_us, at_us); }
  void LossIn(uint64_t from_us, uint64_t until_us) {
    tracker_.OnLostCalls(from_us * kUs, until_us * kUs);
  }
  void LossOf(ProcessKey key, uint64_t at_us) {
    tracker_.OnLostCalls(LostCalls{key.tgid, 0, key.start_time_ns, 1}, at_us * kUs, at_us * kUs);
  }

  // The next slot, of one process; all zeros if it is not there.
  GpuRow Slot(ProcessKey key = kA) {
    std::vector<GpuUse> uses;
    tracker_.TakeSlot(next_ns_, next_ns_ + kSlotNs, &uses, &detail);
    const GpuSpans& ended = detail.spans;
    spans.kernels.insert(spans.kernels.end(), ended.kernels.begin(), ended.kernels.end());
    spans.memory.insert(spans.memory.end(), ended.memory.begin(), ended.memory.end());
    next_ns_ += kSlotNs;
    all.clear();
    for (const GpuUse& use : uses) all[use.process.tgid] = use.row;
    nr_awake = uses.size();
    for (const GpuUse& use : tracker_.Still()) all[use.process.tgid] = use.row;
    whole = all.contains(key.tgid) ? all[key.tgid] : GpuRow();
    whole_parts = detail.parts;
    for (auto& [tgid, row] : all) LeaveOutNoWork(&row);
    for (GpuPart& part : detail.parts) LeaveOutNoWork(&part.row);
    for (GpuTotal& total : detail.totals) LeaveOutNoWork(&total.row);
    return all.contains(key.tgid) ? all[key.tgid] : GpuRow();
  }
  void SkipTo(uint64_t ms) {
    while (next_ns_ < ms * kSlotNs) Slot();
  }
  const GpuTracker& tracker() const { return tracker_; }

  std::map<int32_t, GpuRow> all;
  size_t nr_awake = 0;  // in the last slot
  GpuSpans spans;
  GpuDetail detail;  // of the last slot
  GpuRow whole;      // of it: the process's row, with what the others leave out
  std::vector<GpuPart> whole_parts;

 private:
  GpuTracker tracker_{kSlotNs, GpuTracker::kSpans | GpuTracker::kBalances, SomeGpus(), true};
  uint64_t next_ns_ = 0;
};

TEST(GpuTracker, WhatABurstOfEndsTookGoesBack) {
  Gpu gpu;
  gpu.SkipTo(300);
  const size_t usual = HeapBytesInUse();
  if (usual == 0) GTEST_SKIP() << "another allocator";
  for (uint64_t ms = 300; ms < 500; ms++) gpu.Call(SS_CUDA_INIT, ms * 1000, ms * 1000, {});
  for (uint64_t ms = 300; ms < 500; ms++) {
    for (int32_t tgid = 1000; tgid < 1300; tgid++) gpu.Exit(ms * 1000, {tgid, ms});
    gpu.SkipTo(ms + 1);
  }
  EXPECT_LT(HeapBytesInUse(), usual + (1u << 20));
}

TEST(GpuActivity, FromTheFirstLaunchToTheEndOfTheWait) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Launch(300, 7);
  gpu.Wait(350, 600, 7);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuActiveNs], 500 * kUs);
  EXPECT_EQ(use.values[kGpuLaunches], 2u);
  EXPECT_TRUE(use.any && use.unmeasured == 0);
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  const KernelSpan& span = gpu.spans.kernels[0];
  EXPECT_EQ(span.start_ns, 100 * kUs);
  EXPECT_EQ(span.end_ns, 600 * kUs);
  EXPECT_EQ(span.nr_launches, 2u);
  EXPECT_EQ(span.avg_threads, 24u);
  EXPECT_EQ(span.stream, 7u);
  EXPECT_EQ(span.device, 0);
  EXPECT_EQ(span.end, KernelsEnd::kWaited);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 0u);
}

TEST(GpuActivity, OverlappingStreamsCountOnce) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Launch(200, 8);
  gpu.Wait(210, 400, 7);
  gpu.Wait(410, 700, 8);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 600 * kUs);
  EXPECT_EQ(gpu.spans.kernels.size(), 2u);
}

TEST(GpuActivity, AdjacentOnesAddUp) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Wait(110, 300, 7);
  gpu.Launch(300, 7);
  gpu.Wait(310, 500, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 400 * kUs);
}

TEST(GpuActivity, ArrivalInAnyOrder) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; round++) {
    Gpu gpu;
    std::vector<std::function<void()>> calls;
    for (uint64_t i = 0; i < 5; i++) {
      calls.push_back([&, i] { gpu.Launch(100 + i * 100, 7); });
      calls.push_back([&, i] { gpu.Wait(110 + i * 100, 150 + i * 100, 7); });
    }
    std::shuffle(calls.begin(), calls.end(), random);
    for (auto& call : calls) call();
    EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 5 * 50 * kUs);
    EXPECT_EQ(gpu.spans.kernels.size(), 5u);
  }
}

TEST(GpuActivity, LongerThanSlotsAndWindow) {
  Gpu gpu;
  gpu.Launch(500, 7);
  gpu.Wait(510, 200'250, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 500 * kUs);
  for (int i = 1; i < 200; i++) {
    EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs);  // never more than all of it
    EXPECT_TRUE(gpu.all[kA.tgid].any);
  }
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 250 * kUs);
}

TEST(GpuActivity, AWaitBeforeALaunchEndsNothing) {
  Gpu gpu;
  gpu.Wait(50, 60, 7);
  gpu.Launch(100, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
  EXPECT_EQ(gpu.spans.kernels.size(), 0u);
}

// Another thread launches while one waits: that is not waited for.
TEST(GpuActivity, AWaitIsForWhatWasThereWhenItBegan) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Launch(200, 7, kA, 2);
  gpu.Wait(150, 300, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].nr_launches, 1u);
  EXPECT_EQ(gpu.spans.kernels[0].end_ns, 300 * kUs);
}

TEST(GpuActivity, TheDefaultStreamWaitsForBlockingStreamsOfItsDevice) {
  Gpu gpu;
  gpu.Call(SS_CUDA_STREAM_CREATE, 10, 11, {7, 0});
  gpu.Call(SS_CUDA_STREAM_CREATE, 12, 13, {8, 1});  // non-blocking
  gpu.Call(SS_CUDA_SET_DEVICE, 20, 21, {1}, kA, 2);
  gpu.Launch(100, 7);
  gpu.Launch(100, 8);
  gpu.Launch(100, 9, kA, 2);  // on the other device
  gpu.Wait(110, 200, 0);
  gpu.Slot();
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].stream, 7u);
  gpu.Call(SS_CUDA_DEVICE_DONE, 1100, 1200, {0});  // all of the device
  gpu.Slot();
  ASSERT_EQ(gpu.spans.kernels.size(), 2u);
  EXPECT_EQ(gpu.spans.kernels[1].stream, 8u);
  gpu.Call(SS_CUDA_DEVICE_DONE, 2100, 2200, {0}, kA, 2);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
  ASSERT_EQ(gpu.spans.kernels.size(), 3u);
  EXPECT_EQ(gpu.spans.kernels[2].device, 1);
}

TEST(GpuActivity, DefaultStreamsPerThread) {
  Gpu gpu;
  gpu.Call(SS_CUDA_LAUNCH, 100, 101, {0, 1, 1 | uint64_t{1} << 32, 1, 1 | uint64_t{1} << 32, 1}, kA, 1,
           SS_CUDA_PER_THREAD);
  gpu.Call(SS_CUDA_LAUNCH, 100, 101, {2, 1, 1 | uint64_t{1} << 32, 1, 1 | uint64_t{1} << 32, 1}, kA, 2);
  gpu.Call(SS_CUDA_STREAM_DONE, 150, 200, {2}, kA, 1);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
  EXPECT_EQ(gpu.spans.kernels.size(), 1u);
  gpu.Call(SS_CUDA_STREAM_DONE, 1150, 1200, {0}, kA, 2, SS_CUDA_PER_THREAD);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
}

TEST(GpuActivity, EventsAreWhatWasBeforeTheirRecord) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Call(SS_CUDA_EVENT_RECORD, 110, 111, {0xe, 7});
  gpu.Launch(120, 7);
  gpu.Call(SS_CUDA_EVENT_DONE, 200, 300, {0xe});
  gpu.Slot();
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].nr_launches, 1u);
  EXPECT_EQ(gpu.spans.kernels[0].end_ns, 300 * kUs);
  gpu.Call(SS_CUDA_EVENT_DONE, 1200, 1300, {0xbad});  // never recorded
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs);
  gpu.Call(SS_CUDA_EVENT_DESTROY, 2100, 2100, {0xe});
  gpu.Call(SS_CUDA_EVENT_DONE, 2200, 2300, {0xe});
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs);
}

TEST(GpuActivity, CopiesThatWaitAndThoseThatDoNot) {
  Gpu gpu;
  gpu.Launch(100);
  gpu.Call(SS_CUDA_COPY_DONE, 150, 200, {3, 64});  // on the device
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
  gpu.Call(SS_CUDA_COPY_DONE, 1150, 1200, {2, 64});
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
}

TEST(GpuActivity, CapturedLaunchesAreNotDone) {
  Gpu gpu;
  gpu.Call(SS_CUDA_STREAM_CREATE, 10, 10, {8, 0});
  gpu.Call(SS_CUDA_CAPTURE_BEGIN, 20, 20, {7});
  gpu.Launch(100, 7);
  gpu.Call(SS_CUDA_EVENT_RECORD, 110, 110, {0xe, 7});
  gpu.Call(SS_CUDA_STREAM_WAIT, 120, 120, {8, 0xe});
  gpu.Launch(130, 8);
  gpu.Call(SS_CUDA_CAPTURE_END, 200, 200, {7});
  gpu.Call(SS_CUDA_GRAPH_LAUNCH, 300, 310, {7, 0x99});
  gpu.Wait(320, 500, 7);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuLaunches], 1u);
  EXPECT_EQ(use.values[kGpuActiveNs], 200 * kUs);
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].avg_threads, 0u);
}

TEST(GpuActivity, AThousandLaunchesAreForcedOutAndTheStreamStaysBusy) {
  Gpu gpu;
  for (uint64_t i = 0; i < GpuStream::kMaxPendingLaunches; i++) gpu.Launch(100 + i / 10, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].end, KernelsEnd::kForced);
  EXPECT_EQ(gpu.spans.kernels[0].nr_launches, GpuStream::kMaxPendingLaunches);
  EXPECT_EQ(gpu.tracker().stats().nr_forced_spans, 1u);
  gpu.Wait(1100, 1500, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 500 * kUs);
  EXPECT_EQ(gpu.spans.kernels.size(), 1u);
}

TEST(GpuActivity, StreamsThatAreSilentAreForgotten) {
  Gpu gpu;
  gpu.Launch(500, 7);
  gpu.SkipTo(30'000);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs);
  gpu.SkipTo(30'010);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 0u);
  EXPECT_EQ(gpu.tracker().stats().nr_inactive_streams, 1u);
  gpu.Wait(30'020'000, 30'020'100, 7);  // nothing is left to end
  gpu.SkipTo(30'022);
  EXPECT_EQ(gpu.spans.kernels.size(), 0u);
}

// A kernel may take longer than that, and a collective that hangs for ever: who waits for it has work.
TEST(GpuActivity, OfWhatNobodyWaitsForItIsNotKnownWhetherItRuns) {
  constexpr uint32_t kNoActive = 1u << kGpuActiveNs, kNoNoWork = 1u << kGpuNoWork;
  Gpu gpu;
  gpu.Launch(100, 9);
  gpu.Wait(150, 200, 9);
  gpu.Launch(500, 7);
  gpu.Launch(600, 8);
  gpu.Wait(700, 40'000'500, 7);
  gpu.SkipTo(29'999);
  gpu.Slot();
  EXPECT_FALSE(gpu.whole.unmeasured & (kNoActive | kNoNoWork));
  gpu.SkipTo(39'999);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.unmeasured & (kNoActive | kNoNoWork), kNoActive | kNoNoWork);
  gpu.Launch(40'001'100, 9);  // of another stream, which is waited for
  gpu.Wait(40'001'200, 40'001'300, 9);
  gpu.SkipTo(40'001);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.unmeasured & (kNoActive | kNoNoWork), kNoActive | kNoNoWork) << "8 is there";
  gpu.Call(SS_CUDA_DEVICE_DONE, 40'002'100, 40'002'400, {0});
  gpu.Slot();
  EXPECT_FALSE(gpu.whole.unmeasured & (kNoActive | kNoNoWork));
  EXPECT_EQ(gpu.whole.values[kGpuNoWork], 600 * kUs) << "not before the wait's end";
  gpu.Slot();
  EXPECT_EQ(gpu.whole.values[kGpuNoWork], kSlotNs);
}

TEST(GpuActivity, AStreamThatWasSilentIsStillOneThatDoesNotBlock) {
  Gpu gpu;
  gpu.Call(SS_CUDA_STREAM_CREATE, 10, 10, {7, 1});
  gpu.Launch(100, 7);
  gpu.Wait(110, 200, 7);
  gpu.SkipTo(40'000);
  gpu.Launch(40'000'100, 7);
  gpu.Wait(40'000'200, 40'000'300, 0);  // of the default stream, behind which it is not
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 900 * kUs);
}

TEST(GpuActivity, TooManyStreamsAreCountedAndTheirLaunchesToo) {
  Gpu gpu;
  for (uint64_t i = 0; i < GpuProcess::kMaxStreams + 3; i++) gpu.Launch(100, 1000 + i);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuLaunches], GpuProcess::kMaxStreams + 3);
  EXPECT_EQ(gpu.tracker().stats().nr_rejected_streams, 3u);
  EXPECT_EQ(use.unmeasured, 1u << kGpuActiveNs);  // what they did is in no sum
  gpu.Call(SS_CUDA_DEVICE_DONE, 1100, 1200, {0});
  for (uint64_t i = 0; i < GpuProcess::kMaxStreams; i++)
    gpu.Call(SS_CUDA_STREAM_DESTROY, 1300, 1300, {1000 + i});
  gpu.Launch(1400, 1);
  gpu.Slot();
  EXPECT_EQ(gpu.tracker().stats().nr_rejected_streams, 3u);
}

TEST(GpuActivity, AStreamThatFoundNoRoomIsNoLossUntilSomethingIsLaunchedIntoIt) {
  Gpu gpu;
  for (uint64_t i = 0; i < GpuProcess::kMaxStreams + 3; i++)
    gpu.Call(SS_CUDA_STREAM_CREATE, 10, 10, {1000 + i, 0});
  gpu.Launch(100, 1000);
  gpu.Wait(110, 200, 1000);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.unmeasured & 1u << kGpuActiveNs, 0u);
  EXPECT_EQ(use.values[kGpuActiveNs], 100 * kUs);
  EXPECT_EQ(gpu.tracker().stats().nr_rejected_streams, 0u);
}

// What goes into a graph is not done, also where its stream found no room.
TEST(GpuActivity, CapturedLaunchesAreNoneHoweverManyStreamsThereAre) {
  Gpu gpu;
  for (uint64_t i = 0; i < GpuProcess::kMaxStreams; i++) gpu.Launch(100, 1000 + i);
  gpu.Call(SS_CUDA_CAPTURE_BEGIN, 200, 200, {7});
  gpu.Launch(210, 7);
  gpu.Call(SS_CUDA_EVENT_RECORD, 220, 220, {0xe, 7});
  gpu.Call(SS_CUDA_STREAM_WAIT, 230, 230, {8, 0xe});
  gpu.Launch(240, 8);  // it has joined
  gpu.Call(SS_CUDA_CAPTURE_END, 250, 250, {7});
  EXPECT_EQ(gpu.Slot().values[kGpuLaunches], GpuProcess::kMaxStreams);
  gpu.Launch(1100, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuLaunches], 1u);
}

TEST(GpuMemory, EachKindOfAllocation) {
  const struct {
    ss_cuda_op op;
    std::initializer_list<uint64_t> values;
    uint64_t bytes;
    bool known;
  } cases[] = {
      {SS_CUDA_ALLOC, {1, 1000, 1, 1, SS_CUDA_LINEAR}, 1000, true},
      {SS_CUDA_ALLOC, {1, 1000, 1, 1, SS_CUDA_MANAGED}, 1000, true},
      {SS_CUDA_ALLOC, {1, 1000, 1, 1, SS_CUDA_HOST}, 0, true},
      {SS_CUDA_ALLOC, {1, 512, 20, 30, SS_CUDA_LINEAR}, 512 * 600, true},
      {SS_CUDA_ALLOC, {1, UINT64_MAX, 2, 1, SS_CUDA_LINEAR}, UINT64_MAX, false},
      {SS_CUDA_ALLOC_ARRAY, {1, 64, 0, 0, 32, 0, 1}, 64 * 4, true},
      {SS_CUDA_ALLOC_ARRAY,
       {1, 64, 32, 0, 32 | uint64_t{32} << 32, 32 | uint64_t{32} << 32, 1},
       64 * 32 * 16,
       true},
      {SS_CUDA_ALLOC_ARRAY, {1, 64, 32, 8, 8, 0, 3}, 64 * 32 * 8 + 32 * 16 * 4 + 16 * 8 * 2, true},
      {SS_CUDA_ALLOC_ARRAY, {1, 64, 32, 8, 0, 0, 1}, 0, false},
      {SS_CUDA_ALLOC_DRIVER_ARRAY, {1, 64, 32, 0, 0x20 | uint64_t{4} << 32, 0, 1}, 64 * 32 * 16, true},
      {SS_CUDA_ALLOC_DRIVER_ARRAY, {1, 64, 32, 0, 0xb0 | uint64_t{1} << 32, 0, 1}, 0, false},  // NV12
      {SS_CUDA_ALLOC_DRIVER_ARRAY, {1, 64, 32, 0, 0x20 | uint64_t{4} << 32, 0, 1000}, 0, false},
  };
  for (const auto& c : cases) {
    Gpu gpu;
    gpu.Call(c.op, 100, 110, c.values);
    const GpuRow use = gpu.Slot();
    EXPECT_EQ((use.unmeasured & kNoBytes) == 0, c.known) << c.op << " " << c.bytes;
    EXPECT_TRUE(!c.known || use.values[kGpuMemBytes] == c.bytes)
        << c.op << " " << use.values[kGpuMemBytes];
    EXPECT_TRUE(use.any);
  }
}

TEST(GpuMemory, AtTheEndOfTheSlot) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Alloc(200, 0x2000, 100);
  gpu.Free(900, 0x2000);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  EXPECT_FALSE(gpu.all[kA.tgid].any);
  gpu.Free(2100, 0x1000);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 0u);
  ASSERT_EQ(gpu.spans.memory.size(), 2u);
  EXPECT_EQ(gpu.spans.memory[1].start_ns, 100 * kUs);
  EXPECT_EQ(gpu.spans.memory[1].end_ns, 2100 * kUs);
  EXPECT_FALSE(gpu.spans.memory[1].leaked);
}

TEST(GpuMemory, AFreeOfAnUnknownAddressChangesNothing) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Free(200, 0xbad);
  gpu.Free(210, 0);  // allowed
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  EXPECT_EQ(gpu.tracker().stats().nr_unknown_frees, 1u);
}

TEST(GpuMemory, TheSameAddressOnTwoDevices) {
  Gpu gpu;
  gpu.Call(SS_CUDA_SET_DEVICE, 10, 10, {1}, kA, 2);
  gpu.Alloc(100, 0x1000, 111, SS_CUDA_LINEAR, kA, 1);
  gpu.Alloc(110, 0x1000, 222, SS_CUDA_LINEAR, kA, 2);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 333u);
  gpu.Free(1100, 0x1000, SS_CUDA_LINEAR, 2);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 111u);
  gpu.Free(2100, 0x1000, SS_CUDA_LINEAR, 2);  // from a thread that is on the other device
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 0u);
}

TEST(GpuMemory, AddressesAndArraysDoNotMeet) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 1);
  gpu.Call(SS_CUDA_ALLOC_ARRAY, 110, 110, {0x1000, 10, 0, 0, 8, 0, 1});
  gpu.Call(SS_CUDA_ALLOC_ARRAY, 120, 120, {0x1000, 100, 0, 0, 8, 0, 2});
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 161u);
  gpu.Free(1100, 0x1000, SS_CUDA_ARRAY);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 151u);
  gpu.Free(2100, 0x1000, SS_CUDA_MIPMAPPED_ARRAY);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 1u);
}

TEST(GpuMemory, VirtualMemoryLivesUntilTheLastReleaseAndUnmap) {
  Gpu gpu;
  gpu.Call(SS_CUDA_MEM_CREATE, 100, 100, {0x5, 4096, 1 | uint64_t{1} << 32});
  gpu.Call(SS_CUDA_MEM_CREATE, 100, 100, {0x6, 4096, 2});  // the host's
  gpu.Call(SS_CUDA_MEM_IMPORT, 100, 100, {0x7});           // another process's
  gpu.Call(SS_CUDA_MEM_MAP, 110, 110, {0x10000, 4096, 0x5});
  gpu.Call(SS_CUDA_MEM_MAP, 110, 110, {0x11000, 4096, 0x5});
  gpu.Call(SS_CUDA_MEM_MAP, 110, 110, {0x12000, 4096, 0x7});
  gpu.Call(SS_CUDA_MEM_RELEASE, 120, 120, {0x5});
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  gpu.Call(SS_CUDA_MEM_RETAIN, 1100, 1100, {0x5, 0x10800});
  gpu.Call(SS_CUDA_MEM_UNMAP, 1200, 1200, {0x10000, 0x3000});  // all three
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  gpu.Call(SS_CUDA_MEM_RELEASE, 2100, 2100, {0x5});
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 0u);
  EXPECT_EQ(gpu.spans.memory.size(), 1u);
  EXPECT_EQ(gpu.spans.memory[0].device, 1);
}

TEST(GpuMemory, ContextsTakeTheirMemoryWithThem) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 1);
  gpu.Call(SS_CUDA_CTX_CREATE, 110, 110, {0xc, 0});
  gpu.Alloc(120, 0x2000, 10);
  gpu.Call(SS_CUDA_CTX_POP, 130, 130, {0xc});
  gpu.Alloc(140, 0x3000, 100);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 111u);
  gpu.Call(SS_CUDA_CTX_DESTROY, 1100, 1100, {0xc});
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 101u);
  gpu.Call(SS_CUDA_SET_DEVICE, 2000, 2000, {1});
  gpu.Alloc(2100, 0x4000, 1000);
  gpu.Call(SS_CUDA_RESET, 2200, 2200, {});  // the other device
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 101u);
  gpu.Call(SS_CUDA_CTX_RESET, 3100, 3100, {0});
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 0u);
}

TEST(GpuMemory, AnotherThreadWithAnOldNumberBeginsOnDeviceZero) {
  Gpu gpu;
  gpu.Call(SS_CUDA_SET_DEVICE, 10, 10, {1}, kA, 9);
  gpu.Alloc(20, 0x1000, 1, SS_CUDA_LINEAR, kA, 9);
  gpu.Call(SS_CUDA_ALLOC, 30, 30, {0x2000, 10, 1, 1, SS_CUDA_LINEAR}, kA, 9, SS_CUDA_FIRST);
  gpu.Slot();
  const auto& by_device = gpu.tracker().processes().at(kA).memory().bytes_by_device();
  EXPECT_EQ(by_device.at(1), 1u);
  EXPECT_EQ(by_device.at(0), 10u);
}

TEST(GpuTracker, AProcessThatEndsInTheMiddle) {
  Gpu gpu;
  gpu.Alloc(50, 0x1000, 4096);
  gpu.Call(SS_CUDA_MEM_CREATE, 60, 60, {0x5, 4096, 1});
  gpu.Launch(100, 7);
  gpu.Exit(600);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuActiveNs], 500 * kUs);
  EXPECT_EQ(use.values[kGpuMemBytes], 0u);
  EXPECT_EQ(use.values[kGpuLaunches], 1u);
  ASSERT_EQ(gpu.spans.memory.size(), 2u);
  EXPECT_TRUE(gpu.spans.memory[0].leaked && gpu.spans.memory[1].leaked);
  EXPECT_EQ(gpu.spans.kernels.size(), 1u);
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kA.tgid));
  EXPECT_TRUE(gpu.all.contains(kB.tgid));
}

// It holds memory, and is active from 100 us on.
void RunUntilExec(Gpu* gpu, uint64_t exec_us) {
  gpu->View(10, {1});
  gpu->Alloc(50, 0x1000, 4096);
  gpu->Launch(100, 7);
  gpu->Exec(exec_us);
}

TEST(GpuTracker, AnExecEndsAllThatTheProgramHeld) {
  Gpu gpu;
  RunUntilExec(&gpu, 600);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuActiveNs], 500 * kUs);
  EXPECT_EQ(use.values[kGpuMemBytes], 0u);
  EXPECT_EQ(gpu.spans.memory.size(), 1u);
  EXPECT_EQ(gpu.detail.ended, std::vector<ProcessKey>{kA});
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kA.tgid)) << "the new program has not used CUDA";
  // If it does, that is seen from its first call on, and on the devices that it sees.
  gpu.View(2100, {0});
  gpu.Call(SS_CUDA_INIT, 2200, 2200, {});
  gpu.Alloc(2300, 0x1000, 100);
  const GpuRow anew = gpu.Slot();
  EXPECT_EQ(anew.values[kGpuMemBytes], 100u);
  EXPECT_EQ(anew.unmeasured, 0u);
  ASSERT_EQ(gpu.detail.parts.size(), 1u);
  EXPECT_EQ(gpu.detail.parts[0].gpu, 0);
}

// The thread that executes it is followed until the kernel's side has forgotten it.
TEST(GpuTracker, ATurnBehindAnExecIsNoUseOfCuda) {
  Gpu gpu;
  RunUntilExec(&gpu, 600);
  gpu.Leaves(610, SS_LEFT_RUNNABLE);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 500 * kUs);
  gpu.Runs(1100);
  for (int i = 0; i < 3; i++) {
    gpu.Slot();
    EXPECT_FALSE(gpu.all.contains(kA.tgid));
  }
  gpu.Exit(4100);
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kA.tgid));
  EXPECT_TRUE(gpu.detail.ended.empty());
}

// One row, and one part of each device: what it did adds up, and it holds what it holds at the end.
TEST(GpuTracker, AnExecWithinASlotLeavesOneRow) {
  Gpu gpu;
  RunUntilExec(&gpu, 300);
  gpu.View(400, {1});
  gpu.Call(SS_CUDA_INIT, 500, 500, {});
  gpu.Alloc(600, 0x1000, 100);
  gpu.Launch(700, 7);
  gpu.Wait(710, 800, 7);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values, (std::array<uint64_t, kNrGpuValues>{100, 300 * kUs, 2}));
  EXPECT_EQ(use.unmeasured, 0u);
  ASSERT_EQ(gpu.detail.parts.size(), 1u);
  EXPECT_EQ(gpu.detail.parts[0].row.values, use.values);
  ASSERT_FALSE(gpu.detail.totals.empty());
  for (const GpuTotal& total : gpu.detail.totals) {
    EXPECT_EQ(total.gpu, 1);
    EXPECT_EQ(total.row.values, use.values);
  }
}

TEST(GpuTracker, WhoseExitWasLostHoldsNothing) {
  Gpu gpu;
  gpu.Alloc(50, 0x1000, 4096);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u);
  gpu.Missing(1000);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 0u);
  EXPECT_EQ(gpu.detail.ended, std::vector<ProcessKey>{kA});
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kA.tgid));
}

TEST(GpuTracker, WhoWasMissedAndLivesOnHoldsNobodyKnowsWhat) {
  Gpu gpu;
  gpu.Alloc(50, 0x1000, 4096);
  gpu.Slot();
  gpu.Missing(1000);
  gpu.Slot();
  gpu.Alloc(2100, 0x2000, 100);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoBytes);
  EXPECT_EQ(gpu.tracker().stats().nr_late, 0u);
  // Once it has ended for certain, its late calls make nothing.
  gpu.Missing(3000);
  gpu.Exit(3100);
  gpu.Slot();
  gpu.Alloc(4100, 0x3000, 100);
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kA.tgid));
  EXPECT_EQ(gpu.tracker().stats().nr_late, 1u);
}

TEST(GpuTracker, WhatWasThereBeforeIsNotKnown) {
  Gpu gpu(false);
  gpu.Alloc(50, 0x1000, 4096);
  gpu.Launch(100, 7);
  gpu.Wait(110, 200, 7);
  const GpuRow use = gpu.Slot();
  EXPECT_TRUE(use.unmeasured & kNoBytes);
  EXPECT_EQ(use.values[kGpuActiveNs], 100 * kUs);
  EXPECT_EQ(gpu.spans.kernels[0].device, kUnknownDevice);
  gpu.Call(SS_CUDA_GOT_DEVICE, 1100, 1100, {3});
  gpu.Launch(1200, 8);
  gpu.Wait(1210, 1300, 8);
  gpu.Slot();
  EXPECT_EQ(gpu.spans.kernels[1].device, 3);
}

// It sees one GPU, though the machine has more: whatever it did before is there.
TEST(GpuTracker, WhoSeesOneGpuIsOnThatOne) {
  for (const bool sees_one : {true, false}) {
    Gpu gpu(false);
    gpu.View(10, sees_one ? std::vector<int32_t>{1} : std::vector<int32_t>{1, 0});
    gpu.Launch(100, 7);
    gpu.Wait(110, 200, 7);
    gpu.Call(SS_CUDA_CTX_SET, 300, 300, {0xc}, kA, 2, SS_CUDA_DRIVER);  // who knows where
    gpu.Launch(400, 0, kA, 2);
    gpu.Call(SS_CUDA_DEVICE_DONE, 410, 500, {0xc}, kA, 2);
    gpu.Slot();
    ASSERT_EQ(gpu.spans.kernels.size(), 2u);
    for (const KernelSpan& span : gpu.spans.kernels)
      EXPECT_EQ(span.device, sees_one ? 0 : kUnknownDevice);
    for (const GpuPart& part : gpu.detail.parts) EXPECT_EQ(part.gpu, sees_one ? 1 : kUnknownGpu);
    EXPECT_FALSE(gpu.detail.parts.empty());
  }
}

TEST(GpuTracker, AContextThatIsDestroyedEndsWhatWasInIt) {
  Gpu gpu(false);
  gpu.View(10, {1});
  gpu.Call(SS_CUDA_CTX_SET, 20, 20, {0xc}, kA, 1, SS_CUDA_DRIVER);  // made before we came
  gpu.Launch(100);
  gpu.Call(SS_CUDA_CTX_DESTROY, 200, 300, {0xc}, kA, 1, SS_CUDA_DRIVER);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
}

TEST(GpuTracker, WhatWasLaunchedBeforeTheViewIsWaitedForToo) {
  Gpu gpu(false);
  gpu.Launch(100);
  gpu.View(150, {1});
  gpu.Wait(160, 300);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
}

// As a runtime without symbols does it: of its first call only what it asks of the driver is seen.
TEST(GpuTracker, AContextMayBeCurrentBeforeItIsKnownWhoseItIs) {
  Gpu gpu;
  gpu.Call(SS_CUDA_CTX_SET, 10, 10, {0xc}, kA, 1, SS_CUDA_DRIVER);
  gpu.Call(SS_CUDA_CTX_RETAIN, 20, 90, {0xc, 1}, kA, 1, SS_CUDA_DRIVER);
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Launch(110);
  gpu.Call(SS_CUDA_DEVICE_DONE, 120, 200, {0xc});
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuActiveNs], 90 * kUs);
  ASSERT_EQ(gpu.spans.kernels.size(), 1u);
  EXPECT_EQ(gpu.spans.kernels[0].device, 1);
  gpu.Call(SS_CUDA_CTX_RELEASE, 1100, 1100, {1}, kA, 1, SS_CUDA_DRIVER);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 4096u) << "the runtime holds it, too";
}

// What happens across time that was not observed is not invented.
TEST(GpuTracker, ASpanEndsWhereNothingWasSeen) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Loss(300);
  gpu.Slot();
  gpu.Wait(500'000, 500'100, 7);
  gpu.Launch(600'000, 7);
  gpu.Wait(600'010, 600'100, 7);
  gpu.Launch(600'200, 7);
  gpu.Exit(600'900);
  gpu.SkipTo(601);
  ASSERT_EQ(gpu.spans.kernels.size(), 3u);
  const struct {
    uint64_t start_us, end_us;
    KernelsEnd end;
  } expected[] = {{100, 300, KernelsEnd::kUnknown},
                  {600'000, 600'100, KernelsEnd::kWaited},
                  {600'200, 600'900, KernelsEnd::kExited}};
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(gpu.spans.kernels[i].start_ns, expected[i].start_us * kUs) << i;
    EXPECT_EQ(gpu.spans.kernels[i].end_ns, expected[i].end_us * kUs) << i;
    EXPECT_EQ(gpu.spans.kernels[i].end, expected[i].end) << i;
  }
}

// Two threads begin at once: the driver is initialized in one's call, and the other's waits for that.
TEST(GpuTracker, ALaunchThatWaitedForTheInitializationIsBehindIt) {
  Gpu gpu(false);
  gpu.Call(SS_CUDA_INIT, 100, 700, {}, kA, 1);
  gpu.Call(SS_CUDA_LAUNCH, 90, 800, {7, 0xf, 2, 1, 4, 1}, kA, 1);
  gpu.Call(SS_CUDA_LAUNCH, 50, 900, {8, 0xf, 2, 1, 4, 1}, kA, 2);
  EXPECT_FALSE(gpu.Slot().unmeasured & kNoBytes);
  gpu.Wait(1'000, 1'500, 8);
  gpu.Wait(1'500, 1'600, 7);
  gpu.Slot();
  ASSERT_EQ(gpu.spans.kernels.size(), 2u);
  EXPECT_EQ(gpu.spans.kernels[0].start_ns, 700 * kUs);
  // One that began before it and ended before it was there before.
  Gpu other(false);
  other.Call(SS_CUDA_LAUNCH, 50, 90, {8, 0xf, 2, 1, 4, 1}, kA, 2);
  other.Call(SS_CUDA_INIT, 100, 700, {}, kA, 1);
  EXPECT_TRUE(other.Slot().unmeasured & kNoBytes);
}

// What was lost is somewhere in the interval: what was launched in it may have been waited for there.
TEST(GpuTracker, NoSpanGoesAcrossLostCalls) {
  Gpu gpu;
  gpu.LossIn(1'000, 5'000'000);
  gpu.Launch(2'000, 7);
  gpu.Launch(2'500, 7);
  gpu.Launch(3'000, 8);
  gpu.Wait(3'100, 3'200, 8);  // both were seen
  gpu.Launch(4'000, 9);
  gpu.Launch(4'990'000, 10);  // behind the gap, and in the interval
  gpu.Wait(4'990'010, 4'999'000, 10);
  gpu.Launch(4'999'100, 9);
  gpu.Wait(4'999'110, 4'999'200, 9);
  gpu.Wait(5'000'000, 5'000'100, 7);
  gpu.Launch(5'000'200, 7);
  gpu.Wait(5'000'210, 5'000'300, 7);
  gpu.Exit(5'000'900);
  gpu.SkipTo(5'001);
  const struct {
    uint64_t start_us, end_us, nr_launches;
    KernelsEnd end;
  } expected[] = {
      {3'000, 3'200, 1, KernelsEnd::kWaited},  {4'990'000, 4'999'000, 1, KernelsEnd::kWaited},
      {4'000, 4'000, 1, KernelsEnd::kUnknown}, {4'999'100, 4'999'200, 1, KernelsEnd::kWaited},
      {2'000, 2'500, 2, KernelsEnd::kUnknown}, {5'000'200, 5'000'300, 1, KernelsEnd::kWaited}};
  ASSERT_EQ(gpu.spans.kernels.size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); i++) {
    const KernelSpan& span = gpu.spans.kernels[i];
    EXPECT_EQ(span.start_ns, expected[i].start_us * kUs) << i;
    EXPECT_EQ(span.end_ns, expected[i].end_us * kUs) << i;
    EXPECT_EQ(span.nr_launches, expected[i].nr_launches) << i;
    EXPECT_EQ(span.end, expected[i].end) << i;
  }
}

TEST(GpuTracker, AfterALossMemoryIsNotKnownUntilTheProcessEnds) {
  Gpu gpu;
  gpu.Alloc(50, 0x1000, 4096);
  EXPECT_FALSE(gpu.Slot().unmeasured & kNoBytes);
  gpu.Loss(1500);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoBytes);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoBytes);
  gpu.Exit(3100);
  gpu.Slot();
  gpu.Call(SS_CUDA_INIT, 4100, 4100, {});
  EXPECT_FALSE(gpu.Slot().unmeasured & kNoBytes);
}

TEST(GpuTracker, ALossOfAnotherProcessHidesNothing) {
  Gpu gpu;
  gpu.Alloc(50, 0x1000, 4096);
  gpu.Slot();
  gpu.LossOf(kB, 1500);
  gpu.Launch(1600, 7);
  EXPECT_FALSE(gpu.Slot().unmeasured & (kNoBytes | kNoLaunches));
  EXPECT_TRUE(gpu.all[kB.tgid].unmeasured & kNoBytes) << "also one of which nothing else is known";
  gpu.LossOf(kA, 2500);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoBytes);
  gpu.Exit(3100, kB);
  gpu.Slot();
  gpu.LossOf(kB, 4500);  // told late
  gpu.Slot();
  EXPECT_FALSE(gpu.all.contains(kB.tgid));
}

TEST(GpuTracker, WhatALossHides) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Slot();
  gpu.Loss(1500);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoLaunches);
  EXPECT_FALSE(gpu.Slot().unmeasured & kNoLaunches) << "only those of that time";
  EXPECT_TRUE(gpu.all[kA.tgid].unmeasured & 1u << kGpuActiveNs) << "it may have been waited for";
  gpu.Wait(3100, 3200, 7);
  gpu.Slot();
  EXPECT_FALSE(gpu.Slot().unmeasured & 1u << kGpuActiveNs) << "nothing is pending";
}

TEST(GpuTracker, ALossHidesWhatWasBeingCaptured) {
  Gpu gpu;
  gpu.Call(SS_CUDA_CAPTURE_BEGIN, 100, 100, {7});
  gpu.Slot();
  gpu.Loss(1500);
  gpu.Slot();
  gpu.Launch(2100, 7);
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoLaunches) << "it may be captured, or not any more";
  gpu.Call(SS_CUDA_CAPTURE_END, 3100, 3100, {7});
  gpu.Launch(3200, 7);
  gpu.Slot();
  EXPECT_FALSE(gpu.all[kA.tgid].unmeasured & kNoLaunches);
  EXPECT_EQ(gpu.all[kA.tgid].values[kGpuLaunches], 1u);
}

// "4096/4096@1000": each as balance/latest allocation@us, with a device if it is not 0 and what is said
// of its truth.
std::string BalancesOf(const Gpu& gpu) {
  std::string text;
  for (const GpuBalance& one : gpu.detail.balances) {
    if (!text.empty()) text += ' ';
    text += std::to_string(one.bytes) + "/" + std::to_string(one.last_alloc_bytes) + "@" +
            std::to_string(one.ts_ns / kUs);
    if (one.device != 0) text += " on " + std::to_string(one.device);
    if (one.missed)
      text += " missed";
    else if (!one.complete)
      text += " at least";
  }
  return text;
}

TEST(GpuBalances, OnePerAllocationAndFree) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Alloc(200, 0x9000, 100, SS_CUDA_MANAGED);
  gpu.Alloc(300, 0xa000, 50, SS_CUDA_HOST);
  gpu.Free(400, 0x1000);
  gpu.Free(500, 0xa000, SS_CUDA_HOST);
  gpu.Free(600, 0xdead);  // what is not known changes nothing, and is told
  gpu.Free(700, 0);       // as this
  gpu.Launch(800);
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "4096/4096@100 4196/100@200 100/100@400 100/100@600 100/100@700");
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "");
}

TEST(GpuBalances, AreByDevice) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Call(SS_CUDA_SET_DEVICE, 150, 150, {1});
  gpu.Alloc(200, 0x9000, 100);
  gpu.Free(300, 0x1000);  // from another device than its own
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "4096/4096@100 100/100@200 on 1 0/4096@300");
}

TEST(GpuBalances, AreToldAgainOnceTheirGpuIsKnown) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Alloc(200, 0x2000, 4);
  gpu.Slot();
  ASSERT_EQ(gpu.detail.balances.size(), 2u);
  EXPECT_EQ(gpu.detail.balances[1].gpu, kUnknownGpu);
  gpu.Slot();
  EXPECT_TRUE(gpu.detail.balances.empty());
  gpu.View(2500, {1, 0});
  gpu.Slot();
  ASSERT_EQ(gpu.detail.balances.size(), 1u);
  const GpuBalance& again = gpu.detail.balances[0];
  EXPECT_TRUE(again.again);
  EXPECT_EQ(again.gpu, 1);
  EXPECT_EQ(again.bytes, 4100u);
  EXPECT_EQ(again.last_alloc_bytes, 4u);
  EXPECT_EQ(again.ts_ns, 3 * kSlotNs);
  gpu.Alloc(3100, 0x3000, 1);
  gpu.Slot();
  ASSERT_EQ(gpu.detail.balances.size(), 1u) << "once";
  EXPECT_FALSE(gpu.detail.balances[0].again);
}

TEST(GpuBalances, WhatFreesAllAtOnceIsToldOnce) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Alloc(110, 0x9000, 100);
  gpu.Call(SS_CUDA_RESET, 200, 200, {});
  gpu.Alloc(300, 0x1000, 7);
  gpu.Alloc(310, 0x2000, 8);
  gpu.Exit(400);
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "4096/4096@100 4196/100@110 0/100@200 7/7@300 15/8@310 0/8@400");
}

TEST(GpuBalances, OfVirtualMemoryAreWhenItComesAndGoes) {
  Gpu gpu;
  gpu.Call(SS_CUDA_MEM_CREATE, 100, 100, {5, 1 << 20, 1});
  gpu.Call(SS_CUDA_MEM_MAP, 200, 200, {0x100000, 1 << 20, 5});
  gpu.Call(SS_CUDA_MEM_RELEASE, 300, 300, {5});
  gpu.Call(SS_CUDA_MEM_UNMAP, 400, 400, {0x100000, 1 << 20});
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "1048576/1048576@100 0/1048576@400");
}

TEST(GpuBalances, SayWhatTheyAreWorth) {
  Gpu late(false);
  late.Call(SS_CUDA_SET_DEVICE, 50, 50, {0});
  late.Alloc(100, 0x1000, 4096);
  late.Slot();
  EXPECT_EQ(BalancesOf(late), "4096/4096@100 at least") << "it may have allocated before we looked";
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 4096);
  gpu.Loss(200);
  gpu.Alloc(300, 0x2000, 1);
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "4096/4096@100 1/1@300 on -1 missed")
      << "a free may have been lost, and which device it chose";
  gpu.Exit(1100);
  gpu.Slot();
  EXPECT_EQ(BalancesOf(gpu), "0/1@1100 on -1 0/4096@1100")
      << "that it holds nothing any more is certain";
}

TEST(GpuTracker, FunctionsWhoseEffectIsNotKnown) {
  Gpu gpu;
  gpu.Call(SS_CUDA_UNCOUNTED, 100, 100, {1});
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoBytes);
  EXPECT_FALSE(gpu.all[kA.tgid].unmeasured & kNoLaunches);
  gpu.Call(SS_CUDA_UNCOUNTED, 1100, 1100, {2});
  EXPECT_TRUE(gpu.Slot().unmeasured & kNoLaunches);
}

TEST(GpuTracker, LateCallsTakeEffectNow) {
  Gpu gpu;
  gpu.Slot();
  gpu.Slot();
  gpu.Launch(100, 7);
  gpu.Alloc(200, 0x1000, 5);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.values[kGpuActiveNs], kSlotNs);
  EXPECT_EQ(use.values[kGpuMemBytes], 5u);
  EXPECT_EQ(gpu.tracker().stats().nr_late, 2u);
}

TEST(GpuTracker, BeforeTheFirstSlotIsInNoSlot) {
  Gpu gpu;
  gpu.Launch(100, 7);
  gpu.Alloc(200, 0x1000, 5);
  std::vector<GpuUse> uses;
  GpuDetail detail;
  GpuTracker& tracker = const_cast<GpuTracker&>(gpu.tracker());
  tracker.TakeSlot(10 * kSlotNs, 11 * kSlotNs, &uses, &detail);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].row.values[kGpuActiveNs], kSlotNs);
  EXPECT_EQ(uses[0].row.values[kGpuLaunches], 0u);
  EXPECT_EQ(uses[0].row.values[kGpuMemBytes], 5u);
}

// Nobody looks at who does nothing: its row stands, and so does its part of what a GPU holds.
TEST(GpuTracker, WhoDoesNothingIsNotLookedAt) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 5);
  gpu.Launch(200, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 5u);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs);
  EXPECT_EQ(gpu.nr_awake, 1u) << "it is active";
  gpu.Wait(2 * 1000 + 100, 2 * 1000 + 500, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], kSlotNs / 2);
  gpu.SkipTo(60'000);  // until then it launches
  EXPECT_EQ(gpu.nr_awake, 1u);
  gpu.SkipTo(60'004);
  const uint64_t version = gpu.tracker().still_version();
  for (int i = 0; i < 3; i++) {
    const GpuRow row = gpu.Slot();
    EXPECT_EQ(gpu.nr_awake, 0u);
    EXPECT_EQ(row.values, (std::array<uint64_t, kNrGpuValues>{5, 0, 0}));
    EXPECT_FALSE(row.any);
  }
  EXPECT_EQ(gpu.tracker().still_version(), version + 1);
  gpu.Alloc(60'007 * 1000 + 100, 0x2000, 6);
  EXPECT_EQ(gpu.Slot().values[kGpuMemBytes], 11u);
  EXPECT_EQ(gpu.nr_awake, 1u);
  gpu.Slot();
  gpu.Loss(60'009 * 1000 + 100);
  EXPECT_NE(gpu.Slot().unmeasured, 0u);
  EXPECT_EQ(gpu.nr_awake, 2u);
}

// ---- Why a GPU has no work

// "500: ran 70, asleep 380": what is not 0, in us; the whole is the sum of its causes.
std::string NoWorkOf(const GpuRow& row) {
  constexpr std::pair<GpuValue, const char*> kNames[] = {
      {kNoWorkRan, "ran"},         {kNoWorkWaited, "waited"},   {kNoWorkThrottled, "throttled"},
      {kNoWorkInCudaWait, "cuda"}, {kNoWorkDisk, "disk"},       {kNoWorkStopped, "stopped"},
      {kNoWorkAsleep, "asleep"},   {kNoWorkUnknown, "unknown"},
  };
  std::string text;
  uint64_t sum_ns = 0;
  for (const auto& [value, name] : kNames) {
    sum_ns += row.values[value];
    if (row.values[value])
      text +=
          std::string(text.empty() ? "" : ", ") + name + ' ' + std::to_string(row.values[value] / kUs);
  }
  EXPECT_EQ(sum_ns, row.values[kGpuNoWork]);
  EXPECT_LE(row.values[kNoWorkInCalls], row.values[kNoWorkRan]);
  return std::to_string(row.values[kGpuNoWork] / kUs) + (text.empty() ? "" : ": ") + text;
}

// Runs, launches at 100, and waits from 200 to 300.
void RunUntilWait(Gpu* gpu) {
  gpu->Runs(10);
  gpu->Launch(100, 7);
  gpu->Wait(200, 300, 7);
}

TEST(GpuNoWork, IsWhatItsThreadDidMeanwhile) {
  Gpu gpu;
  RunUntilWait(&gpu);
  gpu.Leaves(320, SS_LEFT_ASLEEP);
  gpu.IsWoken(700);
  gpu.Runs(750);
  gpu.Launch(800, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 400 * kUs);
  EXPECT_EQ(NoWorkOf(gpu.whole), "500: ran 70, waited 50, asleep 380");
  EXPECT_EQ(gpu.whole.unmeasured, 0u);
  ASSERT_EQ(gpu.whole_parts.size(), 1u);
  EXPECT_EQ(NoWorkOf(gpu.whole_parts[0].row), NoWorkOf(gpu.whole));
}

TEST(GpuNoWork, EachKindOfSleep) {
  const struct {
    ss_left left;
    uint32_t op;
    const char* says;
  } kCases[] = {
      {SS_LEFT_ASLEEP, 0, "700: ran 20, asleep 680"},
      {SS_LEFT_BLOCKED, 0, "700: ran 20, asleep 680"},
      {SS_LEFT_ENDED, 0, "700: ran 20, asleep 680"},
      {SS_LEFT_ASLEEP, SS_CUDA_EVENT_DONE, "700: ran 20, cuda 680"},
      {SS_LEFT_BLOCKED, SS_CUDA_ALLOC, "700: ran 20, cuda 680"},
      {SS_LEFT_DISK, 0, "700: ran 20, disk 680"},
      {SS_LEFT_STOPPED, 0, "700: ran 20, stopped 680"},
      {SS_LEFT_TRACED, 0, "700: ran 20, stopped 680"},
      {SS_LEFT_RUNNABLE, 0, "700: ran 20, waited 680"},
  };
  for (const auto& c : kCases) {
    Gpu gpu;
    RunUntilWait(&gpu);
    gpu.Leaves(320, c.left, c.op);
    gpu.Slot();
    EXPECT_EQ(NoWorkOf(gpu.whole), c.says);
    gpu.Slot();
    EXPECT_EQ(gpu.whole.values[kGpuNoWork], kSlotNs) << "and it goes on: " << c.says;
    EXPECT_TRUE(gpu.whole.any) << "it has a row for it";
  }
}

TEST(GpuNoWork, OfALoopItIsInCallsOrBetweenThem) {
  Gpu gpu;
  RunUntilWait(&gpu);
  gpu.Alloc(380, 0x1000, 5);
  gpu.Call(SS_CUDA_EVENT_RECORD, 400, 450, {1, 7});
  gpu.Launch(500, 7);
  gpu.Wait(510, 600, 7);
  gpu.Slot();
  EXPECT_EQ(NoWorkOf(gpu.whole), "600: ran 600");
  EXPECT_EQ(gpu.whole.values[kNoWorkInCalls], 50 * kUs);
}

// It says nothing of whether the GPU was busy; how its thread spent all of the time does.
TEST(GpuNoWork, OfALoopThatNeverWaitsItIsNotVisible) {
  constexpr uint32_t kHidden = kOfLaunches & ~kOfLauncher;
  Gpu gpu;
  gpu.Runs(10);
  for (uint64_t us = 100; us < 900; us += 100) gpu.Call(SS_CUDA_LAUNCH, us, us + 30, {7});
  gpu.Leaves(950, SS_LEFT_ASLEEP);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.unmeasured, kHidden);
  EXPECT_EQ(gpu.whole.values[kLauncherRan], 850 * kUs) << "since its first launch";
  EXPECT_EQ(gpu.whole.values[kLauncherInCalls], 8 * 30 * kUs);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.values[kLauncherRan], 0u) << "it sleeps";
  EXPECT_EQ(gpu.whole.unmeasured, kHidden);
  gpu.Wait(2'100, 2'400, 7);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.unmeasured, 0u);
  EXPECT_EQ(gpu.whole.values[kGpuNoWork], 600 * kUs);
}

// Each thread's time counts until it launches, and not when another one is to.
TEST(GpuNoWork, TheLauncherIsWhoeverLaunchesNext) {
  Gpu gpu;
  gpu.Runs(10);
  gpu.Runs(10, 2);
  gpu.Launch(100, 7);
  gpu.Leaves(300, SS_LEFT_ASLEEP);
  gpu.Launch(500, 7, kA, 2);
  gpu.IsWoken(550);
  gpu.Runs(600);
  gpu.Launch(800, 7);
  gpu.Slot();
  EXPECT_EQ(gpu.whole.values[kLauncherRan], (400 + 200 + 200) * kUs);
}

TEST(GpuNoWork, WhatWasNotToldIsNotKnown) {
  Gpu unfollowed;
  unfollowed.Launch(100, 7);
  unfollowed.Wait(200, 300, 7);
  unfollowed.Slot();
  EXPECT_EQ(NoWorkOf(unfollowed.whole), "700: unknown 700");
  Gpu missed;
  RunUntilWait(&missed);
  missed.Leaves(320, SS_LEFT_ASLEEP);
  missed.Turn(600, SS_TURN_RUNS, 0, 0, 1, 3);
  missed.Slot();
  EXPECT_EQ(NoWorkOf(missed.whole), "700: ran 420, unknown 280");
  Gpu lost;  // all that is told may have been lost
  RunUntilWait(&lost);
  lost.Leaves(320, SS_LEFT_ASLEEP);
  lost.Loss(500);
  lost.IsWoken(900);
  lost.Slot();
  EXPECT_TRUE(lost.whole.unmeasured & 1u << kGpuNoWork) << "a launch, too";
}

// Some kernels hide switches from eBPF: who did not run cannot leave.
TEST(GpuNoWork, AroundATurnThatWasHiddenItIsNotKnown) {
  Gpu came;
  RunUntilWait(&came);
  came.Leaves(320, SS_LEFT_RUNNABLE);
  came.Leaves(600, SS_LEFT_RUNNABLE);
  came.Slot();
  EXPECT_EQ(NoWorkOf(came.whole), "700: ran 20, waited 400, unknown 280");
  Gpu left;
  RunUntilWait(&left);
  left.Runs(600);
  left.Slot();
  EXPECT_EQ(NoWorkOf(left.whole), "700: ran 400, unknown 300");
}

TEST(GpuNoWork, WhoeverIsWokenWhileItRunsRuns) {
  Gpu gpu;
  RunUntilWait(&gpu);
  gpu.IsWoken(500);
  gpu.Slot();
  EXPECT_EQ(NoWorkOf(gpu.whole), "700: ran 700");
}

// As of an autograd thread that takes over: the one that launches next is the one that is waited for.
TEST(GpuNoWork, IsOfTheThreadThatLaunchesNext) {
  Gpu gpu;
  RunUntilWait(&gpu);
  gpu.Leaves(320, SS_LEFT_ASLEEP);
  gpu.Runs(10, 2);
  gpu.Leaves(900, SS_LEFT_DISK, 0, 2);
  gpu.Launch(700, 7, kA, 2);
  gpu.Wait(710, 800, 7, kA, 2);
  gpu.Slot();
  EXPECT_EQ(NoWorkOf(gpu.whole), "600: ran 500, disk 100");
}

TEST(GpuNoWork, EachDeviceHasItsOwn) {
  Gpu gpu;
  gpu.Runs(10);
  gpu.Call(SS_CUDA_SET_DEVICE, 20, 20, {1});
  gpu.Launch(100, 8);
  gpu.Call(SS_CUDA_SET_DEVICE, 120, 120, {0});
  gpu.Launch(200, 7);
  gpu.Wait(210, 500, 7);
  gpu.Slot();
  EXPECT_EQ(NoWorkOf(gpu.whole), "0") << "the other one has work all the time";
  ASSERT_EQ(gpu.whole_parts.size(), 2u);
  for (const GpuPart& part : gpu.whole_parts)
    EXPECT_EQ(NoWorkOf(part.row), part.device == 0 ? "500: ran 500" : "0") << part.device;
}

TEST(GpuNoWork, WhoHasNotLaunchedForAMinuteDoesNot) {
  Gpu gpu;
  EXPECT_FALSE(gpu.Slot().any);
  EXPECT_TRUE(gpu.whole.unmeasured & 1u << kGpuNoWork) << "nor does who has not begun to";
  gpu.Runs(1010);
  gpu.Launch(1100, 7);
  gpu.Wait(1200, 1300, 7);
  gpu.Leaves(1400, SS_LEFT_ASLEEP);
  gpu.SkipTo(60'000);
  EXPECT_EQ(gpu.whole.values[kGpuNoWork], kSlotNs);
  EXPECT_EQ(gpu.nr_awake, 1u);
  gpu.SkipTo(60'005);
  EXPECT_TRUE(gpu.whole.unmeasured & 1u << kGpuNoWork);
  EXPECT_EQ(gpu.nr_awake, 0u);
  for (int i = 0; i < 10; i++) {  // what it does now wakes nobody up
    gpu.Runs(60'006'000 + static_cast<uint64_t>(i) * 100);
    gpu.Leaves(60'006'050 + static_cast<uint64_t>(i) * 100, SS_LEFT_ASLEEP);
  }
  gpu.SkipTo(60'010);
  EXPECT_EQ(gpu.nr_awake, 0u);
  gpu.Runs(60'010'100);
  gpu.Launch(60'010'200, 7);
  gpu.Wait(60'010'300, 60'010'400, 7);
  gpu.Slot();
  EXPECT_EQ(NoWorkOf(gpu.whole), "600: ran 600") << "of the minute before nothing";
}

// Whatever a process does, each nanosecond from its first launch on is one in which something was in
// flight, or one of a cause.
TEST(GpuNoWork, ItAllAddsUp) {
  for (uint32_t seed = 1; seed <= 200; seed++) {
    std::mt19937 random(seed);
    const auto up_to = [&](uint32_t nr) { return random() % nr; };
    Gpu gpu;
    gpu.Launch(1, 7);
    gpu.Wait(2, 3, 7);
    for (uint64_t at = 10; at < 20'000; at += 1 + up_to(60)) {
      const auto tid = static_cast<int32_t>(1 + up_to(3));
      switch (up_to(7)) {
        case 0:
          gpu.Launch(at, 7 + up_to(3), kA, tid);
          break;
        case 1:
          gpu.Wait(at - up_to(9), at, 7 + up_to(3), kA, tid);
          break;
        case 2:
          gpu.Runs(at, tid);
          break;
        case 3:
          gpu.Leaves(at, static_cast<ss_left>(1 + up_to(SS_LEFT_ENDED)), up_to(2) * SS_CUDA_STREAM_DONE,
                     tid);
          break;
        case 4:
          gpu.IsWoken(at, tid);
          break;
        case 5:
          gpu.Call(SS_CUDA_EVENT_RECORD, at - up_to(9), at, {1, 7}, kA, tid);
          break;
        default:
          gpu.Turn(at, SS_TURN_RUNS, 0, 0, tid, up_to(3));
      }
    }
    for (int slot = 0; slot < 20; slot++) {
      gpu.Slot();
      NoWorkOf(gpu.whole);
      const uint64_t since_ns = slot == 0 ? 1 * kUs : 0;
      ASSERT_EQ(gpu.whole.values[kGpuNoWork] + gpu.whole.values[kGpuActiveNs], kSlotNs - since_ns)
          << "seed " << seed << ", slot " << slot;
    }
  }
}

const GpuPart* PartOf(const Gpu& gpu, ProcessKey key, int32_t device) {
  for (const GpuPart& part : gpu.detail.parts)
    if (part.process == key && part.device == device) return &part;
  return nullptr;
}

const GpuTotal* TotalOf(const Gpu& gpu, int32_t index) {
  for (const GpuTotal& total : gpu.detail.totals)
    if (total.gpu == index) return &total;
  return nullptr;
}

TEST(GpuParts, EachDeviceHasItsOwn) {
  Gpu gpu;
  gpu.View(1, {1, 0});
  gpu.Launch(100);
  gpu.Wait(110, 300);
  gpu.Call(SS_CUDA_SET_DEVICE, 310, 310, {1});
  gpu.Launch(400);
  gpu.Launch(410);
  gpu.Wait(420, 900);
  gpu.Alloc(950, 0x1000, 64);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 700 * kUs);
  ASSERT_EQ(gpu.detail.parts.size(), 2u);
  const GpuPart *first = PartOf(gpu, kA, 0), *second = PartOf(gpu, kA, 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->gpu, 1);
  EXPECT_EQ(first->row.values, (std::array<uint64_t, kNrGpuValues>{0, 200 * kUs, 1}));
  EXPECT_EQ(second->gpu, 0);
  EXPECT_EQ(second->row.values, (std::array<uint64_t, kNrGpuValues>{64, 500 * kUs, 2}));
  gpu.SkipTo(60'010);
  EXPECT_TRUE(gpu.detail.parts.empty()) << "memory that is held makes no row";
  gpu.Free(60'010'100, 0x1000);
  gpu.Slot();
  EXPECT_EQ(gpu.detail.parts.size(), 1u) << "a change of it does";
}

TEST(GpuParts, AGpuIsActiveWhileAnyProcessIs) {
  Gpu gpu;
  gpu.View(1, {0});
  gpu.View(1, {0}, kB);
  gpu.Launch(100);
  gpu.Launch(200, 0, kB);
  gpu.Wait(210, 400);
  gpu.Wait(410, 700, 0, kB);
  gpu.Alloc(800, 0x1000, 5);
  gpu.Alloc(800, 0x1000, 6, SS_CUDA_LINEAR, kB);
  gpu.Slot();
  const GpuTotal* total = TotalOf(gpu, 0);
  ASSERT_TRUE(total);
  EXPECT_EQ(total->row.values, (std::array<uint64_t, kNrGpuValues>{11, 600 * kUs, 2}));
  EXPECT_EQ(total->row.unmeasured, 0u);
  EXPECT_FALSE(TotalOf(gpu, 1));
  gpu.SkipTo(60'010);
  EXPECT_TRUE(gpu.detail.totals.empty());
  gpu.Launch(60'010'100);
  gpu.Exit(60'010'300);
  gpu.Slot();
  ASSERT_TRUE(TotalOf(gpu, 0));
  EXPECT_EQ(TotalOf(gpu, 0)->row.values, (std::array<uint64_t, kNrGpuValues>{6, 200 * kUs, 1}))
      << "B's memory is there";
}

TEST(GpuParts, WhoseGpuIsNotKnownIsInNoTotal) {
  Gpu gpu;
  gpu.Launch(100);
  gpu.Wait(110, 300);
  gpu.Slot();
  ASSERT_EQ(gpu.detail.parts.size(), 1u);
  EXPECT_EQ(gpu.detail.parts[0].gpu, kUnknownGpu);
  EXPECT_TRUE(gpu.detail.totals.empty());
  gpu.View(1100, {-1, 7, 2, 3}, kA);  // nonsense, nonsense, a divided one, an instance
  for (uint64_t device = 0; device < 5; device++) {
    gpu.Call(SS_CUDA_SET_DEVICE, 1200 + 10 * device, 1200 + 10 * device, {device});
    gpu.Launch(1205 + 10 * device);
  }
  gpu.Slot();
  for (int32_t device = 0; device < 5; device++) {
    ASSERT_TRUE(PartOf(gpu, kA, device));
    EXPECT_EQ(PartOf(gpu, kA, device)->gpu, device == 3 ? 3 : kUnknownGpu) << device;
  }
}

TEST(GpuParts, WhatTheDriverSaysCountsMore) {
  Gpu gpu;
  gpu.View(1, {0});
  gpu.Device(50, 0, 4);
  gpu.Launch(100);
  gpu.Slot();
  EXPECT_EQ(PartOf(gpu, kA, 0)->gpu, 4);
  gpu.Device(1100, 0, 2);  // the GPU of its instance, as an older function says it
  gpu.Device(1100, 0, 9);  // nobody's
  gpu.Slot();
  EXPECT_EQ(PartOf(gpu, kA, 0)->gpu, 4);
}

// It was noticed before the driver was initialized, and is no call that changes anything.
TEST(GpuParts, WhichDeviceItIsMakesNoProcessIncomplete) {
  Gpu gpu(false);
  gpu.Device(10, 0, 1);
  gpu.Call(SS_CUDA_INIT, 20, 20, {});
  gpu.Alloc(30, 0x1000, 64);
  const GpuRow use = gpu.Slot();
  EXPECT_EQ(use.unmeasured, 0u);
  EXPECT_EQ(use.values[kGpuMemBytes], 64u);
}

TEST(GpuParts, ANumberThatIsUsedAgainIsAnotherProcess) {
  Gpu gpu;
  const ProcessKey reborn = {kA.tgid, 5'000'000};
  gpu.View(1, {0});
  gpu.Launch(100);
  gpu.Exit(4500);
  gpu.Call(SS_CUDA_INIT, 5100, 5100, {}, reborn);
  gpu.View(5200, {1});
  gpu.Launch(5300, 0, reborn);
  gpu.Slot();
  EXPECT_EQ(PartOf(gpu, kA, 0)->gpu, 0);
  gpu.SkipTo(5);
  gpu.Slot();
  EXPECT_EQ(PartOf(gpu, reborn, 0)->gpu, 1);
}

TEST(GpuParts, AStreamThatIsMadeAgainWhileItsOldWorkRuns) {
  Gpu gpu;
  gpu.View(1, {0});
  gpu.Call(SS_CUDA_STREAM_CREATE, 50, 50, {7, 0});
  gpu.Launch(100, 7);
  gpu.Call(SS_CUDA_STREAM_DESTROY, 150, 150, {7});
  gpu.Call(SS_CUDA_STREAM_CREATE, 300, 300, {7, 0});
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 200 * kUs);
  EXPECT_EQ(TotalOf(gpu, 0)->row.values[kGpuActiveNs], 200 * kUs);
  gpu.Launch(1100, 7);
  gpu.Wait(1150, 1200, 7);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 100 * kUs);
  EXPECT_EQ(gpu.Slot().values[kGpuActiveNs], 0u);
  gpu.SkipTo(60'010);
  EXPECT_TRUE(gpu.detail.totals.empty());
}

TEST(GpuParts, AGpuThatBecomesKnownWhileItIsActive) {
  Gpu gpu;
  gpu.Launch(100);
  gpu.Slot();
  EXPECT_TRUE(gpu.detail.totals.empty());
  gpu.View(1100, {1});
  gpu.Slot();  // known at its end
  gpu.Slot();
  ASSERT_TRUE(TotalOf(gpu, 1));
  EXPECT_EQ(TotalOf(gpu, 1)->row.values[kGpuActiveNs], kSlotNs);
  gpu.Exit(3500);
  gpu.Slot();
  EXPECT_EQ(TotalOf(gpu, 1)->row.values[kGpuActiveNs], 500 * kUs);
  gpu.Slot();
  EXPECT_TRUE(gpu.detail.totals.empty());
}

TEST(GpuTracker, AVeryLateCallDoesNotBringAProcessBack) {
  Gpu gpu;
  gpu.Alloc(100, 0x1000, 5);
  gpu.Exit(500);
  gpu.Slot();
  gpu.Alloc(400, 0x2000, 7);
  gpu.Slot();
  EXPECT_EQ(gpu.tracker().processes().count(kA), 0u);
  EXPECT_EQ(gpu.tracker().stats().nr_late, 2u);  // behind the slot, and behind its end
}

TEST(GpuSamples, CountFromTheirTimeUntilTheyAreOld) {
  Gpu gpu;
  gpu.Sample(1500, {0, kGpuSampleUsed | kGpuSampleSmActive, 4096, 2'000'000, 700'000});
  gpu.Sample(1600, {1, kGpuSampleUsed, 8192, 77, 0});
  gpu.Sample(1600, {5, kGpuSampleUsed, 1, 0, 0});  // there is none
  gpu.Slot();
  EXPECT_TRUE(gpu.detail.totals.empty());
  gpu.Slot();
  ASSERT_EQ(gpu.detail.totals.size(), 2u);
  const GpuTotal* total = TotalOf(gpu, 0);
  EXPECT_EQ(total->known, kGpuSampleUsed | kGpuSampleSmActive);
  EXPECT_EQ(total->used_bytes, 4096u);
  EXPECT_EQ(total->sm_active_ppm, 1'000'000u) << "100% at most";
  EXPECT_EQ(total->sm_since_ns, 700'000u);
  EXPECT_EQ(total->sm_until_ns, 1'500'000u);
  EXPECT_EQ(TotalOf(gpu, 1)->known, kGpuSampleUsed);
  gpu.Slot();
  EXPECT_TRUE(gpu.detail.totals.empty()) << "nothing new, and nobody does anything";
  gpu.View(3100, {0});
  gpu.Launch(3200);
  gpu.Slot();
  EXPECT_EQ(TotalOf(gpu, 0)->known, kGpuSampleUsed | kGpuSampleSmActive);
  gpu.SkipTo(1003);
  EXPECT_EQ(TotalOf(gpu, 0)->known, 0u) << "a second old";
}

// Anything in any order: nothing is lost from the pool, no slot is longer than a slot, and at the end
// all is given back.
TEST(GpuTracker, ThePoolIsBalancedWhateverHappens) {
  for (uint64_t seed = 0; seed < 20; seed++) {
    std::mt19937_64 random(seed);
    auto gpu = std::make_unique<Gpu>(seed % 2 == 0);
    ProcessKey keys[2] = {kA, kB};  // of which each is another process after its end
    for (uint64_t ms = 0; ms < 60; ms++) {
      for (int i = 0; i < 40; i++) {
        const uint64_t at_us = ms * 1000 + random() % 1000;
        const auto op = static_cast<ss_cuda_op>(1 + random() % (SS_CUDA_NR_OPS - 1));
        gpu->Call(op, at_us - std::min<uint64_t>(at_us, random() % 3000), at_us,
                  {random() % 8, random() % 8, random() % 8, random() % 4, 1 + random() % 5,
                   random() % 4, random() % 3},
                  keys[random() % 2], static_cast<int32_t>(1 + random() % 4),
                  static_cast<uint32_t>(random() % 8));
      }
      if (random() % 10 == 0) {
        ProcessKey& key = keys[random() % 2];
        gpu->Exit(ms * 1000 + random() % 1000, key);
        if (random() % 2) key.start_time_ns++;
      }
      gpu->Slot();
      for (const auto& [tgid, use] : gpu->all) EXPECT_LE(use.values[kGpuActiveNs], 2 * kSlotNs);
    }
    for (const ProcessKey& key : keys) gpu->Exit(60'100, key);
    gpu->Slot();
    const Pool& pool = gpu->tracker().pool();
    EXPECT_GT(pool.nr_gets(), 100u);
    EXPECT_EQ(pool.nr_active(), 0u);
    EXPECT_EQ(pool.nr_gets(), pool.nr_puts());
    for (const MemorySpan& span : gpu->spans.memory) EXPECT_LE(span.start_ns, span.end_ns);
    for (const KernelSpan& span : gpu->spans.kernels) EXPECT_LE(span.start_ns, span.end_ns);
  }
}

}  // namespace
}  // namespace slotscope
