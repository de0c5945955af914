// SPDX-License-Identifier: MIT
// Files of others: never more of one than was agreed, and no waiting for who does not write.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace slotscope {

// Appends what comes until the end, or until there are max_bytes. False, with errno: it cannot be read.
bool ReadUpTo(int fd, size_t max_bytes, std::string* bytes);

// What /proc says, up to so many bytes of it: a hostile process's environment is as long as it likes.
// Empty if it cannot be read.
std::string ReadProcFile(const std::string& path, size_t max_bytes);

// Each of its lines, up to so many bytes of it, a piece at a time: what we keep of it is a line. The
// last one need not end, but one that is cut by max_bytes is left out. False if it cannot be read. `fn`
// returns whether to go on.
bool ForEachProcLine(const std::string& path, size_t max_bytes,
                     const std::function<bool(std::string_view line)>& fn);

// A whole file. Refused, with a reason, if it is larger, is a link or no regular file (a FIFO could keep
// us for ever), or is cut while it is read.
Status ReadWholeFile(const std::string& path, size_t max_bytes, std::string* bytes);

}  // namespace slotscope
