// SPDX-License-Identifier: MIT
#pragma once

namespace slotscope {

inline constexpr const char* kVersion = "0.2.0";

}  // namespace slotscope
