// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace slotscope {

// What does not hold is a finding.
inline void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace slotscope
