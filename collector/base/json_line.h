// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace slotscope {

// With the newline. Names are any bytes: those that are no UTF-8 become U+FFFD, and all that is not
// ASCII is escaped.
inline std::string JsonLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace slotscope
