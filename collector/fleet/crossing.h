// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

namespace slotscope {

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
