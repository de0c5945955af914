// SPDX-License-Identifier: MIT
// What a host saw of the ranks of a hang, when it began.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "detect/host/host_history.h"
#include "detect/patterns/nccl_hang.h"

namespace slotscope {

// What a rank did from a moment on.
enum class RankState : uint8_t {
  kUnknown,
  kOnCpu,    // at least half of the time
  kWaiting,  // for a CPU, at least half of the time
  kAsleep,
  kSilent,  // asleep, or gone: nobody could look
  kGone,
};

struct RankEvidence {
  int32_t rank = 0;
  bool is_suspect = false;  // else it hangs
  RankState state = RankState::kUnknown;
  const char* reason = "";  // of kUnknown; the rest is of the other states
  int32_t tgid = 0;
  std::string comm;                         // "": not known
  int64_t from_ns = 0, to_ns = 0;           // Unix time: what was looked at
  int64_t slot_ns = 0;                      // of `slots`
  int64_t last_on_cpu_ns = 0;               // Unix time of that slot; 0: not at all
  HostSample sums;                          // of all of it
  uint64_t lost_ns = 0;                     // CPU time then of which nobody knows whose it was
  std::vector<HostRanInstead> ran_instead;  // longest first; the first few
  std::vector<HostSample> slots;            // around the moment

  // What at least half of its waiting for a CPU was due to: "others", "throttled"; empty: it did not
  // wait, there was more than one cause, or the recording does not say why.
  std::string_view wait_cause() const;
};

// Whether a process is still there; its start is that of its rows, 0 if it has none. Null: nobody knows.
// Null: there is no recording of this host.
using EvidenceFn = std::function<std::vector<RankEvidence>(const NcclHang&)>;

// Suspects first, each at the moment from which the others waited; then those that wait, each when it
// called. Where there are many, the first of each; ranks that this host has not seen say why.
std::vector<RankEvidence> HostEvidenceOf(const HostHistory& history, const NcclHang& hang,
                                         const IsAliveFn& is_alive);

// A verdict's "host_evidence".
nlohmann::ordered_json HostEvidenceJson(const std::vector<RankEvidence>& evidence);

}  // namespace slotscope
