// SPDX-License-Identifier: MIT
// A finding in the forms in which it is handed on to programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "detect/patterns/finding.h"

namespace slotscope {

// As deploy/schemas/ has it. `resolved`: of a state that is over by now.
nlohmann::ordered_json VerdictJson(const Finding& finding, const std::optional<Moment>& resolved = {});

// A log record of OpenTelemetry as JSON (an export request of its own), with the newline: the scalars of
// the verdict as attributes, all of it in pattern.verdict_json.
std::string VerdictOtlpLine(const Finding& finding, const nlohmann::ordered_json& verdict);

}  // namespace slotscope
