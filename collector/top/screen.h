// SPDX-License-Identifier: MIT
// A terminal, by ncurses.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "top/control.h"
#include "top/screen_text.h"

namespace slotscope {

class Screen {
 public:
  Screen() = default;
  ~Screen() { Close(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Exit::kUsage: standard input and output are no terminal, or one that nobody knows.
  Status Open();
  // As it was before.
  void Close();

  size_t height() const;
  size_t width() const;
  void Show(const ScreenText& lines);
  // Waits for a key for that long; kNone: there was none, or a signal came.
  KeyPress Wait(int milliseconds);

 private:
  void* screen_ = nullptr;  // SCREEN
  bool has_colors_ = false;
};

}  // namespace slotscope
