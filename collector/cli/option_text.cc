// SPDX-License-Identifier: MIT
#include "cli/option_text.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/escape.h"

namespace slotscope {

boost::program_options::typed_value<std::string>* Text(std::string* value, const char* name) {
  return boost::program_options::value<std::string>(value)->value_name(name);
}

Status Usage(std::string message) { return {Exit::kUsage, std::move(message)}; }

bool ParseNumber(std::string_view text, uint64_t min, uint64_t max, uint64_t* value) {
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return err == std::errc() && end == text.data() + text.size() && *value >= min && *value <= max;
}

uint64_t TakeUnit(std::initializer_list<std::pair<char, uint64_t>> units, std::string_view* text) {
  for (const auto& [unit, factor] : units)
    if (text->ends_with(unit)) {
      text->remove_suffix(1);
      return factor;
    }
  return 0;
}

bool ParseSize(std::string_view text, uint64_t min, uint64_t* bytes) {
  const uint64_t factor =
      TakeUnit({{'K', 1u << 10}, {'M', 1u << 20}, {'G', 1u << 30}, {'T', uint64_t{1} << 40}}, &text);
  if (!ParseNumber(text, 1, UINT64_MAX >> 41, bytes)) return false;
  *bytes *= factor ? factor : 1;
  return *bytes >= min;
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

Status ParsePids(const std::string& text, std::vector<int32_t>* pids) {
  for (const std::string& item : Split(text)) {
    uint64_t pid;
    if (!ParseNumber(item, 1, 4194304, &pid))
      return Usage(fmt::format("--pid {}: '{}' is not a process id", text, item));
    pids->push_back(static_cast<int32_t>(pid));
  }
  if (!text.empty() && pids->empty())
    return Usage(fmt::format("--pid {}: there is no process id in it", text));
  return {};
}

Status CheckId(const char* option, const std::string& id) {
  constexpr size_t kMaxId = 253;  // of a DNS name
  if (!id.empty() && id.size() <= kMaxId &&
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return {};
  return Usage(fmt::format("{} {}: give 1 to {} printable ASCII characters without blanks", option,
                           EscapeControls(id), kMaxId));
}

namespace {

// A host's name, which is resolved; or an IPv4 address, as the name of no host is all digits.
bool IsHost(const std::string& host) {
  in_addr address;
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return true;
  return host.find_first_not_of("0123456789.") != host.npos &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) || c == '.' || c == '-' || c == '_');
         });
}

}  // namespace

Status CheckMetrics(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = colon == text.npos ? "127.0.0.1" : text.substr(0, colon);
  uint64_t port;
  if (ParseNumber(colon == text.npos ? text : text.substr(colon + 1), 1, 65535, &port) && IsHost(host))
    return {};
  return Usage(
      fmt::format("--metrics {}: give a PORT of the loopback interface, or HOST:PORT, where HOST is a "
                  "name or an IPv4 address of this machine (0.0.0.0: all of them)",
                  EscapeName(text)));
}

}  // namespace slotscope
