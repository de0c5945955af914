// SPDX-License-Identifier: MIT
#pragma once

namespace slotscope {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace slotscope
