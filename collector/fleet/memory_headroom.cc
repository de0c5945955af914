// SPDX-License-Identifier: MIT
#include "fleet/memory_headroom.h"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace slotscope {
namespace {

std::optional<uint64_t> NumberBehind(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == text.npos) return {};
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  return number;
}

}  // namespace

std::optional<double> MemoryHeadroom(std::string_view meminfo) {
  const auto total = NumberBehind(meminfo, "MemTotal:");
  const auto available = NumberBehind(meminfo, "MemAvailable:");
  if (!total || !available || *total == 0 || *available > *total) return {};
  return static_cast<double>(*available) / static_cast<double>(*total);
}

std::optional<double> ReadMemoryHeadroom() {
  std::ifstream file("/proc/meminfo");
  std::ostringstream text;
  text << file.rdbuf();
  return MemoryHeadroom(text.str());
}

}  // namespace slotscope
