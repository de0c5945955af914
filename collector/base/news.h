// SPDX-License-Identifier: MIT
// Sentences for the user, from any thread. What is so is said once an hour, and so are not more of them
// than anybody reads; what happens is said each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace slotscope {

class News {
 public:
  static constexpr size_t kMaxSentences = 100;  // in a period
  static constexpr size_t kMaxUntaken = 1000;
  static constexpr uint64_t kPeriodNs = 3'600'000'000'000;

  // False: it has been told in the period up to now_ns, or as many as may be.
  bool Tell(const std::string& sentence, uint64_t now_ns = MonotonicNs()) {
    return TellFirstOf(sentence, sentence, now_ns);
  }
  // The same of all sentences about `what`, which are worded differently each time.
  bool TellFirstOf(const std::string& what, std::string sentence, uint64_t now_ns = MonotonicNs()) {
    std::lock_guard lock(mutex_);
    std::erase_if(told_, [&](const auto& one) { return now_ns - one.second >= kPeriodNs; });
    if (told_.size() >= kMaxSentences || untaken_.size() >= kMaxUntaken ||
        !told_.try_emplace(what, now_ns).second)
      return false;
    untaken_.push_back(std::move(sentence));
    return true;
  }
  // Rare ones. They are dropped only while nobody takes them.
  void TellEvent(std::string sentence) {
    std::lock_guard lock(mutex_);
    if (untaken_.size() < kMaxUntaken) untaken_.push_back(std::move(sentence));
  }
  // Those since the last call.
  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(untaken_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> told_;  // and when
  std::vector<std::string> untaken_;
};

}  // namespace slotscope
