// SPDX-License-Identifier: MIT
// Which findings have been told: each is once, and again when it changes in a way that matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detect/host/host_evidence.h"
#include "detect/patterns/finding.h"

namespace slotscope {

// A finding that is news.
struct FoundNow {
  std::shared_ptr<const Finding> finding;
  std::optional<Moment> resolved;  // a state that was told, and is over
  std::vector<RankEvidence> host_evidence;

  bool is_over() const { return resolved || finding->ResolvedAt(); }
};

class VerdictLog {
 public:
  // What is to be told of `findings`, which are all that hold now. States that were told and hold no
  // more are told as resolved at now_ns (Unix time), if `has_resolved` says so.
  std::vector<FoundNow> Take(const Findings& findings, int64_t now_ns,
                             const std::function<bool(const Finding&)>& has_resolved);
  // What was about before then.
  void Forget(int64_t before_ns);

  size_t size() const { return told_.size(); }

 private:
  struct Told {
    std::string state;
    int64_t seen_ns = 0;
    std::shared_ptr<const Finding> open;  // a state that holds; null: it is none, or is over
  };

  std::map<std::string, Told> told_;
};

}  // namespace slotscope
