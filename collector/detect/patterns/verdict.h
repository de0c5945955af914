// SPDX-License-Identifier: MIT
// What a detector has found, in the forms in which it is handed on.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "detect/inputs/moment.h"

namespace slotscope {

struct Verdict {
  // As deploy/schemas/ has it: pattern.id, headline, remediation, evidence_trail, and what the pattern
  // adds.
  nlohmann::ordered_json json;
  int64_t time_ns = 0;  // Unix time of what it is about
  // Names what it is about: an update of it has the same.
  std::string key;
  // Another name of the same; empty: it has none. Not of a hang.
  std::string alias;
};

// A JSON object, with the newline.
std::string VerdictLine(const Verdict& verdict);

// A log record of OpenTelemetry as JSON (an export request of its own), with the newline: the scalars as
// attributes, all of it in pattern.verdict_json.
std::string VerdictOtlpLine(const Verdict& verdict);

// With as many digits as it has.
std::string MomentText(const Moment& moment);

// As a verdict's schema wants it.
nlohmann::ordered_json Evidence(const char* kind, std::string uid, const Moment& when,
                                std::string description);

}  // namespace slotscope
