// SPDX-License-Identifier: MIT
// Processes that do not run, each for another reason, and one that is sent from CPU to CPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.h"
#include "harness.h"

namespace slotscope {
char StateOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t end_of_name = text.rfind(')');
  return end_of_name == std::string::npos || end_of_name + 2 >= text.size() ? 0 : text[end_of_name + 2];
}

// For `ms` each, all at once, after 100 ms in which they work: in the state that is their name. All are
// on one CPU, so that who is looked at does not run.
int RunStates(int ms) {
  const uint64_t at_ns = MonotonicNs() + 100'000'000,
                 end_ns = at_ns + static_cast<uint64_t>(ms) * 1'000'000;
  struct Child {
    const char* state;
    char letter;
    pid_t pid;
    uint64_t seen_ns = 0;  // when it was found in that state for the first time
  };
  PinTo(0, NrCpus() - 1);
  std::vector<Child> children;
  // [child] when it was about to: a busy machine may have kept it waiting. Shared with them.
  auto* const begun_ns = static_cast<uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (begun_ns == MAP_FAILED) return 1;
  const auto start = [&](const char* state, char letter, const std::function<void()>& body) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      Spin(at_ns);
      begun_ns[children.size()] = MonotonicNs();
      body();
      Spin(MonotonicNs() + 5'000'000);
      _exit(0);
    }
    children.push_back({state, letter, pid});
  };
  start("asleep", 'S', [&] { SleepUntil(end_ns); });
  start("stopped", 'T', [] { raise(SIGSTOP); });
  start("blocked", 'D', [&] {
    if (vfork() == 0) {  // its parent waits for it, and no signal wakes it
      SleepUntil(end_ns);
      _exit(0);
    }
  });
  start("traced", 't', [] {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGUSR1);
  });
  // A guest has one whose answers take longer than all of this (tests/vm/in-guest.sh).
  const int disk = open("/dev/nullb0", O_RDONLY | O_DIRECT | O_CLOEXEC);
  alignas(4096) static char sector[4096];
  if (disk >= 0)
    start("disk", 'D', [&] {
      if (read(disk, sector, sizeof(sector)) < 0) std::perror("/dev/nullb0");
    });
  while (MonotonicNs() < end_ns) {
    for (size_t i = 0; i < children.size(); i++) {
      const uint64_t begun = std::atomic_ref(begun_ns[i]).load();
      if (begun && !children[i].seen_ns && StateOf(children[i].pid) == children[i].letter)
        children[i].seen_ns = MonotonicNs();
    }
    SleepUntil(MonotonicNs() + 1'000'000);
  }
  for (const Child& child : children) {
    int status = 0;
    const std::string_view state = child.state;
    if (state == "stopped") {  // a machine that is busy may have kept it from that until now
      waitpid(child.pid, &status, WUNTRACED);
      kill(child.pid, SIGCONT);
    }
    if (state == "traced") {
      waitpid(child.pid, &status, __WALL);
      ptrace(PTRACE_CONT, child.pid, nullptr, nullptr);
    }
  }
  for (size_t i = 0; i < children.size(); i++) {
    int status = 0;
    if (waitpid(children[i].pid, &status, 0) != children[i].pid || !WIFEXITED(status)) return 1;
    std::printf("is-%s %d %lu %lu %lu\n", children[i].state, children[i].pid, begun_ns[i],
                children[i].seen_ns, end_ns);
  }
  return 0;
}

// A thread that is sent to the next CPU every 2 ms, so often.
int RunWanderer(int nr) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < nr; i++) {
      PinTo(0, static_cast<size_t>(i) % NrCpus());
      Spin(MonotonicNs() + 2'000'000);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  std::printf("wanderer %d %d\n", pid, nr);
  return status == 0 ? 0 : 1;
}

}  // namespace slotscope
