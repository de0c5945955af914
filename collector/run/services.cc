// SPDX-License-Identifier: MIT
#include "run/services.h"

#include <fmt/core.h>
#include <grp.h>

#include <charconv>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/escape.h"
#include "base/say.h"
#include "fleet/memory_headroom.h"
#include "gpu/tracker.h"

namespace slotscope {
namespace {

// What is kept of ranks, until a hang is noticed: that takes as long as its timeout.
constexpr int64_t kHistoryBucketNs = 100'000'000;
constexpr int64_t kHistoryNs = 1'500'000'000'000;

// A name or a number; nothing for "".
Status FindGroup(const std::string& text, std::optional<gid_t>* group) {
  if (text.empty()) return {};
  gid_t number;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    *group = number;
    return {};
  }
  struct group entry = {};
  struct group* found = nullptr;
  std::vector<char> names(64 << 10);
  if (getgrnam_r(text.c_str(), &entry, names.data(), names.size(), &found) != 0 || !found)
    return {Exit::kUsage,
            fmt::format("--remediate-group {}: there is no such group", EscapeControls(text))};
  *group = entry.gr_gid;
  return {};
}

CountSample::Kind KindOf(Severity severity) {
  switch (severity) {
    case Severity::kNone:
      return CountSample::Kind::kCounted;
    case Severity::kNote:
      return CountSample::Kind::kNoted;
    case Severity::kLost:
      return CountSample::Kind::kLost;
  }
  return CountSample::Kind::kLost;
}

}  // namespace

Status Services::Open() {
  // Twice as often as the node is judged: else a threshold is old only because it was read long ago.
  if (!options_.fleet.empty())
    if (Status status = thresholds_.Start(options_.fleet, options_.cluster_id,
                                          options_.health_interval_ns / 2, &news_);
        !status.ok())
      return status;
  if (options_.remediate.empty()) return {};
  std::optional<gid_t> group;
  if (Status status = FindGroup(options_.remediate_group, &group); !status.ok()) return status;
  return server_.Start(options_.remediate, group, &news_);
}

SlotSink* Services::Chain(const Facts& facts, SlotSink* last) {
  SlotSink* first = last;
  node_name_ = options_.node_id.empty() ? facts.host : options_.node_id;
  if (options_.detect && options_.judge.IsOn(kNcclHang) && !options_.fr_dir.empty()) {
    host_ = std::make_unique<HostRecorder>(kHistoryBucketNs, kHistoryNs, first);
    first = host_.get();
  }
  if (!options_.remediate.empty()) {
    feed_ = std::make_unique<RemediateFeed>(
        facts.gpus, [this](std::string line) { server_.Send(std::move(line)); },
        [this] { return server_.Wants(); }, &news_, first);
    first = feed_.get();
  }
  if (options_.metrics.empty()) return first;
  has_gpu_ = !facts.gpu.empty();
  if (has_gpu_) {
    FleetNode::ViewFn view;
    if (!options_.fleet.empty()) view = [this] { return thresholds_.view(); };
    node_ = std::make_unique<FleetNode>(
        NodeName{node_name_, options_.cluster_id}, options_.health_interval_ns,
        ThresholdAges::For(options_.health_interval_ns), std::move(view),
        [this](std::string line) {
          if (feed_) server_.Send(std::move(line));
        },
        &news_);
    observer_ = std::make_unique<NodeObserver>(
        options_.health_interval_ns, ReadMemoryHeadroom,
        [this](const Observation& observation) { node_->OnInterval(observation, MonotonicNs()); },
        first);
    first = observer_.get();
  }
  meter_ = std::make_unique<SlotMeter>(first);
  return meter_.get();
}

uint32_t Services::keeps() const { return feed_ ? GpuTracker::kBalances : GpuTracker::kNothing; }

Status Services::Start(std::function<RunCounts()> counts_of, const Writer& writer,
                       const std::string& source, VerdictListener* listener) {
  if (!options_.join_remediate.empty())
    if (Status status = client_.Start(options_.join_remediate, others_, &news_); !status.ok())
      return status;
  if (options_.detect) {
    const LiveInputs inputs = {options_.fr_dir, options_.kmsg, options_.k8s_events, node_name_};
    if (Status status =
            detectors_.Start(inputs, options_.judge, options_.verdicts, host_.get(), &news_, listener);
        !status.ok())
      return status;
  }
  if (!meter_) return {};
  return exposer_.Start(options_.metrics, [this, counts_of = std::move(counts_of), &writer, source] {
    RunCounts counts = counts_of();
    counts.nr_rows = writer.nr_rows();
    MetricsSnapshot now;
    now.source = source;
    now.slots = meter_->counts();
    now.nr_messages = counts.merge.nr_messages;
    now.nr_rows = writer.nr_rows();
    now.has_gpu = has_gpu_;
    for (const Counter& counter : Counters()) {
      if (!IsInScope(counter.scope, counts) && !(has_gpu_ && counter.scope == CountScope::kCuda))
        continue;
      now.counts.push_back({counter.metric.empty() ? KindOf(counter.severity) : CountSample::Kind::kLost,
                            counter.metric.empty() ? counter.name : counter.metric, counter.of(counts)});
    }
    if (feed_) now.server = server_.stats();
    if (node_) now.node = node_->health();
    if (!options_.fleet.empty()) now.thresholds = thresholds_.stats();
    return FamiliesOf(now);
  });
}

void Services::StopJoining() {
  client_.Stop();
  detectors_.Stop();
}

void Services::StopServing() {
  detectors_.Stop();
  exposer_.Stop();  // takes up to 2 s, which do not belong to the recording
  thresholds_.Stop();
  server_.Stop();
}

void Services::SaySent(const RunSummary& run) const {
  if (options_.detect) {
    const LiveCounts counts = detectors_.counts();
    Say(stdout,
        "detectors: verdicts {}, Xids {}, evictions {} (of the last hour); unreadable {}, "
        "overwritten "
        "before they were read {}, forgotten {}\n",
        counts.nr_verdicts, counts.nr_xids, counts.nr_evictions, counts.nr_malformed, counts.nr_lost,
        counts.nr_forgotten);
  }
  if (!feed_) return;
  const FeedStats& feed = feed_->stats();
  const ServerStats server = server_.stats();
  const uint64_t nr_fleet = node_ ? node_->health().nr_messages : 0;
  Say(stdout,
      "remediation: messages {} (memory {}, straggle {}, fleet {}), sent {}; dropped: no_client {}, "
      "write_error "
      "{}, "
      "queue_full {}, too many in a slot {}; not told: balance unknown {}, GPU unknown {}; consumers "
      "{}, replaced {}, "
      "refused {}\n",
      feed.nr_memory + feed.nr_straggle + nr_fleet, feed.nr_memory, feed.nr_straggle, nr_fleet,
      server.nr_sent, server.nr_no_client, server.nr_write_error, server.nr_queue_full,
      run.counts.gpu.nr_dropped_balances, feed.nr_unknown_balance, feed.nr_unknown_gpu,
      server.nr_consumers, server.nr_replaced, server.nr_refused);
}

}  // namespace slotscope
