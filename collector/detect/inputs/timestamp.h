// SPDX-License-Identifier: MIT
// The ways in which logs and Kubernetes write down when something was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "detect/inputs/moment.h"

namespace slotscope {

// A fixed distance from UTC, or this machine's own zone.
class TimeZone {
 public:
  TimeZone() = default;  // this machine's
  explicit TimeZone(int32_t offset_s) : offset_s_(offset_s) {}
  // local, UTC, Z, +02:00, -0730, +02.
  static std::optional<TimeZone> Parse(std::string_view text);

  // Unix seconds. Nothing if there is no such date.
  std::optional<int64_t> UnixSeconds(int year, int month, int day, int hour, int minute,
                                     int second) const;

 private:
  std::optional<int32_t> offset_s_;
};

// 2025-05-28T08:05:50Z, with a fraction after a point or a comma, and any distance from UTC. All of the
// text is one time; without a zone it is none.
std::optional<Moment> ParseTimestamp(std::string_view text);
// Such a text, in UTC, with as many digits as it is good for.
std::string MomentText(const Moment& moment);

// What is needed where logs leave out a part.
struct LogTimeOptions {
  std::optional<int64_t> boot_ns;  // Unix time of the boot
  std::optional<int> year;         // of the first line
  TimeZone zone;
  int64_t newest_ns = 0;  // Unix time: no line is later; 0: not known
};

// Where a line's time is from.
enum class LogClock : uint8_t {
  kLine,     // all of it stands there
  kZone,     // but its zone, which was given or assumed
  kYear,     // nor its year
  kBoot,     // it counts from the boot, whose time was given
  kReceipt,  // it was read then
  kNone,     // it cannot be placed
};
// For people: "its zone is not in the log".
const char* LogClockText(LogClock clock);

struct LogTime {
  Moment when;
  LogClock clock = LogClock::kLine;
};

// Of lines in the order in which they were written.
class LogTimeReader {
 public:
  explicit LogTimeReader(const LogTimeOptions& options) : options_(options) {}

  // The time in what stands before a line's text: a date and time wherever it stands; else seconds since
  // the boot in brackets, if its time is known. Nothing if there is none.
  std::optional<LogTime> Find(std::string_view prefix);
  // No line is later than now. Where the log goes on, that is to be said again.
  void SetNewest(int64_t newest_ns) { options_.newest_ns = newest_ns; }
  // Microseconds since the boot.
  std::optional<LogTime> SinceBoot(int64_t us) const;

 private:
  std::optional<LogTime> TakeWithoutYear(int month, int day, std::string_view rest);

  LogTimeOptions options_;
  int last_month_ = 0;  // of lines without a year
};

}  // namespace slotscope
