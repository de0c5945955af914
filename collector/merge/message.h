// SPDX-License-Identifier: MIT
// Validation of one message. What comes out of a ring is untrusted: nothing may be read from it before
// this has said yes.
#pragma once

#include <slotscope/events.h>

#include <cstddef>
#include <span>

namespace slotscope {

enum class Verdict {
  kValid,
  kUnknownType,
  kMalformed,  // shorter than its type needs, or with impossible values
};

// Copies `bytes` into *message (the rest of it is zeroed) and checks type, size and the values that
// later stages rely on. A message longer than its type is valid: newer writers may append fields.
Verdict DecodeMessage(std::span<const std::byte> bytes, ss_any_message* message);

}  // namespace slotscope
