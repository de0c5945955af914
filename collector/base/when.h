// SPDX-License-Identifier: MIT
// Moments and lengths of time as people give them, and as journalctl(1) takes them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/zone.h"

namespace slotscope {

// What a moment is told against: what is being read has a beginning and an end.
struct WhenContext {
  Zone zone;  // of times that do not say theirs
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // Unix time: "now", and what relative times count from
};

// "2026-11-22 03:12:07.120" (also with a T, with fewer parts, with a zone behind it), "03:12:07" (the
// last one in front of the end; if that is in front of the beginning, of the day of the end), "today",
// "yesterday", "now", "-5min", "@1795754628.25" (Unix seconds). Exit::kUsage with what is wrong.
Status ParseWhen(std::string_view text, const WhenContext& context, int64_t* unix_ns);

// "100ms", "5min", "1h30min", "90s", "2.5s". Exit::kUsage if it is none, or longer than a thousand
// years.
Status ParseLength(std::string_view text, int64_t* ns);

}  // namespace slotscope
