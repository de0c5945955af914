// SPDX-License-Identifier: MIT
#include "top/detail_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "top/columns.h"
#include "top/list_page.h"
#include "top/strip.h"

namespace slotscope {
namespace {

constexpr std::string_view kMargin = "             ";  // as wide as "03:12:07.000 "
constexpr int64_t kMs = 1'000'000;

// One step by the millisecond, and its worst in numbers.
ScreenText StepLines(const TopView& view, const std::vector<ProcessKey>& members, int64_t from_ns,
                     int64_t step_ns, size_t width) {
  const auto nr = static_cast<size_t>(std::max<int64_t>(1, step_ns / kMs));
  const auto steps = view.board.Strip(members, from_ns, kMs, nr);
  int64_t slots_ns = 0, slot_ns = 0;  // of those that begin in it; the longest that is there
  for (const StripStep& step : steps) {
    slots_ns += step.slots_ns;
    slot_ns = std::max(slot_ns, step.slot_ns);
  }
  const std::string slot_text = fmt::format("{:g} ms", static_cast<double>(slot_ns) / kMs);
  ScreenLine line = {{view.zone.ClockText(from_ns) + " ", Tone::kPlain}};
  AppendPiece({"|", Tone::kPlain}, &line);
  for (const Piece& piece : StripLine(steps, 0, nr)) AppendPiece(piece, &line);
  const std::string says = slot_ns > kMs ? "  by slots of " + slot_text : "  by the millisecond";
  const bool has_room = kMargin.size() + nr + 2 + says.size() <= width;
  AppendPiece({fmt::format("|{}", has_room ? says : ""), Tone::kPlain}, &line);
  bool any = false;
  const size_t worst = WorstStep(steps, &any);
  uint64_t cpu_ns = 0, wait_ns = 0, throttled_ns = 0;
  for (const StripStep& step : steps) {
    cpu_ns += step.worst.cpu_ns;
    wait_ns += step.worst.wait_ns;
    throttled_ns += step.worst.throttled_ns;
  }
  std::string text = fmt::format("of {:g} ms it ran {}, waited {}", static_cast<double>(slots_ns) / kMs,
                                 MsText(cpu_ns), MsText(wait_ns));
  if (slots_ns == 0 && slot_ns > 0) text = fmt::format("a slot of {}, which began before", slot_text);
  if (throttled_ns > 0) text += fmt::format(" ({} throttled)", MsText(throttled_ns));
  if (any)
    text += fmt::format(", at worst {} in {}", MsText(steps[worst].worst.wait_ns),
                        view.zone.ClockText(from_ns + static_cast<int64_t>(worst) * kMs));
  return {line, {{Field(std::string(kMargin) + text, width, true), Tone::kPlain}}};
}

const TopRow* RowOfAny(const std::vector<const TopRow*>& rows, const std::vector<ProcessKey>& members) {
  const auto is_one = [&](const ProcessKey& key) {
    return std::find(members.begin(), members.end(), key) != members.end();
  };
  for (const TopRow* row : rows)
    if (std::any_of(row->members.begin(), row->members.end(), is_one)) return row;
  return nullptr;
}

}  // namespace

StripShape StripShape::For(size_t width) {
  constexpr std::array<size_t, 6> kSteps = {1000, 500, 200, 100, 50, 25};  // in a line
  StripShape shape;
  for (const size_t nr : kSteps)
    if (shape.a_line == 0 && nr + kMargin.size() + 2 <= width) shape.a_line = nr;
  shape.a_line = std::max<size_t>(shape.a_line, kSteps.back());
  shape.step_ns = kSecondNs / static_cast<int64_t>(shape.a_line);
  return shape;
}

ScreenText DetailPage(const TopView& view, size_t height, size_t width, TopControl* control,
                      TopControl::Shown* shown) {
  ScreenText lines = HeadLines(view, width);
  shown->rows = SortedRows(view.second, *control);
  shown->nr_shown = 1;
  const size_t place = SelectedPlace(shown->rows, *control);
  const auto add = [&](const std::string& text, Tone tone = Tone::kPlain) {
    lines.push_back({{Field(text, width, true), tone}});
  };
  const TopRow* row = nullptr;
  if (!shown->rows.empty() && shown->rows[place]->id == control->selected_id) row = shown->rows[place];
  if (row) {
    control->detail_name = row->who.Text();
    control->detail_members = row->AllMembers();
  } else {
    // Those of one name are a row while they come and go; who stays has a row of his own by now.
    row = RowOfAny(shown->rows, control->detail_members);
  }
  const StripShape shape = StripShape::For(width);
  const size_t nr = shape.a_line * StripShape::kNrLines;
  shown->nr_steps = nr;
  shown->steps_a_line = shape.a_line;
  // Whole seconds; the last one may have just begun.
  const int64_t from_ns =
      (view.second.to_ns - 1) / kSecondNs * kSecondNs - (int64_t{StripShape::kNrLines} - 1) * kSecondNs;
  const auto steps = view.board.Strip(control->detail_members, from_ns, shape.step_ns, nr);
  bool any = false;
  if (!control->has_cursor) control->cursor = WorstStep(steps, &any);
  control->cursor = std::min(control->cursor, nr - 1);
  add(fmt::format("{}: {}", row ? row->who.Text() : control->detail_name,
                  row ? WaitText(*row) : "did nothing in this second: it sleeps, or has ended"),
      Tone::kTitle);
  const std::string ran = row ? NeighborsText(*row, 4) : "";
  add(ran.empty() ? "nobody ran instead" : "ran instead (ms): " + ran);
  add("");
  // On a low screen those around the chosen step.
  constexpr size_t kOtherLines = 13;
  const size_t nr_lines =
      std::clamp<size_t>(height > kOtherLines ? height - kOtherLines : 1, 1, StripShape::kNrLines);
  const size_t chosen = control->cursor / shape.a_line;
  const size_t begin =
      std::min(chosen - std::min(chosen, nr_lines / 2), StripShape::kNrLines - nr_lines);
  for (size_t i = begin; i < begin + nr_lines; i++) {
    const size_t first = i * shape.a_line;
    ScreenLine line = {
        {view.zone.ClockText(from_ns + static_cast<int64_t>(i) * kSecondNs) + " ", Tone::kPlain}};
    AppendPiece({"|", Tone::kPlain}, &line);
    for (size_t j = first; j < first + shape.a_line; j++) {
      // What is still to come is empty.
      const bool is_ahead = from_ns + static_cast<int64_t>(j) * shape.step_ns >= view.board.end_ns();
      Piece piece = is_ahead ? Piece{" ", Tone::kPlain} : StripPiece(steps[j]);
      if (j == control->cursor) piece.tone = Tone::kSelected;
      AppendPiece(piece, &line);
    }
    AppendPiece({"|", Tone::kPlain}, &line);
    lines.push_back(line);
  }
  add(fmt::format("{}a step is {} ms; it shows its worst slot", kMargin, shape.step_ns / kMs),
      Tone::kDim);
  const int64_t at_ns = from_ns + static_cast<int64_t>(control->cursor) * shape.step_ns;
  for (const ScreenLine& line : StepLines(view, control->detail_members, at_ns, shape.step_ns, width))
    lines.push_back(line);
  add("");
  for (const char* line : kStripLegend) add(line, Tone::kDim);
  lines.resize(height - 1);
  add("arrows choose a step (and pause)  space go on  Enter back  q back", Tone::kDim);
  return lines;
}

}  // namespace slotscope
