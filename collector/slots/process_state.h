// SPDX-License-Identifier: MIT
// What a process was about at the end of a slot: by how it left the CPU last, and by who waits for one.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slotscope {

enum class ProcessState : uint8_t {
  kUnknown,    // nobody saw it leave the CPU
  kRunning,    // on some CPU
  kWaiting,    // for a CPU
  kThrottled,  // until its cgroup's quota is renewed
  kAsleep,
  kDisk,
  kBlocked,
  kStopped,
  kTraced,
  kEnded,  // its last thread that ran
};
inline constexpr std::array<const char*, 10> kProcessStateNames = {
    "", "running", "waiting", "throttled", "asleep", "disk", "blocked", "stopped", "traced", "ended"};

// Of one that is on no CPU and in no queue.
constexpr ProcessState StateOf(uint32_t left) {
  constexpr std::array kStates = {ProcessState::kUnknown, ProcessState::kWaiting, ProcessState::kAsleep,
                                  ProcessState::kDisk,    ProcessState::kBlocked, ProcessState::kStopped,
                                  ProcessState::kTraced,  ProcessState::kEnded};
  return kStates[left % kStates.size()];
}

// And since when; 0: it is not known, or it runs.
struct StateSince {
  ProcessState state = ProcessState::kUnknown;
  uint64_t since_ns = 0;

  template <typename Archive>
  void State(Archive& archive) {
    archive(since_ns);
    archive.Enum(state, ProcessState::kEnded);
  }
};

}  // namespace slotscope
