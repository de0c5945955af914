// SPDX-License-Identifier: MIT
#include "base/zone.h"

#include <date/tz.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "base/escape.h"
#include "base/scan.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86400 * kSecond;

int64_t Floor(int64_t number, int64_t by) { return number / by - (number % by < 0); }

// "+02:00", "-0730", "+02".
bool ParseOffset(std::string_view text, int32_t* offset_s) {
  if (text.empty() || (text[0] != '+' && text[0] != '-')) return false;
  const int32_t sign = text[0] == '-' ? -1 : 1;
  text.remove_prefix(1);
  // Two digits each.
  const auto take = [&](int32_t* number) {
    const size_t before = text.size();
    return TakeNumber(&text, number) && before - text.size() == 2;
  };
  int32_t hours, minutes = 0;
  if (text.size() == 4) {
    std::string_view of_hours = text.substr(0, 2);
    text.remove_prefix(2);
    if (!TakeNumber(&of_hours, &hours) || !of_hours.empty() || !take(&minutes)) return false;
  } else if (!take(&hours) || (!text.empty() && (!TakeText(&text, ":") || !take(&minutes)))) {
    return false;
  }
  if (!text.empty() || hours > 15 || minutes > 59) return false;
  *offset_s = sign * (hours * 3600 + minutes * 60);
  return true;
}

date::local_seconds LocalSeconds(const Zone::Local& local) {
  return date::local_days{date::year{local.year} / local.month / local.day} +
         std::chrono::seconds{Floor(local.ns, kSecond)};
}

std::string UtcText(std::chrono::seconds offset) {
  const auto minutes = static_cast<int>(offset.count() / 60);
  return fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                     std::abs(minutes) % 60);
}

}  // namespace

Status Zone::Find(std::string_view name, Zone* zone) {
  *zone = {};
  if (name == "UTC" || name == "Z" || name == "Etc/UTC") return {};
  zone->name_ = std::string(name);
  if (ParseOffset(name, &zone->offset_s_)) return {};
  try {
    zone->zone_ = date::locate_zone(name);
    return {};
  } catch (const std::exception&) {
    *zone = {};
    return {Exit::kUsage, fmt::format("there is no time zone {} in this machine's database (tzdata): "
                                      "give a name such as Europe/Berlin, UTC, or +02:00",
                                      EscapeName(name))};
  }
}

Status Zone::UnixNs(const Local& local, int64_t* unix_ns) const {
  const date::year_month_day day = date::year{local.year} / local.month / local.day;
  if (!day.ok()) return {Exit::kUsage, "there is no such day"};
  const date::local_seconds seconds = LocalSeconds(local);
  const int64_t wall_ns = seconds.time_since_epoch().count() * kSecond + (local.ns % kSecond);
  if (!zone_) {
    *unix_ns = wall_ns - offset_s_ * kSecond;
    return {};
  }
  const date::local_info info = zone_->get_info(seconds);
  if (info.result == date::local_info::nonexistent)
    return {Exit::kUsage, fmt::format("the clocks of {} never showed that: they went from {} to {} then",
                                      name_, UtcText(info.first.offset), UtcText(info.second.offset))};
  if (info.result == date::local_info::ambiguous)
    return {Exit::kUsage,
            fmt::format("the clocks of {} showed that twice: say {} (the first) or {} behind it", name_,
                        UtcText(info.first.offset), UtcText(info.second.offset))};
  *unix_ns = wall_ns - info.first.offset.count() * kSecond;
  return {};
}

int64_t Zone::OffsetNs(int64_t unix_ns) const {
  if (!zone_) return offset_s_ * kSecond;
  const date::sys_seconds at{std::chrono::seconds{Floor(unix_ns, kSecond)}};
  return zone_->get_info(at).offset.count() * kSecond;
}

Zone::Local Zone::LocalOf(int64_t unix_ns) const {
  const int64_t wall_ns = unix_ns + OffsetNs(unix_ns);
  const int64_t days = Floor(wall_ns, kDay);
  const date::year_month_day day{date::sys_days{date::days{days}}};
  return {static_cast<int>(day.year()), static_cast<int>(static_cast<unsigned>(day.month())),
          static_cast<int>(static_cast<unsigned>(day.day())), wall_ns - days * kDay};
}

std::string Zone::Text(int64_t unix_ns) const {
  const Local local = LocalOf(unix_ns);
  return fmt::format("{:04}-{:02}-{:02} {}", local.year, local.month, local.day, ClockText(unix_ns));
}

std::string Zone::ClockText(int64_t unix_ns) const {
  const int64_t ms = LocalOf(unix_ns).ns / 1'000'000;
  return fmt::format("{:02}:{:02}:{:02}.{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                     ms % 1000);
}

std::string HostZoneName() {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink("/etc/localtime", error).string();
  constexpr std::string_view kFolder = "zoneinfo/";
  const size_t at = target.find(kFolder);
  return error || at == target.npos ? "" : target.substr(at + kFolder.size());
}

}  // namespace slotscope
