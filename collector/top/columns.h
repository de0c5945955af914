// SPDX-License-Identifier: MIT
// The columns of the list, and which of them a screen has room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/zone.h"
#include "top/control.h"
#include "top/screen_text.h"
#include "top/second.h"

namespace slotscope {

struct TopColumn {
  std::string_view title;
  std::optional<SortBy> sort;  // by which rows are sorted for it
  size_t width = 0;
  bool is_left = false;  // text, and not a number
  std::function<std::string(const TopRow&)> text;
  std::function<Tone(const TopRow&)> tone;  // null: plain
};

// In the order in which they are shown. width: of the screen; 0: as wide as it needs to be.
std::vector<TopColumn> ColumnsFor(const TopSecond& second, const Zone& zone, size_t width);

// "0.42", "12.3", "213", in ms.
std::string MsText(uint64_t ns);

// In a field of that width, cut if it is longer, which a "+" shows; of width 0 as it is.
std::string Field(std::string_view text, size_t width, bool is_left);

}  // namespace slotscope
