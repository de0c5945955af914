// SPDX-License-Identifier: MIT
#include "recording/segment_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace slotscope {
namespace {

constexpr std::string_view kCompressed = ".zst";
constexpr uint64_t kMaxNumber = 1'000'000'000'000;  // a segment a second, for longer than machines are
constexpr const char* kTimeFormat = "%Y%m%dT%H%M%SZ";

}  // namespace

std::string FormatSegmentName(const SegmentName& name) {
  const time_t seconds = name.unix_s;
  tm parts = {};
  gmtime_r(&seconds, &parts);
  char time[32];
  strftime(time, sizeof(time), kTimeFormat, &parts);
  return fmt::format("{}-{:06}-{}.{}{}", name.table, name.number, time, name.extension, kCompressed);
}

std::optional<SegmentName> ParseSegmentName(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  SegmentName name;
  const size_t first = text.find('-');
  const size_t second = text.find('-', first == text.npos ? first : first + 1);
  const size_t dot = text.find('.');
  if (second == text.npos || dot == text.npos || dot < second || !text.ends_with(kCompressed)) return {};
  name.table = text.substr(0, first);
  const std::string_view number = text.substr(first + 1, second - first - 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), name.number);
  if (error != std::errc() || end != number.data() + number.size() || name.number > kMaxNumber)
    return {};
  const std::string time(text.substr(second + 1, dot - second - 1));
  tm parts = {};
  const char* time_end = strptime(time.c_str(), kTimeFormat, &parts);
  if (!time_end || *time_end) return {};
  name.unix_s = timegm(&parts);
  if (text.size() < dot + 1 + kCompressed.size()) return {};
  name.extension = text.substr(dot + 1, text.size() - dot - 1 - kCompressed.size());
  if (name.table.empty() || !std::ranges::all_of(name.table, is_letter) || name.extension.empty() ||
      !std::ranges::all_of(name.extension, is_letter) || FormatSegmentName(name) != text)
    return {};
  return name;
}

}  // namespace slotscope
