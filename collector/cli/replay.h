// SPDX-License-Identifier: MIT
#pragma once

#include "cli/options.h"

namespace slotscope {

// slotscope replay and slotscope gen. Return the exit code of the program.
int Replay(const ReplayOptions& options);
int Generate(const GenerateOptions& options);

}  // namespace slotscope
