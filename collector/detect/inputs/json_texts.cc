// SPDX-License-Identifier: MIT
#include "detect/inputs/json_texts.h"

namespace slotscope {

void JsonTexts::Reset() {
  text_.clear();
  depth_ = 0;
  in_string_ = is_escaped_ = is_too_long_ = in_garbage_ = false;
}

void JsonTexts::Drop() {
  nr_malformed_++;
  Reset();
}

void JsonTexts::Feed(std::string_view bytes, const OnText& on_text) {
  for (char c : bytes) {
    const bool at_begin = is_line_begin_;
    is_line_begin_ = c == '\n';
    // Texts of JSON have no newline in a string.
    if (depth_ > 0 && ((in_string_ && c == '\n') || (at_begin && c == '{' && !in_string_))) Drop();
    if (depth_ == 0) {
      if (c == '{') {
        depth_ = 1;
        in_garbage_ = false;
        text_ = c;
      } else if (c == '\n') {
        in_garbage_ = false;
      } else if (!in_garbage_ && c != ' ' && c != '\t' && c != '\r' && c != ',' && c != '[' &&
                 c != ']') {
        in_garbage_ = true;  // until the line ends
        nr_malformed_++;
      }
      continue;
    }
    if (text_.size() >= max_bytes_) {
      is_too_long_ = true;
      text_.clear();
    }
    if (!is_too_long_) text_ += c;
    if (in_string_) {
      if (is_escaped_)
        is_escaped_ = false;
      else if (c == '\\')
        is_escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      depth_++;
    } else if (c == '}' || c == ']') {
      if (--depth_ > 0) continue;
      if (is_too_long_)
        nr_malformed_++;
      else
        on_text(text_);
      Reset();
    }
  }
}

}  // namespace slotscope
