// SPDX-License-Identifier: MIT
// What the fleet says of where straggling begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotscope {

// One answer of Prometheus to ThresholdQuery().
struct ThresholdAnswer {
  enum class Kind {
    kValue,
    kNoQuorum,   // too few peers: nothing to compare with
    kMalformed,  // that, or an error: see text
  } kind = Kind::kMalformed;
  double value = 0;
  double age_s = 0;  // since it was computed, by the clock of who did
  std::string text;
};

// All that was heard until now. Times are CLOCK_MONOTONIC.
struct ThresholdView {
  bool reachable = false;   // the last question was answered
  bool has_quorum = false;  // as of the last answer
  std::optional<double> value;
  uint64_t computed_ns = 0;  // when the value was
};

// In PromQL: of a cluster, the threshold and when it was computed. The time of an answer is that of the
// question.
std::string ThresholdQuery(std::string_view cluster_id);

// `body`: of the HTTP API, any bytes.
ThresholdAnswer ParseThreshold(std::string_view body);

}  // namespace slotscope
