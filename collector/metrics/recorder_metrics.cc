// SPDX-License-Identifier: MIT
#include "metrics/recorder_metrics.h"

#include <malloc.h>
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "base/version.h"

namespace slotscope {
namespace {

using Labels = Families::Labels;

double Count(uint64_t value) { return static_cast<double>(value); }

void AddSlots(const MetricsSnapshot& now, Families* to) {
  const SlotCounts& slots = now.slots;
  to->Counter("slotscope_slots_total", "Slots that were finished.", slots.nr_slots);
  to->Counter("slotscope_rows_total", "Rows written.", now.nr_rows);
  std::vector<std::pair<const char*, double>> cpu;
  for (size_t i = 0; i < kRowKindNames.size(); i++)
    if (static_cast<RowKind>(i) != RowKind::kOther)
      cpu.emplace_back(kRowKindNames[i], static_cast<double>(slots.cpu_ns[i]) / 1e9);
  to->CounterOf("slotscope_cpu_seconds_total", "CPU time of all CPUs, by what it went to.", "kind", cpu);
  std::vector<std::pair<const char*, double>> waits;
  for (size_t i = 0; i < kNrWaitCauses; i++)
    if (IsToldApart(slots.wait_causes, i))
      waits.emplace_back(kWaitCauseNames[i], static_cast<double>(slots.wait_ns[i]) / 1e9);
  to->CounterOf("slotscope_wait_seconds_total", "Waiting for a CPU, of all processes, by why.", "cause",
                waits);
  for (const auto& [pod, its] : slots.pods)
    for (size_t i = 0; i < kNrWaitCauses; i++)
      if (IsToldApart(slots.wait_causes, i))
        to->CounterSeconds(
            "slotscope_pod_wait_seconds_total", "Waiting for a CPU, of the processes of a pod, by why.",
            static_cast<double>(its.wait_ns[i]) / 1e9, {{"pod", pod}, {"cause", kWaitCauseNames[i]}});
  if (slots.nr_slots > 0)
    to->Gauge("slotscope_slot_seconds",
              "Length of the latest slot; longer than asked for while --max-overhead makes it so.",
              static_cast<double>(slots.slot_ns) / 1e9);
  if (slots.nr_slots > 0)
    to->Gauge("slotscope_processes", "Processes with a row in the latest slot.",
              Count(slots.nr_processes));
  to->Histogram("slotscope_run_queue_wait_seconds",
                "Waiting for a CPU: the longest of a process, per slot in which it ended.", slots.wait);
  to->Histogram("slotscope_slot_latency_seconds", "From the end of a slot until it was finished.",
                slots.latency);
}

// If CUDA is observed.
void AddGpu(const SlotCounts& slots, Families* to) {
  if (slots.nr_slots > 0) {
    to->Gauge("slotscope_gpu_processes", "Processes with a row in the latest slot that have used a GPU.",
              Count(slots.nr_gpu_processes));
    to->Gauge("slotscope_straggling_processes", "Of these, those that straggle.",
              Count(slots.nr_straggling));
  }
  to->Counter("slotscope_gpu_launches_total", "Kernels and graphs launched, as far as it is known.",
              slots.nr_gpu_launches);
  to->Counter("slotscope_straggle_reports_total",
              "Straggle reports: one for each second in which a process straggled, one at its end.",
              slots.nr_straggle_reports);
}

void AddCounts(const MetricsSnapshot& now, Families* to) {
  to->Counter("slotscope_messages_total", "Messages from the kernel.", now.nr_messages);
  const auto add = [&](CountSample::Kind kind, const char* name, const char* help) {
    for (const CountSample& one : now.counts)
      if (one.kind == kind) to->Counter(name, help, one.nr, {{"what", std::string(one.what)}});
  };
  add(CountSample::Kind::kLost, "slotscope_lost_total",
      "Data that did not get into slots, or not where it belongs, by counter.");
  add(CountSample::Kind::kNoted, "slotscope_noted_total",
      "Events that do not make rows wrong but limit what they say, by counter.");
  add(CountSample::Kind::kCounted, "slotscope_counted_total",
      "Totals by counter, as at the end of slots.csv.");
}

void AddServer(const ServerStats& server, Families* to) {
  to->Counter("slotscope_remediate_sent_total", "Lines that a consumer got.", server.nr_sent);
  to->CounterOf("slotscope_remediate_dropped_total", "Lines dropped, by reason.", "reason",
                {{"no_client", Count(server.nr_no_client)},
                 {"write_error", Count(server.nr_write_error)},
                 {"queue_full", Count(server.nr_queue_full)}});
  to->CounterOf("slotscope_remediate_consumers_total", "Consumers that connected.", "outcome",
                {{"served", Count(server.nr_consumers)}, {"refused", Count(server.nr_refused)}});
}

// What is not known is not there.
void AddNode(const NodeHealth& node, Families* to) {
  const auto labels = [&](Labels more = {}) {
    Labels all = {{"cluster_id", node.name.cluster_id}, {"node_id", node.name.node_id}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  for (size_t i = 0; i < kPhaseNames.size(); i++)
    to->Gauge("slotscope_node_phase", "1: the node is in this phase.",
              static_cast<size_t>(node.phase) == i, labels({{"phase", kPhaseNames[i]}}));
  if (node.is_degraded)
    to->Gauge("slotscope_health_degraded", "1: a signal is half of what it was long ago.",
              *node.is_degraded, labels());
  for (size_t i = 0; node.baseline && i < kNrSignals; i++)
    to->Gauge("slotscope_health_baseline", "The node's baseline: launches per second, and shares of 1.",
              (*node.baseline)[i], labels({{"signal", kSignalNames[i]}}));
  if (node.score) {
    for (size_t i = 0; i < kNrSignals; i++)
      to->Gauge("slotscope_health_signal", "What the score is made of, from 0 to 1, which is healthy.",
                node.signals[i], labels({{"signal", kSignalNames[i]}}));
    to->Gauge("slotscope_health_score", "How well the node does its work, from 0 to 1.", *node.score,
              labels());
  }
  if (node.has_been_judged) {
    to->Gauge("slotscope_straggler", "1: the node has fallen behind its peers, and is not back yet.",
              node.is_straggler, labels());
    to->Counter("slotscope_straggler_crossings_total", "Times this node fell below the threshold.",
                node.nr_crossings, labels());
  }
  if (!node.judgement) return;
  for (size_t i = 0; i < kDetectionModeNames.size(); i++)
    to->Gauge("slotscope_detection_mode", "1: which threshold the score is held against.",
              static_cast<size_t>(node.judgement->mode) == i,
              labels({{"mode", kDetectionModeNames[i]}}));
  if (node.judgement->mode != DetectionMode::kCalibrating)
    to->Gauge("slotscope_health_threshold", "The threshold that the score is compared with.",
              node.judgement->threshold, labels());
}

void AddThresholds(const ThresholdStats& thresholds, Families* to) {
  to->CounterOf("slotscope_threshold_reads_total",
                "Questions for the fleet's threshold, by what came of them.", "outcome",
                {{"value", Count(thresholds.nr_values)},
                 {"no_quorum", Count(thresholds.nr_no_quorum)},
                 {"malformed", Count(thresholds.nr_malformed)},
                 {"unreachable", Count(thresholds.nr_unreachable)},
                 {"timeout", Count(thresholds.nr_timeouts)}});
}

// Used grows if something is left behind; free is what bursts took, between what is used.
void AddHeap(Families* to) {
  const struct mallinfo2 heap = mallinfo2();
  const char* const name = "slotscope_recorder_heap_bytes";
  const char* const help = "The recorder's own memory: in use, and free again.";
  to->Gauge(name, help, static_cast<double>(heap.uordblks + heap.hblkhd), {{"state", "used"}});
  to->Gauge(name, help, static_cast<double>(heap.fordblks), {{"state", "free"}});
}

// Without its BPF programs, which run in everybody's time.
void AddCpu(Families* to) {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage)) return;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  to->CounterOf("slotscope_recorder_cpu_seconds_total", "The recorder's own CPU time.", "mode",
                {{"user", seconds(usage.ru_utime)}, {"system", seconds(usage.ru_stime)}});
}

}  // namespace

Families FamiliesOf(const MetricsSnapshot& now) {
  Families to;
  to.Gauge("slotscope_build_info", "Always 1; the version, and where messages come from.", 1,
           {{"version", kVersion}, {"source", now.source}});
  AddSlots(now, &to);
  if (now.has_gpu) AddGpu(now.slots, &to);
  AddCounts(now, &to);
  AddHeap(&to);
  AddCpu(&to);
  if (now.server) AddServer(*now.server, &to);
  if (now.node) AddNode(*now.node, &to);
  if (now.thresholds) AddThresholds(*now.thresholds, &to);
  return to;
}

}  // namespace slotscope
