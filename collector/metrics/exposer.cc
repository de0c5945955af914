// SPDX-License-Identifier: MIT
#include "metrics/exposer.h"

#include <fmt/core.h>
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/version.h"

namespace slotscope {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr size_t kThreads = 2;

class Families {
 public:
  void Counter(const char* name, const char* help, double value) {
    CounterOf(name, help, "", {{"", value}});
  }
  // One for each value of a label.
  void CounterOf(const char* name, const char* help, const char* label,
                 const std::vector<std::pair<const char*, double>>& values) {
    MetricFamily& family = families_.emplace_back(MetricFamily{name, help, MetricType::Counter, {}});
    for (const auto& [text, value] : values) {
      ClientMetric& metric = family.metric.emplace_back();
      if (*label) metric.label = {{label, text}};
      metric.counter.value = value;
    }
  }
  void Gauge(const char* name, const char* help, double value,
             std::vector<ClientMetric::Label> labels = {}) {
    MetricFamily& family = families_.emplace_back(MetricFamily{name, help, MetricType::Gauge, {}});
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    metric.gauge.value = value;
  }
  void Histogram(const char* name, const char* help, const TimeHistogram& times) {
    MetricFamily& family = families_.emplace_back(MetricFamily{name, help, MetricType::Histogram, {}});
    ClientMetric& metric = family.metric.emplace_back();
    uint64_t count = 0;
    for (size_t i = 0; i < times.counts.size(); i++)
      metric.histogram.bucket.push_back({count += times.counts[i], TimeHistogram::kBounds[i]});
    metric.histogram.bucket.push_back({times.nr, std::numeric_limits<double>::infinity()});
    metric.histogram.sample_count = times.nr;
    metric.histogram.sample_sum = times.sum_s;
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

std::vector<MetricFamily> FamiliesOf(const MetricsSnapshot& now) {
  const SlotCounts& slots = now.slots;
  Families to;
  const auto count = [](uint64_t value) { return static_cast<double>(value); };
  to.Gauge("slotscope_build_info", "Always 1; the version, and where messages come from.", 1,
           {{"version", kVersion}, {"source", now.source}});
  to.Counter("slotscope_slots_total", "Slots that were finished.", count(slots.nr_slots));
  to.Counter("slotscope_rows_total", "Rows written.", count(now.nr_rows));
  to.Counter("slotscope_messages_total", "Messages from the kernel.", count(now.nr_messages));
  to.Counter("slotscope_lost_records_total", "Records that the kernel found no room for.",
             count(now.nr_lost));
  std::vector<std::pair<const char*, double>> cpu;
  for (size_t i = 0; i < kRowKindNames.size(); i++)
    if (static_cast<RowKind>(i) != RowKind::kOther)
      cpu.emplace_back(kRowKindNames[i], static_cast<double>(slots.cpu_ns[i]) / 1e9);
  to.CounterOf("slotscope_cpu_seconds_total", "CPU time of all CPUs, by what it went to.", "kind", cpu);
  to.Gauge("slotscope_processes", "Processes with a row in the latest slot.", count(slots.nr_processes));
  to.Gauge("slotscope_gpu_processes", "Of these, those that have used a GPU.",
           count(slots.nr_gpu_processes));
  to.Gauge("slotscope_straggling_processes", "Of these, those that straggle.",
           count(slots.nr_straggling));
  to.Counter("slotscope_gpu_launches_total", "Kernels and graphs launched, as far as it is known.",
             count(slots.nr_gpu_launches));
  to.Counter("slotscope_straggle_reports_total",
             "Seconds in which a process straggled, and ends of that.",
             count(slots.nr_straggle_reports));
  to.Histogram("slotscope_run_queue_wait_seconds",
               "Waiting for a CPU, per process and slot in which it ended.", slots.wait);
  to.Histogram("slotscope_slot_latency_seconds", "From the end of a slot until it was finished.",
               slots.latency);
  if (now.server) {
    const ServerStats& server = *now.server;
    to.Counter("slotscope_remediate_sent_total", "Lines that a consumer got.", count(server.nr_sent));
    to.CounterOf("slotscope_remediate_dropped_total", "Lines that none got.", "reason",
                 {{"no_client", count(server.nr_no_client)},
                  {"write_error", count(server.nr_write_error)},
                  {"queue_full", count(server.nr_queue_full)}});
    to.CounterOf("slotscope_remediate_consumers_total", "Consumers that connected.", "outcome",
                 {{"served", count(server.nr_consumers)}, {"refused", count(server.nr_refused)}});
  }
  return to.Take();
}

struct Collector final : prometheus::Collectable {
  explicit Collector(Exposer::SnapshotFn from) : snapshot(std::move(from)) {}
  std::vector<MetricFamily> Collect() const override { return FamiliesOf(snapshot()); }
  Exposer::SnapshotFn snapshot;
};

}  // namespace

struct Exposer::Impl {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Exposer::Exposer() = default;
Exposer::~Exposer() { Stop(); }

Status Exposer::Start(const std::string& address, SnapshotFn snapshot) {
  auto impl = std::make_unique<Impl>();
  const std::string at =
      address.find(':') == address.npos ? fmt::format("127.0.0.1:{}", address) : address;
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(at, kThreads);
  } catch (const std::exception& error) {
    return {Exit::kBusy,
            fmt::format("--metrics {}: cannot listen there: {} (is it an address of this machine, "
                        "and is the port free?)",
                        EscapeControls(address), error.what())};
  }
  impl->collector = std::make_shared<Collector>(std::move(snapshot));
  impl->exposer->RegisterCollectable(impl->collector);
  impl_ = std::move(impl);
  return {};
}

void Exposer::Stop() { impl_.reset(); }

}  // namespace slotscope
