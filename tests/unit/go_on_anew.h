// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/state.h"

namespace slotscope {

// Another stage goes on in the place of this one, which is made with `args` and has read its state.
template <typename Stage, typename... Args>
void GoOnAnew(Stage* stage, Args&&... args) {
  StateWriter written;
  stage->State(written);
  const std::string text = std::move(written).text();
  std::destroy_at(stage);
  std::construct_at(stage, std::forward<Args>(args)...);
  StateReader read(std::as_bytes(std::span(text)));
  stage->State(read);
  ASSERT_TRUE(read.done());
}

}  // namespace slotscope
