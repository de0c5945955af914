// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

namespace slotscope {

// An exponential moving average that begins with nothing: its first samples are not pulled towards 0.
class Ema {
 public:
  explicit Ema(double alpha) : alpha_(alpha) {}
  void Add(double sample) {
    sum_ = alpha_ * (std::isfinite(sample) ? sample : 0) + (1 - alpha_) * sum_;
    weight_ = alpha_ + (1 - alpha_) * weight_;
  }
  bool empty() const { return weight_ == 0; }
  // 0 before the first sample.
  double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  void Reset() { sum_ = weight_ = 0; }

 private:
  double alpha_;
  double sum_ = 0;
  double weight_ = 0;  // 1 - (1 - alpha)^samples
};

}  // namespace slotscope
