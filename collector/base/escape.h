// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace slotscope {

// Each byte for which is_plain(byte) is false becomes \xHH.
template <typename IsPlain>
std::string EscapeUnless(IsPlain is_plain, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (is_plain(byte)) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

inline bool IsPrintable(unsigned char byte) { return byte >= 0x20 && byte <= 0x7e; }

// A name as it is written in files and on screens: bytes below 0x21 except space, the comma, the double
// quote, the backslash, '#' and bytes above 0x7e become \xHH. So a CSV line is a row and never needs
// quotes, nobody takes the rest of it for a comment, and no name can move a terminal's cursor.
inline std::string EscapeName(std::string_view name) {
  return EscapeUnless(
      [](unsigned char c) { return IsPrintable(c) && c != ',' && c != '"' && c != '\\' && c != '#'; },
      name);
}

// The same for a text of ours that came through a file: only what no sentence of ours holds.
inline std::string EscapeControls(std::string_view text) { return EscapeUnless(IsPrintable, text); }

}  // namespace slotscope
