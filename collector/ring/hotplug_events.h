// SPDX-License-Identifier: MIT
#pragma once

#include "base/unique_fd.h"

namespace slotscope {

// Can be read once a CPU has come or gone since TakeHotplugEvents(). Not valid where nobody tells us: in
// a network namespace of its own, or where a sandbox has no AF_NETLINK.
UniqueFd OpenHotplugEvents();
void TakeHotplugEvents(int fd);

}  // namespace slotscope
