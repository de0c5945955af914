// SPDX-License-Identifier: MIT
#include "base/escape.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace slotscope {
namespace {

TEST(EscapeName, WritesWhatIsNotPlainInHex) {
  using std::string_view_literals::operator""sv;
  const struct {
    std::string_view name;
    const char* escaped;
  } cases[] = {
      {"", ""},
      {"bash", "bash"},
      {"Web Content", "Web Content"},
      {"kworker/0:1-ev", "kworker/0:1-ev"},
      {"(sd-pam)", "(sd-pam)"},
      {"~!'#$", "~!'\\x23$"},
      {"a,b", "a\\x2cb"},
      {"\"", "\\x22"},
      {"\\", "\\x5c"},
      {"\\x41", "\\x5cx41"},
      {"\n\r\t", "\\x0a\\x0d\\x09"},
      {"\x1b[2J", "\\x1b[2J"},
      {"\x1f\x20\x21", "\\x1f !"},
      {"\x7e\x7f\x80", "~\\x7f\\x80"},
      {"\xc3\xa9\xff", "\\xc3\\xa9\\xff"},
      {"a\0b"sv, "a\\x00b"},
  };
  for (const auto& c : cases) EXPECT_EQ(EscapeName(c.name), c.escaped);
}

// Each name has its own text: a reader can undo it.
TEST(EscapeName, EveryByteIsOnePlainCharacterOrFour) {
  for (int byte = 0; byte < 256; byte++) {
    std::string escaped = EscapeName(std::string(1, static_cast<char>(byte)));
    if (escaped.size() == 1) {
      EXPECT_EQ(escaped[0], static_cast<char>(byte));
    } else {
      ASSERT_EQ(escaped.size(), 4u) << byte;
      EXPECT_EQ(escaped.substr(0, 2), "\\x");
      EXPECT_EQ(std::stoi(escaped.substr(2), nullptr, 16), byte);
    }
    for (char c : escaped) {
      EXPECT_GE(c, ' ');
      EXPECT_LE(c, '~');
    }
    EXPECT_EQ(escaped.find_first_of(",\""), std::string::npos);
  }
}

}  // namespace
}  // namespace slotscope
