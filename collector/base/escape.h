// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace slotscope {

// A name as it is written in files and on screens: bytes below 0x21 except space, the comma, the double
// quote, the backslash and bytes above 0x7e become \xHH. So a CSV line is a row and never needs
// quotes, and no name can move a terminal's cursor.
inline std::string EscapeName(std::string_view name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (char c : name) {
    auto byte = static_cast<unsigned char>(c);
    bool plain = (byte >= 0x20 && byte <= 0x7e) && c != ',' && c != '"' && c != '\\';
    if (plain) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

// The same for a text of ours that came through a file: only what no sentence of ours holds.
inline std::string EscapeControls(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7e) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace slotscope
