// SPDX-License-Identifier: MIT
// Small steps through a text.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace slotscope {

// All of the text is that number.
template <typename T>
std::optional<T> NumberOf(std::string_view text) {
  T number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// What *text begins with is taken from it; false: it begins with something else, and stays.
inline bool TakeText(std::string_view* text, std::string_view expected) {
  if (!text->starts_with(expected)) return false;
  text->remove_prefix(expected.size());
  return true;
}

// The same for a number that is not negative.
template <typename T>
bool TakeNumber(std::string_view* text, T* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < T{}) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

// A to Z only, whatever the locale.
inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

}  // namespace slotscope
