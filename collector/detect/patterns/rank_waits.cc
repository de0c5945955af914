// SPDX-License-Identifier: MIT
#include "detect/patterns/rank_waits.h"

#include <algorithm>

namespace slotscope {
namespace {

// The strongly connected components of what can be reached, by Tarjan; without recursion, as chains are
// long.
class Components {
 public:
  explicit Components(const std::vector<std::vector<size_t>>& next)
      : next_(next), index_(next.size(), kNone), low_(next.size()), of_(next.size(), kNone) {}

  void Visit(size_t root) {
    if (index_[root] != kNone) return;
    Enter(root);
    while (!path_.empty()) {
      auto& [node, edge] = path_.back();
      if (edge < next_[node].size()) {
        const size_t to = next_[node][edge++];
        if (index_[to] == kNone)
          Enter(to);
        else if (of_[to] == kNone)
          low_[node] = std::min(low_[node], index_[to]);
        continue;
      }
      const size_t left = node;
      path_.pop_back();
      if (!path_.empty()) low_[path_.back().node] = std::min(low_[path_.back().node], low_[left]);
      if (low_[left] == index_[left]) Close(left);
    }
  }

  // Those that nothing leads out of.
  std::vector<std::vector<size_t>> Ends() const {
    std::vector<std::vector<size_t>> ends;
    for (size_t i = 0; i < members_.size(); i++) {
      const auto leads_out = [&](size_t node) {
        return std::any_of(next_[node].begin(), next_[node].end(),
                           [&](size_t to) { return of_[to] != i; });
      };
      if (std::none_of(members_[i].begin(), members_[i].end(), leads_out)) ends.push_back(members_[i]);
    }
    return ends;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Step {
    size_t node;
    size_t edge;
  };

  void Enter(size_t node) {
    index_[node] = low_[node] = nr_seen_++;
    open_.push_back(node);
    path_.push_back({node, 0});
  }
  void Close(size_t root) {
    const size_t number = members_.size();
    std::vector<size_t> members;
    do {
      members.push_back(open_.back());
      of_[open_.back()] = number;
      open_.pop_back();
    } while (members.back() != root);
    members_.push_back(std::move(members));
  }

  const std::vector<std::vector<size_t>>& next_;
  std::vector<size_t> index_, low_, of_;
  std::vector<std::vector<size_t>> members_;
  std::vector<size_t> open_;
  std::vector<Step> path_;
  size_t nr_seen_ = 0;
};

}  // namespace

size_t RankWaits::NodeOf(int32_t rank) {
  const auto [at, is_new] = nodes_.try_emplace(rank, next_.size());
  if (is_new) {
    next_.emplace_back();
    ranks_.push_back(rank);
  }
  return at->second;
}

void RankWaits::Add(std::span<const int32_t> waiting, std::span<const int32_t> awaited) {
  if (waiting.empty() || awaited.empty()) return;
  const size_t operation = next_.size();
  next_.emplace_back();
  ranks_.push_back(-1);
  for (const int32_t rank : waiting) next_[NodeOf(rank)].push_back(operation);
  for (const int32_t rank : awaited) {
    const size_t node = NodeOf(rank);
    next_[operation].push_back(node);
  }
}

std::set<int32_t> RankWaits::EndsOf(std::span<const int32_t> from, std::set<int32_t>* in_circles) const {
  Components components(next_);
  std::set<int32_t> ends;
  for (const int32_t rank : from) {
    if (const auto at = nodes_.find(rank); at != nodes_.end())
      components.Visit(at->second);
    else
      ends.insert(rank);
  }
  in_circles->clear();
  for (const std::vector<size_t>& members : components.Ends())
    for (const size_t node : members) {
      if (ranks_[node] < 0) continue;
      ends.insert(ranks_[node]);
      if (members.size() > 1) in_circles->insert(ranks_[node]);
    }
  return ends;
}

}  // namespace slotscope
