// SPDX-License-Identifier: MIT
// A slot that is still being filled.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "slots/more_row.h"
#include "slots/places.h"
#include "slots/slot.h"
#include "slots/wait_row.h"

namespace slotscope {

// A process in an open slot. Everything in it adds up, so it does not matter in which order pieces come.
// (As many bytes more to make it whole cache lines cost more than a row that straddles one: measure
// what another sum costs, make bench.)
struct alignas(32) OpenRow {
  Sums sums = {};
  uint32_t process = 0;
  uint32_t rmid = 0;        // the largest: a process has one, or got it within the slot
  uint16_t unmeasured = 0;  // of any piece
  uint16_t flags = 0;       // SS_MEASURE_* of all pieces; SS_MEASURE_LEFT, and the next one, of the last
  uint32_t left_ns = 0;     // where in the slot that ended; 0: there is no measure
  uint32_t gpu = 0;         // as Row's; none before the slot retires
  uint32_t wait = 0;        // index into OpenSlot::waits, + 1; 0: it has not waited
  RowPlaces places;         // in OpenSlot::places

  // In flags. That process was not switched out there; some measure is in the row.
  static constexpr uint16_t kRunsOn = 1u << (SS_MEASURE_LEFT_SHIFT + 3);
  static constexpr uint16_t kMeasured = 1u << 15;

  uint32_t left() const { return flags & (SS_MEASURE_LEFT | kRunsOn); }
  // A piece of the process's time that ends there. `how`: SS_MEASURE_LEFT of its measure, or kRunsOn.
  void TakeEnd(uint32_t at_ns, uint32_t how) {
    if (at_ns < left_ns || (at_ns == left_ns && how <= left())) return;
    left_ns = at_ns;
    flags = static_cast<uint16_t>((flags & ~(SS_MEASURE_LEFT | kRunsOn)) | how);
  }

  template <typename Archive>
  void State(Archive& state) {
    state(sums, process, rmid, unmeasured, flags, left_ns, wait, places);
  }
};
static_assert(sizeof(OpenRow) == sizeof(Sums) + 12 * sizeof(uint32_t), "no holes");

// Why a process waited in a CPU's queue, as WaitDetail.
struct WaitPair {
  uint32_t process = 0;  // that waited
  uint32_t cpu = 0;
  WaitCause cause = kWaitOthers;
  ProcessKey ran = {};
  Comm ran_comm = {};  // of several
  uint64_t start_ns = 0, until_ns = 0;
  uint64_t ns = 0;
  uint64_t nr = 0;

  template <typename Archive>
  void State(Archive& state) {
    state(process, cpu, ran, ran_comm, start_ns, until_ns, ns, nr);
    state.Enum(cause, kWaitUnknown);
  }
};

// What is known of a process in an open slot and in one L3 domain.
struct RdtCell {
  struct Mbm {
    uint64_t bytes = 0;
    uint64_t covered_ns = 0;  // by deltas that were read well, which are disjoint
    uint64_t from_ns = UINT64_MAX;
    uint64_t to_ns = 0;
    uint32_t status = SS_RDT_OK;

    template <typename Archive>
    void State(Archive& state) {
      state(bytes, covered_ns, from_ns, to_ns);
      state.Enum(status, uint32_t{SS_RDT_NR_STATUS - 1});
    }
  };
  struct Reading {
    uint64_t ts_ns = 0;  // 0: there is none
    uint64_t bytes = 0;
    uint32_t status = SS_RDT_OK;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns, bytes);
      state.Enum(status, uint32_t{SS_RDT_NR_STATUS - 1});
    }
  };
  // When it ran there, under its RMID.
  uint64_t cpu_ns = 0;
  uint64_t first_ns = UINT64_MAX;
  uint64_t last_ns = 0;
  std::array<Mbm, kNrMbm> mbm;
  Reading occupancy;  // the last one

  template <typename Archive>
  void State(Archive& state) {
    state(cpu_ns, first_ns, last_ns, mbm, occupancy);
  }
};

// Where a process has its row: [tracker id] -> index into rows + 1, or 0.
using RowIndex = std::vector<uint32_t>;
// The same, of one whose id is so large that the index does not reach so far.
struct FarRow {
  uint32_t process = 0;
  uint32_t index = 0;
};

struct OpenSlot {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  std::vector<OpenRow> rows;
  // Only where RDT is counted (see RdtAttribution): of each row a cell per domain, and the samples that
  // are attributed when this slot retires.
  std::vector<RdtCell> cells;
  std::vector<ss_rdt_sample> samples;
  std::vector<MoreRow> more;         // of rows, only where they are counted (see MoreCounters)
  std::vector<WaitRow> waits;        // of rows, in any order
  std::vector<WaitPair> wait_pairs;  // in any order; one may be there several times
  Places places;                     // where its rows ran
  RowIndex row_of;                   // empty: see OpenSlots
  std::vector<FarRow> far;           // in any order; few
  OpenSlot* next = nullptr;          // the one behind it, if it is open
  uint64_t lost_ns = 0;
  uint64_t lost_from_ns = UINT64_MAX, lost_to_ns = 0;  // all of that is in between, on any CPU
  uint64_t offline_ns = 0;

  // But for what follows from its rows, or from where it is.
  template <typename Archive>
  void State(Archive& state);
};

}  // namespace slotscope
