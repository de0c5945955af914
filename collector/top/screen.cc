// SPDX-License-Identifier: MIT
#include "top/screen.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdlib>

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

// Of terminfo. Its header makes macros of short words.
extern "C" char* tigetstr(const char* capability);

namespace slotscope {
namespace {

constexpr short kWarmPair = 1, kHotPair = 2;

attr_t AttributesOf(Tone tone, bool has_colors) {
  switch (tone) {
    case Tone::kPlain:
      return A_NORMAL;
    case Tone::kTitle:
      return A_BOLD;
    case Tone::kSorted:
      return A_BOLD | A_UNDERLINE;
    case Tone::kSelected:
      return A_REVERSE;
    case Tone::kDim:
      return A_DIM;
    case Tone::kWarm:
      return has_colors ? static_cast<attr_t>(COLOR_PAIR(kWarmPair)) : A_BOLD;
    case Tone::kHot:
      return has_colors ? static_cast<attr_t>(COLOR_PAIR(kHotPair)) | A_BOLD : A_BOLD;
  }
  return A_NORMAL;
}

}  // namespace

Status Screen::Open() {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    return {Exit::kUsage,
            "top needs a terminal, and this is none: slotscope top --once prints a second"};
  setlocale(LC_CTYPE, "");
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (!screen) {
    const char* name = getenv("TERM");
    return {Exit::kUsage,
            fmt::format("this terminal is not known (TERM={}): set TERM to what it is, such as xterm or "
                        "vt100, or use slotscope top --once",
                        name ? name : "")};
  }
  screen_ = screen;
  const char* moves = tigetstr("cup");
  if (!moves || moves == reinterpret_cast<char*>(-1)) {
    Close();
    return {Exit::kUsage,
            "this terminal cannot show a page (its TERM says so): slotscope top --once prints a second"};
  }
  cbreak();
  noecho();
  keypad(stdscr, true);
  set_escdelay(25);
  curs_set(0);
  // https://no-color.org
  const char* no_color = getenv("NO_COLOR");
  if ((!no_color || !*no_color) && has_colors() && start_color() == OK) {
    use_default_colors();
    init_pair(kWarmPair, COLOR_YELLOW, -1);
    init_pair(kHotPair, COLOR_RED, -1);
    has_colors_ = true;
  }
  return {};
}

void Screen::Close() {
  if (!screen_) return;
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
  screen_ = nullptr;
}

size_t Screen::height() const { return static_cast<size_t>(getmaxy(stdscr)); }
size_t Screen::width() const { return static_cast<size_t>(getmaxx(stdscr)); }

void Screen::Show(const ScreenText& lines) {
  werase(stdscr);
  const auto rows = static_cast<size_t>(getmaxy(stdscr)), columns = static_cast<size_t>(getmaxx(stdscr));
  for (size_t y = 0; y < lines.size() && y < rows; y++) {
    size_t x = 0;
    for (const Piece& piece : lines[y]) {
      if (x >= columns) break;
      wattrset(stdscr, static_cast<int>(AttributesOf(piece.tone, has_colors_)));
      // The very last place of a screen scrolls it, or is an error that does no harm.
      mvwaddnstr(stdscr, static_cast<int>(y), static_cast<int>(x), piece.text.c_str(),
                 static_cast<int>(piece.text.size()));
      x = static_cast<size_t>(getcurx(stdscr));
      if (static_cast<size_t>(getcury(stdscr)) != y) break;
    }
  }
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

KeyPress Screen::Wait(int milliseconds) {
  wtimeout(stdscr, milliseconds);
  const int got = wgetch(stdscr);
  switch (got) {
    case ERR:
      return {};
    case KEY_UP:
      return {Key::kUp, 0};
    case KEY_DOWN:
      return {Key::kDown, 0};
    case KEY_LEFT:
      return {Key::kLeft, 0};
    case KEY_RIGHT:
      return {Key::kRight, 0};
    case KEY_PPAGE:
      return {Key::kPageUp, 0};
    case KEY_NPAGE:
      return {Key::kPageDown, 0};
    case KEY_HOME:
      return {Key::kHome, 0};
    case KEY_END:
      return {Key::kEnd, 0};
    case KEY_ENTER:
    case '\n':
    case '\r':
      return {Key::kEnter, 0};
    case 27:
      return {Key::kEscape, 0};
    case KEY_BACKSPACE:
    case 8:
    case 127:
      return {Key::kBackspace, 0};
    case KEY_RESIZE:
      return {Key::kResize, 0};
    default:
      break;
  }
  if (got >= ' ' && got < 127) return {Key::kLetter, static_cast<char>(got)};
  return {};
}

}  // namespace slotscope
