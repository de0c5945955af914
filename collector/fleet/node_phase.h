// SPDX-License-Identifier: MIT
// Whether there is anything to say of a node's health.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "fleet/health.h"

namespace slotscope {

enum class Phase : uint8_t {
  kCalibrating,  // too few samples yet
  kActive,
  kIdle,   // nothing is launched
  kStale,  // launches are not measured
};
inline constexpr std::array<const char*, 4> kPhaseNames = {"calibrating", "active", "idle", "stale"};

class NodePhase {
 public:
  static constexpr uint32_t kMaxZeros = 3;     // intervals without a launch, then it is idle
  static constexpr uint32_t kMaxFailures = 3;  // intervals not measured, then it is stale

  // An interval's launches per second; nothing: not measured. Who comes back from being idle or stale
  // begins anew.
  void OnInterval(std::optional<double> throughput);

  Phase phase() const { return phase_; }
  // The last interval says what the node is used to.
  bool is_sample() const { return is_sample_; }
  // It is the first of those.
  bool has_begun_anew() const { return is_sample_ && nr_samples_ == 1; }

 private:
  Phase phase_ = Phase::kCalibrating;
  uint32_t nr_samples_ = 0;
  uint32_t nr_zeros_ = 0;
  uint32_t nr_failures_ = 0;
  bool is_sample_ = false;
};

}  // namespace slotscope
