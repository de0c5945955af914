// SPDX-License-Identifier: MIT
// Processes that wait for CPUs, and say how long by the kernel's own account.
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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

void PinTo(pid_t tid, size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(tid, sizeof(set), &set);
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
