// SPDX-License-Identifier: MIT
// Who kept whom waiting, the slow way: every wake-up, switch and move is recorded in full, and looked at
// afterwards. It shares no code with what it is the truth for, and includes no header of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct bpf_link;
struct sched;

// Why somebody waited, in a slot of 1 ms. `ran` is a tgid, of "others"; else 0.
struct WaitClaim {
  std::string cause;
  int32_t ran = 0;
  uint64_t slot = 0;  // its start / 1 ms

  auto operator<=>(const WaitClaim&) const = default;
};
// [tgid] what it waited, in ns.
using WaitClaims = std::map<int32_t, std::map<WaitClaim, uint64_t>>;
// [tgid] by how much its claims may be off, in ns: as long as CPUs stood still where a wait of it began,
// ended or changed its cause, between the truth's two looks at the clock; and what began before the
// recording or ended with it.
using WaitSlack = std::map<int32_t, uint64_t>;

class WaitTruth {
 public:
  explicit WaitTruth(uint32_t nr_events) : nr_events_(nr_events) {}
  ~WaitTruth();
  // Says what is wrong; "": nothing.
  std::string Start();
  // Looks once more at every event, behind whoever has attached since Start().
  std::string StartBehind();
  // Not more than nr_events, or that is wrong.
  std::string Stop();
  // After Stop(). Of the slots [first, last).
  WaitClaims Claims(uint64_t first_slot, uint64_t last_slot, WaitSlack* slack) const;
  size_t nr_events() const { return events_.size(); }
  // After Stop(): of how many milliseconds of the CPUs' in slots [first, last) the switches were so many
  // that the source tells of a batch of them (slotscope/batch.h).
  uint64_t NrStormy(uint64_t first_slot, uint64_t last_slot) const;
  // After Stop(): what the scheduler knows that a hypervisor has taken since boot, of all CPUs.
  uint64_t stolen_ns() const { return stolen_ns_; }
  // Of it, since Start().
  uint64_t taken_ns() const { return taken_ns_; }

 private:
  // As sched.bpf.c has it.
  struct Event {
    uint64_t ns, prev_delay_ns;
    int32_t prev_pid, prev_tgid, next_pid, next_tgid;
    uint32_t cpu, prev_state;
    uint8_t type, preempt, delayed, zero[5];
  };
  struct Stretch {
    uint64_t from_ns, to_ns;
    int32_t tgid;  // 0: idle
    int32_t pid;   // -1: not known, for a switch in it was hidden from us
  };
  using Timelines = std::map<uint32_t, std::vector<Stretch>>;  // by CPU
  struct Stall {
    uint64_t from_ns, to_ns;
    int32_t pid;  // of whom the event is
    bool is_switch;
  };
  using Stalls = std::map<uint32_t, std::vector<Stall>>;  // by CPU

  Timelines WhoRan() const;
  Stalls StoodStill() const;

  uint32_t nr_events_;
  sched* skeleton_ = nullptr;
  std::vector<bpf_link*> behind_;
  std::vector<Event> events_;
  uint64_t stolen_ns_ = 0, taken_ns_ = 0;
};

// What `seen` says of waiters with more than least_ns of truth.
struct WaitVerdict {
  double wrong = 0;    // the largest share of a waiter's waiting that is on the wrong side
  double unknown = 0;  // that is unknown
  double missing = 0;  // by which its sum is off
  size_t nr_waiters = 0;
  std::string worst;  // who, and what
};
// by_slot: a slot late is wrong, too. What even the truth does not know may be anything; lost_ns of each
// waiter may be missing or unknown, and hidden_ns on the wrong side: of switches that the kernel hid
// from us, a pair leaves no trace. And of each as much as its slack.
WaitVerdict CompareWaits(const WaitClaims& truth, const WaitSlack& slack, const WaitClaims& seen,
                         bool by_slot, uint64_t least_ns, uint64_t lost_ns, uint64_t hidden_ns);
