// SPDX-License-Identifier: MIT
#include "report/page.h"

#include <cstddef>
#include <iterator>

// build/report/page.html, by the linker: see scripts/bundle_page.sh.
extern const char kPageBegin[] asm("_binary_page_html_start");
extern const char kPageEnd[] asm("_binary_page_html_end");

namespace slotscope {
namespace {

constexpr std::string_view kTitle = "@TITLE@", kData = "@DATA@";

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else
      escaped += c;
  }
  return escaped;
}

// A name may be anything, "</script>" too: in JSON it may as well be written so.
std::string EscapeScript(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      escaped += "\\u003c";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string MakePage(std::string_view title, std::string_view data) {
  const std::string_view page(kPageBegin, static_cast<size_t>(std::distance(kPageBegin, kPageEnd)));
  const size_t title_at = page.find(kTitle), data_at = page.find(kData);
  std::string text(page.substr(0, title_at));
  text += EscapeHtml(title);
  const size_t behind_title = title_at + kTitle.size();
  text += page.substr(behind_title, data_at - behind_title);
  text += EscapeScript(data);
  text += page.substr(data_at + kData.size());
  return text;
}

}  // namespace slotscope
