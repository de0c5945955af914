// SPDX-License-Identifier: MIT
// From RDT samples to rows.
//
// A sample of memory traffic is the bytes of one RMID in one L3 domain over [since_ns, ts_ns). They
// belong to whoever had (rmid, generation), and are cut over the slots in proportion to the owner's
// cpu_ns in that domain: of a slot that is only partly covered, the part of its cpu_ns that the overlap
// is of the slot (where inside a slot a process ran is not kept). If it did not run there at all, in
// proportion to time.
//
//   slots      |     k     |    k+1    |    k+2    |
//   owner ran  | ####      |           | ########  |
//   sample       [since --------------------- ts)
//   bytes        |-- some -|           |- most ---|
//
// A sample waits until the slot in which it begins retires, a window behind the watermark: by then all
// that it covers has been measured. One that is longer than half a window waits until half a window
// behind its end. What it covers of slots that have retired by then gets nothing if the owner did not
// run in them; if it did, that part of it (by time) is late. The part in front of the first slot is
// before.
//
// Occupancy is a gauge. A tick comes some microseconds after the border of slots and describes what was
// before it, so a reading belongs to the slot that contains the nanosecond before that border; the last
// one counts. It is never carried forward.
//
// A value of a row is shown only if every domain in which the process ran in that slot is known: memory
// traffic from the first nanosecond to the last in which it ran there, occupancy by a reading. The
// status of the row is the worst of all that has gone into it; it is `skipped` if a value was not read
// in any domain where it had to be, and `partial` if in some of them, or if its share is a guess: of a
// sample of which more than a slot could not be placed, that covers lost time (also of slots that have
// retired) or the end of the recording, or that is cut by time alone over slots; and if it had bytes and
// no time on any CPU.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <vector>

#include "base/rdt_shape.h"
#include "slots/accounting.h"
#include "slots/open_slots.h"
#include "track/tracker.h"

namespace slotscope {

struct RdtStats {
  uint64_t nr_samples = 0;
  uint64_t nr_late = 0;     // samples, or parts of them, whose slots had retired
  uint64_t nr_unowned = 0;  // of an RMID that nobody is known to have had, or of an unknown domain
};

class RdtAttribution {
 public:
  // Works on the slots that are open, makes rows in them, and holds their processes.
  RdtAttribution(const RdtShape& shape, uint64_t slot_ns, uint64_t window_ns, OpenSlots* open,
                 Tracker* tracker, MbmAccounting* accounting);

  // Is anything counted on this machine? If not, nothing else needs to be called.
  bool on() const { return nr_cells_ != 0; }
  // [from_ns, to_ns) of the measure is in that slot and row.
  void OnTime(OpenSlot* slot, OpenRow* row, const ss_measure& measure, uint64_t from_ns, uint64_t to_ns);
  void OnSample(const ss_rdt_sample& sample);
  // The first slot is known; none that is open has retired.
  void OnFirst(uint64_t first_ns);
  // The recording ends: from there on some CPU's measures are missing, as in lost time.
  void OnEnd(uint64_t measured_until_ns) { measured_until_ns_ = measured_until_ns; }
  // `slot` retires, as the oldest: attributes its samples. The tracker has been advanced to its end.
  void Attribute(OpenSlot* slot);
  // After that: what is known of slot.rows[index], which counts as written.
  RdtRow ResultOf(const OpenSlot& slot, size_t index);
  // The slot is not written; whatever is in it goes to *into.
  void Discard(const OpenSlot& slot, MbmSums* into) const;

  const RdtStats& stats() const { return stats_; }
  // Everything but what is in open slots (base/state.h).
  template <typename Archive>
  void State(Archive& state);
  // Can that be of a slot? It is as RdtAttribution makes them.
  bool IsValid(const OpenSlot& slot) const;

 private:
  // A sample of memory traffic that is being cut.
  struct Cut {
    const ss_rdt_sample* sample;
    uint32_t owner;
    size_t domain;
    uint64_t from_ns;  // what is before it has been taken out
    uint64_t bytes;
    uint32_t status;
  };

  // Where a process had its last measures that have retired.
  struct LastRun {
    ProcessKey key = {};
    std::vector<uint64_t> until_ns;  // [domain] -> end of the last one, 0: none

    template <typename Archive>
    void State(Archive& state) {
      state(key, until_ns);
    }
  };

  bool IsCounted(uint16_t event) const;
  bool FindDomain(uint32_t id, size_t* domain) const;
  void Attach(const ss_rdt_sample& sample);
  void PlaceReading(const ss_rdt_sample& sample, uint32_t owner, OpenSlot* slot);
  uint32_t OwnerOf(const ss_rdt_sample& sample);
  Cut MakeCut(const ss_rdt_sample& sample, uint32_t owner, const OpenSlot& slot);
  bool TakeUnplaced(Cut* cut, uint64_t retires_ns);
  void AddBytes(Cut* cut, OpenSlot* slot);
  void AddCoverage(const Cut& cut, OpenSlot* slot);
  RdtCell* CellOf(OpenSlot* slot, const OpenRow* row, size_t domain);
  uint64_t& RanUntil(uint32_t process, size_t domain);
  void CountLate(size_t mbm, uint64_t bytes);

  RdtShape shape_;
  uint64_t slot_ns_;
  uint64_t window_ns_;
  OpenSlots* open_;
  Tracker* tracker_;
  MbmAccounting* accounting_;
  size_t nr_cells_ = 0;  // of a row: one per domain, and one for CPUs that are in none that is known
  std::vector<uint32_t> domain_of_;  // [cpu]
  uint64_t first_ns_ = 0;            // 0: not known
  uint64_t next_start_ns_ = 0;       // of the slot that retires next
  uint64_t lost_until_ns_ = 0;       // the latest lost time of slots that have retired
  uint64_t measured_until_ns_ = UINT64_MAX;
  std::vector<LastRun> last_runs_;  // [process]
  std::vector<Cut> cuts_;           // of the slot that retires
  RdtStats stats_;
};

}  // namespace slotscope
