// SPDX-License-Identifier: MIT
// Steps of time as characters: what a process did in each, at its worst.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "top/board.h"
#include "top/screen_text.h"

namespace slotscope {

// ' ' it slept, '.' it ran, '-' '=' '#' it waited for up to a tenth, up to half, and for more of a slot,
// 'T' mostly because it was throttled, '?' nobody knows who ran for more than a tenth of a CPU's time,
// '/' nothing was recorded.
Piece StripPiece(const StripStep& step);
inline constexpr std::array kStripLegend = {
    "it waited for a CPU: - up to 10% of a slot, = to 50%, # longer, T: throttled",
    ". it ran    ? nobody knows who ran    / nothing was recorded",
};

// Pieces of one tone are one.
void AppendPiece(const Piece& piece, ScreenLine* line);
ScreenLine StripLine(const std::vector<StripStep>& steps, size_t first, size_t nr);

// The step with the most waiting; its place. nr 0: none waited.
size_t WorstStep(const std::vector<StripStep>& steps, bool* any);

}  // namespace slotscope
