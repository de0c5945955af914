// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>

#include "detect/host/host_history.h"
#include "detect/patterns/nccl_hang.h"

namespace slotscope {

// Whether a process is still there; its start is that of its rows, 0 if it has none. Null: nobody knows.
using IsAliveFn = std::function<bool(int32_t tgid, uint64_t start_time_ns)>;

// What the host saw of a hang's ranks when it began, for the verdict's "host_evidence": suspects first,
// each at the moment from which the others waited; then those that wait, each when it called. Where
// there are many, the first of each; ranks that this host has not seen say why.
nlohmann::ordered_json HostEvidenceOf(const HostHistory& history, const NcclHang& hang,
                                      const IsAliveFn& is_alive);

}  // namespace slotscope
