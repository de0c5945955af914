// SPDX-License-Identifier: MIT
// Reads the remediation protocol, of any producer: types that are not known are ignored, optional fields
// may be missing, and nothing that comes is trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "ring/item.h"

namespace slotscope {

// Cuts a stream of bytes into lines. One that is longer than kMaxLine is skipped to its end.
class LineCutter {
 public:
  static constexpr size_t kMaxLine = 64u << 10;

  void Feed(std::string_view bytes, const std::function<void(std::string_view line)>& on_line);
  // Of another stream: half a line is forgotten.
  void Reset() {
    begun_.clear();
    skipping_ = false;
  }
  uint64_t nr_too_long() const { return nr_too_long_; }

 private:
  std::string begun_;
  bool skipping_ = false;
  uint64_t nr_too_long_ = 0;
};

struct RemoteMessage {
  enum class Kind { kIgnored, kMalformed, kMemory, kStraggle } kind;
  // Without their time.
  RemoteMemory memory = {};
  RemoteStraggle straggle = {};
  std::optional<int64_t> unix_ns;
};

RemoteMessage ParseRemoteLine(std::string_view line);

// When that was by CLOCK_MONOTONIC. What would be to come, or longer ago than kMaxRemoteLagNs, was dated
// by a wall clock that has been set since, or by another one: then it is now, and *misdated.
inline constexpr uint64_t kMaxRemoteLagNs = 10'000'000'000;
uint64_t MonotonicOf(std::optional<int64_t> unix_ns, const ClockPair& now, bool* misdated);

}  // namespace slotscope
