// SPDX-License-Identifier: MIT
// Metrics for Prometheus, over HTTP. Nothing is labelled by process: they would be too many.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/node.h"
#include "fleet/threshold_reader.h"
#include "metrics/slot_meter.h"
#include "remediate/server.h"

namespace slotscope {

// One of the counters that stand at the end of slots.csv, too.
struct CountSample {
  enum class Kind : uint8_t {
    kCounted,  // how much there was
    kNoted,    // something is to be known about the rows
    kLost,     // something is not in them
  } kind;
  std::string_view what;
  uint64_t nr;
};

// All that is exposed, as of now.
struct MetricsSnapshot {
  std::string source;  // "kmod" or "bpf"
  SlotCounts slots;
  std::vector<CountSample> counts;
  uint64_t nr_messages = 0;
  uint64_t nr_rows = 0;
  bool has_gpu = false;  // CUDA is observed
  // If there is one.
  std::optional<ServerStats> server;
  std::optional<NodeHealth> node;
  std::optional<ThresholdStats> thresholds;
};

class Exposer {
 public:
  using SnapshotFn = std::function<MetricsSnapshot()>;

  Exposer();
  ~Exposer();
  Exposer(const Exposer&) = delete;

  // `address`: HOST:PORT, or PORT on the loopback interface. `snapshot` is called by threads of the
  // exposer's, until Stop(). Exit::kBusy if it cannot listen.
  Status Start(const std::string& address, SnapshotFn snapshot);
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope
