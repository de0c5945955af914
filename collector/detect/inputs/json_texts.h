// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace slotscope {

// Finds the objects in a stream of JSON texts: one per line, as watches send them, or over many lines,
// as kubectl prints them.
class JsonTexts {
 public:
  using OnText = std::function<void(std::string_view)>;

  // Longer texts are left out.
  explicit JsonTexts(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Calls for each object that is complete now. What is no object is left out: a new one that begins at
  // the beginning of a line ends one that was cut off.
  void Feed(std::string_view bytes, const OnText& on_text);
  // Whether there is the beginning of one.
  bool has_rest() const { return depth_ > 0; }
  // Forgets that.
  void Reset();

  uint64_t nr_malformed() const { return nr_malformed_; }

 private:
  void Drop();

  size_t max_bytes_;
  std::string text_;  // the beginning of an object
  size_t depth_ = 0;
  bool in_string_ = false, is_escaped_ = false;
  bool is_too_long_ = false;
  bool is_line_begin_ = true;
  bool in_garbage_ = false;
  uint64_t nr_malformed_ = 0;
};

}  // namespace slotscope
