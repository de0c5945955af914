// SPDX-License-Identifier: MIT
#include "top/list_page.h"

#include <fmt/core.h>

#include <algorithm>

#include "slots/wait_row.h"
#include "top/strip.h"

namespace slotscope {
namespace {

std::string GroupText(TopGroupBy by) {
  if (!by) return "by process";
  constexpr std::array kNames = {"by name", "by pod", "by unit", "by cgroup"};
  return kNames[static_cast<size_t>(*by)];
}

double Percent(uint64_t part, double of) { return of > 0 ? 100 * static_cast<double>(part) / of : 0; }

// The last ten seconds of the selected one in a line.
ScreenLine TenSeconds(const TopView& view, const TopRow& row, size_t width) {
  constexpr std::string_view kLabel = "last 10 s  |";
  const size_t nr = width >= kLabel.size() + 101 ? 100 : 50;
  const int64_t step_ns = 10 * kSecondNs / static_cast<int64_t>(nr);
  const auto steps = view.board.Strip(row.AllMembers(), view.second.to_ns - 10 * kSecondNs, step_ns, nr);
  ScreenLine line = {{std::string(kLabel), Tone::kPlain}};
  for (const Piece& piece : StripLine(steps, 0, nr)) AppendPiece(piece, &line);
  AppendPiece({"|", Tone::kPlain}, &line);
  return line;
}

}  // namespace

ScreenText HeadLines(const TopView& view, size_t width) {
  const TopSecond& second = view.second;
  std::string first = "slotscope top  ";
  if (second.to_ns == 0) {
    first += "nothing was recorded yet";
    return {{{Field(first, width, true), Tone::kPlain}}, {{view.notice, Tone::kWarm}}};
  }
  const double of_ns = static_cast<double>(second.recorded_ns) * static_cast<double>(second.nr_cpus);
  first += fmt::format("1 s from {} {}  {} CPU{} {:.0f}% busy  lost {:.1f}%",
                       view.zone.ClockText(second.from_ns), view.zone.name(), second.nr_cpus,
                       second.nr_cpus == 1 ? "" : "s", Percent(second.cpu_ns, of_ns),
                       Percent(second.lost_ns, of_ns));
  if (!view.host.empty()) first += "  " + view.host;
  std::string next = view.notice;
  if (next.empty() && !second.has_waits)
    next = "waiting was not measured";
  else if (next.empty() && second.worst_start_ns == 0)
    next = "nobody waited for a CPU";
  else if (next.empty()) {
    next = fmt::format("waited {} ms in all; worst slot {}: {} ms", MsText(second.wait_ns),
                       view.zone.ClockText(second.worst_start_ns), MsText(second.worst_wait_ns));
    if (!second.worst_who.empty()) next += fmt::format(", most by {}", second.worst_who);
  }
  const Tone tone = view.notice.empty() ? Tone::kPlain : Tone::kWarm;
  return {{{Field(first, width, true), Tone::kPlain}}, {{Field(next, width, true), tone}}};
}

ScreenLine TitleLine(const std::vector<TopColumn>& columns, const TopControl& control) {
  ScreenLine line;
  for (const TopColumn& column : columns) {
    const bool is_sorted = column.sort == control.sort;
    if (!line.empty()) AppendPiece({" ", Tone::kTitle}, &line);
    AppendPiece(
        {Field(column.title, column.width, column.is_left), is_sorted ? Tone::kSorted : Tone::kTitle},
        &line);
  }
  return line;
}

ScreenLine RowLine(const std::vector<TopColumn>& columns, const TopRow& row, bool is_selected) {
  ScreenLine line;
  for (const TopColumn& column : columns) {
    Tone tone = column.tone ? column.tone(row) : Tone::kPlain;
    if (is_selected) tone = Tone::kSelected;
    if (!line.empty()) AppendPiece({" ", is_selected ? Tone::kSelected : Tone::kPlain}, &line);
    AppendPiece({Field(column.text(row), column.width, column.is_left), tone}, &line);
  }
  return line;
}

std::string WaitText(const TopRow& row) {
  if (!row.did.has_waits) return "waiting was not measured";
  if (row.did.wait_ns == 0) return "did not wait for a CPU";
  std::string text = fmt::format("waited {} ms", MsText(row.did.wait_ns));
  const char* before = ": ";
  std::vector<std::pair<uint64_t, const char*>> causes;
  for (size_t i = 0; i < kNrWaitCauses; i++)
    if (row.wait_ns[i] > 0) causes.emplace_back(row.wait_ns[i], kWaitCauseNames[i]);
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [ns, cause] : causes) {
    text += fmt::format("{}{} {}", std::exchange(before, ", "), cause, MsText(ns));
  }
  return text;
}

std::string NeighborsText(const TopRow& row, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, row.ran_instead.size()); i++)
    text += fmt::format("{}{} {}", i ? ", " : "", MsText(row.ran_instead[i].second),
                        row.ran_instead[i].first);
  if (row.ran_instead.size() > most) text += fmt::format(" and {} more", row.ran_instead.size() - most);
  return text;
}

ScreenText ListPage(const TopView& view, size_t height, size_t width, TopControl* control,
                    TopControl::Shown* shown) {
  constexpr size_t kFootLines = 5;
  ScreenText lines = HeadLines(view, width);
  const auto columns = ColumnsFor(view.second, view.zone, width);
  lines.push_back(TitleLine(columns, *control));
  shown->rows = SortedRows(view.second, *control);
  shown->nr_shown = height > lines.size() + kFootLines ? height - lines.size() - kFootLines : 1;
  const size_t selected = SelectedPlace(shown->rows, *control);
  if (selected < control->first) control->first = selected;
  if (selected >= control->first + shown->nr_shown) control->first = selected - shown->nr_shown + 1;
  for (size_t i = control->first; i < control->first + shown->nr_shown; i++) {
    if (i < shown->rows.size())
      lines.push_back(RowLine(columns, *shown->rows[i], i == selected));
    else
      lines.emplace_back();
  }
  if (shown->rows.empty()) {
    if (!control->filter.empty())
      lines[3] = {{Field(fmt::format("no name has '{}' in it; Esc: all", control->filter), width, true),
                   Tone::kPlain}};
    lines.resize(height - 2);
  } else {
    const TopRow& row = *shown->rows[selected];
    lines.push_back(
        {{Field(fmt::format("{}: {}", row.who.Text(), WaitText(row)), width, true), Tone::kTitle}});
    const std::string ran = NeighborsText(row, 3);
    lines.push_back({{Field(ran.empty() ? "" : "ran instead (ms): " + ran, width, true), Tone::kPlain}});
    lines.push_back(TenSeconds(view, row, width));
  }
  std::string where = fmt::format("{} of {}  {}  of {}{}", shown->rows.empty() ? 0 : selected + 1,
                                  shown->rows.size(), GroupText(control->by), view.source,
                                  control->is_paused ? "  [paused: space goes on]" : "");
  if (control->is_typing || !control->filter.empty())
    where = fmt::format("find: {}{}  {}", control->filter, control->is_typing ? "_" : "", where);
  lines.push_back({{Field(where, width, true), Tone::kDim}});
  lines.push_back(
      {{Field("Enter its 10 s  g group  / find  w c m t sort  space pause  ? help  q quit", width, true),
        Tone::kDim}});
  return lines;
}

ScreenText MakeTable(const TopView& view, size_t nr_rows, const TopControl& control) {
  ScreenText lines = HeadLines(view, 0);
  const auto columns = ColumnsFor(view.second, view.zone, 0);
  lines.push_back(TitleLine(columns, control));
  const auto rows = SortedRows(view.second, control);
  for (size_t i = 0; i < std::min(nr_rows, rows.size()); i++)
    lines.push_back(RowLine(columns, *rows[i], false));
  return lines;
}

}  // namespace slotscope
