// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace slotscope {

// With the newline. Names are any bytes: those that are no UTF-8 become U+FFFD, and all that is not
// ASCII is escaped.
std::string JsonLine(const nlohmann::ordered_json& object);

}  // namespace slotscope
