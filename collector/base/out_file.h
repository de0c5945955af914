// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/status.h"

namespace slotscope {

// Something to write to, from front to back.
struct OutFile {
  virtual ~OutFile() = default;
  // All of the pieces, one behind the other, or an error; after an error nothing more is written.
  virtual Status Write(std::initializer_list<std::span<const std::byte>> pieces) = 0;
  Status Write(std::string_view text) { return Write({std::as_bytes(std::span(text))}); }
  // Bytes written so far.
  virtual uint64_t size() const = 0;
};

}  // namespace slotscope
