// SPDX-License-Identifier: MIT
// The bytes of a file from front to back, unpacked if zstd has packed them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace slotscope {

struct ByteSource {
  virtual ~ByteSource() = default;
  // Fills the front of `to`, which is not empty; *size: how much of it, 0 at the end. A packed file that
  // ends within a frame ends there.
  virtual Status Read(std::span<std::byte> to, size_t* size) = 0;
};

// Exit::kBadInput if it cannot be opened.
Status OpenBytes(const std::string& path, std::unique_ptr<ByteSource>* source);

}  // namespace slotscope
