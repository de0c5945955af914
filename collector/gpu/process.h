// SPDX-License-Identifier: MIT
// One process's use of GPUs, by its calls in the order of time.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "gpu/activity.h"
#include "gpu/machine.h"
#include "gpu/memory.h"
#include "gpu/no_work.h"
#include "gpu/stream.h"
#include "gpu/thread_line.h"
#include "slots/gpu_span.h"
#include "slots/slot.h"

namespace slotscope {

// What happened that no row shows.
struct GpuStats {
  uint64_t nr_calls = 0;
  uint64_t nr_late = 0;              // calls that arrived behind the watermark: they take effect then
  uint64_t nr_unknown_frees = 0;     // of memory that was allocated before we looked, or never
  uint64_t nr_rejected_streams = 0;  // launches into streams beyond GpuProcess::kMaxStreams
  uint64_t nr_forced_spans = 0;      // ended by GpuStream::kMaxPendingLaunches
  uint64_t nr_inactive_streams = 0;  // forgotten after GpuProcess::kInactiveNs, with what was pending
  uint64_t nr_dropped_spans = 0;     // beyond GpuTracker::kMaxSpans in a slot
  uint64_t nr_dropped_balances = 0;  // beyond GpuProcess::kMaxBalances in a slot
  uint64_t nr_rejected_threads = 0;  // calls of threads beyond GpuProcess::kMaxThreads
};

class GpuProcess {
 public:
  // Of one process, not of all: a second job must not be left out because of the first.
  static constexpr size_t kMaxStreams = 1024;              // PyTorch makes 128 when it is asked for one
  static constexpr uint64_t kInactiveNs = 30'000'000'000;  // longer than a step of training
  static constexpr uint64_t kQuietNs = 1'000'000;  // without a call of a stream, where some are lost
  static constexpr size_t kMaxThreads = 65536;
  static constexpr size_t kMaxEvents = 65536;
  static constexpr size_t kMaxDevices = 1024;
  static constexpr size_t kMaxContexts = 4096;
  static constexpr size_t kMaxPlaces = 1024;       // of a thread, one in the other
  static constexpr size_t kMaxBalances = 100'000;  // in one slot, of all processes

  // `has_turns`: it is told what its threads do. `sink` and `balances`, to which changes of what it
  // holds are added, may be null. All outlive the process.
  GpuProcess(ProcessKey key, bool has_turns, GpuMachine* machine, SpanSink* sink,
             std::vector<GpuBalance>* balances, GpuStats* stats, std::pmr::memory_resource* pool)
      : key_(key),
        has_turns_(has_turns),
        machine_(machine),
        sink_(sink),
        balances_(balances),
        stats_(stats),
        pool_(pool),
        memory_(key, sink, pool),
        threads_(pool),
        contexts_(pool),
        retained_(pool),
        streams_(pool),
        records_(pool),
        uses_(pool),
        told_gpus_(pool) {}
  GpuProcess(const GpuProcess&) = delete;

  // A call at its time: a launch's is when it began, any other's when it returned. Times do not go back.
  void Apply(const ss_cuda_call& call, uint64_t at_ns);
  // One of its threads, at its time, among its calls.
  void OnTurn(const ss_cuda_turn& turn, uint64_t at_ns);
  // Turns may have been lost: what threads do from then on is not known until the next of each.
  void ForgetTurns(uint64_t at_ns);
  // Nothing more comes. `how`: what becomes of kernels that nobody has waited for.
  void End(uint64_t ts_ns, KernelsEnd how);
  // A call of it was seen, or lost. Until then nothing is known of its GPU: its threads may be ones
  // whose earlier program used one.
  bool has_called() const { return begun_ || lossy_until_ns_ > 0 || !told_gpus_.empty(); }
  // The slot ends at ns. Forgets what streams have pending that have been silent for kInactiveNs, and
  // those that need not be known. Adds a part to *parts for each device that it has used.
  GpuRow TakeSlot(uint64_t end_ns, std::vector<GpuPart>* parts);
  // After TakeSlot(end_ns): as long as it makes no call, none is lost, and which GPUs it sees stays the
  // same, each slot gives the same row and parts, which are shown nowhere by themselves.
  bool IsStill(uint64_t end_ns) const;
  // It was for some slots, of which the last ended at end_ns: TakeSlot() forgets streams, too.
  void ForgetInactive(uint64_t end_ns);
  // Calls may have been lost from from_ns until until_ns: spans of kernels end there, and those of what
  // is launched meanwhile with what was seen last, unless it is waited for soon. What it holds is
  // not known any more; how much it launches is not for that long, and if it was capturing not until
  // that ends; whether it is active is not until it has waited for everything, and on which device not
  // until it chooses one.
  void OnLostCalls(uint64_t from_ns, uint64_t until_ns);

  const GpuMemory& memory() const { return memory_; }
  // Everything but whose it is (base/state.h).
  template <typename Archive>
  void State(Archive& state);

 private:
  struct Thread {
    std::vector<GpuPlace> places;  // contexts, the current one last
    ThreadLine line;
    bool is_touched = false;  // it is in touched_

    template <typename Archive>
    void State(Archive& state) {
      state(places, line, is_touched);
    }
  };
  // A stream of no thread's own has thread 0; default streams are per device.
  struct StreamKey {
    uint64_t handle;
    int32_t thread;
    int32_t device;
    auto operator<=>(const StreamKey&) const = default;

    template <typename Archive>
    void State(Archive& state) {
      state(handle, thread, device);
    }
  };
  struct Record {
    StreamKey stream;
    uint64_t ns;  // when it was recorded

    template <typename Archive>
    void State(Archive& state) {
      state(stream, ns);
    }
  };
  // Of a device.
  struct Use {
    Activity activity;
    NoWork no_work;
    int32_t gpu = kUnknownGpu;  // while active: which one it began on
    uint64_t nr_launches = 0;
    uint64_t told_bytes = 0;  // of memory, when the last slot was taken
    uint64_t last_alloc_bytes = 0;
    bool was_told_nowhere = false;  // the latest balance: which GPU it is was not known

    template <typename Archive>
    void State(Archive& state) {
      state(activity, no_work, gpu, nr_launches, told_bytes, last_alloc_bytes, was_told_nowhere);
    }
  };

  Thread* ThreadOf(int32_t tid);
  void Touch(int32_t tid, Thread* thread);
  void TakeNoWork(NoWork* no_work, uint64_t end_ns, GpuRow* row) const;
  GpuPlace Current(Thread* thread) const;
  GpuPlace PlaceOf(uint64_t context) const;
  int32_t DeviceOf(uint64_t context) const;
  int32_t OnlyDevice() const;
  static void Push(Thread* thread, GpuPlace place);
  static void SetCurrent(Thread* thread, GpuPlace place);
  void LearnPrimary(uint64_t context, int32_t device);
  void ApplyToContext(const ss_cuda_call& call, Thread* thread, uint64_t at_ns);
  void ApplyToMemory(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns);
  void ApplyToStream(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns);
  StreamKey KeyOf(const ss_cuda_call& call, uint64_t handle, int32_t device) const;
  GpuStream* FindStream(const StreamKey& key);
  bool IsCapturing(const StreamKey& key);
  void SetCapturing(const StreamKey& key);
  GpuStream* MakeStream(const StreamKey& key, int32_t device, bool blocking);
  void Launch(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns);
  void WaitFor(const StreamKey& key, uint64_t from_ns, uint64_t end_ns);
  void WaitForDevice(int32_t device, uint64_t from_ns, uint64_t end_ns,
                     const std::function<bool(const GpuStream&)>& which);
  void CutAtGap(GpuStream* stream, uint64_t at_ns);
  void Wait(GpuStream* stream, uint64_t from_ns, uint64_t end_ns, KernelsEnd end = KernelsEnd::kWaited);
  void ReviewDoubts(uint64_t at_ns);
  void FreeDevice(GpuPlace place, uint64_t at_ns);
  // False: nothing was allocated or freed since the last time.
  bool TellBalances(uint64_t at_ns);
  void TellBalance(int32_t device, uint64_t at_ns, bool has_ended = false);
  void Emit(KernelSpan span);
  int32_t GpuOf(int32_t device) const;
  Use* UseOf(int32_t device);
  void BeginActive(int32_t device, uint64_t ns, int32_t tid);
  void EndActive(int32_t device, uint64_t ns, bool has_waited);

  ProcessKey key_;
  bool has_turns_;
  GpuMachine* machine_;
  SpanSink* sink_;
  std::vector<GpuBalance>* balances_;
  GpuStats* stats_;
  std::pmr::memory_resource* pool_;
  GpuMemory memory_;
  bool begun_ = false;     // a call was seen
  bool complete_ = false;  // since the driver was initialized
  bool knows_launches_ = true;
  bool knows_activity_ = true;  // false once a launch found no room for its stream
  std::pmr::unordered_map<int32_t, Thread> threads_;
  std::vector<int32_t> touched_;  // threads of whose lines something is to be dropped when the slot ends
  std::pmr::unordered_map<uint64_t, GpuPlace> contexts_;  // by handle; primary ones have context 0 there
  std::pmr::map<int32_t, uint32_t> retained_;  // by device: primary contexts, by the driver's calls
  bool uses_runtime_ = false;
  std::pmr::map<StreamKey, GpuStream> streams_;
  // Whose launches nobody has waited for in kInactiveNs: while there are any, nobody knows whether the
  // process has work on a GPU.
  std::map<StreamKey, GpuStream> silent_;
  std::map<StreamKey, bool> capturing_elsewhere_;      // streams beyond these that are being captured
  std::pmr::unordered_map<uint64_t, Record> records_;  // by event
  Activity activity_;
  NoWork no_work_;
  std::pmr::map<int32_t, Use> uses_;           // by device
  std::pmr::map<int32_t, int32_t> told_gpus_;  // by device: the driver named its UUID
  uint64_t nr_launches_ = 0;
  bool any_ = false;
  uint64_t lossy_until_ns_ = 0;
  uint64_t call_begun_ns_ = 0;  // of the one that is looked at
  bool lossy_in_slot_ = false;
  bool doubts_activity_ = false;
  bool doubts_launches_ = false;
};

}  // namespace slotscope
