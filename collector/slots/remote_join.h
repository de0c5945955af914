// SPDX-License-Identifier: MIT
// What another producer says of processes, on its way from the merge to the stage that joins it.
#pragma once

#include <cstdint>

#include "ring/item.h"

namespace slotscope {

struct RemoteJoin {
  virtual ~RemoteJoin() = default;
  virtual void OnMemory(const RemoteMemory& memory) = 0;
  virtual void OnStraggle(const RemoteStraggle& straggle) = 0;
  // Nothing more is heard from ts_ns on.
  virtual void OnGone(uint64_t ts_ns) = 0;
};

}  // namespace slotscope
