// SPDX-License-Identifier: MIT
#pragma once

#include "base/say.h"
#include "base/status.h"

namespace slotscope {

// What a verb returns; on stderr it says why, if it is not 0.
inline int ExitCode(const Status& status) {
  if (!status.ok()) Say(stderr, "slotscope: {}\n", status.message());
  return static_cast<int>(status.code());
}

}  // namespace slotscope
