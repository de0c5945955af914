// SPDX-License-Identifier: MIT
// A machine with a scheduler, of which no more is told than a kernel tells: who was switched out when
// and how, ticks, and waits that have ended. Why anybody waited is nowhere in it.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "raw/facts.h"
#include "raw/raw_file.h"

namespace slotscope {

class Machine {
 public:
  static constexpr uint64_t kStepNs = 20'000;
  static constexpr uint64_t kBeginNs = 1'000'000'000'000;

  // What a thread does next.
  struct Step {
    // kLaunch: takes no time; kGpu: sleeps in a call that waits for all that it has launched.
    enum What { kRun, kSleep, kDisk, kExit, kLaunch, kGpu } what = kSleep;
    uint64_t ns = 0;  // kRun: of CPU time
  };
  // Asked whenever it has done what it was told.
  using Behavior = std::function<Step(uint64_t now_ns)>;
  using Time = std::pair<uint64_t, uint64_t>;  // since kBeginNs, [from, until)

  Machine(uint32_t nr_cpus, bool has_counters);

  // Returns its tgid. Born at begin_ns, it ends with its last thread.
  int32_t AddProcess(const std::string& name, uint64_t begin_ns = 0);
  // Its threads stay on that CPU. weight: of the CPU, against others.
  void AddThread(int32_t tgid, uint32_t cpu, Behavior behavior, double weight = 1);
  // The same, of a thread that launches, the only one of its process.
  void AddLauncher(int32_t tgid, uint32_t cpu, Behavior behavior);
  // SIGSTOP and SIGCONT.
  void Stop(int32_t tgid, const Time& time) { Of(tgid).stopped.push_back(time); }
  // Its cgroup may run for so long in each 100 ms.
  void SetQuota(int32_t tgid, uint64_t quota_ns, const Time& time);
  // Bytes of memory traffic for each ns of CPU time; and more cycles for who is told so.
  void SetTraffic(int32_t tgid, double bytes_per_ns) { Of(tgid).bytes_per_ns = bytes_per_ns; }
  void SetSlower(int32_t tgid, double times, const Time& time);
  // Rings are full.
  void Lose(const Time& time) { lost_.push_back(time); }

  // Writes what happens from the beginning on.
  Status Write(const std::string& path, uint64_t length_ns);

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  struct Process {
    int32_t tgid = 0;
    std::string name;
    uint64_t begin_ns = 0;
    bool is_told = false;
    size_t nr_threads = 0;
    std::vector<Time> stopped;
    uint64_t quota_ns = 0;  // 0: none
    Time quota_time = {};
    uint64_t used_ns = 0;  // in this period
    uint64_t throttled_until_ns = 0;
    double bytes_per_ns = 0.05;
    double bytes = 0;  // not yet told
    double slower = 1;
    Time slower_time = {};
  };
  struct Thread {
    size_t process = 0;
    uint32_t cpu = 0;
    Behavior behavior;
    double weight = 1;
    double virtual_ns = 0;
    uint64_t left_ns = 0;            // to run, of the step
    uint64_t wakes_ns = 0;           // while it sleeps
    uint64_t queued_ns = 0;          // since when it waits
    uint64_t throttled_from_ns = 0;  // of this wait; 0: it was not
    uint64_t throttled_until_ns = 0;
    bool is_stopped = false;
    bool launches = false;
    bool is_begun = false;          // of who launches: CUDA is set up
    uint64_t in_call_since_ns = 0;  // the same; 0: it is in none
  };
  static constexpr size_t kIdle = SIZE_MAX;
  struct Cpu {
    size_t running = kIdle;
    double virtual_ns = 0;      // the least of its threads, which does not go back
    uint64_t since_ns = 0;      // measured up to here
    uint64_t ran_since_ns = 0;  // in this turn
    uint64_t wait_ns = 0;       // of who was switched in, not yet told
    uint32_t seq = 0;
    std::vector<size_t> queue;
    std::vector<std::byte> ring;
    uint64_t nr_lost = 0;
  };

  Process& Of(int32_t tgid) { return processes_[static_cast<size_t>(tgid - kFirstTgid)]; }
  static bool IsIn(const Time& time, uint64_t now_ns) {
    return now_ns >= kBeginNs + time.first && now_ns < kBeginNs + time.second;
  }
  bool IsStopped(const Process& process) const;
  bool IsThrottled(const Process& process) const { return now_ns_ < process.throttled_until_ns; }
  void Begin();
  void WakeThreads();
  void Run(uint32_t cpu);
  void FinishStep(uint32_t cpu);
  Step Ask(Thread* thread);
  void Leave(uint32_t cpu, ss_left how);
  void SwitchIn(uint32_t cpu);
  double LeastVirtual(const Cpu& cpu) const;
  void Queue(size_t thread);
  void Tell(uint32_t cpu, uint16_t type, const void* message, size_t size);
  void TellMeasure(uint32_t cpu, bool is_tick, ss_left how);
  void TellBirth(uint32_t cpu, Process* process);
  void TellEnd(uint32_t cpu, const Process& process);
  void TellTick(uint32_t cpu);
  void TellTraffic(uint32_t cpu);
  void TellTurn(const Thread& thread, uint32_t turn, ss_left left = SS_LEFT_NOT);
  void TellCall(const Thread& thread, ss_cuda_op op, uint64_t since_ns);
  void Dump();
  void Put(uint16_t kind, uint32_t stream, uint64_t begin_ns, uint64_t end_ns,
           const std::vector<std::byte>& payload);
  void EndRound();

  static constexpr int32_t kFirstTgid = 1000;

  Facts facts_;
  bool has_counters_;
  uint64_t now_ns_ = kBeginNs;
  std::deque<Process> processes_;
  std::deque<Thread> threads_;
  std::vector<Cpu> cpus_;
  std::vector<Time> lost_;
  std::vector<std::byte> items_;
  uint64_t traffic_since_ns_ = kBeginNs;
};

}  // namespace slotscope
