// SPDX-License-Identifier: MIT
#include "fleet/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "fleet/health_score.h"
#include "remediate/messages.h"

namespace slotscope {
namespace {

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

Node::Node(NodeName name, uint64_t interval_ns, ViewFn view, SendFn send, News* news)
    : name_(std::move(name)),
      interval_ns_(interval_ns),
      view_(std::move(view)),
      send_(std::move(send)),
      news_(news) {
  health_.name = name_;
}

NodeHealth Node::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

void Node::OnInterval(const Observation& observation, uint64_t now_ns) {
  phase_.OnInterval(observation.raw ? std::optional((*observation.raw)[kSignalThroughput])
                                    : std::nullopt);
  if (phase_.has_begun_anew()) {
    baseline_.Reset();
    usual_score_.Reset();
    has_usual_score_ = false;
  }
  NodeHealth health;
  health.name = name_;
  health.phase = phase_.phase();
  if (phase_.is_sample() && baseline_.nr_samples() > 0) Rate(*observation.raw, &health);
  if (health.phase == Phase::kActive && health.score)
    OnScore(observation, now_ns, &health);
  else if (health.phase == Phase::kCalibrating && view_)
    health.judgement = Judgement{DetectionMode::kCalibrating, 0};
  // It was held against what was before; now it may become part of that.
  if (phase_.is_sample() && (health.phase == Phase::kCalibrating || !crossing_.is_below())) {
    if (health.score) {
      usual_score_.Add(*health.score);
      has_usual_score_ = true;
    }
    baseline_.Add(*observation.raw);
  }
  if (health.phase != Phase::kActive) health.score.reset();  // peers are not to compare with it
  health.baseline = baseline_.fast();
  health.is_degraded = baseline_.IsDegraded();
  health.is_straggler = crossing_.is_below();
  health.nr_crossings = nr_crossings_;
  std::lock_guard lock(mutex_);
  health_ = std::move(health);
}

void Node::Rate(const Signals& raw, NodeHealth* health) const {
  health->signals = raw;
  const double usual = baseline_.fast()[kSignalThroughput];
  health->signals[kSignalThroughput] = usual > 0 ? raw[kSignalThroughput] / usual : 0;
  for (double& signal : health->signals) signal = std::clamp(signal, 0.0, 1.0);
  health->score = HealthScore(health->signals);
}

void Node::OnScore(const Observation& observation, uint64_t now_ns, NodeHealth* health) {
  if (!view_) return;
  health->judgement =
      Judge(view_(), has_usual_score_ ? std::optional(usual_score_.value()) : std::nullopt, interval_ns_,
            now_ns);
  if (!health->judgement) return;
  const auto [mode, threshold] = *health->judgement;
  const double score = *health->score;
  const char* mode_name = kDetectionModeNames[static_cast<size_t>(mode)];
  const int64_t unix_ns = static_cast<int64_t>(observation.end_ns) + observation.unix_offset_ns;
  switch (crossing_.OnScore(score, threshold)) {
    case Crossing::Edge::kNone:
      break;
    case Crossing::Edge::kDown: {
      nr_crossings_++;
      const char* dominant = DominantSignal(*observation.raw, baseline_.fast());
      send_(ToLine(StragglerStateMessage{name_.node_id, name_.cluster_id, score, threshold, mode_name,
                                         dominant, unix_ns}));
      news_->Tell(
          fmt::format("fleet: this node straggles: its health {:.3f} is below {:.3f} ({}); what "
                      "fell most: {}",
                      score, threshold, mode_name, dominant));
      break;
    }
    case Crossing::Edge::kUp:
      send_(ToLine(StragglerResolvedMessage{name_.node_id, name_.cluster_id, unix_ns}));
      news_->Tell(
          fmt::format("fleet: this node straggles no more: its health is {:.3f}, the threshold "
                      "{:.3f} ({})",
                      score, threshold, mode_name));
  }
}

}  // namespace slotscope
