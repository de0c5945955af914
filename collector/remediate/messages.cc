// SPDX-License-Identifier: MIT
#include "remediate/messages.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json_line.h"
#include "base/rfc3339.h"

namespace slotscope {
namespace {

using OrderedJson = nlohmann::ordered_json;

}  // namespace

std::string ToLine(const MemoryMessage& message) {
  OrderedJson object = {{"type", "memory"}, {"pid", message.pid}};
  if (!message.comm.empty()) object["comm"] = message.comm;
  object["gpu_id"] = message.gpu_id;
  object["allocated_bytes"] = message.allocated_bytes;
  object["total_vram"] = message.total_vram;
  object["utilization_pct"] = message.total_vram ? static_cast<double>(message.allocated_bytes) /
                                                       static_cast<double>(message.total_vram) * 100
                                                 : 0.0;
  object["last_alloc_size"] = message.last_alloc_size;
  object["timestamp_ns"] = message.timestamp_ns;
  return JsonLine(object);
}

std::string ToLine(const StraggleMessage& message) {
  OrderedJson object = {{"type", "straggle"}, {"pid", message.pid}};
  if (!message.comm.empty()) object["comm"] = message.comm;
  object["throughput_drop_pct"] = message.throughput_drop_pct;
  object["sched_switch_count"] = message.sched_switch_count;
  object["preempting_pids"] = message.preempting_pids;  // [] if there are none, never null
  object["timestamp_ns"] = message.timestamp_ns;
  object["sustained"] = message.sustained;
  if (!message.event_id.empty()) object["event_id"] = message.event_id;
  if (message.wait_ns) object["wait_ns"] = *message.wait_ns;
  if (!message.wait_cause.empty()) object["wait_cause"] = message.wait_cause;
  if (message.culprit_pid) {
    object["culprit_pid"] = message.culprit_pid;
    if (!message.culprit_comm.empty()) object["culprit_comm"] = message.culprit_comm;
    object["culprit_ns"] = message.culprit_ns;
  }
  if (message.gpu_no_work_ns) object["gpu_no_work_ns"] = *message.gpu_no_work_ns;
  if (!message.gpu_no_work_cause.empty()) object["gpu_no_work_cause"] = message.gpu_no_work_cause;
  return JsonLine(object);
}

std::string ToLine(const StragglerStateMessage& message) {
  return JsonLine({{"type", "straggler_state"},
                   {"node_id", message.node_id},
                   {"cluster_id", message.cluster_id},
                   {"score", message.score},
                   {"threshold", message.threshold},
                   {"detection_mode", message.detection_mode},
                   {"dominant_signal", message.dominant_signal},
                   {"timestamp", Rfc3339(message.timestamp_ns)}});
}

std::string ToLine(const StragglerResolvedMessage& message) {
  return JsonLine({{"type", "straggler_resolved"},
                   {"node_id", message.node_id},
                   {"cluster_id", message.cluster_id},
                   {"timestamp", Rfc3339(message.timestamp_ns)}});
}

std::string MakeUuid() {
  std::array<uint8_t, 16> bytes = {};
  // 16 bytes are never cut short, and it waits only while the machine boots.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return "";
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace slotscope
