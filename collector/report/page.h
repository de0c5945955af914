// SPDX-License-Identifier: MIT
// The page itself: one file of HTML with all that it needs in it.
#pragma once

#include <string>
#include <string_view>

namespace slotscope {

// `data`: see PageData(). `title`: any text.
std::string MakePage(std::string_view title, std::string_view data);

}  // namespace slotscope
