// SPDX-License-Identifier: MIT
// What a recorder tells of itself and of the machine. Nothing is labelled by process: they would be too
// many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/node.h"
#include "fleet/threshold_reader.h"
#include "metrics/families.h"
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

Families FamiliesOf(const MetricsSnapshot& now);

}  // namespace slotscope
