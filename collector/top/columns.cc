// SPDX-License-Identifier: MIT
#include "top/columns.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/party_text.h"

namespace slotscope {
namespace {

constexpr const char* kNotMeasured = "-";
constexpr double kMuch = 0.1, kVeryMuch = 0.5;  // of the time

std::string Share(uint64_t ns, int64_t of_ns) {
  return of_ns <= 0 ? kNotMeasured
                    : fmt::format("{:.1f}", 100 * static_cast<double>(ns) / static_cast<double>(of_ns));
}

Tone ToneOf(uint64_t ns, int64_t of_ns) {
  const double share = of_ns <= 0 ? 0 : static_cast<double>(ns) / static_cast<double>(of_ns);
  return share >= kVeryMuch ? Tone::kHot : share >= kMuch ? Tone::kWarm : Tone::kPlain;
}

std::string Pid(const TopRow& row) {
  return row.members.size() == 1 ? fmt::format("{}", row.who.tgid)
                                 : fmt::format("x{}", row.members.size());
}

std::string Age(int64_t ns) {
  if (ns < kSecondNs) return fmt::format("{}ms", ns / 1'000'000);
  if (ns < 100 * kSecondNs) return fmt::format("{:.1f}s", static_cast<double>(ns) / 1e9);
  return fmt::format("{}min", ns / (60 * kSecondNs));
}

std::string State(const TopRow& row, int64_t now_ns) {
  if (row.members.size() != 1 || row.state.name.empty()) return "";
  if (!row.state.is_held() || row.state.since_ns == 0) return row.state.name;
  return fmt::format("{} {}", row.state.name, Age(std::max<int64_t>(0, now_ns - row.state.since_ns)));
}

// "+" is where something was cut off. A path keeps its end, which tells it from others.
std::string Fitted(std::string_view whole, size_t width) {
  if (whole.size() <= width) return std::string(whole);
  std::string text = WithShortIds(whole);
  const size_t more = text.size() <= width ? 0 : text.size() - width;
  if (more == 0) return text;
  const size_t path = text.starts_with('/') ? 0 : text.find(" /") + 1;  // npos + 1: none
  const bool is_path = text.starts_with('/') || path > 0;
  if (is_path && path + more + 1 < std::min(text.find(' ', path), text.size()))
    return text.replace(path, more + 1, "+");
  text.resize(width - 1);
  return text + "+";
}

}  // namespace

std::string MsText(uint64_t ns) {
  const double ms = static_cast<double>(ns) / 1e6;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::string Field(std::string_view text, size_t width, bool is_left) {
  if (width == 0) return std::string(text);
  return is_left ? fmt::format("{:<{}}", Fitted(text, width), width)
                 : fmt::format("{:>{}}", text, width);
}

std::vector<TopColumn> ColumnsFor(const TopSecond& second, const Zone& zone, size_t width) {
  const int64_t of_ns = second.recorded_ns;
  const TopColumn pid = {"PID", SortBy::kPid, 7, false, Pid, nullptr};
  TopColumn name = {"NAME", SortBy::kName, 15, true, [](const TopRow& row) { return row.who.name; },
                    nullptr};
  const TopColumn state = {
      "STATE", {}, 14, true, [to_ns = second.to_ns](const TopRow& row) { return State(row, to_ns); },
      nullptr};
  const TopColumn cpu = {"CPU%",
                         SortBy::kCpu,
                         6,
                         false,
                         [of_ns](const TopRow& row) { return Share(row.did.cpu_ns, of_ns); },
                         nullptr};
  const TopColumn wait = {"WAIT%",
                          SortBy::kWait,
                          6,
                          false,
                          [of_ns](const TopRow& row) {
                            return row.did.has_waits ? Share(row.did.wait_ns, of_ns) : kNotMeasured;
                          },
                          [of_ns](const TopRow& row) { return ToneOf(row.did.wait_ns, of_ns); }};
  const TopColumn worst = {
      "WORST",
      SortBy::kWorst,
      5,
      false,
      [](const TopRow& row) { return row.has_worst() ? MsText(row.worst_wait_ns) : kNotMeasured; },
      nullptr};
  // ".431": the millisecond of the second that the title has.
  const TopColumn at = {"AT",
                        {},
                        4,
                        true,
                        [zone](const TopRow& row) {
                          if (row.worst_start_ns == 0) return std::string();
                          const std::string clock = zone.ClockText(row.worst_start_ns);
                          return clock.substr(clock.size() - 4);
                        },
                        nullptr};
  const TopColumn throttled = {
      "THR%",
      SortBy::kThrottled,
      5,
      false,
      [of_ns](const TopRow& row) {
        return row.did.IsMeasured(kByQuota) ? Share(row.did.throttled_ns, of_ns) : kNotMeasured;
      },
      [of_ns](const TopRow& row) { return ToneOf(row.did.throttled_ns, of_ns); }};
  const TopColumn gpu = {"GPU%",
                         SortBy::kGpu,
                         5,
                         false,
                         [of_ns](const TopRow& row) {
                           return row.did.has_gpu ? Share(row.did.gpu_active_ns, of_ns) : kNotMeasured;
                         },
                         nullptr};
  const TopColumn traffic = {"MB/s",
                             SortBy::kTraffic,
                             7,
                             false,
                             [of_ns](const TopRow& row) {
                               return row.did.has_traffic && of_ns > 0
                                          ? fmt::format("{:.0f}",
                                                        static_cast<double>(row.did.traffic_bytes) *
                                                            1e3 / static_cast<double>(of_ns))
                                          : kNotMeasured;
                             },
                             nullptr};
  TopColumn instead = {"RAN INSTEAD (ms)",
                       {},
                       20,
                       true,
                       [](const TopRow& row) {
                         if (row.ran_instead.empty()) return std::string();
                         const auto& [who, ns] = row.ran_instead.front();
                         return fmt::format("{} {}", MsText(ns), who);
                       },
                       nullptr};
  const auto any = [&](auto is_there) {
    return std::any_of(second.rows.begin(), second.rows.end(), is_there);
  };
  if (width == 0) {
    name.width = instead.width = 0;
    for (const TopRow& row : second.rows) {
      name.width = std::max(name.width, row.who.name.size());
      instead.width = std::max(instead.width, instead.text(row).size());
    }
    name.width = std::max<size_t>(name.width, 4);
    return {pid, name, state, cpu, wait, worst, at, throttled, gpu, traffic, instead};
  }
  // What everybody asks for first, then what there is of the others.
  const auto width_of = [](const TopColumn& column) { return column.width + 1; };
  size_t used =
      width_of(pid) + width_of(name) + width_of(cpu) + width_of(wait) + width_of(worst) + width_of(at);
  const auto take = [&](const TopColumn& column, bool is_wanted) {
    if (!is_wanted || used + width_of(column) > width + 1) return false;
    used += width_of(column);
    return true;
  };
  const bool has_instead = take(instead, true);
  const bool has_throttled =
      take(throttled, any([](const TopRow& row) { return row.did.throttled_ns > 0; }));
  const bool has_gpu = take(gpu, any([](const TopRow& row) { return row.did.has_gpu; }));
  const bool has_traffic = take(traffic, any([](const TopRow& row) { return row.did.has_traffic; }));
  const bool has_state = take(state, true);
  // What is left: pods have long names, and who ran instead has a number behind his.
  const size_t left = width + 1 > used ? width + 1 - used : 0;
  size_t longest = 0;
  for (const TopRow& row : second.rows) longest = std::max(longest, row.who.name.size());
  const size_t more = std::min({left / 2, longest > name.width ? longest - name.width : 0, size_t{25}});
  name.width += more;
  instead.width += left - more;
  std::vector<TopColumn> columns = {pid, name};
  if (has_state) columns.push_back(state);
  columns.insert(columns.end(), {cpu, wait, worst, at});
  if (has_throttled) columns.push_back(throttled);
  if (has_gpu) columns.push_back(gpu);
  if (has_traffic) columns.push_back(traffic);
  if (has_instead) columns.push_back(instead);
  return columns;
}

}  // namespace slotscope
