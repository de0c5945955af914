// SPDX-License-Identifier: MIT
#include "base/json_line.h"

#include <nlohmann/json.hpp>

namespace slotscope {

std::string JsonLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace slotscope
