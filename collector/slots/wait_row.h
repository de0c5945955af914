// SPDX-License-Identifier: MIT
// What a process's waiting in a slot was made of.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "track/tracker.h"

namespace slotscope {

// Why somebody waited for a CPU. They add up to wait_ns.
enum WaitCause : size_t {
  kWaitOthers,     // another process ran on the CPU in whose queue it waited
  kWaitSelf,       // one of its own threads did
  kWaitThrottled,  // its cgroup's quota was used up
  kWaitWakeup,     // nobody ran: the CPU was on its way to it
  kWaitSteal,      // the hypervisor ran something else
  kWaitUnknown,    // nobody knows who ran
  kNrWaitCauses,
};

// Behind them, of what columns say.
inline constexpr auto kWaitEarlier = static_cast<WaitCause>(kNrWaitCauses);
inline constexpr size_t kNrWaitValues = kNrWaitCauses + 1;

// A bit per WaitCause: those that a recording tells apart. What would be of another one is of these,
// too.
using WaitCauses = uint32_t;
inline constexpr WaitCauses kNoWaitCauses = 0;  // it does not know why anybody waited
inline constexpr WaitCauses kAnyWaitCauses =
    1u << kWaitOthers | 1u << kWaitSelf | 1u << kWaitWakeup | 1u << kWaitUnknown;
inline constexpr WaitCauses kAllWaitCauses = (1u << kNrWaitCauses) - 1;
// Also of kWaitEarlier.
constexpr bool IsToldApart(WaitCauses causes, size_t cause) {
  return causes != kNoWaitCauses && (cause >= kNrWaitCauses || causes >> cause & 1);
}

struct WaitRow {
  std::array<uint64_t, kNrWaitCauses> ns = {};
  // Waiting that ended in the slot and passed in slots that had retired: not in wait_ns.
  uint64_t earlier_ns = 0;
  uint64_t longest_ns = 0;  // all of the longest wait that ended in the slot
  // Of waits that last beyond the slot: since when the first one does, and was it throttled at the end.
  uint64_t on_since_ns = 0;  // 0: there is none
  bool on_throttled = false;
  // Of kWaitOthers: who ran longest. ran_ns 0: nobody.
  ProcessKey ran_instead = {};
  uint64_t ran_ns = 0;

  template <typename Archive>
  void State(Archive& state) {
    // The rest is found when its slot retires.
    state(ns, earlier_ns, longest_ns, on_since_ns, on_throttled);
  }
  uint64_t sum() const {
    uint64_t sum = 0;
    for (uint64_t one : ns) sum += one;
    return sum;
  }
};

using WaitCauseSums = std::array<uint64_t, kNrWaitCauses>;

inline constexpr std::array<const char*, kNrWaitCauses + 1> kWaitCauseNames = {
    "others", "self", "throttled", "wakeup", "steal", "unknown", "earlier"};

// One reason for which a process waited in a slot, in one CPU's queue: `ran` ran meanwhile (cause
// others; tgid 0: several, of that name if it has one). Earlier: of a wait that ended in the slot,
// somewhere in [start_ns, until_ns), which are its beginning and that of the first slot that was open.
struct WaitDetail {
  ProcessKey waiter = {};
  Comm waiter_comm = {};
  WaitCause cause = kWaitOthers;
  ProcessKey ran = {};
  Comm ran_comm = {};
  uint32_t cpu = kNoCpu;
  uint64_t start_ns = 0, until_ns = 0;  // 0: in the slot
  uint64_t ns = 0;
  uint64_t nr = 0;  // pieces of waits; 0: they were summed up

  bool is_earlier() const { return start_ns > 0; }
  bool has_ran() const { return cause == kWaitOthers && ran.tgid > 0; }

  static constexpr uint32_t kNoCpu = UINT32_MAX;  // it is not known
};

// All that a process waited until the end of a slot, by why: the causes of what passed earlier are with
// the slot's details, and are to be added behind its rows.
inline void AddCauses(const WaitRow& wait, WaitCauseSums* sums) {
  for (size_t i = 0; i < kNrWaitCauses; i++) (*sums)[i] += wait.ns[i];
  (*sums)[kWaitUnknown] += wait.earlier_ns;
}
inline void AddEarlierCause(const WaitDetail& one, WaitCauseSums* sums) {
  if (!one.is_earlier()) return;
  (*sums)[kWaitUnknown] -= one.ns;
  (*sums)[one.cause] += one.ns;
}

// What at least half of a waiting of wait_ns was due to, by [WaitCause]. Nothing: it did not wait, or
// there was more than one cause.
inline std::optional<WaitCause> MainCause(const uint64_t* ns, uint64_t wait_ns) {
  const uint64_t* const longest = std::max_element(ns, ns + kNrWaitCauses);
  if (*longest == 0 || *longest * 2 < wait_ns) return {};
  return static_cast<WaitCause>(longest - ns);
}

// Of somebody who waited for wait_ns of a time, others_ns of it for others, is one that ran for ran_ns
// of that to blame? It waited for a tenth of the time or more, and most of that while that one ran.
inline bool IsCulprit(uint64_t time_ns, uint64_t wait_ns, uint64_t others_ns, uint64_t ran_ns) {
  return wait_ns * 10 >= time_ns && ran_ns * 2 >= others_ns;
}

// Adds up; who ran longest is the one of the two that ran longer.
inline void AddWait(WaitRow* to, const WaitRow& what) {
  for (size_t i = 0; i < kNrWaitCauses; i++) to->ns[i] += what.ns[i];
  to->earlier_ns += what.earlier_ns;
  to->longest_ns = std::max(to->longest_ns, what.longest_ns);
  if (what.ran_ns > to->ran_ns) {
    to->ran_instead = what.ran_instead;
    to->ran_ns = what.ran_ns;
  }
}

}  // namespace slotscope
