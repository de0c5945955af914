// SPDX-License-Identifier: MIT
#include "explain/stall.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "explain/groups.h"
#include "explain/series.h"

namespace slotscope {
namespace {

// When a hindrance is worth telling. In a window of 100 ms it takes at least so much.
struct Rule {
  double least_ns;
  // Only what is more than usual for it; else whatever is usual.
  bool unusual_only;
  // Somebody else is to be named, who does more than usual.
  bool needs_neighbor;
};
constexpr double kMs = 1e6;
constexpr std::array<std::optional<Rule>, kNrHindrances> kRules = {
    Rule{15 * kMs, true, true},    // others
    Rule{20 * kMs, true, false},   // its own threads
    Rule{10 * kMs, false, false},  // its quota
    std::nullopt,                  // wake-ups
    Rule{10 * kMs, true, false},   // the hypervisor
    Rule{20 * kMs, true, false},   // nobody knows
    Rule{20 * kMs, false, false},  // stopped
    std::nullopt,                  // traced: who does that wants it
    Rule{20 * kMs, true, false},   // disk
    Rule{20 * kMs, true, false},   // blocked
    Rule{15 * kMs, true, true},    // slower
};

constexpr double kSpreads = 3;
constexpr size_t kLeastUsualWindows = 5;  // fewer say nothing of what is usual
constexpr size_t kMostGap = 5 * kWindowBins;
constexpr double kMuchTraffic = 0.3;  // of all
// Who did more than usual: more than twice as much, and so much of a CPU more.
constexpr double kMoreTimes = 2, kLeastMoreCpu = 0.2;
constexpr double kGroupTimes = 2;  // for many that live for a moment each, a stretch has to be worse
constexpr double kLostShare = 0.05;
constexpr uint64_t kLeastLostNs = 10'000'000;
constexpr double kOfKernel = 0.1;  // what holds up threads of the kernel matters less
constexpr double kOfNobody = 0.5;  // and what is due to nobody else, or to nobody that is known
constexpr size_t kMostAlso = 5, kMostOfOne = 20;

double Scaled(double of_window, const BinRange& range) {
  return of_window * static_cast<double>(range.size()) / kWindowBins;
}

Party PartyOf(const History& history, const Group& group) {
  return {group.name, group.members.size(), history.processes()[group.members.front()].key.tgid};
}

// Looks through one history.
class Finder {
 public:
  Finder(const History& history, const Selection& selection)
      : history_(history), selection_(selection), groups_(history) {
    if (history.bins().empty()) return;
    first_bin_ = history.bins().begin()->first;
    nr_bins_ = static_cast<size_t>(history.bins().rbegin()->first - first_bin_ + 1);
    of_name_.resize(groups_.by_name().size());
    of_subject_.resize(groups_.subjects().size());
  }

  std::vector<Stall> Find() {
    std::vector<Stall> stalls;
    for (const Group& subject : groups_.subjects()) FindOf(subject, &stalls);
    if (!selection_.any()) FindLost(&stalls);
    return Join(std::move(stalls));
  }

  std::vector<Stall> In(int64_t from_ns, int64_t to_ns, size_t nr) {
    const BinRange range = RangeOf(from_ns, to_ns);
    std::vector<Stall> stalls;
    if (range.size() == 0) return stalls;
    for (const Group& subject : groups_.subjects()) {
      if (!IsSelected(subject)) continue;
      const Series series(history_, subject);
      if (!series.IsActive(range) && !selection_.any()) continue;
      size_t why = kByOthers;
      for (size_t i = 0; i < kSlower; i++)
        if (series.Hindrance(i, range) > series.Hindrance(why, range)) why = i;
      Stall stall = Make(subject, series, static_cast<Hindrance>(why), range);
      AddNeighbors(subject, series, range, &stall);
      for (size_t i = 0; i < kSlower; i++) stall.severity_ns += static_cast<double>(stall.ns[i]);
      if (subject.is_kernel) stall.severity_ns *= kOfKernel;
      stalls.push_back(std::move(stall));
    }
    SortBySeverity(&stalls);
    stalls.resize(std::min(stalls.size(), nr));
    return stalls;
  }

 private:
  bool IsSelected(const Group& subject) const {
    if (!selection_.any()) return subject.name != "slotscope";
    return std::any_of(subject.members.begin(), subject.members.end(), [&](uint32_t member) {
      const ProcessHistory& process = history_.processes()[member];
      return selection_.Has(process.key.tgid, process.comm);
    });
  }

  BinRange RangeOf(int64_t from_ns, int64_t to_ns) const {
    const auto place = [&](int64_t bin) {
      return static_cast<size_t>(
          std::clamp<int64_t>(bin - first_bin_, 0, static_cast<int64_t>(nr_bins_)));
    };
    return {place(from_ns / kBinNs), place((to_ns + kBinNs - 1) / kBinNs)};
  }

  const Series& OfName(size_t name) { return SeriesOf(groups_.by_name(), name, &of_name_); }
  const Series& OfSubject(size_t subject) { return SeriesOf(groups_.subjects(), subject, &of_subject_); }
  const Series& SeriesOf(const std::vector<Group>& groups, size_t group,
                         std::vector<std::optional<Series>>* known) {
    std::optional<Series>& series = (*known)[group];
    if (!series) series.emplace(history_, groups[group]);
    return *series;
  }

  // Ranges in which one hindrance is more than that in each window, and what is between them if it is
  // short.
  std::vector<BinRange> RangesAbove(const Series& series, size_t why, double least_ns) const {
    std::vector<BinRange> ranges;
    const auto has_any = [&](size_t bin) { return series.Hindrance(why, {bin, bin + 1}) > 0; };
    for (size_t begin = 0; begin < nr_bins_; begin++) {
      const BinRange window = {begin, std::min(begin + kWindowBins, nr_bins_)};
      if (!has_any(begin) || static_cast<double>(series.Hindrance(why, window)) < least_ns) continue;
      BinRange range = window;
      while (!has_any(range.end - 1)) range.end--;
      if (!ranges.empty() && range.begin <= ranges.back().end + kMostGap)
        ranges.back().end = std::max(ranges.back().end, range.end);
      else
        ranges.push_back(range);
    }
    return ranges;
  }

  static Usual UsualOutside(const Series& series, size_t why, const BinRange& range) {
    std::vector<double> values;
    series.ForEachWindowOutside(range, [&](const BinRange& window) {
      if (series.IsActive(window)) values.push_back(static_cast<double>(series.Hindrance(why, window)));
    });
    return UsualOf(&values);
  }

  static double LeastUnusual(const Usual& usual) {
    return std::max(usual.median + kSpreads * usual.spread, 2 * usual.upper);
  }

  void FindOf(const Group& subject, std::vector<Stall>* stalls) {
    if (!IsSelected(subject)) return;
    const Series series(history_, subject);
    for (size_t why = 0; why < kNrHindrances; why++) {
      const std::optional<Rule>& rule = kRules[why];
      if (!rule || static_cast<double>(series.Hindrance(why, {0, nr_bins_})) < rule->least_ns) continue;
      double least_ns = rule->least_ns * (subject.members.size() > 1 ? kGroupTimes : 1);
      if (rule->unusual_only) {
        const Usual usual = UsualOutside(series, why, {});
        // Of all windows, bad ones among them: less than half of them do not matter to this.
        least_ns = std::max(least_ns, usual.median + kSpreads * usual.spread);
      }
      std::vector<Stall> found;
      for (const BinRange& range : RangesAbove(series, why, least_ns))
        if (auto stall = Judge(subject, series, static_cast<Hindrance>(why), range))
          found.push_back(std::move(*stall));
      SortBySeverity(&found);
      found.resize(std::min(found.size(), kMostOfOne));
      std::move(found.begin(), found.end(), std::back_inserter(*stalls));
    }
  }

  // Is that range worth telling?
  std::optional<Stall> Judge(const Group& subject, const Series& series, Hindrance why,
                             const BinRange& range) {
    const Rule& rule = *kRules[why];
    Stall stall = Make(subject, series, why, range);
    const auto took_ns = static_cast<double>(stall.ns[why]);
    if (rule.unusual_only) {
      const Usual usual = UsualOutside(series, why, range);
      if (usual.nr < kLeastUsualWindows || took_ns < Scaled(LeastUnusual(usual), range)) return {};
    }
    stall.severity_ns = took_ns - static_cast<double>(stall.usual_ns[why]);
    if (why == kByUnknown || why == kBySelf) stall.severity_ns *= kOfNobody;
    if (subject.is_kernel) stall.severity_ns *= kOfKernel;
    if (stall.severity_ns <= 0) return {};
    AddNeighbors(subject, series, range, &stall);
    if (rule.needs_neighbor && !HasUnusualNeighbor(stall)) return {};
    return stall;
  }

  // Of what somebody waited at least half was due to those who did more than usual.
  static bool HasUnusualNeighbor(const Stall& stall) {
    if (stall.why == kSlower) return !stall.neighbors.empty() && stall.neighbors.front().is_unusual;
    uint64_t unusual_ns = 0;
    for (const Neighbor& neighbor : stall.neighbors)
      if (neighbor.is_unusual) unusual_ns += neighbor.ns;
    return unusual_ns * 2 >= stall.ns[kByOthers];
  }

  Stall Make(const Group& subject, const Series& series, Hindrance why, const BinRange& range) const {
    Stall stall;
    stall.from_ns = (first_bin_ + static_cast<int64_t>(range.begin)) * kBinNs;
    stall.to_ns = (first_bin_ + static_cast<int64_t>(range.end)) * kBinNs;
    stall.who = PartyOf(history_, subject);
    stall.why = why;
    stall.cpu_ns = series.Cpu(range);
    for (size_t i = 0; i < kNrHindrances; i++) {
      stall.ns[i] = series.Hindrance(i, range);
      stall.usual_ns[i] = static_cast<uint64_t>(Scaled(UsualOutside(series, i, range).median, range));
    }
    const Usual cpu = UsualIn(series, range, &Series::Cpu);
    stall.has_usual = cpu.nr >= kLeastUsualWindows;
    stall.usual_cpu_ns = static_cast<uint64_t>(Scaled(cpu.median, range));
    stall.traffic_bytes = series.Traffic(range);
    stall.usual_traffic_bytes =
        static_cast<uint64_t>(Scaled(UsualIn(series, range, &Series::Traffic).median, range));
    AddSleeps(subject, &stall);
    const uint64_t waited_ns = stall.waited_ns();
    stall.unknown_share =
        waited_ns ? static_cast<double>(stall.ns[kByUnknown]) / static_cast<double>(waited_ns) : 0;
    stall.lost_share = LostShare(range);
    return stall;
  }

  void AddSleeps(const Group& subject, Stall* stall) const {
    for (uint32_t member : subject.members)
      for (const Sleep& sleep : history_.processes()[member].sleeps) {
        const int64_t from_ns = std::max(sleep.from_ns, stall->from_ns);
        const int64_t to_ns = std::min(sleep.to_ns, stall->to_ns);
        if (from_ns >= to_ns) continue;
        stall->asleep_ns += static_cast<uint64_t>(to_ns - from_ns);
        stall->asleep_since_ns = sleep.from_ns;
      }
  }

  // Of all windows, also of those in which it did nothing.
  static Usual UsualIn(const Series& series, const BinRange& outside,
                       uint64_t (Series::*of)(const BinRange&) const) {
    std::vector<double> values;
    series.ForEachWindowOutside(outside, [&](const BinRange& window) {
      values.push_back(static_cast<double>((series.*of)(window)));
    });
    return UsualOf(&values);
  }

  double LostShare(const BinRange& range) const {
    uint64_t lost_ns = 0, slots_ns = 0;
    const int64_t begin = first_bin_ + static_cast<int64_t>(range.begin);
    for (auto bin = history_.bins().lower_bound(begin);
         bin != history_.bins().end() && bin->first < begin + static_cast<int64_t>(range.size());
         ++bin) {
      lost_ns += bin->second.lost_ns;
      slots_ns += bin->second.slots_ns;
    }
    return slots_ns ? static_cast<double>(lost_ns) /
                          (static_cast<double>(slots_ns) * static_cast<double>(history_.nr_cpus()))
                    : 0;
  }

  void AddNeighbors(const Group& waiter, const Series& of_waiter, const BinRange& range, Stall* stall) {
    if (stall->why == kSlower)
      AddByTraffic(waiter, range, stall);
    else
      AddByWaits(waiter, of_waiter, range, stall);
  }

  // What it did in that range, on any CPU, and usually does.
  Neighbor MakeNeighbor(size_t subject, const BinRange& range) {
    const Group& group = groups_.subjects()[subject];
    const Series& series = OfSubject(subject);
    Neighbor neighbor;
    neighbor.who = PartyOf(history_, group);
    neighbor.cpu_ns = series.Cpu(range);
    neighbor.usual_cpu_ns =
        static_cast<uint64_t>(Scaled(UsualIn(series, range, &Series::Cpu).median, range));
    neighbor.traffic_bytes = series.Traffic(range);
    neighbor.usual_traffic_bytes =
        static_cast<uint64_t>(Scaled(UsualIn(series, range, &Series::Traffic).median, range));
    return neighbor;
  }

  // By what of them was seen at other times.
  template <typename Of>
  bool IsMoreThanUsual(const BinRange& range, const Of& of) const {
    std::vector<double> values;
    for (size_t begin = 0; begin + kWindowBins <= nr_bins_; begin += kWindowBins)
      if (const BinRange window = {begin, begin + kWindowBins}; !window.Overlaps(range))
        values.push_back(of(window));
    const Usual usual = UsualOf(&values);
    if (usual.nr < kLeastUsualWindows) return false;
    const double expected = Scaled(usual.median, range);
    return of(range) >
           kMoreTimes * expected + kLeastMoreCpu * static_cast<double>(range.size() * kBinNs);
  }

  // It took more CPU time than it does at other times, and so did all of its name: of many of a name
  // each may be new.
  bool IsUnusual(const Group& waiter, const Series& of_waiter, size_t subject, const BinRange& range) {
    const Group& group = groups_.subjects()[subject];
    if (&group == &waiter) return false;  // they are equals
    const bool has_waiter = group.name == waiter.name && group.is_kernel == waiter.is_kernel;
    const Series& all = OfName(groups_.NameOf(group.members.front()));
    return IsMoreThanUsual(range, [&](const BinRange& window) {
      return static_cast<double>(all.Cpu(window) - (has_waiter ? of_waiter.Cpu(window) : 0));
    });
  }

  struct RanOf {
    uint64_t ns = 0;
    std::map<int, uint64_t> cpus;
    std::set<uint32_t> processes;
  };

  void AddByWaits(const Group& waiter, const Series& of_waiter, const BinRange& range, Stall* stall) {
    std::map<size_t, RanOf> by_subject;
    std::vector<bool> is_member(history_.processes().size());
    for (uint32_t member : waiter.members) is_member[member] = true;
    const auto begin = first_bin_ + static_cast<int64_t>(range.begin);
    auto at = std::lower_bound(history_.ran_instead().begin(), history_.ran_instead().end(), begin,
                               [](const RanWhile& one, int64_t index) { return one.bin < index; });
    for (; at != history_.ran_instead().end() && at->bin < begin + static_cast<int64_t>(range.size());
         ++at) {
      if (!is_member[at->waiter]) continue;
      RanOf& ran = by_subject[groups_.SubjectOf(at->ran)];
      ran.ns += at->ns;
      ran.cpus[at->cpu] += at->ns;
      ran.processes.insert(at->ran);
    }
    for (const auto& [subject, ran] : by_subject) {
      Neighbor neighbor = MakeNeighbor(subject, range);
      neighbor.ns = ran.ns;
      neighbor.who.nr = ran.processes.size();
      neighbor.who.tgid = history_.processes()[*ran.processes.begin()].key.tgid;
      std::vector<std::pair<uint64_t, int>> cpus;
      for (const auto& [cpu, ns] : ran.cpus)
        if (cpu >= 0) cpus.emplace_back(ns, cpu);
      std::sort(cpus.rbegin(), cpus.rend());
      for (const auto& [ns, cpu] : cpus) neighbor.cpus.push_back(cpu);
      neighbor.is_unusual = IsUnusual(waiter, of_waiter, subject, range);
      stall->neighbors.push_back(std::move(neighbor));
    }
    std::stable_sort(stall->neighbors.begin(), stall->neighbors.end(),
                     [](const Neighbor& a, const Neighbor& b) { return a.ns > b.ns; });
  }

  void AddByTraffic(const Group& waiter, const BinRange& range, Stall* stall) {
    uint64_t all_bytes = 0;
    for (size_t subject = 0; subject < groups_.subjects().size(); subject++) {
      const uint64_t bytes = OfSubject(subject).Traffic(range);
      all_bytes += bytes;
      if (bytes > 0 && &groups_.subjects()[subject] != &waiter)
        stall->neighbors.push_back(MakeNeighbor(subject, range));
    }
    const auto more = [](const Neighbor& one) {
      return static_cast<double>(one.traffic_bytes) - static_cast<double>(one.usual_traffic_bytes);
    };
    for (Neighbor& neighbor : stall->neighbors)
      neighbor.is_unusual = more(neighbor) > kMuchTraffic * static_cast<double>(all_bytes) &&
                            more(neighbor) > static_cast<double>(neighbor.usual_traffic_bytes);
    std::stable_sort(stall->neighbors.begin(), stall->neighbors.end(),
                     [&](const Neighbor& a, const Neighbor& b) { return more(a) > more(b); });
  }

  // Where the recording itself does not know who ran.
  void FindLost(std::vector<Stall>* stalls) const {
    std::vector<BinRange> ranges;
    for (size_t begin = 0; begin < nr_bins_; begin++) {
      const BinRange window = {begin, std::min(begin + kWindowBins, nr_bins_)};
      if (LostShare({begin, begin + 1}) <= kLostShare || LostShare(window) < kLostShare) continue;
      if (!ranges.empty() && begin <= ranges.back().end + kMostGap)
        ranges.back().end = begin + 1;
      else
        ranges.push_back({begin, begin + 1});
    }
    for (const BinRange& range : ranges) {
      Stall stall;
      stall.from_ns = (first_bin_ + static_cast<int64_t>(range.begin)) * kBinNs;
      stall.to_ns = (first_bin_ + static_cast<int64_t>(range.end)) * kBinNs;
      stall.lost_share = LostShare(range);
      stall.ns[kByUnknown] =
          static_cast<uint64_t>(stall.lost_share * static_cast<double>(stall.length_ns()) *
                                static_cast<double>(history_.nr_cpus()));
      if (stall.ns[kByUnknown] < kLeastLostNs) continue;
      stall.severity_ns = static_cast<double>(stall.ns[kByUnknown]);
      stalls->push_back(std::move(stall));
    }
  }

  static void SortBySeverity(std::vector<Stall>* stalls) {
    std::stable_sort(stalls->begin(), stalls->end(),
                     [](const Stall& a, const Stall& b) { return a.severity_ns > b.severity_ns; });
  }

  static bool HaveOneCause(const Stall& a, const Stall& b) {
    if (a.why != b.why || a.neighbors.empty() || b.neighbors.empty()) return false;
    return a.neighbors.front().who.name == b.neighbors.front().who.name ||
           a.who.name == b.neighbors.front().who.name || b.who.name == a.neighbors.front().who.name;
  }

  // The worst first; what the same did to others at that time is part of it.
  static std::vector<Stall> Join(std::vector<Stall> stalls) {
    SortBySeverity(&stalls);
    std::vector<Stall> joined;
    for (Stall& stall : stalls) {
      const auto same = std::find_if(joined.begin(), joined.end(), [&](const Stall& worse) {
        if (worse.from_ns >= stall.to_ns || stall.from_ns >= worse.to_ns) return false;
        return (worse.who.nr && worse.who.name == stall.who.name && worse.who.tgid == stall.who.tgid) ||
               HaveOneCause(worse, stall);
      });
      if (same == joined.end()) {
        joined.push_back(std::move(stall));
      } else if (same->also.size() < kMostAlso && stall.who.Text() != same->who.Text()) {
        same->also.emplace_back(stall.who, stall.ns[stall.why]);
      }
    }
    return joined;
  }

  const History& history_;
  const Selection& selection_;
  const Groups groups_;
  int64_t first_bin_ = 0;
  size_t nr_bins_ = 0;
  std::vector<std::optional<Series>> of_name_, of_subject_;
};

}  // namespace

std::string Party::Text() const { return PartyText(name, nr, tgid); }

const char* ConfidenceText(Confidence confidence) {
  constexpr std::array kTexts = {"high", "medium", "low"};
  return kTexts[static_cast<size_t>(confidence)];
}

uint64_t Stall::waited_ns() const {
  return std::accumulate(ns.begin(), ns.begin() + kNrWaitHindrances, uint64_t{0});
}

Confidence Stall::confidence() const {
  const double share = std::max(lost_share, unknown_share);
  return share < 0.05 ? Confidence::kHigh : share < 0.2 ? Confidence::kMedium : Confidence::kLow;
}

bool Selection::Has(int32_t tgid, const std::string& comm) const {
  return std::find(pids.begin(), pids.end(), tgid) != pids.end() ||
         std::find(comms.begin(), comms.end(), comm) != comms.end();
}

std::vector<Stall> FindStalls(const History& history, const Selection& selection) {
  return Finder(history, selection).Find();
}

std::vector<Stall> StallsIn(const History& history, const Selection& selection, int64_t from_ns,
                            int64_t to_ns, size_t nr) {
  return Finder(history, selection).In(from_ns, to_ns, nr);
}

}  // namespace slotscope
