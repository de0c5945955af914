// SPDX-License-Identifier: MIT
#include "detect/live/verdict_log.h"

#include <set>
#include <utility>

namespace slotscope {
namespace {

// More than that are told, but not known to be.
constexpr size_t kMaxTold = 100'000;

}  // namespace

std::vector<FoundNow> VerdictLog::Take(const Findings& findings, int64_t now_ns,
                                       const std::function<bool(const Finding&)>& has_resolved) {
  std::vector<FoundNow> news;
  std::set<std::string> holds;
  for (const auto& finding : findings) {
    const std::string key = finding->Key(), alias = finding->Alias();
    const bool is_state = finding->pattern().is_state;
    holds.insert(key);
    auto known = told_.find(key);
    if (known == told_.end() && !alias.empty()) known = told_.find(alias);
    if (known != told_.end()) holds.insert(known->first);
    std::string state = finding->State();
    if (known != told_.end() && known->second.state == state &&
        (known->second.open != nullptr) == is_state) {
      known->second.seen_ns = now_ns;
      continue;
    }
    if (known != told_.end() || told_.size() < kMaxTold) {
      Told& told = known != told_.end() ? known->second : told_[key];
      told = {std::move(state), now_ns, is_state ? finding : nullptr};
      if (known == told_.end() && !alias.empty()) told_[alias] = told;
    }
    news.push_back({finding, {}, {}});
  }
  for (auto& [key, told] : told_) {
    if (!told.open || holds.contains(key)) continue;
    const auto finding = std::exchange(told.open, nullptr);
    if (has_resolved(*finding)) news.push_back({finding, Moment{now_ns, 1'000'000}, {}});
  }
  return news;
}

void VerdictLog::Forget(int64_t before_ns) {
  std::erase_if(told_, [&](const auto& one) { return one.second.seen_ns < before_ns; });
}

}  // namespace slotscope
