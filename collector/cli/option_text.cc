// SPDX-License-Identifier: MIT
#include "cli/option_text.h"

#include <fmt/core.h>

#include <algorithm>
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

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

Status CheckId(const char* option, const std::string& id) {
  constexpr size_t kMaxId = 253;  // of a DNS name
  if (!id.empty() && id.size() <= kMaxId &&
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return {};
  return Usage(fmt::format("{} {}: give 1 to {} printable ASCII characters without blanks", option,
                           EscapeControls(id), kMaxId));
}

}  // namespace slotscope
