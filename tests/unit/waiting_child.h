// SPDX-License-Identifier: MIT
// A process that says whether it could do what it was made for, and then waits for its end.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace slotscope {

class WaitingChild {
 public:
  explicit WaitingChild(const std::function<bool()>& prepare) {
    int ends[2];
    if (pipe(ends)) return;
    pid_ = fork();
    if (pid_ == 0) {
      const char is_ready = prepare();
      (void)!write(ends[1], &is_ready, 1);
      for (;;) pause();
    }
    char is_ready = 0;
    is_ready_ = read(ends[0], &is_ready, 1) == 1 && is_ready;
    close(ends[0]);
    close(ends[1]);
  }
  ~WaitingChild() { End(); }
  WaitingChild(const WaitingChild&) = delete;

  bool is_ready() const { return is_ready_; }
  pid_t pid() const { return pid_; }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  bool is_ready_ = false;
};

}  // namespace slotscope
