// SPDX-License-Identifier: MIT
// What this machine can or cannot measure: a line of `slotscope check`.
#pragma once

#include <string>
#include <vector>

namespace slotscope {

struct CheckLine {
  enum class State {
    kYes,
    kPartly,
    kNo,
    kSize,  // neither: how much something takes or holds
  };

  std::string name;  // one word or two
  State state = State::kYes;
  std::string what;    // what is so, and why
  std::string remedy;  // what to do about it; empty: nothing is to be done, or nothing can be
};

inline constexpr const char* kCheckStateNames[] = {"yes", "partly", "no", "size"};

using CheckLines = std::vector<CheckLine>;

// For people, of at most `width` columns; and for programs.
std::string CheckText(const CheckLines& lines, size_t width);

}  // namespace slotscope
