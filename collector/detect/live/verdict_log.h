// SPDX-License-Identifier: MIT
// Which verdicts have been told: each is once, and again when it changes in a way that matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "detect/patterns/verdict.h"

namespace slotscope {

class VerdictLog {
 public:
  // What is to be told of `verdicts`, which are all that hold now. Hangs that were told and are none any
  // more are told as resolved at now_ns (Unix time), if `has_resolved` says so: where dumps are gone
  // nobody knows.
  std::vector<Verdict> Take(std::vector<Verdict> verdicts, int64_t now_ns,
                            const std::function<bool(const Verdict&)>& has_resolved);
  // What was about before then.
  void Forget(int64_t before_ns);

  size_t size() const { return told_.size(); }

 private:
  struct Told {
    std::string state;
    int64_t seen_ns = 0;
    Verdict verdict;  // of a hang that has not resolved
    bool is_open = false;
  };

  std::map<std::string, Told> told_;
};

}  // namespace slotscope
