// SPDX-License-Identifier: MIT
// How long the reader waits between two rounds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace slotscope {

// A round every 10 ms: short beside the window of 64 slots, and cheaper than following the events. A
// ring holds 30 ms of the worst storm; one that is half full ends the wait.
//
// While no ring would be filled by an eighth in so long, rounds may be quiet: half a second. A round
// with more is the last of them, and a ring that is a quarter full ends it.
class RoundLength {
 public:
  static constexpr int kMs = 10;
  static constexpr int kSlowMs = 40;
  static constexpr int kQuietMs = 500;
  static constexpr int kUntoldQuietMs = 200;
  static constexpr uint64_t kQuietShare = 8;
  static constexpr int kPatience = 16;  // rounds with little, before one is quiet

  // Before the first round: nobody acts on what comes within less than a quiet one.
  void AllowQuiet() { may_be_quiet_ = true; }
  // Before the first round: a CPU that comes or goes ends a round. Else quiet ones are shorter.
  void HearOfHotplug() { quiet_ms_ = kQuietMs; }
  // Any thread: longer or not, when the recording costs too much.
  void SlowDown(bool slow) { ms_.store(slow ? kSlowMs : kMs, std::memory_order_relaxed); }
  // A round began, and most_bytes were in the fullest ring, of ring_bytes each: since the one before.
  void OnRound(uint64_t begun_ns, uint64_t most_bytes, uint64_t ring_bytes) {
    const uint64_t took_ms = (begun_ns - std::exchange(begun_ns_, begun_ns)) / 1'000'000 + 1;
    const bool is_little =
        most_bytes * static_cast<uint64_t>(quiet_ms_) / took_ms < ring_bytes / kQuietShare;
    nr_little_ = is_little ? std::min(nr_little_ + 1, kPatience) : 0;
  }
  // From here to the next one.
  int ms() const {
    const int ms = ms_.load(std::memory_order_relaxed);
    return may_be_quiet_ && nr_little_ >= kPatience ? std::max(ms, quiet_ms_) : ms;
  }

 private:
  std::atomic<int> ms_{kMs};
  int quiet_ms_ = kUntoldQuietMs;
  bool may_be_quiet_ = false;
  int nr_little_ = 0;  // on end
  uint64_t begun_ns_ = 0;
};

}  // namespace slotscope
