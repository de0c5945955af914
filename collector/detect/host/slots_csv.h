// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "base/status.h"
#include "detect/host/host_history.h"

namespace slotscope {

// The slots of a recording, a folder, a segment or a slots.csv, also an unfinished one, into a history.
// Ranks are those that it says, beside those that are set. Of a folder only what the history wants is
// read, and who ran while a rank waited as well. Exit::kBadInput if it is none.
Status ReadSlotsCsv(const std::string& path, HostHistory* history);

}  // namespace slotscope
