// SPDX-License-Identifier: MIT
// How much of the heap is in use: does memory go back?
#pragma once

#include <malloc.h>

#include <cstddef>

namespace slotscope {

// 0: another allocator serves, that of a sanitizer.
inline size_t HeapBytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace slotscope
