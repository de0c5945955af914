// SPDX-License-Identifier: MIT
// One number for how well a node does its work.
#pragma once

#include "fleet/signals.h"

namespace slotscope {

// They add up to 1.
inline constexpr Signals kSignalWeights = {0.40, 0.25, 0.20, 0.15};

// Below the first, the worst signal pulls the score down, to half of it at the second.
inline constexpr double kDegradedSignal = 0.35;
inline constexpr double kWorstSignal = 0.25;

// From 0 to 1, which is healthy, as are the signals. What is no number counts as 0.
double HealthScore(const Signals& signals);

}  // namespace slotscope
