// SPDX-License-Identifier: MIT
#include "run/command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_text.h"

namespace slotscope {

Command::~Command() {
  if (pid_ < 0 || ended_ || !go_.valid()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status Command::Prepare(const std::vector<std::string>& argv) {
  int go[2], error[2];
  if (pipe2(go, O_CLOEXEC) || pipe2(error, O_CLOEXEC))
    return {Exit::kCommandFailed, fmt::format("cannot make a pipe: {}", ErrnoText(errno))};
  UniqueFd go_read(go[0]), error_write(error[1]);
  go_.Reset(go[1]);
  error_.Reset(error[0]);
  name_ = argv[0];
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) return {Exit::kCommandFailed, fmt::format("cannot fork: {}", ErrnoText(errno))};
  if (pid_ > 0) return {};

  // The child. It has one thread, and waits for a byte; end of file means that we are gone.
  go_.Reset();
  char byte;
  if (read(go_read.get(), &byte, 1) != 1) _exit(static_cast<int>(Exit::kCommandFailed));
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  execvp(args[0], args.data());
  int err = errno;
  if (write(error_write.get(), &err, sizeof(err)) != sizeof(err))
    _exit(static_cast<int>(Exit::kCommandFailed));
  _exit(static_cast<int>(err == ENOENT ? Exit::kCommandNotFound : Exit::kCommandNotExecutable));
}

Status Command::Release() {
  if (write(go_.get(), "g", 1) != 1)
    return {Exit::kCommandFailed, fmt::format("cannot start {}: {}", name_, ErrnoText(errno))};
  go_.Reset();
  int err = 0;
  ssize_t got = read(error_.get(), &err, sizeof(err));  // end of file: exec has closed it
  error_.Reset();
  if (got != sizeof(err)) return {};
  waitpid(pid_, nullptr, 0);
  ended_ = true;
  return {err == ENOENT ? Exit::kCommandNotFound : Exit::kCommandNotExecutable,
          err == ENOENT && name_.find('/') == std::string::npos
              ? fmt::format("cannot run {}: there is no such command in PATH", name_)
              : fmt::format("cannot run {}: {}", name_, ErrnoText(err))};
}

bool Command::HasEnded() {
  int status;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return ended_;
}

void Command::Signal(int signal) const {
  if (!ended_) kill(pid_, signal);
}

}  // namespace slotscope
