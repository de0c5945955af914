// SPDX-License-Identifier: MIT
#include "wait_truth.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "sched.skel.h"

namespace {
constexpr uint64_t kSlotNs = 1'000'000;
constexpr uint64_t kStorm = 32;  // switches of a CPU in a slot
enum { kSwitch = 1, kWakeup = 2, kMigrate = 3, kBirth = 4, kStall = 5 };

std::array<bpf_program*, 4> BehindPrograms(const sched* skeleton) {
  return {skeleton->progs.sched_switch_again, skeleton->progs.sched_wakeup_again,
          skeleton->progs.sched_wakeup_new_again, skeleton->progs.sched_migrate_task_again};
}
}  // namespace

WaitTruth::~WaitTruth() {
  for (bpf_link* link : behind_) bpf_link__destroy(link);
  if (skeleton_) sched__destroy(skeleton_);
}

std::string WaitTruth::Start() {
  skeleton_ = sched__open();
  if (!skeleton_) return "cannot open sched.bpf.c";
  bpf_map__set_max_entries(skeleton_->maps.sched_events, nr_events_);
  for (bpf_program* program : BehindPrograms(skeleton_)) bpf_program__set_autoattach(program, false);
  if (int err = sched__load(skeleton_)) return std::string("cannot load it: ") + strerror(-err);
  if (int err = sched__attach(skeleton_)) return std::string("cannot attach it: ") + strerror(-err);
  skeleton_->bss->sched_recording = 1;
  return "";
}

std::string WaitTruth::StartBehind() {
  for (bpf_program* program : BehindPrograms(skeleton_)) {
    bpf_link* link = bpf_program__attach(program);
    if (!link) return std::string("cannot attach it behind others: ") + strerror(errno);
    behind_.push_back(link);
  }
  return "";
}

std::string WaitTruth::Stop() {
  skeleton_->bss->sched_recording = 0;
  for (bpf_link* link : std::exchange(behind_, {})) bpf_link__destroy(link);
  sched__detach(skeleton_);
  const uint32_t nr = skeleton_->bss->sched_nr_events;
  if (nr > nr_events_) return std::to_string(nr) + " events, room for " + std::to_string(nr_events_);
  static_assert(sizeof(Event) == 48);
  const size_t bytes = size_t{nr_events_} * sizeof(Event);
  void* mapped =
      mmap(nullptr, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(skeleton_->maps.sched_events), 0);
  if (mapped == MAP_FAILED) return std::string("cannot map the events: ") + strerror(errno);
  const auto* events = static_cast<const Event*>(mapped);
  for (uint32_t i = 0; i < nr; i++)
    if (events[i].ns) events_.push_back(events[i]);
  munmap(mapped, bytes);
  for (uint64_t ns : skeleton_->bss->sched_stolen_ns) stolen_ns_ += ns;
  taken_ns_ = stolen_ns_;
  for (uint64_t ns : skeleton_->bss->sched_stolen_before_ns) taken_ns_ -= ns;
  sched__destroy(skeleton_);
  skeleton_ = nullptr;
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.ns < b.ns; });
  return "";
}

WaitTruth::Timelines WaitTruth::WhoRan() const {
  Timelines ran;
  for (const Event& event : events_) {
    if (event.type != kSwitch) continue;
    auto& line = ran[event.cpu];
    if (line.empty()) line.push_back({0, 0, event.prev_pid ? event.prev_tgid : 0, event.prev_pid});
    if (line.back().pid != event.prev_pid) line.back().pid = -1;
    line.back().to_ns = event.ns;
    line.push_back({event.ns, UINT64_MAX, event.next_pid ? event.next_tgid : 0, event.next_pid});
  }
  return ran;
}

uint64_t WaitTruth::NrStormy(uint64_t first_slot, uint64_t last_slot) const {
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> switches;  // by CPU and slot
  for (const Event& event : events_)
    if (event.type == kSwitch && event.ns >= first_slot * kSlotNs && event.ns < last_slot * kSlotNs)
      switches[{event.cpu, event.ns / kSlotNs}]++;
  return static_cast<uint64_t>(std::count_if(switches.begin(), switches.end(),
                                             [](const auto& one) { return one.second >= kStorm; }));
}

WaitTruth::Stalls WaitTruth::StoodStill() const {
  std::set<std::pair<uint64_t, int32_t>> switches;
  Stalls stalls;
  for (const Event& event : events_)
    if (event.type == kSwitch) switches.insert({event.ns, event.prev_pid});
  for (const Event& event : events_)
    if (event.type == kStall)
      stalls[event.cpu].push_back({event.ns, event.prev_delay_ns, event.prev_pid,
                                   switches.contains({event.ns, event.prev_pid})});
  return stalls;
}

WaitClaims WaitTruth::Claims(uint64_t first_slot, uint64_t last_slot, WaitSlack* slack) const {
  const Timelines ran = WhoRan();
  const Stalls stalls = StoodStill();
  WaitClaims claims;
  const auto put = [&](int32_t waiter, const char* cause, int32_t who, uint64_t from_ns, uint64_t ns) {
    while (ns > 0) {
      const uint64_t slot = from_ns / kSlotNs, part_ns = std::min(ns, (slot + 1) * kSlotNs - from_ns);
      if (slot >= first_slot && slot < last_slot) claims[waiter][{cause, who, slot}] += part_ns;
      from_ns += part_ns;
      ns -= part_ns;
    }
  };
  // A stretch of one thread's waiting in a CPU's queue; of what ran there each has its part. What is in
  // front of since_ns, when it came to wait, is of who ran then: the kernel's clock was late.
  const auto wait = [&](int32_t waiter, int32_t pid, uint32_t cpu, uint64_t end_ns, uint64_t wait_ns,
                        uint64_t since_ns) {
    uint64_t from_ns = end_ns - wait_ns, early_ns = 0;
    if (const auto here = stalls.find(cpu); here != stalls.end())
      for (const Stall& stall : here->second)
        if (stall.from_ns <= end_ns && stall.to_ns >= from_ns && (stall.is_switch || stall.pid == pid))
          (*slack)[waiter] += stall.to_ns - stall.from_ns;
    if (since_ns > from_ns && since_ns < end_ns) {
      early_ns = since_ns - from_ns;
      from_ns = since_ns;
    }
    const auto found = ran.find(cpu);
    if (found == ran.end()) return put(waiter, "unknown", 0, from_ns, end_ns - from_ns);
    const auto& line = found->second;
    auto at = std::partition_point(line.begin(), line.end(),
                                   [&](const Stretch& one) { return one.to_ns <= from_ns; });
    for (; at != line.end() && at->from_ns < end_ns; ++at) {
      const uint64_t a_ns = std::max(at->from_ns, from_ns), b_ns = std::min(at->to_ns, end_ns);
      const char* cause = at->pid < 0          ? "unknown"
                          : at->pid == 0       ? "wakeup"
                          : at->tgid == waiter ? "self"
                                               : "others";
      const int32_t who = at->pid < 0 || at->tgid == waiter ? 0 : at->tgid;
      put(waiter, cause, who, a_ns, b_ns - a_ns + early_ns);
      early_ns = 0;
    }
  };
  struct Thread {
    bool known = false;  // what it had waited before
    uint64_t delay_ns = 0;
    uint64_t since_ns = 0;  // when it came into the queue that it is in, or was in; 0: not known
    uint64_t in_ns = 0;     // it runs since then; 0: it does not
    uint32_t cpu = 0;       // there
    // It was moved while it slept: from then on the kernel counts as if it waited.
    bool sleeps = false;
    // Since the recording began. Of one that was not, nobody knows what it had waited when it is moved:
    // the kernel has added it to what it ever waited.
    bool was_seen = false;
  };
  std::map<int32_t, Thread> threads;
  // A wait is told when who waited has run: of those that ran on at the end nobody has heard. Nor need
  // anybody know of what began before he looked.
  bool is_unheard = false;
  // The kernel has added to what it had waited: that ended at end_ns.
  const auto waited = [&](Thread* thread, int32_t tgid, int32_t pid, uint32_t cpu, uint64_t end_ns,
                          uint64_t delay_ns, bool nobody_knows) {
    const uint64_t wait_ns =
        thread->known && delay_ns > thread->delay_ns ? delay_ns - thread->delay_ns : 0;
    thread->known = true;
    thread->delay_ns = delay_ns;
    if (wait_ns == 0 || wait_ns > end_ns) return;
    if (is_unheard || end_ns - wait_ns < first_slot * kSlotNs) (*slack)[tgid] += wait_ns;
    if (nobody_knows)
      put(tgid, "unknown", 0, end_ns - wait_ns, wait_ns);
    else
      wait(tgid, pid, cpu, end_ns, wait_ns, thread->since_ns);
  };
  for (const Event& event : events_) {
    if (event.type == kStall) continue;
    is_unheard = event.ns >= last_slot * kSlotNs;
    Thread& thread = threads[event.prev_pid];
    switch (event.type) {
      case kBirth:
        thread = {true, event.prev_delay_ns, event.ns, 0, 0, false, true};
        break;
      case kWakeup:
        if (!thread.in_ns) thread.since_ns = event.ns;
        if (!std::exchange(thread.known, true)) thread.delay_ns = event.prev_delay_ns;
        break;
      case kMigrate:  // what it waited where it was has been added
        is_unheard |= !thread.was_seen;
        waited(&thread, event.prev_tgid, event.prev_pid, event.cpu, event.ns, event.prev_delay_ns,
               event.delayed || thread.sleeps);
        thread.sleeps |= event.delayed;
        thread.was_seen |= event.ns >= first_slot * kSlotNs;
        thread.since_ns = event.ns;
        break;
      case kSwitch:
        // What `next` has waited is added only after the event: it stands in that of its end.
        if (event.prev_pid) {
          const bool hidden = !thread.in_ns || thread.cpu != event.cpu;
          const bool slept = std::exchange(thread.sleeps, false);
          waited(&thread, event.prev_tgid, event.prev_pid, event.cpu, hidden ? event.ns : thread.in_ns,
                 event.prev_delay_ns, hidden || slept);
          thread.in_ns = 0;
          thread.was_seen |= event.ns >= first_slot * kSlotNs;
          thread.since_ns = event.preempt || event.prev_state == 0 ? event.ns : 0;
        }
        if (event.next_pid) {
          Thread& next = threads[event.next_pid];
          next.in_ns = event.ns;
          next.cpu = event.cpu;
        }
        break;
    }
  }
  return claims;
}

WaitVerdict CompareWaits(const WaitClaims& truth, const WaitSlack& slack, const WaitClaims& seen,
                         bool by_slot, uint64_t least_ns, uint64_t lost_ns, uint64_t hidden_ns) {
  WaitVerdict verdict;
  const auto fold = [&](const WaitClaims& claims, int32_t waiter) {
    std::map<WaitClaim, double> sums;
    if (const auto of = claims.find(waiter); of != claims.end())
      for (const auto& [claim, ns] : of->second)
        sums[{claim.cause, claim.ran, by_slot ? claim.slot : 0}] += static_cast<double>(ns);
    return sums;
  };
  for (const auto& [waiter, of] : truth) {
    const auto is = fold(truth, waiter);
    const auto said = fold(seen, waiter);
    double all = 0, said_all = 0, wrong = 0, unknown = 0, steal = 0;
    const auto stalled = slack.find(waiter);
    const double slack_ns = stalled == slack.end() ? 0 : static_cast<double>(stalled->second);
    double excused = slack_ns;
    for (const auto& [claim, ns] : is) {
      all += ns;
      if (claim.cause == "unknown") excused += ns;
    }
    if (all < static_cast<double>(least_ns)) continue;
    verdict.nr_waiters++;
    std::string what;
    for (const auto& [claim, ns] : said) {
      said_all += ns;
      if (claim.cause == "unknown") unknown += ns;
      if (claim.cause == "steal") steal += ns;
      if (claim.cause == "unknown" || claim.cause == "steal") continue;
      const auto found = is.find(claim);
      const double more = std::max(0.0, ns - (found == is.end() ? 0 : found->second));
      wrong += more;
      if (!by_slot && more > 0.001 * all)
        what += " " + claim.cause + " " + std::to_string(claim.ran) + " +" + std::to_string(more / 1e6);
    }
    if (!by_slot)
      for (const auto& [claim, ns] : is) {
        const auto found = said.find(claim);
        const double less = ns - (found == said.end() ? 0 : found->second);
        if (less > 0.001 * all)
          what +=
              " " + claim.cause + " " + std::to_string(claim.ran) + " -" + std::to_string(less / 1e6);
      }
    const double wrong_share = std::max(0.0, wrong - excused - static_cast<double>(hidden_ns)) / all;
    const double lost = excused + static_cast<double>(lost_ns);
    const double unknown_share = std::max(0.0, unknown - lost) / all;
    const double missing_share = std::max(0.0, std::abs(said_all - all) - lost) / all;
    if (wrong_share + unknown_share + missing_share > verdict.wrong + verdict.unknown + verdict.missing)
      verdict.worst = std::to_string(waiter) + ": " + std::to_string(all / 1e6) + " ms, said " +
                      std::to_string(said_all / 1e6) + ", wrong " + std::to_string(wrong / 1e6) +
                      ", unknown " + std::to_string(unknown / 1e6) + ", steal " +
                      std::to_string(steal / 1e6) + ", slack " + std::to_string(slack_ns / 1e6) + what;
    verdict.wrong = std::max(verdict.wrong, wrong_share);
    verdict.unknown = std::max(verdict.unknown, unknown_share);
    verdict.missing = std::max(verdict.missing, missing_share);
  }
  return verdict;
}
