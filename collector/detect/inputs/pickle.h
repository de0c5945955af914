// SPDX-License-Identifier: MIT
// Reads pickles of plain data: nothing in them is executed, looked up or made but numbers, texts, lists
// and dicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {

// Texts of *tree are in `bytes`. Of protocol 2 only what PyTorch's flight recorder writes is read; of
// protocols 3 to 5 what Python writes of the same data. Exit::kBadInput, with the offset, for all else.
Status ParsePickle(std::string_view bytes, ValueTree* tree, ValueTree::Index* root);

}  // namespace slotscope
