// SPDX-License-Identifier: MIT
// How many instructions something takes: the same in each run, which no time is.
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>

namespace slotscope {

// Of `run`, in a process of its own, which is a copy of this one. 0: this process may trace none.
inline uint64_t CountInstructions(const std::function<void()>& run) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) _exit(1);
    raise(SIGSTOP);
    run();
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  uint64_t nr_steps = 0;
  const auto stops_by = [&](int signal) {
    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
  };
  if (!stops_by(SIGSTOP)) return 0;
  do {
    if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr)) break;
    nr_steps++;
  } while (stops_by(SIGTRAP));
  const bool is_done = WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  return is_done ? nr_steps : 0;
}

}  // namespace slotscope
