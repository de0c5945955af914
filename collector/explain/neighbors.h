// SPDX-License-Identifier: MIT
// Who ran while somebody waited, or moved memory while somebody got slower, and whether it usually does.
#pragma once

#include <cstddef>
#include <cstdint>
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

 private:
  const Series& OfName(size_t name) { return SeriesOf(groups_.by_name(), name, &of_name_); }
  const Series& OfSubject(size_t subject) { return SeriesOf(groups_.subjects(), subject, &of_subject_); }
  const Series& SeriesOf(const std::vector<Group>& groups, size_t group,
                         std::vector<std::optional<Series>>* known);
  Neighbor Make(size_t subject, const BinRange& range);
  bool IsUnusual(const Group& waiter, const Series& of_waiter, size_t subject, const BinRange& range);

  const History& history_;
  const Timeline& timeline_;
  const Groups& groups_;
  std::vector<std::optional<Series>> of_name_, of_subject_;
  std::vector<size_t> with_traffic_;  // subjects
};

}  // namespace slotscope
