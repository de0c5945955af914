// SPDX-License-Identifier: MIT
#include "detect/live/verdict_log.h"

#include <set>
#include <utility>

namespace slotscope {
namespace {

// More than that are told, but not known to be.
constexpr size_t kMaxTold = 100'000;

bool IsHang(const Verdict& verdict) { return verdict.json["pattern.id"] == "15"; }

// What makes a verdict worth telling again.
std::string StateOf(const Verdict& verdict) {
  std::string state;
  for (const char* key : {"confidence", "resolved_at", "hanging_ranks", "suspects", "unknown_ranks",
                          "earliest_created_at"})
    if (verdict.json.contains(key)) state += verdict.json[key].dump() + " ";
  return state;
}

}  // namespace

std::vector<Verdict> VerdictLog::Take(std::vector<Verdict> verdicts, int64_t now_ns,
                                      const std::function<bool(const Verdict&)>& has_resolved) {
  std::vector<Verdict> news;
  std::set<std::string> holds;
  for (Verdict& verdict : verdicts) {
    holds.insert(verdict.key);
    auto known = told_.find(verdict.key);
    if (known == told_.end() && !verdict.alias.empty()) known = told_.find(verdict.alias);
    if (known != told_.end()) holds.insert(known->first);
    const std::string state = StateOf(verdict);
    if (known != told_.end() && known->second.state == state &&
        known->second.is_open == IsHang(verdict)) {
      known->second.seen_ns = now_ns;
      continue;
    }
    if (known != told_.end() || told_.size() < kMaxTold) {
      Told& told = known != told_.end() ? known->second : told_[verdict.key];
      told.state = state;
      told.seen_ns = now_ns;
      told.is_open = IsHang(verdict);
      if (told.is_open) told.verdict = verdict;
      if (known == told_.end() && !verdict.alias.empty()) told_[verdict.alias] = told;
    }
    news.push_back(std::move(verdict));
  }
  for (auto& [key, told] : told_) {
    if (!told.is_open || holds.contains(key)) continue;
    told.is_open = false;
    if (!has_resolved(told.verdict)) continue;
    told.verdict.json["resolved_at"] = MomentText({now_ns, 1'000'000});
    news.push_back(std::move(told.verdict));
  }
  return news;
}

void VerdictLog::Forget(int64_t before_ns) {
  std::erase_if(told_, [&](const auto& one) { return one.second.seen_ns < before_ns; });
}

}  // namespace slotscope
