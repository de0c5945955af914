// SPDX-License-Identifier: MIT
#include "fleet/node_phase.h"

namespace slotscope {

void NodePhase::OnInterval(std::optional<double> throughput) {
  is_sample_ = false;
  if (!throughput) {
    if (++nr_failures_ >= kMaxFailures) phase_ = Phase::kStale;
    return;
  }
  nr_failures_ = 0;
  if (*throughput > 0) {
    nr_zeros_ = 0;
    if (phase_ == Phase::kIdle || phase_ == Phase::kStale) {
      phase_ = Phase::kCalibrating;
      nr_samples_ = 0;
    }
  } else {
    if (++nr_zeros_ >= kMaxZeros || phase_ == Phase::kStale) phase_ = Phase::kIdle;
    // Before the work begins there is nothing to get used to.
    if (phase_ != Phase::kActive) return;
  }
  is_sample_ = true;
  if (phase_ == Phase::kCalibrating && ++nr_samples_ >= Baseline::kWarmup) phase_ = Phase::kActive;
}

}  // namespace slotscope
