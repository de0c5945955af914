// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "detect/host/host_history.h"
#include "detect/host/rank_note.h"
#include "detect/patterns/nccl_hang.h"

namespace slotscope {

// Of this host, around the time of a hang: slots, or a raw file; empty: none.
struct HostRecording {
  std::string slots;
  std::string raw;
  std::vector<RankNote> ranks;  // beside those that the recording says
};

// The newest recording here, or the service's, if it has a moment at which one of these began to wait.
// "": there is none.
std::string FindHostRecording(const std::vector<NcclHang>& hangs);

// What the given recording says of the ranks that hang, and of those that hold them up, around those
// moments. Null in *history if no recording is given. Exit::kBadInput: not all of it could be read, and
// *history, if it is not null, has the rest.
Status ReadHost(const HostRecording& recording, const std::vector<NcclHang>& hangs,
                std::unique_ptr<HostHistory>* history);

}  // namespace slotscope
