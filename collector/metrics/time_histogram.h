// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace slotscope {

// Of times: how many were at most kBounds[i], in seconds.
struct TimeHistogram {
  static constexpr std::array<double, 15> kBounds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03,
                                                     0.1,  0.3,  1,    3,    10,   30,   100};
  std::array<uint64_t, kBounds.size()> counts = {};  // in each alone
  uint64_t nr = 0;
  double sum_s = 0;
  void Add(double seconds) {
    for (size_t i = 0; i < kBounds.size(); i++)
      if (seconds <= kBounds[i]) {
        counts[i]++;
        break;
      }
    nr++;
    sum_s += seconds;
  }
};

}  // namespace slotscope
