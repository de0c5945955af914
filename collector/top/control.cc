// SPDX-License-Identifier: MIT
#include "top/control.h"

#include <algorithm>
#include <cctype>
#include <tuple>

namespace slotscope {
namespace {

// Numbers: the largest first. What was not measured comes last.
double ValueOf(const TopRow& row, SortBy by) {
  const auto number = [](bool is_measured, uint64_t value) {
    return is_measured ? static_cast<double>(value) : -1;
  };
  switch (by) {
    case SortBy::kWait:
      return number(row.did.has_waits, row.did.wait_ns);
    case SortBy::kWorst:
      return number(row.has_worst(), row.worst_wait_ns);
    case SortBy::kCpu:
      return static_cast<double>(row.did.cpu_ns);
    case SortBy::kThrottled:
      return number(row.did.IsMeasured(kByQuota), row.did.throttled_ns);
    case SortBy::kGpu:
      return number(row.did.has_gpu, row.did.gpu_active_ns);
    case SortBy::kTraffic:
      return number(row.did.has_traffic, row.did.traffic_bytes);
    case SortBy::kPid:
      return -static_cast<double>(row.who.tgid);
    case SortBy::kName:
      break;
  }
  return 0;
}

bool Contains(const std::string& text, const std::string& part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// How the rows are made into one next, and at the end from the beginning.
TopGroupBy NextGroupBy(TopGroupBy by) {
  if (!by) return GroupBy::kName;
  if (*by == GroupBy::kCgroup) return {};
  return static_cast<GroupBy>(static_cast<uint8_t>(*by) + 1);
}

size_t Moved(size_t place, ptrdiff_t steps, size_t nr) {
  const ptrdiff_t wanted = static_cast<ptrdiff_t>(place) + steps;
  return static_cast<size_t>(std::clamp<ptrdiff_t>(wanted, 0, static_cast<ptrdiff_t>(nr) - 1));
}

}  // namespace

std::vector<const TopRow*> SortedRows(const TopSecond& second, const TopControl& control) {
  std::vector<const TopRow*> rows;
  for (const TopRow& row : second.rows)
    if (control.filter.empty() || Contains(row.who.Text(), control.filter)) rows.push_back(&row);
  const auto in_order = [&](const TopRow* a, const TopRow* b) {
    if (control.sort == SortBy::kName) return a->who.name < b->who.name;
    return ValueOf(*a, control.sort) > ValueOf(*b, control.sort);
  };
  // Of equal ones first who took more, then by name: an order that stays.
  std::sort(rows.begin(), rows.end(), [&](const TopRow* a, const TopRow* b) {
    if (in_order(a, b) != in_order(b, a)) return control.is_reversed ? in_order(b, a) : in_order(a, b);
    return std::tie(b->did.cpu_ns, a->who.name, a->id) < std::tie(a->did.cpu_ns, b->who.name, b->id);
  });
  return rows;
}

size_t SelectedPlace(const std::vector<const TopRow*>& rows, const TopControl& control) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const TopRow* row) { return row->id == control.selected_id; });
  return found == rows.end() ? 0 : static_cast<size_t>(found - rows.begin());
}

void TopControl::OnKey(const KeyPress& press, const Shown& shown) {
  const auto move_to = [&](ptrdiff_t steps) {
    if (shown.rows.empty()) return;
    selected_id = shown.rows[Moved(SelectedPlace(shown.rows, *this), steps, shown.rows.size())]->id;
    has_cursor = false;
  };
  const auto move_cursor = [&](ptrdiff_t steps) {
    cursor = Moved(cursor, steps, shown.nr_steps);
    has_cursor = is_paused = true;  // what is looked at does not go away
  };
  const auto a_page = static_cast<ptrdiff_t>(shown.nr_shown);
  const auto a_line = static_cast<ptrdiff_t>(shown.steps_a_line);
  const auto all = static_cast<ptrdiff_t>(shown.rows.size());
  if (is_typing) {
    if (press.key == Key::kEnter) is_typing = false;
    if (press.key == Key::kEscape) {
      is_typing = false;
      filter.clear();
    }
    if (press.key == Key::kBackspace && !filter.empty()) filter.pop_back();
    if (press.key == Key::kLetter && filter.size() < 64) filter += press.letter;
    return;
  }
  const bool is_detail = page == Page::kDetail;
  switch (press.key) {
    case Key::kUp:
      return is_detail ? move_cursor(-a_line) : move_to(-1);
    case Key::kDown:
      return is_detail ? move_cursor(a_line) : move_to(1);
    case Key::kLeft:
      if (is_detail) move_cursor(-1);
      return;
    case Key::kRight:
      if (is_detail) move_cursor(1);
      return;
    case Key::kPageUp:
      return move_to(-a_page);
    case Key::kPageDown:
      return move_to(a_page);
    case Key::kHome:
      return move_to(-all);
    case Key::kEnd:
      return move_to(all);
    case Key::kEnter:
      if (shown.rows.empty()) return;
      selected_id =
          shown.rows[SelectedPlace(shown.rows, *this)]->id;  // it stays, whatever is first next
      page = is_detail ? Page::kList : Page::kDetail;
      return;
    case Key::kEscape:
      if (page == Page::kList) filter.clear();
      page = Page::kList;
      return;
    case Key::kNone:
    case Key::kBackspace:
    case Key::kResize:
      return;
    case Key::kLetter:
      break;
  }
  // Letters that sort, in the order of SortBy.
  constexpr std::string_view kSortLetters = "wmctubnp";
  if (const size_t sorted = kSortLetters.find(press.letter); sorted != kSortLetters.npos) {
    const auto wanted = static_cast<SortBy>(sorted);
    is_reversed = wanted == sort && !is_reversed;
    sort = wanted;
    return;
  }
  switch (press.letter) {
    case 'q':
      if (page == Page::kList) wants_end = true;
      page = Page::kList;
      return;
    case 'g':
      by = NextGroupBy(by);
      selected_id.clear();
      first = 0;
      return;
    case '/':
      if (page == Page::kList) is_typing = true;
      return;
    case ' ':
      is_paused = !is_paused;
      if (!is_paused) has_cursor = false;
      return;
    case '?':
    case 'h':
      page = page == Page::kHelp ? Page::kList : Page::kHelp;
      return;
    default:
      return;
  }
}

}  // namespace slotscope
