// SPDX-License-Identifier: MIT
// What processes were called that are forgotten: who waited for seconds is told when they are gone for
// whom.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "track/process_key.h"

namespace slotscope {

class FormerNames {
 public:
  static constexpr size_t kMost = 8192;  // 800 KB
  static constexpr uint64_t kKeptNs = 10'000'000'000;

  // At ts_ns, which does not go back.
  void Add(const ProcessKey& key, const Comm& comm, uint64_t ts_ns) {
    while (!names_.empty() && (names_.size() >= kMost || ts_ns - names_.front().ts_ns > kKeptNs)) {
      by_key_.erase(names_.front().key);
      names_.pop_front();
    }
    if (by_key_.try_emplace(key, comm).second) names_.push_back({key, comm, ts_ns});
  }
  // {}: it is not known.
  Comm Find(const ProcessKey& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? Comm{} : found->second;
  }

  template <typename Archive>
  void State(Archive& state) {
    state(names_);
    if constexpr (Archive::kReads) {
      by_key_.clear();
      for (const Name& name : names_)
        state.Require(by_key_.try_emplace(name.key, name.comm).second && by_key_.size() <= kMost);
    }
  }

 private:
  struct Name {
    ProcessKey key = {};
    Comm comm = {};
    uint64_t ts_ns = 0;

    template <typename Archive>
    void State(Archive& state) {
      state(key, comm, ts_ns);
    }
  };

  std::deque<Name> names_;  // the oldest first
  std::unordered_map<ProcessKey, Comm, ProcessKeyHash> by_key_;
};

}  // namespace slotscope
