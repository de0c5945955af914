// SPDX-License-Identifier: MIT
#include "base/cpu_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace slotscope {
namespace {

constexpr int kMaxCpu = 65535;

// Parses a number at the front of `text` and removes it.
std::optional<int> TakeNumber(std::string_view& text) {
  int value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (err != std::errc() || value < 0 || value > kMaxCpu) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

// The first line of a file below /sys/devices/system/cpu; empty if it cannot be read.
std::string ReadCpuLine(const std::string& name) {
  std::ifstream file("/sys/devices/system/cpu/" + name);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    auto first = TakeNumber(text);
    if (!first) return std::nullopt;
    auto last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      last = TakeNumber(text);
      if (!last || *last < *first) return std::nullopt;
    }
    for (int cpu = *first; cpu <= *last; cpu++) cpus.push_back(cpu);
    if (text.empty()) break;
    if (text.front() != ',' || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(const std::vector<int>& cpus) {
  std::string text;
  for (size_t first = 0, last; first < cpus.size(); first = last + 1) {
    last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) last++;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[first]);
    if (last > first) text += fmt::format("-{}", cpus[last]);
  }
  return text;
}

std::vector<int> ReadCpuList(const std::string& name) {
  return ParseCpuList(ReadCpuLine(name)).value_or(std::vector<int>{});
}

bool IsCpuOnline(int cpu) {
  const auto online = ReadCpuList("online");
  if (!std::binary_search(online.begin(), online.end(), cpu)) return false;
  // The last state is the one that it is in when nothing is left to do: "236: online". (hotplug/target
  // says nothing of the boot CPU before 6.2.)
  std::ifstream states("/sys/devices/system/cpu/hotplug/states");
  std::string last;
  for (std::string line; std::getline(states, line);) last = line;
  const std::string now = ReadCpuLine(fmt::format("cpu{}/hotplug/state", cpu));
  std::string_view last_text = last, now_text = now;
  const auto last_state = TakeNumber(last_text), state = TakeNumber(now_text);
  return !last_state || !state || *state == *last_state;  // true if the kernel does not say
}

}  // namespace slotscope
