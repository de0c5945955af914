// SPDX-License-Identifier: MIT
// Which threshold a node is judged by.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "fleet/threshold.h"

namespace slotscope {

enum class DetectionMode : uint8_t {
  kCalibrating,    // by none
  kFleet,          // the fleet's
  kFleetCached,    // its last one: there are too few peers now, or it is not computed any more
  kLocalCached,    // its last one: nobody answers
  kLocalBaseline,  // against what the node is used to
};
// As messages name them.
inline constexpr std::array<const char*, 5> kDetectionModeNames = {
    "calibrating", "fleet", "fleet-cached", "local-cached", "local-baseline"};

struct Judgement {
  DetectionMode mode;
  double threshold;
};

// A share of what the node's score usually is.
inline constexpr double kLocalBaseline = 0.85;

// In intervals: 20 s and 5 minutes of 10 s.
inline constexpr uint64_t kFreshIntervals = 2;
inline constexpr uint64_t kCachedIntervals = 30;

// Of an active node. `usual_score`: nothing before its first score.
std::optional<Judgement> Judge(const ThresholdView& view, std::optional<double> usual_score,
                               uint64_t interval_ns, uint64_t now_ns);

}  // namespace slotscope
