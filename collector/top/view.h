// SPDX-License-Identifier: MIT
// The pages of the screen, as text: pure functions of what was recorded and what is to be seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/zone.h"
#include "top/board.h"
#include "top/control.h"
#include "top/screen_text.h"
#include "top/second.h"

namespace slotscope {

// What the pages are of.
struct TopView {
  const Board& board;
  const TopSecond& second;
  std::string host;    // empty: not known
  std::string source;  // "the service", "recording now", or a path
  Zone zone;
  std::string notice;  // something that has to be said, or empty
};

// How much of the strip of ten seconds a step is, and how many there are in a line, of a second.
struct StripShape {
  int64_t step_ns = 0;
  size_t a_line = 0;

  static constexpr size_t kNrLines = 10;
  static StripShape For(size_t width);
};

// The page that control is on. height and width in characters; at least kMinHeight by kMinWidth, or it
// says that this is too small. control->first and ->cursor become what is shown. *shown: what keys move
// in.
inline constexpr size_t kMinHeight = 18, kMinWidth = 64;
ScreenText MakeScreen(const TopView& view, size_t height, size_t width, TopControl* control,
                      TopControl::Shown* shown);

// For scripts: all columns, as many lines as that; names are not cut.
ScreenText MakeTable(const TopView& view, size_t nr_rows, const TopControl& control);

}  // namespace slotscope
