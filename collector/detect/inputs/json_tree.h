// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "base/status.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {

// One JSON text. Exit::kBadInput, with the place, if it is none, or deeper than anything that means
// something.
Status ParseJson(std::string_view text, ValueTree* tree, ValueTree::Index* root);

}  // namespace slotscope
