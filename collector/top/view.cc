// SPDX-License-Identifier: MIT
#include "top/view.h"

#include <fmt/core.h>

#include <array>
#include <string_view>

#include "top/columns.h"
#include "top/detail_page.h"
#include "top/list_page.h"

namespace slotscope {
namespace {

constexpr std::array kHelp = {
    "A row is a process, or a group, in the last second that was recorded.",
    "",
    "CPU%   of one CPU      WAIT%  it waited for a CPU, all of its threads",
    "WORST  ms waited in the worst of its slots, AT when in that second",
    "THR%   of WAIT%: its cgroup's quota was used up",
    "GPU%   it had launched work that it had not waited for: an upper bound",
    "MB/s   memory traffic (RDT)      -  not measured",
    "RAN INSTEAD  who ran on its CPU for longest while it waited",
    "STATE  at the end, and since when; -, =, #, ?, /: Enter explains them",
    "Sort: w wait  m worst  c CPU  t throttled  u GPU  b MB/s  n name  p PID;",
    "      once more: the other way round",
    "g     group: by process, name, pod, unit, cgroup",
    "/     only rows with that in their names; Esc: all",
    "Enter the last 10 s of the row, by the millisecond",
    "arrows, Page, Home, End choose a row    space pauses    q quits",
};

ScreenText HelpPage(size_t height, size_t width) {
  ScreenText lines;
  for (const char* line : kHelp) lines.push_back({{Field(line, width, true), Tone::kPlain}});
  lines.resize(height - 1);
  lines.push_back({{Field("? or q: back", width, true), Tone::kDim}});
  return lines;
}

}  // namespace

ScreenText MakeScreen(const TopView& view, size_t height, size_t width, TopControl* control,
                      TopControl::Shown* shown) {
  if (height < kMinHeight || width < kMinWidth)
    return {
        {{fmt::format("slotscope top needs {}x{}, and has {}x{}", kMinWidth, kMinHeight, width, height),
          Tone::kPlain}}};
  switch (control->page) {
    case TopControl::Page::kHelp:
      return HelpPage(height, width);
    case TopControl::Page::kDetail:
      return DetailPage(view, height, width, control, shown);
    case TopControl::Page::kList:
      break;
  }
  return ListPage(view, height, width, control, shown);
}

}  // namespace slotscope
