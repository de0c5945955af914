// SPDX-License-Identifier: MIT
#include "base/when.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "base/escape.h"
#include "base/scan.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86400 * kSecond;
constexpr double kLongestNs = 9.2e18;  // 292 years

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Midnight of the day before.
Status DayBefore(const Zone& zone, Zone::Local local, Zone::Local* before) {
  local.ns = 0;
  int64_t midnight_ns;
  if (Status status = zone.UnixNs(local, &midnight_ns); !status.ok()) return status;
  *before = zone.LocalOf(midnight_ns - 1);
  before->ns = 0;
  return {};
}

struct Unit {
  std::string_view name;
  int64_t ns;
};
constexpr std::array kUnits = {
    Unit{"ns", 1},        Unit{"us", 1000},        Unit{"ms", 1'000'000},     Unit{"s", kSecond},
    Unit{"sec", kSecond}, Unit{"m", 60 * kSecond}, Unit{"min", 60 * kSecond}, Unit{"h", 3600 * kSecond},
    Unit{"d", kDay}};

Status Bad(std::string_view text, std::string_view why) {
  return {Exit::kUsage, fmt::format("{}: {}", EscapeControls(text), why)};
}

// Digits with a point in them: nanoseconds of that many seconds. What stands behind stays.
std::optional<int64_t> TakeSeconds(std::string_view* text) {
  uint64_t whole = 0;
  if (!TakeNumber(text, &whole) || whole > 9'000'000'000) return {};
  int64_t ns = static_cast<int64_t>(whole) * kSecond;
  if (!text->starts_with('.')) return ns;
  text->remove_prefix(1);
  for (int64_t digit_ns = kSecond / 10; !text->empty() && IsDigit(text->front()); digit_ns /= 10) {
    ns += (text->front() - '0') * digit_ns;
    text->remove_prefix(1);
  }
  return ns;
}

// Hours, minutes, and seconds if they are there.
std::optional<int64_t> TakeClock(std::string_view* text) {
  int hour, minute;
  if (!TakeNumber(text, &hour) || !TakeText(text, ":") || !TakeNumber(text, &minute) || hour > 23 ||
      minute > 59)
    return {};
  int64_t ns = (hour * 60 + minute) * 60 * kSecond;
  if (!TakeText(text, ":")) return ns;
  const auto seconds_ns = TakeSeconds(text);
  if (!seconds_ns || *seconds_ns >= 60 * kSecond) return {};
  return ns + *seconds_ns;
}

bool TakeDate(std::string_view* text, Zone::Local* local) {
  std::string_view rest = *text;
  if (!TakeNumber(&rest, &local->year) || !TakeText(&rest, "-") || !TakeNumber(&rest, &local->month) ||
      !TakeText(&rest, "-") || !TakeNumber(&rest, &local->day) || local->year < 1970 ||
      local->year > 2200 || local->month < 1 || local->month > 12 || local->day < 1 || local->day > 31)
    return false;
  *text = rest;
  return true;
}

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// A day, with or without a time; or a time alone, which is the last one that is not behind the end.
Status ParseDateAndClock(std::string_view text, const WhenContext& context, int64_t* unix_ns) {
  constexpr const char* kForms =
      "give a time as in 2026-11-22 03:12:07.120, 03:12:07, -5min, or @ and Unix seconds";
  std::string_view rest = text;
  Zone::Local local;
  const bool has_date = TakeDate(&rest, &local);
  if (!has_date) local = context.zone.LocalOf(context.end_ns);
  bool has_clock = !has_date;
  if (has_date && !rest.empty() && (TakeText(&rest, "T") || TakeText(&rest, " ")))
    has_clock = !rest.empty() && IsDigit(rest.front());
  local.ns = 0;
  if (has_clock) {
    const auto clock_ns = TakeClock(&rest);
    if (!clock_ns) return Bad(text, kForms);
    local.ns = *clock_ns;
  }
  Zone zone = context.zone;
  if (rest = Trim(rest);
      !rest.empty() && !IsLetter(rest.front()) && rest.front() != '+' && rest.front() != '-')
    return Bad(text, kForms);
  if (!rest.empty())
    if (Status status = Zone::Find(rest, &zone); !status.ok())
      return Bad(text, has_clock || has_date ? status.message() : kForms);
  if (Status status = zone.UnixNs(local, unix_ns); !status.ok()) return Bad(text, status.message());
  if (has_date || *unix_ns <= context.end_ns) return {};
  // If it was not there the day before either, the recording has nothing of it.
  const int64_t clock_ns = local.ns;
  int64_t day_before_ns;
  if (!DayBefore(zone, local, &local).ok()) return {};
  local.ns = clock_ns;
  if (Status status = zone.UnixNs(local, &day_before_ns); !status.ok())
    return Bad(text, status.message());
  if (day_before_ns >= context.begin_ns) *unix_ns = day_before_ns;
  return {};
}

}  // namespace

Status ParseLength(std::string_view text, int64_t* ns) {
  std::string_view rest = text;
  double sum = 0;
  while (!rest.empty()) {
    double number;
    if (!TakeNumber(&rest, &number)) break;
    size_t letters = 0;
    while (letters < rest.size() && IsLetter(rest[letters])) letters++;
    const Unit* unit = nullptr;
    for (const Unit& one : kUnits)
      if (one.name == rest.substr(0, letters)) unit = &one;
    if (!unit) break;
    sum += number * static_cast<double>(unit->ns);
    rest.remove_prefix(letters);
    if (rest.empty() && std::isfinite(sum) && sum < kLongestNs) {
      *ns = std::llround(sum);
      return {};
    }
  }
  return Bad(text, "give a length of time with its unit, as in 100ms, 90s, 5min or 1h30min");
}

Status ParseWhen(std::string_view text, const WhenContext& context, int64_t* unix_ns) {
  std::string_view trimmed = Trim(text);
  if (trimmed == "now") {
    *unix_ns = context.end_ns;
    return {};
  }
  if (trimmed == "today" || trimmed == "yesterday") {
    Zone::Local local = context.zone.LocalOf(context.end_ns);
    local.ns = 0;
    if (trimmed == "yesterday")
      if (Status status = DayBefore(context.zone, local, &local); !status.ok()) return status;
    return context.zone.UnixNs(local, unix_ns);
  }
  if (TakeText(&trimmed, "@")) {
    const auto ns = TakeSeconds(&trimmed);
    if (!ns || !trimmed.empty()) return Bad(text, "behind @ give Unix seconds, as in @1795754628.25");
    *unix_ns = *ns;
    return {};
  }
  if (TakeText(&trimmed, "-")) {
    int64_t ns;
    if (Status status = ParseLength(trimmed, &ns); !status.ok()) return status;
    *unix_ns = context.end_ns - ns;
    return {};
  }
  if (int64_t ns; ParseLength(trimmed, &ns).ok())
    return Bad(text, fmt::format("that is a length; -{} is so long before the end of the recording, and "
                                 "a time is as in 2026-11-22 03:12:07.120 or 03:12:07",
                                 trimmed));
  return ParseDateAndClock(trimmed, context, unix_ns);
}

}  // namespace slotscope
