// SPDX-License-Identifier: MIT
#include "fleet/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "fleet/health.h"
#include "remediate/messages.h"

namespace slotscope {
namespace {

int64_t UnixNs(const Observation& observation) {
  return static_cast<int64_t>(observation.end_ns) + observation.unix_offset_ns;
}

// What fell most, against what it usually is.
const char* DominantSignal(const Signals& raw, const Signals& baseline) {
  const char* name = "unknown";
  double most = Crossing::kEpsilon;
  for (size_t i = 0; i < kNrSignals; i++) {
    if (baseline[i] <= 0) continue;
    const double drop = (baseline[i] - raw[i]) / baseline[i];
    if (drop <= most) continue;
    most = drop;
    name = kSignalNames[i];
  }
  return name;
}

}  // namespace

FleetNode::FleetNode(NodeName name, uint64_t interval_ns, const ThresholdAges& ages, ViewFn view,
                     SendFn send, News* news)
    : name_(std::move(name)),
      interval_ns_(interval_ns),
      ages_(ages),
      view_(std::move(view)),
      send_(std::move(send)),
      news_(news) {
  health_.name = name_;
}

NodeHealth FleetNode::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

void FleetNode::OnInterval(const Observation& observation, uint64_t now_ns) {
  phase_.OnInterval(observation.raw ? std::optional((*observation.raw)[kSignalThroughput])
                                    : std::nullopt);
  if (phase_.has_begun_anew()) {
    baseline_.Reset();
    usual_score_.Reset();
    below_since_ns_.reset();
  }
  NodeHealth health;
  health.name = name_;
  health.phase = phase_.phase();
  if (health.phase == Phase::kStale)
    news_->Tell("health: what this node launches was not measured for a while: it has no score");
  if (phase_.is_sample() && baseline_.nr_samples() > 0) Rate(*observation.raw, &health);
  if (view_) {
    if (health.phase == Phase::kActive && health.score)
      OnScore(observation, view_(), now_ns, &health);
    else if (health.phase == Phase::kCalibrating)
      health.judgement = Judgement{DetectionMode::kCalibrating, 0};
    else if (IsHanging(observation))
      OnHang(observation, view_(), now_ns, &health);
  }
  if (crossing_.is_below() && !observation.has_work) {
    crossing_.Reset();
    TellResolved(UnixNs(observation), "its work is over");
  }
  // It was held against what was before; now it may become part of that.
  const bool is_low = crossing_.is_below() || below_since_ns_;
  nr_rests_ = is_low ? nr_rests_ + 1 : 0;
  const bool is_alone = health.judgement && health.judgement->mode == DetectionMode::kLocalBaseline;
  const bool rests = is_low && health.phase == Phase::kActive && !(is_alone && nr_rests_ > kMaxRests);
  if (phase_.is_sample() && !rests) {
    if (health.score) usual_score_.Add(*health.score);
    baseline_.Add(*observation.raw);
  }
  if (health.phase != Phase::kActive) health.score.reset();  // peers are not to compare with it
  if (baseline_.nr_samples() > 0) health.baseline = baseline_.fast();
  if (baseline_.nr_samples() >= Baseline::kWarmup) health.is_degraded = baseline_.IsDegraded();
  health.has_been_judged = has_been_judged_;
  health.is_straggler = crossing_.is_below();
  health.nr_crossings = nr_crossings_;
  health.nr_messages = nr_messages_;
  std::lock_guard lock(mutex_);
  health_ = std::move(health);
}

void FleetNode::Rate(const Signals& raw, NodeHealth* health) const {
  health->signals = raw;
  const double usual = baseline_.fast()[kSignalThroughput];
  health->signals[kSignalThroughput] = usual > 0 ? raw[kSignalThroughput] / usual : 0;
  for (double& signal : health->signals) signal = std::clamp(signal, 0.0, 1.0);
  health->score = HealthScore(health->signals);
}

bool FleetNode::IsToWait(const ThresholdView& view, const Judgement& judgement, double score,
                         uint64_t now_ns) {
  if (crossing_.is_below() || !Crossing::IsBelow(score, judgement.threshold)) {
    below_since_ns_.reset();
    return false;
  }
  if (!below_since_ns_) below_since_ns_ = now_ns;
  // A threshold that is not the fleet's of now will not get any newer.
  return judgement.mode == DetectionMode::kFleet &&
         view.computed_ns < *below_since_ns_ + kSettleIntervals * interval_ns_;
}

// It fell, and now it launches nothing at all.
bool FleetNode::IsHanging(const Observation& observation) const {
  return phase_.phase() == Phase::kIdle && below_since_ns_ && observation.raw && observation.has_work;
}

// Where its peers go on it straggles; where they have stopped as well, they all wait for something.
void FleetNode::OnHang(const Observation& observation, const ThresholdView& view, uint64_t now_ns,
                       NodeHealth* health) {
  if (!view.has_quorum) {
    below_since_ns_.reset();
    return;
  }
  Rate(*observation.raw, health);
  OnScore(observation, view, now_ns, health);
}

void FleetNode::OnScore(const Observation& observation, const ThresholdView& view, uint64_t now_ns,
                        NodeHealth* health) {
  health->judgement = ChooseThreshold(
      view, usual_score_.empty() ? std::nullopt : std::optional(usual_score_.value()), ages_, now_ns);
  if (!health->judgement) return;
  has_been_judged_ = true;
  const auto [mode, threshold] = *health->judgement;
  const double score = *health->score;
  if (IsToWait(view, *health->judgement, score, now_ns)) return;
  if (health->phase == Phase::kIdle && mode != DetectionMode::kFleet) return;
  const char* mode_name = kDetectionModeNames[static_cast<size_t>(mode)];
  switch (crossing_.OnScore(score, threshold)) {
    case Crossing::Edge::kNone:
      break;
    case Crossing::Edge::kDown: {
      nr_crossings_++;
      nr_messages_++;
      below_since_ns_.reset();
      const char* dominant = DominantSignal(*observation.raw, baseline_.fast());
      send_(ToLine(StragglerStateMessage{name_.node_id, name_.cluster_id, score, threshold, mode_name,
                                         dominant, UnixNs(observation)}));
      news_->TellEvent(
          fmt::format("fleet: this node straggles: its health {:.3f} is below {:.3f} ({}); "
                      "what fell most: {}",
                      score, threshold, mode_name, dominant));
      break;
    }
    case Crossing::Edge::kUp:
      TellResolved(UnixNs(observation), fmt::format("its health is {:.3f}, the threshold {:.3f} ({})",
                                                    score, threshold, mode_name));
  }
}

void FleetNode::TellResolved(int64_t unix_ns, const std::string& why) {
  nr_messages_++;
  send_(ToLine(StragglerResolvedMessage{name_.node_id, name_.cluster_id, unix_ns}));
  news_->TellEvent(fmt::format("fleet: this node straggles no more: {}", why));
}

}  // namespace slotscope
