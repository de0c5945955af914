// SPDX-License-Identifier: MIT
// A node among its peers: how healthy it is, and when it falls behind them and catches up again.
//
// As the fleet whose protocol we speak does it, except that
//   - while a node straggles, what it is used to rests: else it gets used to straggling, and all is
//   well;
//   - without a fleet its score is held against what its own usually is: a healthy node's need not be 1;
//   - the signal that is named is the one that fell most against itself, throughput as all others.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/news.h"
#include "fleet/baseline.h"
#include "fleet/crossing.h"
#include "fleet/detection_mode.h"
#include "fleet/node_phase.h"
#include "fleet/signals.h"

namespace slotscope {

struct NodeName {
  std::string node_id;
  std::string cluster_id;
};

// As of the last interval.
struct NodeHealth {
  NodeName name;
  Phase phase = Phase::kCalibrating;
  // Of an active node, in an interval that was measured.
  std::optional<double> score;
  Signals signals = {};   // with the score; from 0 to 1
  Signals baseline = {};  // launches per second first
  bool is_degraded = false;
  std::optional<Judgement> judgement;  // if anybody asked for one
  bool is_straggler = false;
  uint64_t nr_crossings = 0;  // downward
};

class Node {
 public:
  using SendFn = std::function<void(std::string line)>;
  using ViewFn = std::function<ThresholdView()>;

  // `view`: what the fleet says; if it is empty, the node is not judged. `send` gets messages of the
  // remediation protocol; *news hears the same.
  Node(NodeName name, uint64_t interval_ns, ViewFn view, SendFn send, News* news);

  // Every interval. `now_ns`: by CLOCK_MONOTONIC.
  void OnInterval(const Observation& observation, uint64_t now_ns);

  // Any thread.
  NodeHealth health() const;

 private:
  void Rate(const Signals& raw, NodeHealth* health) const;
  void OnScore(const Observation& observation, uint64_t now_ns, NodeHealth* health);

  const NodeName name_;
  const uint64_t interval_ns_;
  ViewFn view_;
  SendFn send_;
  News* news_;
  NodePhase phase_;
  Baseline baseline_;
  Ema usual_score_{Baseline::kFastAlpha};
  bool has_usual_score_ = false;
  Crossing crossing_;
  uint64_t nr_crossings_ = 0;
  mutable std::mutex mutex_;
  NodeHealth health_;
};

}  // namespace slotscope
