// SPDX-License-Identifier: MIT
// The machine's GPUs: which of them is which process's device, what all processes together do on each,
// and what NVML says of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/gpu_device.h"
#include "gpu/activity.h"
#include "ring/item.h"
#include "slots/gpu_detail.h"

namespace slotscope {

class GpuMachine {
 public:
  explicit GpuMachine(std::vector<GpuDevice> gpus) : gpus_(std::move(gpus)), uses_(gpus_.size()) {}

  void OnView(int32_t tgid, std::span<const int32_t> gpus, uint64_t ts_ns);
  void OnSample(const GpuSample& sample, uint64_t ts_ns);
  // A process of that number has ended.
  void OnExit(int32_t tgid, uint64_t ts_ns);

  // Does that process see one device, and no more?
  bool SeesOne(ProcessKey process) const {
    const View* const view = FindView(process);
    return view && view->gpus.size() == 1;
  }
  // Indices into the facts' list, or kUnknownGpu. Of a divided GPU none: which instance is not known.
  int32_t FindDevice(ProcessKey process, int32_t device) const;
  int32_t FindUuid(const GpuUuid& uuid) const;

  // A process is active there, or not any more. `gpu` may be kUnknownGpu.
  void Begin(int32_t gpu, uint64_t ns);
  void End(int32_t gpu, uint64_t ns);
  // What a process did in the slot, or holds; where that is not known no total is. What is not measured
  // of a process is not known of any GPU that it sees.
  void Add(const GpuPart& part);
  void AddUnmeasured(ProcessKey process, uint32_t unmeasured);
  // The same for every slot from now on (+1), and not any more (-1): with the views that were there
  // then.
  void AddStanding(const GpuPart& part, int32_t sign);
  void AddStandingUnmeasured(ProcessKey process, uint32_t unmeasured, int32_t sign);
  bool has_views() const { return !views_.empty(); }
  // Everything but the GPUs themselves (base/state.h).
  template <typename Archive>
  void State(Archive& state);
  // There are no GPUs that are known, so TakeSlot() says nothing.
  bool is_quiet() const { return uses_.empty(); }
  // The slot ends at end_ns.
  void TakeSlot(uint64_t end_ns, std::vector<GpuTotal>* totals);

 private:
  struct View {
    uint64_t ts_ns;
    std::vector<int32_t> gpus;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns, gpus);
    }
  };
  struct Sample {
    uint64_t ts_ns;
    GpuSample sample;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns);
      state.Plain(sample);
    }
  };
  // Of processes in which nothing happens.
  struct Standing {
    std::array<uint64_t, kNrGpuValues> values = {};
    std::array<uint32_t, kNrGpuValues> nr_unmeasured = {};
    void AddUnmeasured(uint32_t unmeasured, int32_t sign);
    uint32_t unmeasured() const;

    template <typename Archive>
    void State(Archive& state) {
      state(values, nr_unmeasured);
    }
  };
  struct Use {
    Activity activity;
    Standing standing;
    GpuTotal total = {};  // of the slot; what NVML said stays
    bool any = false;
    uint64_t used_ns = 0;  // when NVML last said what is in use

    template <typename Archive>
    void State(Archive& state) {
      state(activity, standing, total, any, used_ns);
    }
  };
  // Of processes with one number, one after the other.
  static constexpr size_t kMaxViews = 4;
  static constexpr size_t kMaxViewers = 65536;  // our own limits
  static constexpr size_t kMaxSamples = 65536;
  // An older value says nothing of now. NVML wants 100 ms between two, we ask each 200.
  static constexpr uint64_t kMaxSampleAgeNs = 1'000'000'000;

  const View* FindView(ProcessKey process) const;
  template <typename Fn>
  void ForEachSeen(ProcessKey process, const Fn& on_use);
  static uint32_t UnplacedOf(const GpuPart& part);
  bool has(int32_t gpu) const { return gpu >= 0 && static_cast<size_t>(gpu) < gpus_.size(); }
  Use& use(int32_t gpu) { return uses_[static_cast<size_t>(gpu)]; }

  std::vector<GpuDevice> gpus_;
  std::vector<Use> uses_;       // of gpus_
  uint32_t unplaced_ = 0;       // bit GpuValue: in this slot some of it was on a GPU that is not known
  Standing unplaced_standing_;  // nr_unmeasured: of whom so much is
  std::map<int32_t, std::vector<View>> views_;  // by tgid, in the order of time
  std::deque<Sample> samples_;                  // to come, in the order of time
};

}  // namespace slotscope
