// SPDX-License-Identifier: MIT
// What the user of the screen wants to see, and what keys do to that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "top/second.h"

namespace slotscope {

enum class SortBy : uint8_t { kWait, kWorst, kCpu, kThrottled, kGpu, kTraffic, kName, kPid };
inline constexpr std::array<std::string_view, 8> kSortNames = {"wait", "worst",   "cpu",  "throttled",
                                                               "gpu",  "traffic", "name", "pid"};

enum class Key : uint8_t {
  kNone,
  kLetter,  // or another character
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kResize,
};
struct KeyPress {
  Key key = Key::kNone;
  char letter = 0;
};

struct TopControl {
  enum class Page : uint8_t { kList, kDetail, kHelp };

  Page page = Page::kList;
  SortBy sort = SortBy::kWait;
  bool is_reversed = false;
  TopGroupBy by;
  std::string filter;       // rows whose name has that in it
  bool is_typing = false;   // the filter
  bool is_paused = false;   // the second that is shown stays
  std::string selected_id;  // of a row; empty: the first
  // Of the row that the page kDetail is of, as it was when it was last there.
  std::string detail_name;
  std::vector<ProcessKey> detail_members;
  size_t first = 0;         // row on the screen
  size_t cursor = 0;        // step of the strip, on the page kDetail
  bool has_cursor = false;  // false: the worst step
  bool wants_end = false;

  // rows: in the order in which they are shown; nr_shown: so many of them fit; nr_steps: of the strip,
  // steps_a_line of them in a line.
  struct Shown {
    std::vector<const TopRow*> rows;
    size_t nr_shown = 1;
    size_t nr_steps = 1, steps_a_line = 1;
  };
  void OnKey(const KeyPress& press, const Shown& shown);
};

// The rows that have the filter in their names, in that order.
std::vector<const TopRow*> SortedRows(const TopSecond& second, const TopControl& control);
// The place of the selected one; 0 if it is not there. REQUIRES: there is a row.
size_t SelectedPlace(const std::vector<const TopRow*>& rows, const TopControl& control);

}  // namespace slotscope
