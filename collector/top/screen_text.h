// SPDX-License-Identifier: MIT
// What stands on a screen, before a terminal is asked to show it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace slotscope {

enum class Tone : uint8_t {
  kPlain,
  kTitle,     // of columns
  kSorted,    // the title of the one that rows are sorted by
  kSelected,  // the row that was chosen
  kDim,
  kWarm,  // much
  kHot,   // very much
};

struct Piece {
  std::string text;
  Tone tone = Tone::kPlain;
};
using ScreenLine = std::vector<Piece>;
using ScreenText = std::vector<ScreenLine>;

// Without tones, and without blanks at the ends of lines.
inline std::string PlainText(const ScreenText& lines) {
  std::string text;
  for (const ScreenLine& line : lines) {
    for (const Piece& piece : line) text += piece.text;
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  }
  return text;
}

}  // namespace slotscope
