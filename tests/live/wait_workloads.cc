// SPDX-License-Identifier: MIT
// Processes that wait for CPUs, and say how long by the kernel's own account.
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "harness.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

// Of all threads that there are, and when it has looked. What it waits from here on is not in it.
void PrintWaited() {
  uint64_t sum_ns = 0;
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task")) {
    uint64_t cpu_ns = 0, wait_ns = 0;
    std::ifstream(task.path() / "schedstat") >> cpu_ns >> wait_ns;
    sum_ns += wait_ns;
  }
  std::printf("waited %d %lu %lu\n", getpid(), sum_ns, MonotonicNs());
  std::fflush(stdout);
}

// Threads of a process that work, and stay until it has looked at them.
class Workers {
 public:
  void Add(const std::function<void()>& work) {
    nr_++;
    threads_.emplace_back([this, work] {
      tids_[nr_started_.fetch_add(1)] = gettid();
      work();
      nr_done_++;
      may_end_.wait(false);  // asleep: nothing is waited for a CPU
    });
  }
  pid_t tid(size_t i) const { return tids_[i]; }
  size_t nr_started() const { return nr_started_; }
  bool done() const { return nr_done_ == nr_; }
  void PrintAndJoin() {
    while (!done()) usleep(1000);
    usleep(50'000);  // what they did is in slots that have ended
    PrintWaited();
    may_end_ = true;
    may_end_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr size_t kMax = 16;
  size_t nr_ = 0;
  std::vector<std::thread> threads_;
  std::atomic<size_t> nr_started_{0}, nr_done_{0};
  std::atomic<bool> may_end_{false};
  pid_t tids_[kMax] = {};
};

pid_t Start(const char* what, const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  std::printf("%s %d\n", what, pid);
  std::fflush(stdout);
  return pid;
}

}  // namespace

void Spin(uint64_t until_ns) {
  while (MonotonicNs() < until_ns)
    for (int i = 0; i < 20'000; i++) asm volatile("" : : "r"(i));
}

void SleepUntil(uint64_t until_ns) {
  const timespec until = {static_cast<time_t>(until_ns / 1'000'000'000),
                          static_cast<long>(until_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void PinTo(pid_t tid, size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(tid, sizeof(set), &set);
}

namespace {

constexpr uint64_t kMs = 1'000'000;

// Sleeps so long and runs so long.
void Periodic(uint64_t end_ns, uint64_t sleep_ns, uint64_t run_ns) {
  while (MonotonicNs() < end_ns) {
    usleep(static_cast<useconds_t>(sleep_ns / 1000));
    Spin(MonotonicNs() + run_ns);
  }
}

void PingPong(uint64_t end_ns, int from, int to, bool begins) {
  PinTo(0, NrCpus() - 1);
  char byte = 0;
  if (begins && write(to, &byte, 1) != 1) return;
  while (MonotonicNs() < end_ns && read(from, &byte, 1) == 1) {
    Spin(MonotonicNs() + 20'000);
    if (write(to, &byte, 1) != 1) return;
  }
}

void Storm(uint64_t end_ns) {
  while (MonotonicNs() < end_ns) {
    const pid_t pid = fork();
    if (pid == 0) {
      Spin(MonotonicNs() + kMs);
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    if (pid > 0) waitpid(pid, nullptr, 0);
  }
}

struct SchedulerAttr {  // struct sched_attr, which this C library does not have
  uint32_t size = sizeof(SchedulerAttr);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

void SetScheduler(const SchedulerAttr& attr) {
  if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0) std::perror("sched_setattr");
}

void BeDeadline() {
  constexpr uint32_t kDeadline = 6;  // SCHED_DEADLINE
  SetScheduler(
      {.policy = kDeadline, .runtime_ns = 3 * kMs, .deadline_ns = 10 * kMs, .period_ns = 10 * kMs});
}

// Since 6.12 a thread's turns are as long as it asks for. Else they are so short, since 6.6, that of
// three threads none waits for longer than the window of LongWaitTruthTest.
void AskForLongTurns() { SetScheduler({.nice = getpriority(PRIO_PROCESS, 0), .runtime_ns = 10 * kMs}); }

void BeRealtime() {
  const sched_param param = {.sched_priority = 10};
  if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) std::perror("sched_setscheduler");
}

// Its children are of this process, which moves or stops them meanwhile.
void StartLoad(WaitLoad which, uint64_t end_ns, std::vector<pid_t>* pids) {
  const size_t cpu = NrCpus() - 1;
  const auto start = [&](const std::function<void()>& body) { pids->push_back(Start("proc", body)); };
  const auto spinner = [&](bool pinned) {
    start([=] {
      if (pinned) PinTo(0, cpu);
      if (which == kLoadSpinners) AskForLongTurns();
      Spin(end_ns);
    });
  };
  switch (which) {
    case kLoadPingPong: {
      int there[2], back[2];
      if (pipe(there) || pipe(back)) std::exit(1);
      start([&] {
        close(there[0]), close(back[1]);  // that the end of one ends the other
        PingPong(end_ns, back[0], there[1], true);
      });
      start([&] {
        close(there[1]), close(back[0]);
        PingPong(end_ns, there[0], back[1], false);
      });
      spinner(true);
      for (int fd : {there[0], there[1], back[0], back[1]}) close(fd);
      break;
    }
    case kLoadSpinners:
      for (int i = 0; i < 3; i++) spinner(true);
      break;
    case kLoadStorm:
      for (int i = 0; i < 4; i++) start([=] { Storm(end_ns); });
      break;
    case kLoadPeriodic:
      start([=] {
        PinTo(0, cpu);
        Periodic(end_ns, 2 * kMs, 2 * kMs);
      });
      spinner(true);
      break;
    case kLoadFloating:
      for (uint64_t i = 0; i < 4; i++) start([=] { Periodic(end_ns, kMs + i * 300'000, 3 * kMs); });
      break;
    case kLoadShuffle:
      for (int i = 0; i < 4; i++) start([=] { Periodic(end_ns, 500'000, 3 * kMs); });
      break;
    case kLoadCrowd:
      start([=] {
        Workers workers;
        for (int i = 0; i < 6; i++) workers.Add([=] { Periodic(end_ns, 100'000, 300'000); });
        workers.PrintAndJoin();
      });
      for (int i = 0; i < 2; i++) spinner(false);
      break;
    case kLoadRealtime:
      start([=] {
        PinTo(0, cpu);
        BeRealtime();
        Periodic(end_ns, 3 * kMs, 2 * kMs);
      });
      start([=] {  // it may not be pinned
        BeDeadline();
        Periodic(end_ns, 7 * kMs, 2 * kMs);
      });
      spinner(true);
      break;
    case kLoadStopped:
      for (int i = 0; i < 2; i++) spinner(true);
      break;
    case kNrWaitLoads:
      break;
  }
}

}  // namespace

int RunWaitLoad(int which) {
  const uint64_t end_ns = MonotonicNs() + 1500 * kMs;
  std::vector<pid_t> pids;
  StartLoad(static_cast<WaitLoad>(which), end_ns, &pids);
  std::mt19937 random(1);
  for (bool stopped = false; MonotonicNs() < end_ns - 200 * kMs;) {
    usleep(which == kLoadShuffle ? 1500 : 20'000);
    if (which == kLoadShuffle) PinTo(pids[random() % pids.size()], random() % NrCpus());
    if (which == kLoadStopped) kill(pids[0], (stopped = !stopped) ? SIGSTOP : SIGCONT);
  }
  if (which == kLoadStopped) kill(pids[0], SIGCONT);
  for (const pid_t pid : pids)
    if (waitpid(pid, nullptr, 0) != pid) return 1;
  return 0;
}

size_t NrCpus() { return static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)); }

int RunWaitingThreads(int ms) {
  const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
  const pid_t pid = Start("threads", [&] {
    PinTo(0, NrCpus() - 1);
    Workers workers;
    for (int i = 0; i < 3; i++) workers.Add([&] { Spin(end_ns); });
    workers.PrintAndJoin();
  });
  return waitpid(pid, nullptr, 0) == pid ? 0 : 1;
}

int RunWaitingMix(int ms) {
  const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
  std::vector<pid_t> pids;
  pids.push_back(Start("moved", [&] {
    Workers workers;
    for (int i = 0; i < 6; i++) workers.Add([&] { Spin(end_ns); });
    std::mt19937 random(1);
    while (!workers.done()) {
      if (workers.nr_started() == 6) PinTo(workers.tid(random() % 6), random() % NrCpus());
      usleep(500);
    }
    workers.PrintAndJoin();
  }));
  for (int i = 0; i < 2; i++)
    pids.push_back(Start("spinner", [&] {
      Workers workers;
      workers.Add([&] { Spin(end_ns); });
      workers.PrintAndJoin();
    }));
  pids.push_back(Start("periodic", [&] {
    PinTo(0, 0);
    Workers workers;
    workers.Add([&] {
      while (MonotonicNs() < end_ns) {
        usleep(2000);
        Spin(MonotonicNs() + 300'000);
      }
    });
    workers.PrintAndJoin();
  }));
  for (const pid_t pid : pids)
    if (waitpid(pid, nullptr, 0) != pid) return 1;
  return 0;
}

}  // namespace slotscope
