// SPDX-License-Identifier: MIT
// A slot: a millisecond, or what was asked for, and a row for everything the CPUs' time went to in it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slots/column.h"
#include "slots/gpu_detail.h"
#include "slots/more_row.h"
#include "slots/process_state.h"
#include "slots/rdt_row.h"
#include "slots/straggle_report.h"
#include "slots/sums.h"
#include "slots/wait_row.h"
#include "track/identity.h"
#include "track/tracker.h"

namespace slotscope {

enum class RowKind : uint8_t { kUser, kKernel, kIdle, kUnassigned, kLost, kOffline, kOther };
inline constexpr std::array<const char*, 7> kRowKindNames = {"user", "kernel",  "idle", "unassigned",
                                                             "lost", "offline", "other"};

// A process with rows of its own, kernel threads included; idle is none.
inline bool IsProcess(RowKind kind) {
  return kind == RowKind::kUser || kind == RowKind::kKernel || kind == RowKind::kUnassigned;
}

// It can wait.
inline bool IsProcessOrOther(RowKind kind) { return IsProcess(kind) || kind == RowKind::kOther; }

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
  uint32_t beside = 0;    // index into Slot::rdt and Slot::more, + 1; 0: it has none
  uint32_t gpu = 0;       // index into Slot::gpu, + 1; 0: it has used none
  uint32_t wait = 0;      // index into Slot::waits, + 1; 0: it has not waited
  ProcessKey key = {};
  Comm comm = {};
  StateSince now;         // at the slot's end
  uint32_t nr_cpus = 0;   // that it ran on
  uint32_t main_cpu = 0;  // on which it ran longest, if it did
};

// Of a row that is a sum over slots (slots/period.h): in which of them (by its start) a value was the
// largest.
struct WorstSlot {
  uint64_t value = 0;
  uint64_t at_ns = 0;
};
struct WorstSlots {
  WorstSlot cpu, wait;
};

struct Slot {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint64_t nr_slots = 1;  // that are added up in it
  // By (tgid, start_time_ns), idle first; behind the processes kinds lost, offline and other.
  std::vector<Row> rows;
  // Of processes and idle, at the same place in both; empty if the recording has no such values.
  std::vector<RdtRow> rdt;
  std::vector<MoreRow> more;
  std::vector<GpuRow> gpu;     // of those rows that have one
  std::vector<WaitRow> waits;  // of those rows that have waited
  WaitCauses wait_causes = kNoWaitCauses;
  std::vector<WaitDetail> wait_details;     // by waiter; earlier ones behind the others
  std::vector<WorstSlots> worst;            // of each row of a second or a minute; else empty
  std::vector<ProcessIdentity> identities;  // at its end, of those that were others at its start; by key
  GpuDetail gpu_detail;
  std::vector<StraggleReport> straggles;  // at its end
  int64_t unix_offset_ns = 0;             // CLOCK_REALTIME - CLOCK_MONOTONIC
  std::vector<std::string> notes;         // what is to be said in front of its rows

  // Null: it has none.
  const RdtRow* RdtOf(const Row& row) const {
    return row.beside && !rdt.empty() ? &rdt[row.beside - 1] : nullptr;
  }
  const MoreRow* MoreOf(const Row& row) const {
    return row.beside && !more.empty() ? &more[row.beside - 1] : nullptr;
  }
};

// The longest that the process waited for a CPU, of what ended in the slot. Of a recording that does not
// know single waits: in sum.
inline uint64_t LongestWait(const Slot& slot, const Row& row) {
  if (!slot.wait_causes) return row.unmeasured >> kWaitNs & 1 ? 0 : row.sums[kWaitNs];
  return row.wait ? slot.waits[row.wait - 1].longest_ns : 0;
}

// Whether the row knows why its process waited: nobody can where nobody knows how long.
inline bool HasWaits(const Slot& slot, const Row& row) {
  return slot.wait_causes && IsProcessOrOther(row.kind) && !(row.unmeasured >> kWaitNs & 1);
}

// What the row says there; nothing if it was not measured. REQUIRES: column.is_value().
inline std::optional<uint64_t> ValueOf(const Slot& slot, const Row& row, const Column& column) {
  const auto known = [&](uint32_t unmeasured, const auto& values) -> std::optional<uint64_t> {
    if (unmeasured >> column.id & 1) return {};
    return values[column.id];
  };
  if (column.part == RowPart::kSums) return known(row.unmeasured, row.sums);
  if (column.part == RowPart::kRdt) {
    const RdtRow* rdt = slot.RdtOf(row);
    return rdt ? known(rdt->unmeasured, rdt->values) : std::nullopt;
  }
  if (column.part == RowPart::kMore) {
    const MoreRow* more = slot.MoreOf(row);
    if (!more || (more->unmeasured >> column.id & 1)) return {};
    return more->sums[column.id].delta;
  }
  if (column.part == RowPart::kWait) {
    if (!HasWaits(slot, row) || !IsToldApart(slot.wait_causes, column.id)) return {};
    if (!row.wait) return 0;
    const WaitRow& wait = slot.waits[row.wait - 1];
    return column.id == kWaitEarlier ? wait.earlier_ns : wait.ns[column.id];
  }
  if (column.part == RowPart::kGpu && row.gpu) {
    const GpuRow& gpu = slot.gpu[row.gpu - 1];
    return known(gpu.unmeasured, gpu.values);
  }
  return {};
}

template <size_t N>
void AddValues(const Slot& slot, const Row& row, const ColumnList<N>& columns, ColumnValues<N>* to) {
  for (size_t i = 0; i < N; i++) {
    if (const auto value = ValueOf(slot, row, *columns[i]))
      to->values[i] += *value;
    else
      to->unmeasured |= 1u << i;
  }
}

// Gets each slot once, in order, finished: nothing in it changes any more. It may take the slot and
// leave another one there, whose contents do not matter.
struct SlotSink {
  virtual ~SlotSink() = default;
  virtual void OnSlot(Slot* slot) = 0;
};

}  // namespace slotscope
