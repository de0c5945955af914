// SPDX-License-Identifier: MIT
#include "explain/neighbors.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace slotscope {
namespace {

// Who did more than usual: more than twice as much, and so much of a CPU more.
constexpr double kMoreTimes = 2, kLeastMoreCpu = 0.2;
constexpr double kMuchTraffic = 0.3;  // of all

struct RanOf {
  uint64_t ns = 0;
  std::map<int, uint64_t> cpus;
  std::set<uint32_t> processes;
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

Neighbor Neighbors::Make(size_t subject, const BinRange& range) {
  const Series& series = OfSubject(subject);
  Neighbor neighbor;
  neighbor.who = PartyOf(history_, groups_.subjects()[subject]);
  neighbor.cpu_ns = series.Cpu(range);
  neighbor.traffic_bytes = series.Traffic(range);
  std::vector<double> cpu, traffic;
  timeline_.ForEachWindowOutside(range, [&](const BinRange& window) {
    cpu.push_back(static_cast<double>(series.Cpu(window)));
    // Where it ran and its traffic was not measured nothing is known of that.
    if (series.Cpu(window) == 0 || series.HasTraffic(window))
      traffic.push_back(static_cast<double>(series.Traffic(window)));
  });
  neighbor.has_usual = cpu.size() >= kLeastUsualWindows;
  neighbor.usual_cpu_ns = Scaled(UsualOf(&cpu).median, range);
  neighbor.usual_traffic_bytes = Scaled(UsualOf(&traffic).median, range);
  return neighbor;
}

// It took more CPU time than it does at other times, and so did all of its name: of many of a name each
// may be new.
bool Neighbors::IsUnusual(const Group& waiter, const Series& of_waiter, size_t subject,
                          const BinRange& range) {
  const Group& group = groups_.subjects()[subject];
  if (groups_.SubjectOf(waiter.members.front()) == subject) return false;  // they are equals
  const bool has_waiter = group.name == waiter.name && group.is_kernel == waiter.is_kernel;
  const Series& all = OfName(groups_.NameOf(group.members.front()));
  const auto of = [&](const BinRange& window) {
    return static_cast<double>(all.Cpu(window) - (has_waiter ? of_waiter.Cpu(window) : 0));
  };
  std::vector<double> values;
  timeline_.ForEachWindowOutside(range, [&](const BinRange& window) { values.push_back(of(window)); });
  if (values.size() < kLeastUsualWindows) return false;
  const auto expected = static_cast<double>(Scaled(UsualOf(&values).median, range));
  return of(range) > kMoreTimes * expected + kLeastMoreCpu * static_cast<double>(range.size() * kBinNs);
}

std::vector<Neighbor> Neighbors::OfWaits(const Group& waiter, const Series& of_waiter,
                                         const BinRange& range) {
  std::map<size_t, RanOf> by_subject;
  const int64_t end = timeline_.IndexAt(range.end);
  for (uint32_t member : waiter.members) {
    auto at = std::lower_bound(history_.ran_instead().begin(), history_.ran_instead().end(),
                               std::pair(member, timeline_.IndexAt(range.begin)),
                               [](const RanWhile& one, const std::pair<uint32_t, int64_t>& wanted) {
                                 return std::pair(one.waiter, one.bin) < wanted;
                               });
    for (; at != history_.ran_instead().end() && at->waiter == member && at->bin < end; ++at) {
      RanOf& ran = by_subject[groups_.SubjectOf(at->ran)];
      ran.ns += at->ns;
      ran.cpus[at->cpu] += at->ns;
      ran.processes.insert(at->ran);
    }
  }
  std::vector<Neighbor> neighbors;
  for (const auto& [subject, ran] : by_subject) {
    Neighbor neighbor = Make(subject, range);
    neighbor.ns = ran.ns;
    neighbor.who.nr = ran.processes.size();
    neighbor.who.tgid = history_.processes()[*ran.processes.begin()].key.tgid;
    neighbor.cpus = CpusOf(ran);
    neighbor.is_unusual = IsUnusual(waiter, of_waiter, subject, range);
    neighbors.push_back(std::move(neighbor));
  }
  std::stable_sort(neighbors.begin(), neighbors.end(),
                   [](const Neighbor& a, const Neighbor& b) { return a.ns > b.ns; });
  return neighbors;
}

std::vector<Neighbor> Neighbors::OfTraffic(const Group& slower, const BinRange& range) {
  const size_t own = groups_.SubjectOf(slower.members.front());
  uint64_t all_bytes = 0;
  std::vector<Neighbor> neighbors;
  for (size_t subject : with_traffic_) {
    const uint64_t bytes = OfSubject(subject).Traffic(range);
    all_bytes += bytes;
    if (bytes > 0 && subject != own) neighbors.push_back(Make(subject, range));
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
