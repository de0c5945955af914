// SPDX-License-Identifier: MIT
// The columns of slots.csv: the one table of what a row says (and perf_counter.h, of what more can be).
// The CSV itself, what its header says is not measured, traces, reports of straggling, the history of
// ranks, readers of slots.csv and doc/columns.md come from it. New columns go to the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/perf_counter.h"
#include "slots/gpu_detail.h"
#include "slots/rdt_row.h"
#include "slots/sums.h"
#include "slots/wait_row.h"

namespace slotscope {

enum class Unit : uint8_t { kNone, kNs, kCount, kBytes, kPercent };
inline constexpr std::array<const char*, 5> kUnitNames = {"-", "ns", "1", "bytes", "%"};

// Which part of a row has it, and under which number: `kSums` by Additive, `kRdt` by RdtValue, `kGpu` by
// GpuValue, `kMore` by perf counter, `kWait` by WaitCause; and behind those what is made of several or
// is a word.
enum class RowPart : uint8_t { kSlot, kIdentity, kSums, kRdt, kGpu, kMore, kWait, kState };
inline constexpr size_t kMuxPct = kNrAdditive;                 // of RowPart::kSums
inline constexpr size_t kRdtStatus = kNrRdtValues;             // of RowPart::kRdt
inline constexpr size_t kStraggling = kNrGpuValues;            // of RowPart::kGpu
inline constexpr size_t kThroughputDrop = kNrGpuValues + 1;    // of RowPart::kGpu
inline constexpr size_t kRanInsteadTgid = kNrWaitValues;       // of RowPart::kWait
inline constexpr size_t kRanInsteadStart = kNrWaitValues + 1;  // of RowPart::kWait
inline constexpr size_t kRanInsteadNs = kNrWaitValues + 2;     // of RowPart::kWait
inline constexpr size_t kMoreMuxPct = SS_MAX_MORE;             // of RowPart::kMore, + the counter's id
inline constexpr size_t kAtEnd = 0;                            // of RowPart::kState
inline constexpr size_t kAtEndSince = 1;                       // of RowPart::kState
inline constexpr size_t kNrCpus = 2;                           // of RowPart::kState
inline constexpr size_t kMainCpu = 3;                          // of RowPart::kState

struct Column {
  std::string_view name;
  Unit unit;
  RowPart part;
  size_t id;
  bool adds;  // over slots, and over processes; else it is a state, as of the slot's end
  std::string_view meaning;
  std::string_view empty;  // why it can be; "": it never is

  // Is it a number that ValueOf() knows?
  constexpr bool is_value() const {
    return (part == RowPart::kSums && id < kNrAdditive) ||
           (part == RowPart::kRdt && id < kNrRdtValues) ||
           (part == RowPart::kGpu && id < kNrGpuValues) ||
           (part == RowPart::kMore && id < kMoreMuxPct) ||
           (part == RowPart::kWait && id < kNrWaitValues);
  }
};

// Why several columns can be empty.
namespace empty {
inline constexpr std::string_view kNobodys = "the row is of `lost` or `offline` time";
inline constexpr std::string_view kNoProcess = "the row is of no process";
inline constexpr std::string_view kNoCounter =
    "the machine has no such counter (a virtual machine without a PMU), it was not asked for, or it did "
    "not count all the time that the row is of";
inline constexpr std::string_view kNoRdt = "`rdt_status` says why";
inline constexpr std::string_view kNoWait =
    "the row is of no process, the recording is of `--no-waits` or older, or the kernel keeps no "
    "account";
inline constexpr std::string_view kNoQuota =
    "as `wait_others_ns`, or the kernel does not show when a quota is used up: then it is in the others";
inline constexpr std::string_view kNoState =
    "the row is of no process, nobody saw how it left the CPU, or the recording is older";
inline constexpr std::string_view kDidNotRun = "the row is of no process, or it did not run";
inline constexpr std::string_view kNoSteal =
    "as `wait_others_ns`, or the kernel does not tell what a hypervisor took, or none had taken "
    "anything "
    "when the recording began: then it is in the others";
inline constexpr std::string_view kNobodyRan = "it did not wait for another process in the slot";
inline constexpr std::string_view kNoGpu =
    "the process has not used CUDA, or not all of its calls were seen";
inline constexpr std::string_view kNoActivity =
    "the process has not used CUDA, not all of its calls were seen, or it has not waited for half a "
    "minute for what it has launched: that may run still";
inline constexpr std::string_view kNoLaunches =
    "as `gpu_active_ns`, it has not launched anything for a minute, or has never waited: then it is "
    "not visible from the host";
inline constexpr std::string_view kNoTurns =
    "as `gpu_no_work_ns`, or the recording does not say what its threads did";
}  // namespace empty

inline constexpr std::array kSlotColumns = {
    Column{"slot_start_ns", Unit::kNs, RowPart::kSlot, 0, false, "start of the slot, CLOCK_MONOTONIC",
           ""},
    Column{"slot_start_unix_ns", Unit::kNs, RowPart::kSlot, 1, false, "the same in Unix time", ""},
    Column{"tgid", Unit::kNone, RowPart::kIdentity, 0, false,
           "the process: what users call pid. With `start_time_ns` it names a process for good",
           empty::kNoProcess},
    Column{"start_time_ns", Unit::kNs, RowPart::kIdentity, 1, false, "when the process started",
           "the row is of no process, or it is not known"},
    Column{"comm", Unit::kNone, RowPart::kIdentity, 2, false, "its name at the end of the slot",
           "the row is of no process, or it is not known"},
    Column{"rmid", Unit::kNone, RowPart::kIdentity, 3, false,
           "its RMID, 0 if it has none; may change while the process lives", empty::kNoProcess},
    Column{"kind", Unit::kNone, RowPart::kIdentity, 4, false,
           "`user`, `kernel` thread, `idle`, `unassigned` (no RMID was free, its user or cgroup has its "
           "share, or it was taken back while the process slept), `lost` (nobody knows whose time that "
           "was), `offline`, `other` (filtered out)",
           ""},
    Column{"cpu_ns", Unit::kNs, RowPart::kSums, kCpuNs, true,
           "CPU time in the slot; interrupts count to whom they hit", ""},
    Column{
        "wait_ns", Unit::kNs, RowPart::kSums, kWaitNs, true,
        "waiting for a CPU that passed in the slot, by all of its threads (may exceed it); the sum of "
        "the causes. With `--no-waits`, and in older recordings: what *ended* in the slot",
        "the kernel keeps no account of it (CONFIG_SCHED_INFO)"},
    Column{"switches", Unit::kCount, RowPart::kSums, kSwitches, true,
           "times one of its threads was switched out", empty::kNobodys},
    Column{"preemptions", Unit::kCount, RowPart::kSums, kPreemptions, true, "of these, against its will",
           empty::kNobodys},
    Column{"cycles", Unit::kCount, RowPart::kSums, kCycles, true, "perf counter, raw, never scaled",
           empty::kNoCounter},
    Column{"instructions", Unit::kCount, RowPart::kSums, kInstructions, true,
           "perf counter, raw, never scaled", empty::kNoCounter},
    Column{"llc_misses", Unit::kCount, RowPart::kSums, kLlcMisses, true,
           "perf counter, raw, never scaled", empty::kNoCounter},
    Column{"mux_pct", Unit::kPercent, RowPart::kSums, kMuxPct, false,
           "100 x time counted / time wanted: below 100 the counters shared the hardware with others",
           "nothing was counted"},
    Column{"mbm_total_bytes", Unit::kBytes, RowPart::kRdt, kMbmTotal, true,
           "memory traffic in the slot, over all L3 domains (RDT)", empty::kNoRdt},
    Column{"mbm_local_bytes", Unit::kBytes, RowPart::kRdt, kMbmLocal, true,
           "of that, what went to the memory of its own L3 domain (RDT)", empty::kNoRdt},
    Column{"llc_occupancy_bytes", Unit::kBytes, RowPart::kRdt, kLlcOccupancy, false,
           "cache held at the end of the slot, over all L3 domains (RDT)", empty::kNoRdt},
    Column{"rdt_status", Unit::kNone, RowPart::kRdt, kRdtStatus, false,
           "`ok`, or the worst of why one of the three is empty: `baseline`, `tainted`, `partial`, "
           "`skipped`, `error`, `unavailable`, `unassigned` (no RMID), `unsupported`",
           empty::kNoProcess},
    Column{"gpu_mem_bytes", Unit::kBytes, RowPart::kGpu, kGpuMemBytes, false,
           "device memory that it holds at the end of the slot, by its CUDA calls; managed memory "
           "included, the host's not",
           empty::kNoGpu},
    Column{"gpu_active_ns", Unit::kNs, RowPart::kGpu, kGpuActiveNs, true,
           "time in the slot in which it had launched something that it had not waited for: an upper "
           "bound, seen from the CPU",
           empty::kNoActivity},
    Column{"gpu_launches", Unit::kCount, RowPart::kGpu, kGpuLaunches, true,
           "kernels and graphs launched in the slot", empty::kNoGpu},
    Column{"straggle", Unit::kNone, RowPart::kGpu, kStraggling, false,
           "0: no, 1: since the second before, 2: for longer",
           "it has not launched kernels for some seconds yet"},
    Column{"throughput_drop_pct", Unit::kPercent, RowPart::kGpu, kThroughputDrop, false,
           "how much less it launched in the second before than it used to; 0.0 if not less",
           "as `straggle`"},
    Column{"slot_ns", Unit::kNs, RowPart::kSlot, 2, false,
           "length of the slot; longer than asked for while `--max-overhead` makes it so", ""},
    Column{"wait_earlier_ns", Unit::kNs, RowPart::kWait, kWaitEarlier, true,
           "waiting that ended in the slot and passed in slots that were finished: not in `wait_ns`",
           empty::kNoWait},
    Column{"wait_others_ns", Unit::kNs, RowPart::kWait, kWaitOthers, true,
           "of `wait_ns`: another process ran on that CPU", empty::kNoWait},
    Column{"wait_self_ns", Unit::kNs, RowPart::kWait, kWaitSelf, true,
           "of `wait_ns`: another thread of its own ran on that CPU", empty::kNoWait},
    Column{"wait_throttled_ns", Unit::kNs, RowPart::kWait, kWaitThrottled, true,
           "of `wait_ns`: its cgroup's quota was used up", empty::kNoQuota},
    Column{"wait_wakeup_ns", Unit::kNs, RowPart::kWait, kWaitWakeup, true,
           "of `wait_ns`: that CPU was idle, and waking up to run it", empty::kNoWait},
    Column{"wait_steal_ns", Unit::kNs, RowPart::kWait, kWaitSteal, true,
           "of `wait_ns`: the hypervisor ran something else", empty::kNoSteal},
    Column{"wait_unknown_ns", Unit::kNs, RowPart::kWait, kWaitUnknown, true,
           "of `wait_ns`: nobody knows who ran, or `--max-overhead` has kept us from looking",
           empty::kNoWait},
    Column{
        "ran_instead_tgid", Unit::kNone, RowPart::kWait, kRanInsteadTgid, false,
        "who ran longest on its CPU while it waited, of others; in a row of several slots: of the slot "
        "in which that was longest",
        empty::kNobodyRan},
    Column{"ran_instead_start_ns", Unit::kNs, RowPart::kWait, kRanInsteadStart, false,
           "the `start_time_ns` of that process",
           "it did not wait for another process in the slot, or that one's is not known"},
    Column{"ran_instead_ns", Unit::kNs, RowPart::kWait, kRanInsteadNs, false, "for how long",
           empty::kNobodyRan},
    Column{
        "state", Unit::kNone, RowPart::kState, kAtEnd, false,
        "what it was about at the end of the slot, and until it has a row again: `running`, `waiting` "
        "for a CPU, `throttled` (its quota was used up), `asleep` (until something happens, or a "
        "signal comes), `disk`, `blocked` (no signal wakes it: a lock in the kernel, a vfork, a network "
        "file system), `stopped`, `traced`, `ended`. By whichever of its threads left a CPU last",
        empty::kNoState},
    Column{"state_since_ns", Unit::kNs, RowPart::kState, kAtEndSince, false,
           "since when, CLOCK_MONOTONIC, however long ago", "as `state`, or it runs"},
    Column{"cpus", Unit::kCount, RowPart::kState, kNrCpus, false,
           "CPUs that it ran on; in a row of several slots: the most in one of them", empty::kDidNotRun},
    Column{"main_cpu", Unit::kNone, RowPart::kState, kMainCpu, false,
           "the CPU that it ran on for longest; in a row of several slots: in the one in which it ran "
           "most",
           empty::kDidNotRun},
    Column{"migrations", Unit::kCount, RowPart::kSums, kMigrations, true,
           "times one of its threads began to run on another CPU than it ran on before",
           "the recording is of `--no-waits` or older, or the row is of no process"},
    Column{
        "gpu_no_work_ns", Unit::kNs, RowPart::kGpu, kGpuNoWork, true,
        "of a process that launches: time in the slot in which it had nothing launched that it had not "
        "waited for. A lower bound of how long the GPU had no work of it, seen from the CPU",
        empty::kNoLaunches},
    Column{"gpu_no_work_ran_ns", Unit::kNs, RowPart::kGpu, kNoWorkRan, true,
           "of `gpu_no_work_ns`: the thread that launches ran on a CPU", empty::kNoTurns},
    Column{"gpu_no_work_in_calls_ns", Unit::kNs, RowPart::kGpu, kNoWorkInCalls, true,
           "of `gpu_no_work_ran_ns`: in calls of CUDA that have returned in the slot, or launch",
           empty::kNoTurns},
    Column{"gpu_no_work_waited_ns", Unit::kNs, RowPart::kGpu, kNoWorkWaited, true,
           "of `gpu_no_work_ns`: that thread waited for a CPU (for whom its process did: "
           "`ran_instead_tgid`)",
           empty::kNoTurns},
    Column{"gpu_no_work_throttled_ns", Unit::kNs, RowPart::kGpu, kNoWorkThrottled, true,
           "of `gpu_no_work_ns`: its cgroup's quota was used up",
           "as `gpu_no_work_ran_ns`, or as `wait_throttled_ns`"},
    Column{"gpu_no_work_cuda_wait_ns", Unit::kNs, RowPart::kGpu, kNoWorkInCudaWait, true,
           "of `gpu_no_work_ns`: that thread slept in a call of CUDA", empty::kNoTurns},
    Column{"gpu_no_work_disk_ns", Unit::kNs, RowPart::kGpu, kNoWorkDisk, true,
           "of `gpu_no_work_ns`: that thread waited for a disk", empty::kNoTurns},
    Column{"gpu_no_work_stopped_ns", Unit::kNs, RowPart::kGpu, kNoWorkStopped, true,
           "of `gpu_no_work_ns`: that thread was stopped, by a signal or a debugger", empty::kNoTurns},
    Column{"gpu_no_work_asleep_ns", Unit::kNs, RowPart::kGpu, kNoWorkAsleep, true,
           "of `gpu_no_work_ns`: that thread slept for something else: data, a lock, another thread",
           empty::kNoTurns},
    Column{"gpu_no_work_unknown_ns", Unit::kNs, RowPart::kGpu, kNoWorkUnknown, true,
           "of `gpu_no_work_ns`: nobody knows what that thread did", empty::kNoTurns},
    Column{
        "gpu_launcher_ran_ns", Unit::kNs, RowPart::kGpu, kLauncherRan, true,
        "time in the slot in which the thread that launches ran on a CPU, whether the GPU had work or "
        "not",
        empty::kNoTurns},
    Column{"gpu_launcher_in_calls_ns", Unit::kNs, RowPart::kGpu, kLauncherInCalls, true,
           "of `gpu_launcher_ran_ns`: in calls of CUDA that have returned in the slot, or launch. The "
           "rest is between calls: the program's own work",
           empty::kNoTurns},
};

// Of a perf counter that comes behind the first ones: what it counted, and its share of time, as each
// may be in a group of its own. Only in recordings that were asked for it.
namespace more {
template <size_t kId>
inline constexpr auto kMuxName = [] {
  constexpr std::string_view kEnd = "_mux_pct";
  std::array<char, kPerfCounters[SS_NR_COUNTERS + kId].name.size() + kEnd.size()> text = {};
  char* out = text.data();
  for (char c : kPerfCounters[SS_NR_COUNTERS + kId].name) *out++ = c;
  for (char c : kEnd) *out++ = c;
  return text;
}();

template <size_t kId>
inline constexpr Column kCount = {
    kPerfCounters[SS_NR_COUNTERS + kId].name,    Unit::kCount,     RowPart::kMore, kId, true,
    kPerfCounters[SS_NR_COUNTERS + kId].meaning, empty::kNoCounter};

template <size_t kId>
inline constexpr Column kMux = {{kMuxName<kId>.data(), kMuxName<kId>.size()},
                                Unit::kPercent,
                                RowPart::kMore,
                                kMoreMuxPct + kId,
                                false,
                                "100 x time counted / time wanted, of that counter",
                                "nothing was counted"};

template <size_t... kIds>
constexpr auto MakeColumns(std::index_sequence<kIds...>) {
  std::array<Column, 2 * sizeof...(kIds)> columns = {};
  ((columns[2 * kIds] = kCount<kIds>, columns[2 * kIds + 1] = kMux<kIds>), ...);
  return columns;
}
}  // namespace more

// Behind kSlotColumns: as many counters as were asked for, two columns each.
inline constexpr auto kMoreColumns = more::MakeColumns(std::make_index_sequence<SS_MAX_MORE>());
inline std::span<const Column> MoreColumns(size_t nr_more) {
  return std::span(kMoreColumns).first(2 * nr_more);
}

// By its name, which has to be one: in a constant it does not compile else.
constexpr const Column& ColumnOf(std::string_view name) {
  for (const Column& column : kSlotColumns)
    if (column.name == name) return column;
  throw "there is no such column";
}

// By what a row has. REQUIRES: there is such a column.
constexpr const Column& ColumnOf(RowPart part, size_t id) {
  for (const Column& column : kSlotColumns)
    if (column.part == part && column.id == id) return column;
  throw "there is no such column";
}

// [GpuValue] -> Column::adds.
inline constexpr auto kGpuAdds = [] {
  std::array<bool, kNrGpuValues> adds = {};
  for (size_t i = 0; i < kNrGpuValues; i++) adds[i] = ColumnOf(RowPart::kGpu, i).adds;
  return adds;
}();

// By what a row has: of what is_value() and of words alike.
constexpr std::string_view ColumnName(RowPart part, size_t id) {
  for (std::span<const Column> columns :
       {std::span<const Column>(kSlotColumns), std::span<const Column>(kMoreColumns)})
    for (const Column& column : columns)
      if (column.part == part && column.id == id) return column.name;
  return {};
}

// Some columns, which a reader of rows adds up.
template <size_t N>
using ColumnList = std::array<const Column*, N>;

template <size_t N>
struct ColumnValues {
  std::array<uint64_t, N> values = {};
  uint32_t unmeasured = 0;  // bit by place in the list: not known of one of the rows

  template <typename Archive>
  void State(Archive& state) {
    state(values, unmeasured);
  }
};

}  // namespace slotscope
