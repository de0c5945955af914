// SPDX-License-Identifier: MIT
#include "fleet/health_score.h"

#include <algorithm>
#include <cmath>

namespace slotscope {

double HealthScore(const Signals& signals) {
  double sum = 0, worst = 1;
  for (size_t i = 0; i < kNrSignals; i++) {
    const double value = std::isfinite(signals[i]) ? std::clamp(signals[i], 0.0, 1.0) : 0;
    sum += kSignalWeights[i] * value;
    worst = std::min(worst, value);
  }
  const double height = std::clamp((worst - kWorstSignal) / (kDegradedSignal - kWorstSignal), 0.0, 1.0);
  return std::clamp(sum * (0.5 + 0.5 * height), 0.0, 1.0);
}

}  // namespace slotscope
