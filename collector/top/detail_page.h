// SPDX-License-Identifier: MIT
// The page of one process or group: its last ten seconds, down to the millisecond.
#pragma once

#include <cstddef>

#include "top/view.h"

namespace slotscope {

ScreenText DetailPage(const TopView& view, size_t height, size_t width, TopControl* control,
                      TopControl::Shown* shown);

}  // namespace slotscope
