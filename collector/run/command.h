// SPDX-License-Identifier: MIT
// The command that is recorded.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

// Forked early, so that its pid is known, and held back until Release(): nothing of it is missed.
class Command {
 public:
  Command() = default;
  ~Command();  // kills what was never released
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Status Prepare(const std::vector<std::string>& argv);
  // Lets it exec. Exit::kCommandNotFound or kCommandNotExecutable if that fails.
  Status Release();
  // Reaps it if it has ended. Returns true once it has.
  bool HasEnded();
  void Signal(int signal) const;
  // It runs, or has run.
  bool is_released() const { return pid_ > 0 && !go_.valid(); }

  pid_t pid() const { return pid_; }
  // Its status, or 128 + n if signal n ended it.
  int exit_code() const { return exit_code_; }

 private:
  std::string name_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = 0;
  UniqueFd go_;     // closed or written: exec
  UniqueFd error_;  // errno of a failed exec
};

}  // namespace slotscope
