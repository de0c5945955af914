// SPDX-License-Identifier: MIT
#include "fleet/judgement.h"

#include <algorithm>

namespace slotscope {

std::optional<Judgement> ChooseThreshold(const ThresholdView& view, std::optional<double> usual_score,
                                         const ThresholdAges& ages, uint64_t now_ns) {
  if (view.value) {
    const uint64_t age_ns = now_ns - std::min(view.computed_ns, now_ns);
    if (view.has_quorum && age_ns <= ages.fresh_ns) return Judgement{DetectionMode::kFleet, *view.value};
    if (age_ns <= ages.cached_ns)
      return Judgement{view.reachable ? DetectionMode::kFleetCached : DetectionMode::kLocalCached,
                       *view.value};
  }
  if (!usual_score) return {};
  return Judgement{DetectionMode::kLocalBaseline, kLocalBaseline * *usual_score};
}

}  // namespace slotscope
