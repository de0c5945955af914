// SPDX-License-Identifier: MIT
// An OutFile that keeps what was written.
#pragma once

#include <span>
#include <string>

#include "base/out_file.h"

namespace slotscope {

struct TextFile final : OutFile {
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (auto piece : pieces) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return fails ? Status(Exit::kOutput, "no space") : Status();
  }
  using OutFile::Write;
  uint64_t size() const override { return text.size(); }
  std::string text;
  bool fails = false;
};

}  // namespace slotscope
