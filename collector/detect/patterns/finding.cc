// SPDX-License-Identifier: MIT
#include "detect/patterns/finding.h"

#include <fmt/core.h>

#include "base/escape.h"

namespace slotscope {

Evidence EvidenceOf(const PodEviction& eviction) {
  return {"pod_event", eviction.uid, eviction.when,
          fmt::format("{} of {}: {}", EscapeControls(eviction.reason), EscapeControls(eviction.pod),
                      EscapeControls(eviction.message))};
}

Evidence EvidenceOf(const PressureChange& change) {
  return {"node_condition", change.uid, change.when,
          fmt::format("{} of {} is {} ({})", PressureName(change.pressure), EscapeControls(change.node),
                      change.is_on ? "True" : "False", EscapeControls(change.reason))};
}

}  // namespace slotscope
