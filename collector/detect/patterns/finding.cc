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

}  // namespace slotscope
