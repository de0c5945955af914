// SPDX-License-Identifier: MIT
// Asks Prometheus for the fleet's threshold, again and again, from a thread of its own. What comes back
// is not trusted, nor that anything does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/news.h"
#include "base/status.h"
#include "fleet/threshold.h"

namespace slotscope {

// Questions, by what came of them.
struct ThresholdStats {
  uint64_t nr_values = 0;
  uint64_t nr_no_quorum = 0;
  uint64_t nr_malformed = 0;  // an error of Prometheus', or something else than an answer of its API
  uint64_t nr_unreachable = 0;
  uint64_t nr_timeouts = 0;
};

class ThresholdReader {
 public:
  static constexpr long kTimeoutMs = 2'000;        // of a question
  static constexpr size_t kMaxAnswer = 64u << 10;  // bytes

  ThresholdReader();
  ~ThresholdReader();
  ThresholdReader(const ThresholdReader&) = delete;

  // `url`: Prometheus' root, as in http://HOST:9090. Whether anybody is there is found out later, and
  // told to *news, which outlives the reader.
  Status Start(const std::string& url, const std::string& cluster_id, uint64_t period_ns, News* news);
  void Stop();

  // Any thread, from Start() to Stop().
  ThresholdView view() const;
  ThresholdStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Of --fleet: the URL can be asked. Exit::kUsage.
Status CheckFleetUrl(const std::string& url);

}  // namespace slotscope
