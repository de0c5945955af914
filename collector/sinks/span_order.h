// SPDX-License-Identifier: MIT
// What the files that have spans in them have in common.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "slots/gpu_span.h"

namespace slotscope {

inline const char* NameOf(ss_cuda_memory kind) {
  switch (kind) {
    case SS_CUDA_LINEAR:
      return "linear";
    case SS_CUDA_MANAGED:
      return "managed";
    case SS_CUDA_HOST:
      return "host";
    case SS_CUDA_ARRAY:
      return "array";
    case SS_CUDA_MIPMAPPED_ARRAY:
      return "mipmapped_array";
  }
  return "";
}

// In the order of their ends, so that the same slot looks the same however its calls came.
template <typename Span>
std::vector<const Span*> InOrder(const std::vector<Span>& spans) {
  std::vector<const Span*> sorted;
  for (const Span& span : spans) sorted.push_back(&span);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Span* a, const Span* b) {
    return std::tie(a->end_ns, a->start_ns, a->process) < std::tie(b->end_ns, b->start_ns, b->process);
  });
  return sorted;
}

}  // namespace slotscope
