// SPDX-License-Identifier: MIT
// A slot: one millisecond, and a row for everything the CPUs' time went to in it.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "slots/gpu_detail.h"
#include "slots/preemption.h"
#include "slots/straggle_report.h"
#include "track/tracker.h"

namespace slotscope {

enum class RowKind : uint8_t { kUser, kKernel, kIdle, kUnassigned, kLost, kOffline, kOther };
inline constexpr std::array<const char*, 7> kRowKindNames = {"user", "kernel",  "idle", "unassigned",
                                                             "lost", "offline", "other"};

// A process with rows of its own, kernel threads included; idle is none.
inline bool IsProcess(RowKind kind) {
  return kind == RowKind::kUser || kind == RowKind::kKernel || kind == RowKind::kUnassigned;
}

// Everything that is added up, so that each can be accounted for: received = written + late + before
// the first slot + after the last one.
enum Additive : size_t {
  kCpuNs,
  kWaitNs,
  kSwitches,
  kPreemptions,
  kCycles,
  kInstructions,
  kLlcMisses,
  kEnabledNs,  // of the first counter that is counted, for mux_pct
  kRunningNs,
  kNrAdditive,
};
inline constexpr std::array<const char*, kNrAdditive> kAdditiveNames = {
    "cpu_ns",       "wait_ns",    "switches",   "preemptions", "cycles",
    "instructions", "llc_misses", "enabled_ns", "running_ns"};
static_assert(kLlcMisses - kCycles == SS_LLC_MISSES - SS_CYCLES);

using Sums = std::array<uint64_t, kNrAdditive>;

inline void Add(Sums* to, const Sums& what) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kNrAdditive; i++) (*to)[i] += what[i];
}

inline Sums Difference(const Sums& a, const Sums& b) {
  Sums sums;
#pragma GCC unroll 16
  for (size_t i = 0; i < kNrAdditive; i++) sums[i] = a[i] - b[i];
  return sums;
}

// What RDT says of a process in a slot, over all L3 domains. The first two are added up and accounted
// for, the last is a gauge.
enum RdtValue : size_t { kMbmTotal, kMbmLocal, kLlcOccupancy, kNrRdtValues };
inline constexpr std::array<const char*, kNrRdtValues> kRdtValueNames = {
    "mbm_total_bytes", "mbm_local_bytes", "llc_occupancy_bytes"};
inline constexpr size_t kNrMbm = kLlcOccupancy;
using MbmSums = std::array<uint64_t, kNrMbm>;

// By enum ss_rdt_status.
inline constexpr std::array<const char*, SS_RDT_NR_STATUS> kRdtStatusNames = {
    "ok",    "baseline",    "tainted",    "partial",    "skipped",
    "error", "unavailable", "unassigned", "unsupported"};

// A value is shown only if its bit in `unmeasured` is clear.
struct RdtRow {
  std::array<uint64_t, kNrRdtValues> values = {};
  uint32_t unmeasured = 0;      // bit RdtValue: some piece of it is not known
  uint32_t status = SS_RDT_OK;  // enum ss_rdt_status: the worst of all that went into it
};

// One process in one slot, or one of the kinds that are none. Sums are exact; a column is shown only if
// its bit in `unmeasured` is clear.
struct Row {
  Sums sums = {};
  uint32_t process = 0;     // tracker id: small; another process may have it in a later slot
  uint32_t rmid = 0;        // 0: none in this slot
  uint32_t unmeasured = 0;  // bit Additive: some piece of this row lacked it
  RowKind kind = RowKind::kUser;
  bool named = false;     // comm is known
  bool tracked = true;    // start_time_ns is known
  bool followed = false;  // see Tracker::Follow()
  uint32_t rdt = 0;       // index into Slot::rdt, + 1; 0: it has none
  uint32_t gpu = 0;       // index into Slot::gpu, + 1; 0: it has used none
  ProcessKey key = {};
  Comm comm = {};
};

struct Slot {
  uint64_t start_ns = 0;
  // By (tgid, start_time_ns), idle first; behind the processes kinds lost, offline and other.
  std::vector<Row> rows;
  std::vector<RdtRow> rdt;  // of those rows that have one
  std::vector<GpuRow> gpu;  // of those rows that have one
  GpuDetail gpu_detail;
  std::vector<Preemption> preemptions;    // by victim and tgid
  std::vector<StraggleReport> straggles;  // at its end
  int64_t unix_offset_ns = 0;             // CLOCK_REALTIME - CLOCK_MONOTONIC
  std::vector<std::string> notes;         // what is to be said in front of its rows
};

// Gets each slot once, in order, finished: nothing in it changes any more. It may take the slot's
// vectors and leave others there, whose contents do not matter.
struct SlotSink {
  virtual ~SlotSink() = default;
  virtual void OnSlot(Slot* slot) = 0;
};

}  // namespace slotscope
