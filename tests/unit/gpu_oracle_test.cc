// SPDX-License-Identifier: MIT
// The GPU's stage against a reference that is slow and obviously right: all calls of a run in a list,
// sorted once; intervals as lists of them; sums by walking over everything, for each slot anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gpu/tracker.h"
#include "tests/unit/go_on_anew.h"

namespace slotscope {
namespace {

constexpr uint64_t kSlotNs = 1'000'000, kNrSlots = 40;
constexpr int32_t kNrDevices = 2, kNrGpus = 2;

using Interval = std::pair<uint64_t, uint64_t>;

// Of what is in [from, to), the length of the union.
uint64_t UnionNs(std::vector<Interval> intervals, uint64_t from, uint64_t to) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t sum = 0, done = from;
  for (auto [begin, end] : intervals) {
    begin = std::max(begin, done);
    end = std::min(end, to);
    if (end <= begin) continue;
    sum += end - begin;
    done = end;
  }
  return sum;
}

struct Memory {
  uint64_t from_ns, to_ns, bytes;
};

// Of one process: what was done, and until when.
struct Truth {
  std::map<int32_t, std::vector<Interval>> active;    // by device
  std::map<int32_t, std::vector<uint64_t>> launches;  // their times
  std::map<int32_t, std::vector<Memory>> memory;
  uint64_t end_ns = UINT64_MAX;
};

struct Pending {
  uint64_t ns, stream;
  int32_t device;
};

// A run of one process on one thread: calls follow each other. Streams are of a device, and block the
// default one.
class Process {
 public:
  Process(ProcessKey key, std::mt19937_64* random) : key_(key), random_(*random) {}

  void Run(std::vector<ss_cuda_call>* calls) {
    uint64_t now = random_() % 100'000;
    Add(calls, SS_CUDA_INIT, now, now, {});
    while (now < kNrSlots * kSlotNs) {
      const uint64_t begin = now + 1 + random_() % 200'000,
                     end = begin + 1 + random_() % (random_() % 8 ? 5'000 : 3'000'000);
      now = end;
      switch (random_() % 8) {
        case 0:
          device_ = static_cast<int32_t>(random_() % kNrDevices);
          Add(calls, SS_CUDA_SET_DEVICE, begin, end, {static_cast<uint64_t>(device_)});
          break;
        case 1:
        case 2:
        case 3: {
          const uint64_t stream = Stream();
          pending_.push_back({begin, stream, device_});
          truth.launches[device_].push_back(begin);
          Add(calls, SS_CUDA_LAUNCH, begin, end, {stream, 1, 1, 1, 1, 1});
          break;
        }
        case 4: {
          const uint64_t stream = Stream();
          Done(begin, end, [&](const Pending& p) {
            return p.device == device_ && (stream == 0 || p.stream == stream);
          });
          Add(calls, SS_CUDA_STREAM_DONE, begin, end, {stream});
          break;
        }
        case 5:
          Done(begin, end, [&](const Pending& p) { return p.device == device_; });
          Add(calls, SS_CUDA_DEVICE_DONE, begin, end, {0});
          break;
        case 6: {
          const uint64_t address = next_address_++ << 12, bytes = 1 + random_() % 1000;
          held_[address] = {device_, truth.memory[device_].size()};
          truth.memory[device_].push_back({end, UINT64_MAX, bytes});
          Add(calls, SS_CUDA_ALLOC, begin, end, {address, bytes, 1, 1, SS_CUDA_LINEAR});
          break;
        }
        default: {
          if (held_.empty()) break;
          auto at = std::next(held_.begin(), static_cast<ptrdiff_t>(random_() % held_.size()));
          truth.memory[at->second.first][at->second.second].to_ns = end;
          Add(calls, SS_CUDA_FREE, begin, end, {at->first, SS_CUDA_LINEAR});
          held_.erase(at);
        }
      }
      if (random_() % 400 == 0) {  // it ends; another call would be another process
        truth.end_ns = now + 1;
        break;
      }
    }
    const uint64_t end = truth.end_ns;
    Done(end, end, [](const Pending&) { return true; });
    for (auto& [device, all] : truth.memory)
      for (Memory& one : all) one.to_ns = std::min(one.to_ns, end);
  }

  Truth truth;

 private:
  // Handles are of one device each, but for the default one.
  uint64_t Stream() {
    return random_() % 3 == 0 ? 0 : 0x100 + 16 * static_cast<uint64_t>(device_) + random_() % 2;
  }

  template <typename Which>
  void Done(uint64_t begin, uint64_t end, Which&& which) {
    std::erase_if(pending_, [&](const Pending& p) {
      if (!which(p) || p.ns >= begin) return false;
      truth.active[p.device].push_back({p.ns, end});
      return true;
    });
  }

  void Add(std::vector<ss_cuda_call>* calls, ss_cuda_op op, uint64_t begin, uint64_t end,
           std::initializer_list<uint64_t> values) {
    ss_cuda_call call = {};
    call.hdr = {end, SS_CUDA_CALL, sizeof(call), 0};
    call.start_ns = begin;
    call.start_time_ns = key_.start_time_ns;
    call.tgid = key_.tgid;
    call.tid = key_.tgid;
    call.op = op;
    std::copy(values.begin(), values.end(), call.values);
    calls->push_back(call);
  }

  ProcessKey key_;
  std::mt19937_64& random_;
  int32_t device_ = 0;
  std::vector<Pending> pending_;
  std::map<uint64_t, std::pair<int32_t, size_t>> held_;  // by address: device, index
  uint64_t next_address_ = 1;
};

uint64_t CountIn(const std::vector<uint64_t>& times, uint64_t from, uint64_t to) {
  return static_cast<uint64_t>(
      std::count_if(times.begin(), times.end(), [&](uint64_t ns) { return ns >= from && ns < to; }));
}

uint64_t HeldAt(const std::vector<Memory>& memory, uint64_t ns) {
  uint64_t bytes = 0;
  for (const Memory& one : memory)
    if (one.from_ns < ns && one.to_ns >= ns) bytes += one.bytes;
  return bytes;
}

constexpr uint32_t kOfCalls = (1u << kGpuNoWork) - 1;

void Check(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<GpuDevice> gpus(kNrGpus);
  GpuTracker tracker(kSlotNs, GpuTracker::kSpans, gpus);
  std::map<ProcessKey, Truth> truths;
  std::vector<ss_cuda_call> calls;
  std::map<ProcessKey, std::vector<int32_t>> views;
  for (int32_t tgid = 1; tgid <= 4; tgid++) {
    const ProcessKey key = {tgid, 0};
    Process process(key, &random);
    process.Run(&calls);
    truths[key] = process.truth;
    if (tgid == 4 && seed % 4 == 0) {
      views[key] = {};  // nobody knows which GPUs are its devices
    } else {
      views[key] = tgid % 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{1, 0};
      tracker.OnView(tgid, views[key], 1);
    }
    if (process.truth.end_ns != UINT64_MAX) tracker.OnExit(key, process.truth.end_ns);
  }
  std::shuffle(calls.begin(), calls.end(), random);  // of one process too: they are within the window
  std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return a.hdr.ts_ns / (20 * kSlotNs) < b.hdr.ts_ns / (20 * kSlotNs);
  });
  for (const ss_cuda_call& call : calls) tracker.OnCall(call);

  std::vector<GpuUse> uses;
  GpuDetail detail;
  // Some are longer than others.
  for (uint64_t slot = 0, nr = 1; slot < kNrSlots; slot += nr) {
    nr = random() % 8 ? 1 : 1 + random() % 5;
    const uint64_t from = slot * kSlotNs, to = from + nr * kSlotNs;
    if (random() % 4 == 0) {
      ASSERT_NO_FATAL_FAILURE(GoOnAnew(&tracker, kSlotNs, GpuTracker::kSpans, gpus));
    }
    tracker.TakeSlot(from, to, &uses, &detail);
    std::map<ProcessKey, GpuRow> rows;
    for (const GpuUse& use : uses) rows[use.process] = use.row;
    for (const GpuUse& use : tracker.Still()) EXPECT_TRUE(rows.emplace(use.process, use.row).second);
    std::vector<std::vector<Interval>> on_gpu(kNrGpus);
    std::vector<uint64_t> launches_on(kNrGpus), held_on(kNrGpus);
    uint32_t unplaced = 0;
    for (const auto& [key, truth] : truths) {
      std::vector<Interval> all;
      uint64_t nr_launches = 0, bytes = 0;
      for (int32_t device = 0; device < kNrDevices; device++) {
        static const Truth kNone;
        auto active = truth.active.contains(device) ? truth.active.at(device) : std::vector<Interval>();
        const auto launches =
            truth.launches.contains(device) ? truth.launches.at(device) : std::vector<uint64_t>();
        const auto memory =
            truth.memory.contains(device) ? truth.memory.at(device) : std::vector<Memory>();
        // One that ended in the slot holds nothing any more.
        const uint64_t held = truth.end_ns < to ? 0 : HeldAt(memory, to);
        const uint64_t launched = CountIn(launches, from, to);
        all.insert(all.end(), active.begin(), active.end());
        if (views.at(key).empty()) {
          unplaced |= uint32_t{held > 0} << kGpuMemBytes;
          unplaced |= uint32_t{UnionNs(active, from, to) > 0} << kGpuActiveNs;
          unplaced |= uint32_t{launched > 0} << kGpuLaunches;
        } else {
          const auto gpu = static_cast<size_t>(views.at(key)[static_cast<size_t>(device)]);
          on_gpu[gpu].insert(on_gpu[gpu].end(), active.begin(), active.end());
          launches_on[gpu] += launched;
          held_on[gpu] += held;
        }
        nr_launches += launched;
        bytes += held;
        GpuRow part;
        for (const GpuPart& one : detail.parts)
          if (one.process == key && one.device == device) part = one.row;
        ASSERT_EQ(part.values[kGpuActiveNs], UnionNs(active, from, to))
            << "seed " << seed << " slot " << slot;
        ASSERT_EQ(part.values[kGpuLaunches], launched) << "seed " << seed << " slot " << slot;
        ASSERT_TRUE(!part.any || part.values[kGpuMemBytes] == held)
            << "seed " << seed << " slot " << slot;
      }
      const GpuRow row = rows.contains(key) ? rows.at(key) : GpuRow();
      ASSERT_EQ(row.values[kGpuActiveNs], UnionNs(all, from, to))
          << "seed " << seed << " slot " << slot << " of " << key.tgid;
      ASSERT_EQ(row.values[kGpuLaunches], nr_launches) << "seed " << seed << " slot " << slot;
      ASSERT_EQ(row.values[kGpuMemBytes], bytes) << "seed " << seed << " slot " << slot;
      ASSERT_EQ(row.unmeasured & kOfCalls, 0u);
      if (!rows.contains(key)) continue;
      // From its first launch to its end it has work, or has none.
      uint64_t first = UINT64_MAX;
      for (const Interval& one : all) first = std::min(first, one.first);
      // Until it has waited for all of it once, the latter is not visible.
      std::sort(all.begin(), all.end());
      uint64_t waited = all.empty() ? UINT64_MAX : all[0].second;
      for (const Interval& one : all)
        if (one.first <= waited) waited = std::max(waited, one.second);
      if (waited >= truth.end_ns) waited = UINT64_MAX;  // its end is no wait
      ASSERT_EQ(row.unmeasured >> kGpuNoWork & 1, waited >= to) << "seed " << seed << " slot " << slot;
      const uint64_t begin = std::max(from, first), end = std::min(to, truth.end_ns);
      ASSERT_EQ(row.values[kGpuNoWork], begin < end ? end - begin - UnionNs(all, begin, end) : 0)
          << "seed " << seed << " slot " << slot << " of " << key.tgid;
    }
    for (size_t gpu = 0; gpu < kNrGpus; gpu++) {
      GpuTotal total = {};
      for (const GpuTotal& one : detail.totals)
        if (one.gpu == static_cast<int32_t>(gpu)) total = one;
      ASSERT_EQ(total.row.values[kGpuActiveNs], UnionNs(on_gpu[gpu], from, to))
          << "seed " << seed << " slot " << slot;
      ASSERT_EQ(total.row.values[kGpuLaunches], launches_on[gpu]) << "seed " << seed << " slot " << slot;
      ASSERT_TRUE(!total.row.any || total.row.values[kGpuMemBytes] == held_on[gpu])
          << "seed " << seed << " slot " << slot;
      ASSERT_TRUE(!total.row.any || (total.row.unmeasured & kOfCalls) == (unplaced & kOfCalls))
          << "seed " << seed << " slot " << slot;
    }
  }
  ASSERT_EQ(tracker.stats().nr_late, 0u);
  ASSERT_EQ(tracker.stats().nr_unknown_frees, 0u);
}

TEST(GpuOracle, AgreesOnThousandsOfRuns) {
  const char* text = std::getenv("SLOTSCOPE_ORACLE_CASES");
  const uint64_t nr_cases = text ? std::strtoull(text, nullptr, 10) : 2000;
  for (uint64_t seed = 1; seed <= nr_cases && !HasFatalFailure(); seed++) Check(seed);
}

}  // namespace
}  // namespace slotscope
