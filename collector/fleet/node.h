// SPDX-License-Identifier: MIT
// A node among its peers: how healthy it is, and when it falls behind them and catches up again.
//
// As the fleet whose protocol we speak does it, except that
//   - while a node straggles, what it is used to rests: else it gets used to straggling, and all is
//     well. Where there is no fleet to say so it gets used to it in the end: its work may be another;
//   - before it straggles, the fleet's threshold must have seen what it sees: when all nodes drop, as
//     when they write a checkpoint, none of them straggles;
//   - it is over when the work is: nothing that uses a GPU lives;
//   - without a fleet its score is held against what its own usually is: a healthy one need not be 1;
//   - the signal that is named is the one that fell most against itself, throughput as all others.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/news.h"
#include "fleet/health.h"
#include "fleet/judgement.h"
#include "fleet/node_phase.h"

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
  Signals signals = {};             // with the score; from 0 to 1
  std::optional<Signals> baseline;  // launches per second first
  std::optional<bool> is_degraded;
  std::optional<Judgement> judgement;  // of an active node with a score, or one that calibrates
  bool has_been_judged = false;        // ever
  bool is_straggler = false;  // from the message that says so to the one that says that it is over
  uint64_t nr_crossings = 0;  // downward
  uint64_t nr_messages = 0;
};

class FleetNode {
 public:
  using SendFn = std::function<void(std::string line)>;
  using ViewFn = std::function<ThresholdView()>;

  // Peers look at themselves up to an interval later, and are scraped up to another one after that.
  static constexpr uint64_t kSettleIntervals = 2;
  // Without the fleet's word, after so many intervals a node is used to what it does.
  static constexpr uint32_t kMaxRests = 30;

  // `view`: what the fleet says; if it is empty, the node is not judged. `send` gets messages of the
  // remediation protocol; *news hears the same.
  FleetNode(NodeName name, uint64_t interval_ns, const ThresholdAges& ages, ViewFn view, SendFn send,
            News* news);

  // Every interval. `now_ns`: by CLOCK_MONOTONIC.
  void OnInterval(const Observation& observation, uint64_t now_ns);

  // Any thread.
  NodeHealth health() const;

 private:
  void Rate(const Signals& raw, NodeHealth* health) const;
  void OnScore(const Observation& observation, const ThresholdView& view, uint64_t now_ns,
               NodeHealth* health);
  bool IsHanging(const Observation& observation) const;
  void OnHang(const Observation& observation, const ThresholdView& view, uint64_t now_ns,
              NodeHealth* health);
  // The threshold may be of before the score fell.
  bool IsToWait(const ThresholdView& view, const Judgement& judgement, double score, uint64_t now_ns);
  void TellResolved(int64_t unix_ns, const std::string& why);

  const NodeName name_;
  const uint64_t interval_ns_;
  const ThresholdAges ages_;
  ViewFn view_;
  SendFn send_;
  News* news_;
  NodePhase phase_;
  Baseline baseline_;
  Ema usual_score_{Baseline::kFastAlpha};
  Crossing crossing_;
  std::optional<uint64_t> below_since_ns_;  // and not yet crossed
  uint32_t nr_rests_ = 0;                   // intervals in which it learned nothing
  bool has_been_judged_ = false;
  uint64_t nr_crossings_ = 0;
  uint64_t nr_messages_ = 0;
  mutable std::mutex mutex_;
  NodeHealth health_;
};

}  // namespace slotscope
