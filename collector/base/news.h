// SPDX-License-Identifier: MIT
// Sentences for the user, from any thread. What is so is said once, and not without an end; what happens
// is said each time.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace slotscope {

class News {
 public:
  static constexpr size_t kMaxSentences = 100;
  static constexpr size_t kMaxUntaken = 1000;

  // False: it has been told, or there is no room for it.
  bool Tell(std::string sentence) {
    std::lock_guard lock(mutex_);
    if (told_.size() >= kMaxSentences || !told_.insert(sentence).second) return false;
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
  std::set<std::string> told_;
  std::vector<std::string> untaken_;
};

}  // namespace slotscope
