// SPDX-License-Identifier: MIT
#include "report/cast.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "explain/groups.h"

namespace slotscope {
namespace {

constexpr int64_t kAroundNs = 500'000'000;  // of a mark or a moment
constexpr int64_t kLongNs = 2'000'000'000;  // of a moment
constexpr size_t kMostStretches = 50;

bool IsInMoment(const Track& track, const std::string& place, const Moments& moments) {
  const auto is = [&](const Party& party) {
    if (party.is_place) return party.name == place;
    return party.nr == 1 ? party.tgid == track.key.tgid : party.name == track.comm;
  };
  return std::any_of(moments.stalls.begin(), moments.stalls.end(), [&](const Stall& stall) {
    return is(stall.who) || std::any_of(stall.neighbors.begin(), stall.neighbors.end(),
                                        [&](const Neighbor& neighbor) { return is(neighbor.who); });
  });
}

}  // namespace

Cast::Cast(const Moments& moments, const Tracks& tracks, const ProcessPlaces& places, GroupBy by)
    : tracks_(tracks) {
  const std::vector<Track>& all = tracks.processes();
  std::vector<bool> in_moment;
  for (size_t i = 0; i < all.size(); i++) {
    order_.push_back(i);
    in_moment.push_back(IsInMoment(all[i], PlaceOf(places, all[i].key, by), moments));
  }
  const auto weight = [&](size_t i) {
    return std::tuple(static_cast<bool>(in_moment[i]), all[i].wait, all[i].cpu);
  };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return weight(a) > weight(b); });
  size_t nr_rows = 0;
  for (; nr_fine_ < std::min(order_.size(), kFineProcesses); nr_fine_++) {
    nr_rows += all[order_[nr_fine_]].rows.size();
    if (nr_rows > kMostFineRows) break;
  }
  // Of the others, who did most.
  std::stable_sort(
      order_.begin() + static_cast<ptrdiff_t>(nr_fine_), order_.end(),
      [&](size_t a, size_t b) { return all[a].cpu + all[a].wait > all[b].cpu + all[b].wait; });
  order_.resize(std::min(order_.size(), kShownProcesses));
  for (size_t i = 0; i < order_.size(); i++) places_[all[order_[i]].key] = i;
}

size_t Cast::Find(const ProcessKey& process) const {
  const auto found = places_.find(process);
  return found == places_.end() ? size() : found->second;
}

Stretches NearMarks(const Moments& moments, const Overview& overview, const UnixRange& range,
                    size_t nr_ms) {
  const auto last = static_cast<int64_t>(nr_ms);
  Stretches all, apart;
  const auto add = [&](int64_t from_ns, int64_t to_ns) {
    const int64_t from = (from_ns - kAroundNs - range.from_ns) / kMsNs;
    const int64_t to = (to_ns + kAroundNs - range.from_ns) / kMsNs;
    if (from < last && to > 0 && all.size() < kMostStretches)
      all.emplace_back(std::max<int64_t>(0, from), std::min(to, last));
  };
  for (const Stall& stall : moments.stalls) {
    if (stall.length_ns() <= kLongNs) {
      add(stall.from_ns, stall.to_ns);
    } else {  // its ends tell most
      add(stall.from_ns, stall.from_ns);
      add(stall.to_ns, stall.to_ns);
    }
  }
  for (const Mark& mark : overview.marks) add(mark.at_ns, mark.at_ns);
  std::sort(all.begin(), all.end());
  for (const auto& [from, to] : all) {
    if (!apart.empty() && from <= apart.back().second)
      apart.back().second = std::max(apart.back().second, to);
    else
      apart.emplace_back(from, to);
  }
  return apart;
}

}  // namespace slotscope
