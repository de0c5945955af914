// SPDX-License-Identifier: MIT
#include "explain/neighbors.h"

#include <algorithm>
#include <map>
#include <utility>

namespace slotscope {
namespace {

constexpr double kMuchTraffic = 0.3;  // of all
constexpr size_t kMostNeighbors = 16;

struct RanOf {
  uint64_t ns = 0;
  std::map<int, uint64_t> cpus;
  std::map<uint32_t, uint64_t> processes;  // which, for how long
};

// The ones with most time first.
std::vector<int> CpusOf(const RanOf& ran) {
  std::vector<std::pair<uint64_t, int>> order;
  for (const auto& [cpu, ns] : ran.cpus)
    if (cpu >= 0) order.emplace_back(ns, cpu);
  std::sort(order.rbegin(), order.rend());
  std::vector<int> cpus;
  for (const auto& [ns, cpu] : order) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

Neighbors::Neighbors(const History& history, const Timeline& timeline, const Groups& groups)
    : history_(history),
      timeline_(timeline),
      groups_(groups),
      of_name_(groups.by_name().size()),
      of_subject_(groups.subjects().size()) {
  if (std::any_of(groups.by_name().begin(), groups.by_name().end(),
                  [](const Group& group) { return group.is_place; })) {
    names_.emplace(history, GroupBy::kName);
    of_bare_name_.resize(names_->by_name().size());
  }
  if (!history.has_traffic()) return;
  for (size_t subject = 0; subject < groups.subjects().size(); subject++)
    for (uint32_t member : groups.subjects()[subject].members) {
      const auto& bins = history.processes()[member].bins;
      if (std::none_of(bins.begin(), bins.end(),
                       [](const ProcessBin& bin) { return bin.traffic_bytes; }))
        continue;
      with_traffic_.push_back(subject);
      break;
    }
}

const Series& Neighbors::SeriesOf(const std::vector<Group>& groups, size_t group,
                                  std::vector<std::optional<Series>>* known) {
  std::optional<Series>& series = (*known)[group];
  if (!series) series.emplace(history_, timeline_, groups[group]);
  return *series;
}

Neighbor Neighbors::Make(const Group& group, const Series& series, const BinRange& range) const {
  Neighbor neighbor;
  neighbor.who = PartyOf(history_, group);
  neighbor.has_rows = HasRows(group);
  neighbor.cpu_ns = series.Cpu(range);
  neighbor.traffic_bytes = series.Traffic(range);
  std::vector<double> cpu, traffic;
  timeline_.ForEachWindowOutside(range, [&](const BinRange& window) {
    cpu.push_back(static_cast<double>(series.Cpu(window)));
    // Where it ran and its traffic was not measured nothing is known of that.
    if (history_.has_traffic() && (series.Cpu(window) == 0 || series.HasTraffic(window)))
      traffic.push_back(static_cast<double>(series.Traffic(window)));
  });
  neighbor.has_usual = cpu.size() >= kLeastUsualWindows;
  neighbor.usual_cpu_ns = Scaled(MedianOf(&cpu), range);
  neighbor.usual_traffic_bytes = Scaled(MedianOf(&traffic), range);
  return neighbor;
}

bool Neighbors::HasRows(const Group& group) const {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](uint32_t member) { return history_.processes()[member].has_rows; });
}

uint64_t Neighbors::RanInstead(const Group& group, const BinRange& range) {
  const auto is_before = [](const Ran& a, const Ran& b) {
    return std::pair(a.who, a.bin) < std::pair(b.who, b.bin);
  };
  if (!unseen_) {
    unseen_.emplace();
    for (const RanWhile& one : history_.ran_instead())
      if (!history_.processes()[one.ran].has_rows) unseen_->push_back({one.ran, one.bin, one.ns});
    std::sort(unseen_->begin(), unseen_->end(), is_before);
  }
  const int64_t end = timeline_.IndexAt(range.end);
  uint64_t ns = 0;
  for (const uint32_t member : group.members)
    for (auto at = std::lower_bound(unseen_->begin(), unseen_->end(),
                                    Ran{member, timeline_.IndexAt(range.begin), 0}, is_before);
         at != unseen_->end() && at->who == member && at->bin < end; ++at)
      ns += at->ns;
  return ns;
}

bool Neighbors::DoesMoreUnseen(const Group& group, const BinRange& range) {
  return DoesMore([&](const BinRange& window) { return static_cast<double>(RanInstead(group, window)); },
                  range, kMoreUnseen);
}

// It took more CPU time than it does at other times, and so did all of its name: of many of a name each
// may be new.
bool Neighbors::IsUnusual(const Group& waiter, const Series& of_waiter, size_t subject,
                          const BinRange& range) {
  const Group& group = groups_.subjects()[subject];
  if (groups_.SubjectOf(waiter.members.front()) == subject) return false;  // they are equals
  const size_t name = groups_.NameOf(group.members.front());
  if (!HasRows(groups_.by_name()[name])) return DoesMoreUnseen(groups_.by_name()[name], range);
  const bool has_waiter = group.name == waiter.name && group.is_kernel == waiter.is_kernel;
  const Series& all = OfName(name);
  const auto of = [&](const BinRange& window) {
    return static_cast<double>(all.Cpu(window) - (has_waiter ? of_waiter.Cpu(window) : 0));
  };
  return DoesMore(of, range, kMoreCpu);
}

bool Neighbors::DoesMore(const std::function<double(const BinRange&)>& of, const BinRange& range,
                         const More& more) const {
  std::vector<double> values;
  timeline_.ForEachWindowOutside(range, [&](const BinRange& window) { values.push_back(of(window)); });
  if (values.size() < kLeastUsualWindows) return false;
  const auto expected = static_cast<double>(Scaled(MedianOf(&values), range));
  return of(range) > more.times * expected + more.least_cpu * static_cast<double>(range.size() * kBinNs);
}

bool Neighbors::DoesNameMore(size_t name, const BinRange& range) {
  const Group& group = names_->by_name()[name];
  if (!HasRows(group)) return DoesMoreUnseen(group, range);
  const Series& all = SeriesOf(names_->by_name(), name, &of_bare_name_);
  return DoesMore([&](const BinRange& window) { return static_cast<double>(all.Cpu(window)); }, range,
                  kMoreCpu);
}

std::optional<size_t> Neighbors::UnusualNameOf(const RanBy& ran_by, const BinRange& range) {
  std::map<size_t, uint64_t> by_name;
  uint64_t all_ns = 0, unusual_ns = 0, most_ns = 0;
  std::optional<size_t> most;
  for (const auto& [process, ns] : ran_by) by_name[names_->NameOf(process)] += ns;
  for (const auto& [name, ns] : by_name) {
    all_ns += ns;
    if (!DoesNameMore(name, range)) continue;
    unusual_ns += ns;
    if (ns > most_ns) most = name;
    most_ns = std::max(most_ns, ns);
  }
  return unusual_ns * 2 >= all_ns ? most : std::nullopt;
}

void Neighbors::Judge(const Group& waiter, const Series& of_waiter, size_t subject, const RanBy& ran_by,
                      const BinRange& range, Neighbor* neighbor) {
  neighbor->is_unusual = IsUnusual(waiter, of_waiter, subject, range);
  if (neighbor->is_unusual || !groups_.subjects()[subject].is_place) return;
  const std::optional<size_t> name = UnusualNameOf(ran_by, range);
  if (!name) return;
  const Neighbor of_name =
      Make(names_->by_name()[*name], SeriesOf(names_->by_name(), *name, &of_bare_name_), range);
  neighbor->is_unusual = true;
  neighbor->of_name = of_name.who.name;
  neighbor->has_rows = of_name.has_rows;
  neighbor->cpu_ns = of_name.cpu_ns;
  neighbor->usual_cpu_ns = of_name.usual_cpu_ns;
}

Group Neighbors::WithoutNewcomers(const Group& place, const BinRange& range) {
  Group rest = {place.name, place.is_kernel, place.is_place, {}};
  std::map<size_t, bool> does_more;  // by name
  for (const uint32_t member : place.members) {
    const size_t name = names_->NameOf(member);
    const auto [known, is_new] = does_more.try_emplace(name);
    if (is_new) known->second = DoesNameMore(name, range);
    if (!known->second) rest.members.push_back(member);
  }
  return rest;
}

std::vector<Neighbor> Neighbors::OfWaits(const Group& waiter, const Series& of_waiter,
                                         const BinRange& range) {
  // Within the own place the others are told apart by their names.
  const size_t own = groups_.SubjectOf(waiter.members.front());
  const bool is_place = groups_.subjects()[own].is_place;
  struct Who {
    bool is_name = false;
    size_t place = 0;  // in subjects(), or in names_
    auto operator<=>(const Who&) const = default;
  };
  std::map<Who, RanOf> by_subject;
  const int64_t end = timeline_.IndexAt(range.end);
  for (uint32_t member : waiter.members) {
    auto at = std::lower_bound(history_.ran_instead().begin(), history_.ran_instead().end(),
                               std::pair(member, timeline_.IndexAt(range.begin)),
                               [](const RanWhile& one, const std::pair<uint32_t, int64_t>& wanted) {
                                 return std::pair(one.waiter, one.bin) < wanted;
                               });
    for (; at != history_.ran_instead().end() && at->waiter == member && at->bin < end; ++at) {
      const size_t subject = groups_.SubjectOf(at->ran);
      RanOf& ran = by_subject[is_place && subject == own ? Who{true, names_->NameOf(at->ran)}
                                                         : Who{false, subject}];
      ran.ns += at->ns;
      ran.cpus[at->cpu] += at->ns;
      ran.processes[at->ran] += at->ns;
    }
  }
  std::vector<std::pair<Who, const RanOf*>> order;
  for (const auto& [subject, ran] : by_subject) order.emplace_back(subject, &ran);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second->ns > b.second->ns; });
  uint64_t rest_ns = 0, unusual_ns = 0;
  for (const auto& [subject, ran] : order) rest_ns += ran->ns;
  const uint64_t waited_ns = of_waiter.Hindrance(kByOthers, range);
  std::vector<Neighbor> neighbors;
  for (const auto& [subject, one] : order) {
    const RanOf& ran = *one;
    // Of hundreds who ran a little, whether half of it was unusual is soon known.
    const bool is_decided = unusual_ns * 2 >= waited_ns || (unusual_ns + rest_ns) * 2 < waited_ns;
    if (is_decided && neighbors.size() >= kMostNeighbors) break;
    Neighbor neighbor = subject.is_name
                            ? Make(names_->by_name()[subject.place],
                                   SeriesOf(names_->by_name(), subject.place, &of_bare_name_), range)
                            : Make(groups_.subjects()[subject.place], OfSubject(subject.place), range);
    neighbor.ns = ran.ns;
    neighbor.who.nr = ran.processes.size();
    neighbor.who.tgid = history_.processes()[ran.processes.begin()->first].key.tgid;
    neighbor.cpus = CpusOf(ran);
    if (subject.is_name)
      neighbor.is_unusual = DoesNameMore(subject.place, range);
    else
      Judge(waiter, of_waiter, subject.place, ran.processes, range, &neighbor);
    rest_ns -= ran.ns;
    if (neighbor.is_unusual) unusual_ns += ran.ns;
    neighbors.push_back(std::move(neighbor));
  }
  return neighbors;
}

std::vector<Neighbor> Neighbors::OfTraffic(const Group& slower, const BinRange& range) {
  const size_t own = groups_.SubjectOf(slower.members.front());
  uint64_t all_bytes = 0;
  std::vector<Neighbor> neighbors;
  for (size_t subject : with_traffic_) {
    const uint64_t bytes = OfSubject(subject).Traffic(range);
    all_bytes += bytes;
    if (bytes > 0 && subject != own)
      neighbors.push_back(Make(groups_.subjects()[subject], OfSubject(subject), range));
  }
  const auto more = [](const Neighbor& one) {
    return static_cast<double>(one.traffic_bytes) - static_cast<double>(one.usual_traffic_bytes);
  };
  for (Neighbor& neighbor : neighbors)
    neighbor.is_unusual = more(neighbor) > kMuchTraffic * static_cast<double>(all_bytes) &&
                          more(neighbor) > static_cast<double>(neighbor.usual_traffic_bytes);
  std::stable_sort(neighbors.begin(), neighbors.end(),
                   [&](const Neighbor& a, const Neighbor& b) { return more(a) > more(b); });
  return neighbors;
}

}  // namespace slotscope
