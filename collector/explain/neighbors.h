// SPDX-License-Identifier: MIT
// Who ran while somebody waited, or moved memory while somebody got slower, and whether it usually does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "explain/groups.h"
#include "explain/history.h"
#include "explain/series.h"
#include "explain/stall.h"

namespace slotscope {

class Neighbors {
 public:
  // All of them outlive it.
  Neighbors(const History& history, const Timeline& timeline, const Groups& groups);

  // The one that matters most first. `waiter` are processes of one subject.
  std::vector<Neighbor> OfWaits(const Group& waiter, const Series& of_waiter, const BinRange& range);
  std::vector<Neighbor> OfTraffic(const Group& slower, const BinRange& range);
  // Of a place, without those whose name takes more CPU time in that range than it usually does: they
  // wait for the others as much as the others wait for them.
  Group WithoutNewcomers(const Group& place, const BinRange& range);

 private:
  const Series& OfName(size_t name) { return SeriesOf(groups_.by_name(), name, &of_name_); }
  const Series& OfSubject(size_t subject) { return SeriesOf(groups_.subjects(), subject, &of_subject_); }
  const Series& SeriesOf(const std::vector<Group>& groups, size_t group,
                         std::vector<std::optional<Series>>* known);
  Neighbor Make(const Group& group, const Series& series, const BinRange& range) const;
  bool HasRows(const Group& group) const;
  // For how long they ran while those waited of whom the recording tells.
  uint64_t RanInstead(const Group& group, const BinRange& range);
  bool IsUnusual(const Group& waiter, const Series& of_waiter, size_t subject, const BinRange& range);
  // Of a place that the waiter is not in. Who runs there is not one thing that does more or less: its
  // processes are judged by their names. The one that ran for longest of those that do more, if they ran
  // for half of it or longer. RanBy: which process, for how long.
  using RanBy = std::map<uint32_t, uint64_t>;
  std::optional<size_t> UnusualNameOf(const RanBy& ran_by, const BinRange& range);
  // Is it unusual? Of a place that is so for one name's sake, it is told what that name did.
  void Judge(const Group& waiter, const Series& of_waiter, size_t subject, const RanBy& ran_by,
             const BinRange& range, Neighbor* neighbor);
  bool DoesNameMore(size_t name, const BinRange& range);
  // So many times as much as usual, and so much of a CPU more.
  struct More {
    double times, least_cpu;
  };
  static constexpr More kMoreCpu = {2, 0.2};
  // Where it is only known what it ran while somebody waited: that is a part of it, and varies more.
  static constexpr More kMoreUnseen = {4, 0.1};
  bool DoesMore(const std::function<double(const BinRange&)>& of, const BinRange& range,
                const More& more) const;
  bool DoesMoreUnseen(const Group& group, const BinRange& range);

  const History& history_;
  const Timeline& timeline_;
  const Groups& groups_;
  std::vector<std::optional<Series>> of_name_, of_subject_;
  std::optional<Groups> names_;  // where the groups are places
  std::vector<std::optional<Series>> of_bare_name_;
  std::vector<size_t> with_traffic_;  // subjects
  // Of those without rows, by who ran and when; made when it is asked for.
  struct Ran {
    uint32_t who;
    int64_t bin;
    uint64_t ns;
  };
  std::optional<std::vector<Ran>> unseen_;
};

}  // namespace slotscope
