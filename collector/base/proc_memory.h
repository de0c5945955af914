// SPDX-License-Identifier: MIT
// What /proc reads out of a process's own memory: its environment and its arguments. Any process can let
// them lie in a file system of its own, and let who reads them wait for ever.
#pragma once

#include <cstddef>
#include <string>

namespace slotscope {

// Up to max_bytes of it. Empty if it cannot be read, or not within a second: a thread goes on waiting
// for it, nobody else does, and the same path is not asked while it waits. Of such threads there are
// kMostStuckReads at most; beyond that nothing is read until one of them ends.
inline constexpr size_t kMostStuckReads = 64;
std::string ReadProcMemory(const std::string& path, size_t max_bytes);

}  // namespace slotscope
