// SPDX-License-Identifier: MIT
// How well a node does its work: its signals, what it is used to of them, and one number for both.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace slotscope {

enum Signal : size_t {
  kSignalThroughput,  // kernels launched: a second, or against what the node is used to
  kSignalCompute,     // share of the time in which its GPUs had work
  kSignalMemory,      // share of the host's memory that is available
  kSignalCpu,         // share of the CPUs' time that was idle
  kNrSignals,
};
inline constexpr std::array<const char*, kNrSignals> kSignalNames = {"throughput", "compute", "memory",
                                                                     "cpu"};
using Signals = std::array<double, kNrSignals>;

// A node in one interval of slot time.
struct Observation {
  uint64_t end_ns = 0;
  int64_t unix_offset_ns = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC
  // Launches per second first. Nothing if one of them was not measured.
  std::optional<Signals> raw;
  bool has_work = true;  // some process that uses a GPU lives
};

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

// What a node is used to: a fast average of each signal, and a slow one that remembers how it was long
// ago.
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

// They add up to 1.
inline constexpr Signals kSignalWeights = {0.40, 0.25, 0.20, 0.15};

// Below the first, the worst signal pulls the score down, to half of it at the second.
inline constexpr double kDegradedSignal = 0.35;
inline constexpr double kWorstSignal = 0.25;

// From 0 to 1, which is healthy, as are the signals. What is no number counts as 0.
double HealthScore(const Signals& signals);

}  // namespace slotscope
