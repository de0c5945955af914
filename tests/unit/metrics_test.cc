// SPDX-License-Identifier: MIT
// What is counted of slots, and the page that says so.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "metrics/exposer.h"
#include "metrics/recorder_metrics.h"
#include "metrics/slot_meter.h"
#include "ship/ship_metrics.h"
#include "tests/fleet/get_metrics.h"

namespace slotscope {
namespace {

struct Nowhere : SlotSink {
  void OnSlot(Slot*) override { nr_slots++; }
  int nr_slots = 0;
};

Row RowOf(int32_t tgid, RowKind kind, uint64_t cpu_ns, uint64_t wait_ns) {
  Row row;
  row.key = {tgid, 1};
  row.kind = kind;
  row.sums[kCpuNs] = cpu_ns;
  row.sums[kWaitNs] = wait_ns;
  return row;
}

TEST(SlotMeter, AddsUpAndKeepsTheLast) {
  Nowhere nowhere;
  SlotMeter meter(&nowhere);
  Slot slot;
  slot.start_ns = MonotonicNs() - 51'000'000;
  slot.end_ns = slot.start_ns + 1'000'000;
  slot.rows = {RowOf(0, RowKind::kIdle, 500, 0), RowOf(1, RowKind::kUser, 300, 20'000),
               RowOf(2, RowKind::kKernel, 200, 0), RowOf(3, RowKind::kUser, 100, 5'000'000)};
  slot.gpu.resize(2);
  slot.gpu[0].values[kGpuLaunches] = 7;
  slot.gpu[0].straggle = Straggle::kSustained;
  slot.gpu[1].values[kGpuLaunches] = 9;
  slot.gpu[1].unmeasured = 1u << kGpuLaunches;
  slot.rows[1].gpu = 1;
  slot.rows[3].gpu = 2;
  slot.straggles.resize(1);
  meter.OnSlot(&slot);
  SlotCounts counts = meter.counts();
  EXPECT_EQ(counts.nr_slots, 1u);
  EXPECT_EQ(counts.nr_processes, 3u);
  EXPECT_EQ(counts.nr_gpu_processes, 2u);
  EXPECT_EQ(counts.nr_straggling, 1u);
  EXPECT_EQ(counts.nr_gpu_launches, 7u) << "those that are known";
  EXPECT_EQ(counts.nr_straggle_reports, 1u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kUser)], 400u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kIdle)], 500u);
  EXPECT_EQ(counts.wait.nr, 2u);
  EXPECT_EQ(counts.wait.counts[1], 1u) << "20 us";
  EXPECT_EQ(counts.wait.counts[6], 1u) << "5 ms";
  EXPECT_DOUBLE_EQ(counts.wait.sum_s, 5.02e-3);
  EXPECT_EQ(counts.latency.nr, 1u);
  EXPECT_GE(counts.latency.sum_s, 0.05);
  slot.rows = {RowOf(1, RowKind::kUser, 300, 0)};
  meter.OnSlot(&slot);
  counts = meter.counts();
  EXPECT_EQ(counts.nr_slots, 2u);
  EXPECT_EQ(counts.nr_processes, 1u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kUser)], 700u);
  EXPECT_EQ(nowhere.nr_slots, 2);
}

ProcessIdentity InPod(int32_t tgid, const std::string& pod, bool is_named) {
  ProcessIdentity one;
  one.key = {tgid, 1};
  Cgroup cgroup;
  cgroup.pod_uid = "uid-" + pod;
  if (is_named) cgroup.pod = pod;
  if (!pod.empty()) one.cgroup = std::make_shared<const Cgroup>(cgroup);
  return one;
}

TEST(PodWaits, EachWaitIsItsPods) {
  PodWaits waits;
  Slot slot;
  slot.identities = {InPod(1, "ml/a", true), InPod(2, "ml/a", true), InPod(3, "b", false),
                     InPod(4, "", false)};
  for (int32_t tgid = 1; tgid <= 4; tgid++) {
    Row row;
    row.key = {tgid, 1};
    row.wait = static_cast<uint32_t>(tgid);
    slot.rows.push_back(row);
    slot.waits.emplace_back().ns[kWaitOthers] = static_cast<uint64_t>(tgid) * 10;
  }
  waits.OnSlot(slot);
  slot.identities = {InPod(2, "b", false)};  // it has moved
  waits.OnSlot(slot);
  ASSERT_EQ(waits.pods().size(), 2u);
  EXPECT_EQ(waits.pods().at("ml/a").wait_ns[kWaitOthers], 10u + 20 + 10);
  EXPECT_EQ(waits.pods().at("uid-b").wait_ns[kWaitOthers], 30u + 30 + 20);
}

// Waits that are told late count by their causes; what no detail tells of is not known.
TEST(PodWaits, WhatWasWaitedEarlierCountsByItsCause) {
  Nowhere nowhere;
  SlotMeter meter(&nowhere);
  Slot slot;
  slot.wait_causes = kAnyWaitCauses;
  slot.identities = {InPod(1, "ml/a", true)};
  for (int32_t tgid = 1; tgid <= 2; tgid++) {
    slot.rows.push_back(RowOf(tgid, RowKind::kUser, 0, 0));
    slot.rows.back().wait = static_cast<uint32_t>(tgid);
    slot.waits.emplace_back().ns[kWaitOthers] = 10;
    slot.waits.back().earlier_ns = 1000;
    slot.wait_details.push_back({{tgid, 1}, {}, kWaitOthers, {9, 1}, {}, 0, 0, 0, 10, 1});
    slot.wait_details.push_back({{tgid, 1}, {}, kWaitOthers, {9, 1}, {}, 0, 5, 70, 600, 1});
    slot.wait_details.push_back({{tgid, 1}, {}, kWaitThrottled, {}, {}, 0, 5, 70, 300, 1});
  }
  meter.OnSlot(&slot);
  const SlotCounts counts = meter.counts();
  EXPECT_EQ(counts.wait_ns, (WaitCauseSums{1220, 0, 600, 0, 0, 200}));
  EXPECT_EQ(counts.pods.at("ml/a").wait_ns, (WaitCauseSums{610, 0, 300, 0, 0, 100}));
}

TEST(PodWaits, BeyondSoManyTheyAreOneAndEndedOnesMakeRoom) {
  PodWaits waits;
  Slot slot;
  for (int32_t tgid = 1; tgid <= 250; tgid++)
    slot.identities.push_back(InPod(tgid, std::to_string(tgid), true));
  waits.OnSlot(slot);
  EXPECT_EQ(waits.pods().size(), PodWaits::kMost + 1);
  EXPECT_EQ(waits.pods().at("other").nr_processes, 50u);
  ProcessIdentity gone;
  gone.key = {7, 1};
  gone.gone = true;
  slot.identities = {gone, InPod(300, "new", true)};
  waits.OnSlot(slot);
  EXPECT_EQ(waits.pods().size(), PodWaits::kMost + 1);
  EXPECT_TRUE(waits.pods().contains("new"));
  EXPECT_FALSE(waits.pods().contains("7"));
}

TEST(TimeHistogram, CountsEachTimeOnce) {
  TimeHistogram times;
  for (double seconds : {0.0, 1e-5, 1.1e-5, 100.0, 1000.0}) times.Add(seconds);
  EXPECT_EQ(times.counts[0], 2u);
  EXPECT_EQ(times.counts[1], 1u);
  EXPECT_EQ(times.counts.back(), 1u);
  EXPECT_EQ(times.nr, 5u) << "beyond all bounds, too";
}

TEST(Exposer, ServesWhatIsSoNow) {
  MetricsSnapshot now;
  now.source = "bpf";
  now.nr_messages = 41;
  now.server = ServerStats{1, 2, 3, 4, 5, 6, 7};
  now.slots.wait.Add(0.002);
  now.slots.nr_slots = 1;
  now.slots.slot_ns = 1'000'000;
  now.slots.wait_causes = kAnyWaitCauses;
  now.slots.pods["ml/a"].wait_ns[kWaitOthers] = 1'500'000'000;
  now.counts = {{CountSample::Kind::kLost, "records", 8},
                {CountSample::Kind::kNoted, "stalls", 6},
                {CountSample::Kind::kLost, "cuda_calls", 9},
                {CountSample::Kind::kCounted, "offline_ns", 7}};
  now.node = NodeHealth{};
  now.node->name = {"n\"1", "blue"};
  now.node->phase = Phase::kActive;
  now.node->score = 0.75;
  now.node->signals = {0.5, 1, 1, 0.25};
  now.node->baseline = {1000, 0.9, 0.8, 0.7};
  now.node->judgement = Judgement{DetectionMode::kFleetCached, 0.8};
  now.node->has_been_judged = true;
  now.node->nr_crossings = 3;
  now.has_gpu = true;
  now.node->is_straggler = true;
  now.thresholds = ThresholdStats{1, 2, 3, 4, 5};
  Exposer exposer;
  uint16_t port = 20'000;
  while (!exposer.Start(std::to_string(port), [&] { return FamiliesOf(now); }).ok() && port < 21'000)
    port++;
  now.nr_messages = 42;
  const std::string page = GetMetrics(port);
  for (const char* line : {
           "slotscope_build_info{version=\"0.2.0\",source=\"bpf\"} 1\n",
           "# TYPE slotscope_messages_total counter\nslotscope_messages_total 42\n",
           "# TYPE slotscope_slot_seconds gauge\nslotscope_slot_seconds 0.001",
           "# TYPE slotscope_recorder_cpu_seconds_total "
           "counter\nslotscope_recorder_cpu_seconds_total{mode=\"user\"} ",
           "# TYPE slotscope_recorder_heap_bytes gauge\nslotscope_recorder_heap_bytes{state=\"used\"} ",
           "slotscope_lost_total{what=\"records\"} 8\n",
           "slotscope_pod_wait_seconds_total{pod=\"ml/a\",cause=\"others\"} 1.5\n",
           "slotscope_lost_total{what=\"cuda_calls\"} 9\n",
           "slotscope_noted_total{what=\"stalls\"} 6\n",
           "slotscope_counted_total{what=\"offline_ns\"} 7\n",
           "slotscope_health_score{cluster_id=\"blue\",node_id=\"n\\\"1\"} 0.75\n",
           "slotscope_health_signal{cluster_id=\"blue\",node_id=\"n\\\"1\",signal=\"cpu\"} 0.25\n",
           "slotscope_health_baseline{cluster_id=\"blue\",node_id=\"n\\\"1\",signal=\"throughput\"} "
           "1000\n",
           "slotscope_node_phase{cluster_id=\"blue\",node_id=\"n\\\"1\",phase=\"active\"} 1\n",
           "slotscope_node_phase{cluster_id=\"blue\",node_id=\"n\\\"1\",phase=\"idle\"} 0\n",
           "slotscope_detection_mode{cluster_id=\"blue\",node_id=\"n\\\"1\",mode=\"fleet-cached\"} 1\n",
           "slotscope_straggler{cluster_id=\"blue\",node_id=\"n\\\"1\"} 1\n",
           "slotscope_health_threshold{cluster_id=\"blue\",node_id=\"n\\\"1\"} 0.8\n",
           "slotscope_straggler_crossings_total{cluster_id=\"blue\",node_id=\"n\\\"1\"} 3\n",
           "slotscope_threshold_reads_total{outcome=\"timeout\"} 5\n",
           "slotscope_remediate_dropped_total{reason=\"no_client\"} 2\n",
           "slotscope_remediate_dropped_total{reason=\"write_error\"} 3\n",
           "slotscope_remediate_dropped_total{reason=\"queue_full\"} 4\n",
           "slotscope_remediate_consumers_total{outcome=\"refused\"} 7\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"0.001\"} 0\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"0.003\"} 1\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"+Inf\"} 1\n",
       })
    EXPECT_NE(page.find(line), std::string::npos) << line;
  for (const char* name : {"slotscope_lost_total", "slotscope_node_phase"}) {
    const std::string type = std::string("# TYPE ") + name + " ";
    EXPECT_EQ(page.find(type), page.rfind(type)) << "of one name there is one family";
  }
  // What is not known is not there.
  now.node->score.reset();
  now.node->judgement.reset();
  now.node->baseline.reset();
  now.node->has_been_judged = false;
  now.has_gpu = false;
  now.slots.nr_slots = 0;
  std::erase_if(now.counts, [](const CountSample& one) { return one.what == "cuda_calls"; });
  now.thresholds.reset();
  const std::string later = GetMetrics(port);
  for (const char* name :
       {"slotscope_health_score", "slotscope_health_signal", "slotscope_health_threshold",
        "slotscope_detection_mode", "slotscope_straggler", "slotscope_threshold_reads",
        "slotscope_health_baseline", "slotscope_health_degraded", "slotscope_processes", "slotscope_gpu",
        "cuda_calls"})
    EXPECT_EQ(later.find(name), std::string::npos) << name;
  Exposer other;
  EXPECT_EQ(other.Start(std::to_string(port), [&] { return FamiliesOf(now); }).code(), Exit::kBusy);
  EXPECT_EQ(other.Start("203.0.113.1:9", [&] { return FamiliesOf(now); }).code(), Exit::kBusy)
      << "not of this machine";
  // Some that connect and say nothing.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 6; i++) silent.push_back(ConnectTo(port));
  EXPECT_NE(GetMetrics(port).find("slotscope_build_info"), std::string::npos);
  silent.clear();
  exposer.Stop();
  EXPECT_EQ(GetMetrics(port), "");
}

// The value of a metric, by its whole name; -1: it is not there.
double ValueOf(Families families, std::string_view name, std::string_view label = "") {
  for (const auto& family : families.Take())
    for (const auto& metric : family.metric)
      if (family.name == name && (label.empty() || metric.label.at(0).value == label))
        return family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                              : metric.gauge.value;
  return -1;
}

TEST(ShipMeter, WhatIsNotKnownIsNotThere) {
  ShipMeter meter;
  for (const char* name :
       {"slotscope_ship_waiting_batches", "slotscope_ship_waiting_bytes",
        "slotscope_ship_oldest_waiting_timestamp_seconds", "slotscope_ship_server_answers",
        "slotscope_ship_recording_readable", "slotscope_ship_last_success_timestamp_seconds"})
    EXPECT_EQ(ValueOf(meter.families(), name), -1) << name;
  EXPECT_EQ(ValueOf(meter.families(), "slotscope_ship_rows_total"), 0);

  ShipStats stats;
  stats.nr_batches = 10;
  stats.nr_rows = 1234;
  stats.nr_damaged = 2;
  stats.nr_refused = 1;
  stats.nr_missing = 3;
  stats.nr_removed = 4;
  stats.nr_given_up = 5;
  const auto value = [&](const char* name) { return ValueOf(meter.families(), name); };
  meter.OnProgress(stats, {6, 700, 8'500'000'000, false});
  EXPECT_EQ(value("slotscope_ship_waiting_batches"), -1) << "nobody has said what is there";
  meter.OnProgress(stats, {6, 700, 8'500'000'000, true});
  meter.OnRound({true, true, false}, 9'000'000'000);
  const auto batches = [&](const char* outcome) {
    return ValueOf(meter.families(), "slotscope_ship_batches_total", outcome);
  };
  EXPECT_EQ(batches("shipped"), 7) << "damaged and refused ones are among the ten";
  EXPECT_EQ(batches("damaged"), 2);
  EXPECT_EQ(batches("refused"), 1);
  EXPECT_EQ(batches("removed"), 7);
  EXPECT_EQ(batches("given_up"), 5);
  EXPECT_EQ(value("slotscope_ship_rows_total"), 1234);
  EXPECT_EQ(value("slotscope_ship_waiting_batches"), 6);
  EXPECT_EQ(value("slotscope_ship_waiting_bytes"), 700);
  EXPECT_EQ(value("slotscope_ship_oldest_waiting_timestamp_seconds"), 8.5);
  EXPECT_EQ(value("slotscope_ship_server_answers"), 0);
  EXPECT_EQ(value("slotscope_ship_recording_readable"), 1);
  EXPECT_EQ(value("slotscope_ship_last_success_timestamp_seconds"), -1);

  meter.OnProgress(stats, {0, 0, 0, true});
  meter.OnRound({true, true, true}, 10'000'000'000);
  EXPECT_EQ(value("slotscope_ship_waiting_batches"), 0);
  EXPECT_EQ(value("slotscope_ship_oldest_waiting_timestamp_seconds"), -1);
  EXPECT_EQ(value("slotscope_ship_last_success_timestamp_seconds"), 10);
  // Of a recording that cannot be read nobody is asked for anything.
  meter.OnRound({true, true, false}, 11'000'000'000);
  meter.OnRound({false, false, {}}, 12'000'000'000);
  EXPECT_EQ(value("slotscope_ship_recording_readable"), 0);
  EXPECT_EQ(value("slotscope_ship_server_answers"), 0) << "nor has it answered meanwhile";
  meter.OnRound({true, false, true}, 13'000'000'000);
  EXPECT_EQ(value("slotscope_ship_recording_readable"), 1) << "but for a file of it";
  EXPECT_EQ(value("slotscope_ship_last_success_timestamp_seconds"), 10);
  meter.OnRound({true, true, {}}, 14'000'000'000);
  EXPECT_EQ(value("slotscope_ship_last_success_timestamp_seconds"), 14) << "nothing waits";
}

}  // namespace
}  // namespace slotscope
