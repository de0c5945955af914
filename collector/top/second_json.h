// SPDX-License-Identifier: MIT
// A second for programs.
#pragma once

#include <cstddef>
#include <string>

#include "top/control.h"
#include "top/view.h"

namespace slotscope {

// One object, with at most that many rows. What was not measured is not there.
std::string SecondJson(const TopView& view, size_t nr_rows, const TopControl& control);

}  // namespace slotscope
