// SPDX-License-Identifier: MIT
// What bpf/text.bpf.h tells as it happens, of those that are there already: messages of a state dump.
#pragma once

#include "base/status.h"
#include "ring/source.h"

namespace slotscope {

class ExistingTexts {
 public:
  explicit ExistingTexts(bool has_arguments) : has_arguments_(has_arguments) {}

  // The paths of all cgroups, of the hierarchy that has the cpu controller, and what processes execute;
  // from the second time on, when others wait to be drained, of so many processes as it can tell soon.
  void Tell(const MessagesFn& sink);

 private:
  const bool has_arguments_;
  bool has_told_ = false;
};

}  // namespace slotscope
