// SPDX-License-Identifier: MIT
#include "detect/inputs/timestamp.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string>
#include <utility>

#include "base/rfc3339.h"
#include "base/scan.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The next thing of a text, if it is there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool TakeAny(std::string_view set) {
    if (rest_.empty() || set.find(rest_.front()) == set.npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void SkipBlanks() {
    while (Take(' ')) {
    }
  }
  bool TakeDigits(size_t min, size_t max, int* value) {
    size_t nr = 0;
    *value = 0;
    while (nr < max && nr < rest_.size() && isdigit(static_cast<unsigned char>(rest_[nr])))
      *value = *value * 10 + (rest_[nr++] - '0');
    rest_.remove_prefix(nr);
    return nr >= min;
  }
  // Letters, and bytes of letters that are not ASCII.
  std::string_view TakeWord() {
    size_t nr = 0;
    while (nr < rest_.size() && (isalpha(static_cast<unsigned char>(rest_[nr])) ||
                                 static_cast<unsigned char>(rest_[nr]) >= 0x80))
      nr++;
    const std::string_view word = rest_.substr(0, nr);
    rest_.remove_prefix(nr);
    return word;
  }

 private:
  std::string_view rest_;
};

struct Clock {
  int hour = 0, minute = 0, second = 0;
  int64_t fraction_ns = 0;
  int64_t resolution_ns = kSecond;
};

bool TakeClock(Scanner* text, Clock* clock) {
  if (!text->TakeDigits(2, 2, &clock->hour) || !text->Take(':') ||
      !text->TakeDigits(2, 2, &clock->minute) || !text->Take(':') ||
      !text->TakeDigits(2, 2, &clock->second))
    return false;
  if (text->rest().size() < 2 || !isdigit(static_cast<unsigned char>(text->rest()[1]))) return true;
  if (!text->TakeAny(".,")) return true;
  int digit;
  while (text->TakeDigits(1, 1, &digit)) {
    if (clock->resolution_ns == 1) continue;  // finer than what we count in
    clock->resolution_ns /= 10;
    clock->fraction_ns += digit * clock->resolution_ns;
  }
  return true;
}

// Z, UTC, +02:00, +0200, +02.
bool TakeOffset(Scanner* text, int32_t* offset_s) {
  *offset_s = 0;
  if (text->Take('Z')) return true;
  if (text->rest().starts_with("UTC") || text->rest().starts_with("GMT")) {
    text->TakeWord();
    return true;
  }
  const bool is_west = text->rest().starts_with('-');
  int hours, minutes = 0;
  if (!text->TakeAny("+-") || !text->TakeDigits(2, 2, &hours)) return false;
  const bool has_colon = text->Take(':');
  if (!text->TakeDigits(2, 2, &minutes)) {
    if (has_colon) return false;
    minutes = 0;
  }
  if (hours > 14 || minutes > 59) return false;
  *offset_s = (hours * 60 + minutes) * 60 * (is_west ? -1 : 1);
  return true;
}

struct Date {
  int year = 0, month = 0, day = 0;
};

bool TakeDate(Scanner* text, Date* date) {
  return text->TakeDigits(4, 4, &date->year) && text->Take('-') &&
         text->TakeDigits(2, 2, &date->month) && text->Take('-') && text->TakeDigits(2, 2, &date->day);
}

std::optional<Moment> MomentOf(const TimeZone& zone, const Date& date, const Clock& clock) {
  const auto seconds =
      zone.UnixSeconds(date.year, date.month, date.day, clock.hour, clock.minute, clock.second);
  if (!seconds) return {};
  return Moment{*seconds * kSecond + clock.fraction_ns, clock.resolution_ns};
}

// By how its name begins, in English, German, French, Spanish, Italian, Portuguese and Dutch.
int MonthOf(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, int>, 36> kNames = {
      {{"jan", 1},      {"ene", 1},      {"gen", 1},  {"feb", 2},       {"fev", 2},  {"f\u00e9v", 2},
       {"mar", 3},      {"m\u00e4r", 3}, {"mrt", 3},  {"apr", 4},       {"avr", 4},  {"abr", 4},
       {"may", 5},      {"mai", 5},      {"mei", 5},  {"mag", 5},       {"jun", 6},  {"juin", 6},
       {"giu", 6},      {"jul", 7},      {"juil", 7}, {"lug", 7},       {"aug", 8},  {"ago", 8},
       {"ao\u00fb", 8}, {"sep", 9},      {"set", 9},  {"oct", 10},      {"okt", 10}, {"ott", 10},
       {"out", 10},     {"nov", 11},     {"dec", 12}, {"d\u00e9c", 12}, {"dez", 12}, {"dic", 12}}};
  const std::string lower = Lower(word);
  for (const auto& [name, month] : kNames)
    if (lower.starts_with(name)) return month;
  return 0;
}

}  // namespace

std::optional<TimeZone> TimeZone::Parse(std::string_view text) {
  if (text == "local") return TimeZone();
  Scanner scanner(text);
  int32_t offset_s;
  if (!TakeOffset(&scanner, &offset_s) || !scanner.empty()) return {};
  return TimeZone(offset_s);
}

std::optional<int64_t> TimeZone::UnixSeconds(int year, int month, int day, int hour, int minute,
                                             int second) const {
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < 1970 || year > 2200 || hour > 23 || minute > 59 || second > 60) return {};
  if (offset_s_)
    return std::chrono::sys_days(date).time_since_epoch().count() * int64_t{86400} + hour * 3600 +
           minute * 60 + second - *offset_s_;
  std::tm parts = {};
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  parts.tm_isdst = -1;
  return mktime(&parts);
}

std::optional<Moment> ParseTimestamp(std::string_view text) {
  Scanner scanner(text);
  Date date;
  Clock clock;
  int32_t offset_s;
  if (!TakeDate(&scanner, &date) || !scanner.TakeAny("Tt ") || !TakeClock(&scanner, &clock) ||
      !TakeOffset(&scanner, &offset_s) || !scanner.empty())
    return {};
  return MomentOf(TimeZone(offset_s), date, clock);
}

const char* LogClockText(LogClock clock) {
  switch (clock) {
    case LogClock::kLine:
      return "";
    case LogClock::kZone:
      return "its zone is not in the log";
    case LogClock::kYear:
      return "its year and zone are not in the log";
    case LogClock::kBoot:
      return "counted from the boot";
    case LogClock::kReceipt:
      return "when it was read";
    case LogClock::kNone:
      return "not known";
  }
  return "";
}

std::optional<LogTime> LogTimeReader::SinceBoot(int64_t us) const {
  constexpr int64_t kMaxUptimeUs = 100ll * 365 * 86400 * 1'000'000;
  if (!options_.boot_ns || us < 0 || us > kMaxUptimeUs) return {};
  return LogTime{{*options_.boot_ns + us * 1000, 1000}, LogClock::kBoot};
}

// "07:08:57", and a year if it stands there.
std::optional<LogTime> LogTimeReader::TakeWithoutYear(int month, int day, std::string_view rest) {
  Scanner scanner(rest);
  Clock clock;
  if (!TakeClock(&scanner, &clock)) return {};
  Scanner behind = scanner;
  int year;
  if (behind.Take(' ') && behind.TakeDigits(4, 4, &year) && (behind.empty() || behind.Take(']'))) {
    const auto when = MomentOf(options_.zone, {year, month, day}, clock);
    return when ? std::optional(LogTime{*when, LogClock::kZone}) : std::nullopt;
  }
  if (options_.year) {
    // A log that goes from December to January goes into the next year.
    if (last_month_ - month > 6) ++*options_.year;
    // And lines are not always in their order.
    if (last_month_ && month - last_month_ > 6) --*options_.year;
    last_month_ = month;
    const auto when = MomentOf(options_.zone, {*options_.year, month, day}, clock);
    return when ? std::optional(LogTime{*when, LogClock::kYear}) : std::nullopt;
  }
  if (!options_.newest_ns) return {};
  // The latest year in which it is not in the future; a day is for clocks and zones that differ.
  const auto now = static_cast<time_t>(options_.newest_ns / kSecond);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  for (int back = -1; back <= 8; back++) {  // February 29th may be long ago
    const auto when = MomentOf(options_.zone, {parts.tm_year + 1900 - back, month, day}, clock);
    if (when && when->begin_ns <= options_.newest_ns + 86400 * kSecond)
      return LogTime{*when, LogClock::kYear};
  }
  return {};
}

std::optional<LogTime> LogTimeReader::Find(std::string_view prefix) {
  std::optional<int64_t> boot_us;
  for (size_t at = 0; at < prefix.size(); at++) {
    if (at > 0 && std::string_view(" [<(\t").find(prefix[at - 1]) == std::string_view::npos) continue;
    Scanner scanner(prefix.substr(at));
    Date date;
    Clock clock;
    if (TakeDate(&scanner, &date)) {
      if (!scanner.TakeAny("Tt ") || !TakeClock(&scanner, &clock)) continue;
      Scanner zone = scanner;
      int32_t offset_s;
      zone.SkipBlanks();
      const bool has_zone = TakeOffset(&zone, &offset_s) &&
                            (zone.empty() || !isalnum(static_cast<unsigned char>(zone.rest()[0])));
      const auto when = MomentOf(has_zone ? TimeZone(offset_s) : options_.zone, date, clock);
      if (when) return LogTime{*when, has_zone ? LogClock::kLine : LogClock::kZone};
      continue;
    }
    scanner = Scanner(prefix.substr(at));
    if (std::string_view word = scanner.TakeWord(); word.size() >= 2) {
      if (!MonthOf(word)) {
        // Fri Aug  9 13:32:56 2024; in whatever language: the month behind it counts.
        scanner.Take('.');
        if (!scanner.Take(' ')) continue;
        word = scanner.TakeWord();
      }
      const int month = MonthOf(word);
      scanner.Take('.');
      int day;
      if (!month || !scanner.Take(' ')) continue;
      scanner.SkipBlanks();
      if (!scanner.TakeDigits(1, 2, &day) || !scanner.Take(' ')) continue;
      if (const auto found = TakeWithoutYear(month, day, scanner.rest())) return found;
      continue;
    }
    // [ 6781741.548779] of printk; 1724931189.283302 of journalctl -o short-unix.
    const bool in_brackets = at > 0 && prefix[at - 1] == '[';
    scanner.SkipBlanks();
    int64_t seconds;
    const char* begin = scanner.rest().data();
    const char* end = begin + scanner.rest().size();
    const auto [stop, error] = std::from_chars(begin, end, seconds);
    if (error != std::errc() || seconds < 0 || seconds > 9'000'000'000) continue;
    Scanner fraction(std::string_view(stop, static_cast<size_t>(end - stop)));
    int us;
    if (!fraction.Take('.') || !fraction.TakeDigits(6, 6, &us)) continue;
    if (in_brackets && fraction.Take(']')) {
      if (!boot_us) boot_us = seconds * 1'000'000 + us;
    } else if (at == 0 && stop - begin == 10 && fraction.Take(' ')) {
      return LogTime{{seconds * kSecond + us * int64_t{1000}, 1000}, LogClock::kLine};
    }
  }
  return boot_us ? SinceBoot(*boot_us) : std::nullopt;
}

std::string MomentText(const Moment& moment) {
  std::string text = Rfc3339(moment.begin_ns);  // with nine digits and Z
  size_t nr_digits = 9;
  for (int64_t unit = 1; unit < moment.resolution_ns && nr_digits > 0; unit *= 10) nr_digits--;
  text.pop_back();
  text.resize(text.size() - 9 + nr_digits);
  if (nr_digits == 0) text.pop_back();  // the point
  return text + "Z";
}

}  // namespace slotscope
