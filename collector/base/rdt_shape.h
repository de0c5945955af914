// SPDX-License-Identifier: MIT
// What a machine's RDT counts, and the L3 domains that it counts in.
#pragma once

#include <cstdint>
#include <vector>

namespace slotscope {

struct L3Domain {
  uint32_t id = 0;  // as the kernel numbers L3 caches
  std::vector<int> cpus;

  bool operator==(const L3Domain&) const = default;
};

struct RdtShape {
  // In the order of their ids. A CPU is in one of them, or in none.
  std::vector<L3Domain> domains;
  bool has_occupancy = false;
  bool has_mbm_total = false;
  bool has_mbm_local = false;

  bool any() const { return has_occupancy || has_mbm_total || has_mbm_local; }
  bool operator==(const RdtShape&) const = default;
};

}  // namespace slotscope
