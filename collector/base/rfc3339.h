// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace slotscope {

// Of a Unix time, in UTC, with nanoseconds.
std::string Rfc3339(int64_t unix_ns);

}  // namespace slotscope
