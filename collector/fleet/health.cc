// SPDX-License-Identifier: MIT
#include "fleet/health.h"

#include <algorithm>

namespace slotscope {
namespace {

Signals ValuesOf(const std::vector<Ema>& averages) {
  Signals values;
  for (size_t i = 0; i < kNrSignals; i++) values[i] = averages[i].value();
  return values;
}

}  // namespace

void Baseline::Add(const Signals& raw) {
  for (size_t i = 0; i < kNrSignals; i++) {
    fast_[i].Add(raw[i]);
    slow_[i].Add(raw[i]);
  }
  nr_samples_++;
}

void Baseline::Reset() { *this = Baseline(); }

Signals Baseline::fast() const { return ValuesOf(fast_); }

Signals Baseline::slow() const { return ValuesOf(slow_); }

bool Baseline::IsDegraded() const {
  if (nr_samples_ < kWarmup) return false;
  for (size_t i = 0; i < kNrSignals; i++)
    if (slow_[i].value() >= kMinSlow && fast_[i].value() < kDegradedRatio * slow_[i].value())
      return true;
  return false;
}

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
