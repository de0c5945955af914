// SPDX-License-Identifier: MIT
// Metrics with their names, as prometheus-cpp exposes them.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "metrics/time_histogram.h"

namespace slotscope {

class Families {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void Counter(const char* name, const char* help, uint64_t value, const Labels& labels = {}) {
    Add(name, help, prometheus::MetricType::Counter, labels)->counter.value = static_cast<double>(value);
  }
  void CounterSeconds(const char* name, const char* help, double seconds, const Labels& labels) {
    Add(name, help, prometheus::MetricType::Counter, labels)->counter.value = seconds;
  }
  // One for each value of a label.
  void CounterOf(const char* name, const char* help, const char* label,
                 const std::vector<std::pair<const char*, double>>& values) {
    for (const auto& [text, value] : values)
      Add(name, help, prometheus::MetricType::Counter, {{label, text}})->counter.value = value;
  }
  void Gauge(const char* name, const char* help, double value, const Labels& labels = {}) {
    Add(name, help, prometheus::MetricType::Gauge, labels)->gauge.value = value;
  }
  void Histogram(const char* name, const char* help, const TimeHistogram& times) {
    auto& histogram = Add(name, help, prometheus::MetricType::Histogram, {})->histogram;
    uint64_t count = 0;
    for (size_t i = 0; i < times.counts.size(); i++)
      histogram.bucket.push_back({count += times.counts[i], TimeHistogram::kBounds[i]});
    histogram.bucket.push_back({times.nr, std::numeric_limits<double>::infinity()});
    histogram.sample_count = times.nr;
    histogram.sample_sum = times.sum_s;
  }
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  // Metrics of one name come one after the other.
  prometheus::ClientMetric* Add(const char* name, const char* help, prometheus::MetricType type,
                                const Labels& labels) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, help, type, {}});
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = labels;
    return &metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace slotscope
