// SPDX-License-Identifier: MIT
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slotscope {

// What RDT says of a process in a slot, over all L3 domains. The first two are added up and accounted
// for, the last is a gauge.
enum RdtValue : size_t { kMbmTotal, kMbmLocal, kLlcOccupancy, kNrRdtValues };
inline constexpr size_t kNrMbm = kLlcOccupancy;
using MbmSums = std::array<uint64_t, kNrMbm>;

// By enum ss_rdt_status.
inline constexpr std::array<const char*, SS_RDT_NR_STATUS> kRdtStatusNames = {
    "ok",    "baseline",    "tainted",    "partial",    "skipped",
    "error", "unavailable", "unassigned", "unsupported"};

// A value is shown only if its bit in `unmeasured` is clear.
struct RdtRow {
  std::array<uint64_t, kNrRdtValues> values = {};
  uint32_t unmeasured = 0;      // bit RdtValue: some piece of it is not known
  uint32_t status = SS_RDT_OK;  // enum ss_rdt_status: the worst of all that went into it
};

}  // namespace slotscope
