// SPDX-License-Identifier: MIT
#include "check/line.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace slotscope {
namespace {

constexpr size_t kIndent = 22;  // state and name

// `text` in lines that are broken at blanks, each but the first behind `indent`.
void AppendWrapped(std::string_view text, size_t width, const std::string& indent, std::string* to) {
  size_t room = width - indent.size();
  while (text.size() > room) {
    size_t end = text.rfind(' ', room);
    if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    *to += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (text.empty()) break;
    *to += '\n' + indent;
  }
  *to += text;
  *to += '\n';
}

}  // namespace

std::string CheckText(const CheckLines& lines, size_t width) {
  std::string text;
  for (const CheckLine& line : lines) {
    const bool is_size = line.state == CheckLine::State::kSize;
    text += fmt::format("{:<8}{:<13} ", is_size ? "" : kCheckStateNames[static_cast<size_t>(line.state)],
                        line.name);
    AppendWrapped(line.what, width, std::string(kIndent, ' '), &text);
    if (line.remedy.empty()) continue;
    text += std::string(kIndent, ' ') + "-> ";
    AppendWrapped(line.remedy, width, std::string(kIndent + 3, ' '), &text);
  }
  return text;
}

}  // namespace slotscope
