// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/state.h"
#include "slots/rdt_attribution.h"

namespace slotscope {

template <typename Archive>
void RdtAttribution::State(Archive& state) {
  state(first_ns_, next_start_ns_, lost_until_ns_, last_runs_);
  state.Plain(stats_);
  state.Require(std::all_of(last_runs_.begin(), last_runs_.end(), [this](const LastRun& last) {
    return last.until_ns.empty() || last.until_ns.size() == nr_cells_;
  }));
}

template void RdtAttribution::State(StateWriter& state);
template void RdtAttribution::State(StateReader& state);

bool RdtAttribution::IsValid(const OpenSlot& slot) const {
  return slot.cells.size() <= slot.rows.size() * nr_cells_ &&
         (nr_cells_ == 0 || slot.cells.size() % nr_cells_ == 0) &&
         std::all_of(slot.samples.begin(), slot.samples.end(), [this](const ss_rdt_sample& sample) {
           size_t domain;
           return sample.hdr.ts_ns > 0 && sample.since_ns <= sample.hdr.ts_ns &&
                  sample.event >= SS_RDT_LLC_OCCUPANCY && sample.event <= SS_RDT_MBM_LOCAL &&
                  sample.status < SS_RDT_NR_STATUS && IsCounted(sample.event) &&
                  FindDomain(sample.domain, &domain);
         });
}

}  // namespace slotscope
