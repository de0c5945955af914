// SPDX-License-Identifier: MIT
// What a recording has to do with others while it goes on: consumers and producers of the remediation
// protocol, Prometheus, and peers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/news.h"
#include "base/status.h"
#include "detect/host/host_recorder.h"
#include "detect/live/live_detectors.h"
#include "fleet/node.h"
#include "fleet/observer.h"
#include "fleet/threshold_reader.h"
#include "metrics/exposer.h"
#include "metrics/recorder_metrics.h"
#include "metrics/slot_meter.h"
#include "raw/facts.h"
#include "remediate/client.h"
#include "remediate/feed.h"
#include "remediate/server.h"
#include "ring/item_queue.h"
#include "run/counts.h"
#include "run/options.h"
#include "run/summary.h"
#include "sinks/writer.h"

namespace slotscope {

class Services {
 public:
  // `others` gets what a joined producer says. All arguments of all calls outlive the services.
  Services(const RecordOptions& options, ItemQueue* others) : options_(options), others_(others) {}

  // Before anything records: consumers may come, and Prometheus is asked.
  Status Open();
  // Where slots are to go first, so that they get to `last`.
  SlotSink* Chain(const Facts& facts, SlotSink* last);
  // What they need to have: GpuTracker::Keeps.
  uint32_t keeps() const;
  // `counts_of`: what is counted so far, from any thread; it and the writer until StopServing().
  // `listener`: gets what detectors find; may be null.
  Status Start(std::function<RunCounts()> counts_of, const Writer& writer, const std::string& source,
               VerdictListener* listener);
  // Nothing more is to come from others, nor from detectors.
  void StopJoining();
  // After the last slot, while the pipeline is still there to be looked into. Takes up to some seconds.
  void StopServing();

  // Any thread.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  // What was sent to whom. After StopServing().
  void SaySent(const RunSummary& run) const;
  // After StopJoining(). Of what they write beside the recording.
  Status status() const { return detectors_.status(); }

 private:
  const RecordOptions& options_;
  ItemQueue* others_;
  News news_;
  RemediateServer server_;
  RemediateClient client_;
  ThresholdReader thresholds_;
  Exposer exposer_;
  bool has_gpu_ = false;   // CUDA is observed
  std::string node_name_;  // among peers, and in Kubernetes
  std::unique_ptr<RemediateFeed> feed_;
  std::unique_ptr<FleetNode> node_;
  std::unique_ptr<NodeObserver> observer_;
  std::unique_ptr<SlotMeter> meter_;
  std::unique_ptr<HostRecorder> host_;
  LiveDetectors detectors_;
};

}  // namespace slotscope
