// SPDX-License-Identifier: MIT
// Which threshold a node is judged by, and when its score crosses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

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

// How old a threshold may be that is still the fleet's, or that still counts. Of nodes that look less
// often than every 10 s, two looks at least.
struct ThresholdAges {
  uint64_t fresh_ns = 20'000'000'000;
  uint64_t cached_ns = 300'000'000'000;
  static ThresholdAges For(uint64_t interval_ns) {
    const ThresholdAges usual;
    return {std::max(usual.fresh_ns, 2 * interval_ns), std::max(usual.cached_ns, 2 * interval_ns)};
  }
};

// Of an active node. `usual_score`: nothing before its first score.
std::optional<Judgement> ChooseThreshold(const ThresholdView& view, std::optional<double> usual_score,
                                         const ThresholdAges& ages, uint64_t now_ns);

// A score that crosses a threshold, down and up again. A score that trembles about it crosses once.
class Crossing {
 public:
  static constexpr double kHysteresis = 0.02;  // above the threshold, to be back
  static constexpr double kEpsilon = 1e-9;     // what rounding may do to a sum

  enum class Edge : uint8_t { kNone, kDown, kUp };
  Edge OnScore(double score, double threshold) {
    const bool was_below =
        std::exchange(is_below_, IsBelow(score, is_below_ ? threshold + kHysteresis : threshold));
    if (is_below_ == was_below) return Edge::kNone;
    return is_below_ ? Edge::kDown : Edge::kUp;
  }
  bool is_below() const { return is_below_; }
  static bool IsBelow(double score, double threshold) { return score + kEpsilon < threshold; }
  void Reset() { is_below_ = false; }

 private:
  bool is_below_ = false;
};

}  // namespace slotscope
