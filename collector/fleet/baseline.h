// SPDX-License-Identifier: MIT
// What a node is used to: a fast average of each signal, and a slow one that remembers how it was long
// ago.
#pragma once

#include <cstdint>
#include <vector>

#include "fleet/ema.h"
#include "fleet/signals.h"

namespace slotscope {

class Baseline {
 public:
  static constexpr double kFastAlpha = 0.1;
  static constexpr double kSlowAlpha = 0.001;
  static constexpr uint32_t kWarmup = 30;        // samples
  static constexpr double kDegradedRatio = 0.5;  // of the fast average to the slow one
  static constexpr double kMinSlow = 0.01;       // less is not to be compared with

  void Add(const Signals& raw);
  void Reset();

  // 0 before the first sample.
  Signals fast() const;
  Signals slow() const;
  uint32_t nr_samples() const { return nr_samples_; }
  // Some signal is half of what it was long ago: too slowly for the fast average to be left behind.
  bool IsDegraded() const;

 private:
  std::vector<Ema> fast_{kNrSignals, Ema(kFastAlpha)};
  std::vector<Ema> slow_{kNrSignals, Ema(kSlowAlpha)};
  uint32_t nr_samples_ = 0;
};

}  // namespace slotscope
