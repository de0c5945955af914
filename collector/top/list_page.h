// SPDX-License-Identifier: MIT
// The page with a row for each process or group.
#pragma once

#include <cstddef>
#include <vector>

#include "top/columns.h"
#include "top/view.h"

namespace slotscope {

// What stands above each page: whose machine, which second, and how well it was seen.
ScreenText HeadLines(const TopView& view, size_t width);
ScreenLine TitleLine(const std::vector<TopColumn>& columns, const TopControl& control);
ScreenLine RowLine(const std::vector<TopColumn>& columns, const TopRow& row, bool is_selected);
// What it waited for in the second, and who ran instead: "waited 682 ms: others 640, throttled 42".
std::string WaitText(const TopRow& row);
std::string NeighborsText(const TopRow& row, size_t most);

ScreenText ListPage(const TopView& view, size_t height, size_t width, TopControl* control,
                    TopControl::Shown* shown);

}  // namespace slotscope
