// SPDX-License-Identifier: MIT
#include "fleet/baseline.h"

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

}  // namespace slotscope
