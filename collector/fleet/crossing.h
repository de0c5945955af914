// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace slotscope {

// A score that crosses a threshold, down and up again. A score that trembles about it crosses once.
class Crossing {
 public:
  static constexpr double kHysteresis = 0.02;  // above the threshold, to be back
  static constexpr double kEpsilon = 1e-9;     // what rounding may do to a sum

  enum class Edge : uint8_t { kNone, kDown, kUp };
  Edge OnScore(double score, double threshold) {
    if (is_below_ ? score + kEpsilon < threshold + kHysteresis : score + kEpsilon >= threshold)
      return Edge::kNone;
    is_below_ = !is_below_;
    return is_below_ ? Edge::kDown : Edge::kUp;
  }
  bool is_below() const { return is_below_; }

 private:
  bool is_below_ = false;
};

}  // namespace slotscope
