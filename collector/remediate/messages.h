// SPDX-License-Identifier: MIT
// The messages of the remediation protocol, contract version 1: a JSON object per line, its type first.
// Names and types of fields are others' to rely on (tests/unit/contract_test.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slotscope {

// After an allocation or a free.
struct MemoryMessage {
  uint32_t pid;              // in the initial pid namespace
  std::string comm;          // raw; left out if it is empty
  uint32_t gpu_id;           // as nvidia-smi counts
  uint64_t allocated_bytes;  // by that process on that GPU
  uint64_t total_vram;       // bytes; 0: not known, and the utilization is 0
  uint64_t last_alloc_size;  // of the latest allocation that succeeded
  int64_t timestamp_ns;      // Unix time
};

struct StraggleMessage {
  uint32_t pid;
  std::string comm;
  double throughput_drop_pct;   // against its baseline
  uint32_t sched_switch_count;  // in the last second
  std::vector<uint32_t> preempting_pids;
  int64_t timestamp_ns;
  bool sustained;        // not the first message of its episode
  std::string event_id;  // of the episode, a UUID
  // Of that second, where it is known: why.
  std::optional<uint64_t> wait_ns = {};  // for a CPU
  std::string wait_cause = {};           // of most of it; empty: there was more than one, or none
  uint32_t culprit_pid = 0;              // who is to blame for it; 0: nobody
  std::string culprit_comm = {};
  uint64_t culprit_ns = 0;
  std::optional<uint64_t> gpu_no_work_ns = {};
  std::string gpu_no_work_cause = {};  // of most of it; empty: not known
};

// The node has become one, against its peers; experimental.
struct StragglerStateMessage {
  std::string node_id;
  std::string cluster_id;
  double score;
  double threshold;
  std::string detection_mode;
  std::string dominant_signal;
  int64_t timestamp_ns;  // written as RFC 3339
};

struct StragglerResolvedMessage {
  std::string node_id;
  std::string cluster_id;
  int64_t timestamp_ns;
};

// With the newline. Bytes that are no UTF-8 become U+FFFD, all that is not ASCII is escaped.
std::string ToLine(const MemoryMessage& message);
std::string ToLine(const StraggleMessage& message);
std::string ToLine(const StragglerStateMessage& message);
std::string ToLine(const StragglerResolvedMessage& message);

// A random UUID (version 4).
std::string MakeUuid();

}  // namespace slotscope
