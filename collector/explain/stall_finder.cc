// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "explain/groups.h"
#include "explain/neighbors.h"
#include "explain/series.h"
#include "explain/stall.h"

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
    Rule{30 * kMs, true, false},   // the hypervisor
    Rule{60 * kMs, true, false},   // nobody knows
    Rule{20 * kMs, false, false},  // stopped
    std::nullopt,                  // traced: who does that wants it
    Rule{20 * kMs, true, false},   // disk
    Rule{20 * kMs, true, false},   // blocked
    Rule{15 * kMs, true, true},    // slower
    Rule{30 * kMs, true, false},   // its GPU is starved
};

constexpr double kSpreads = 3;
constexpr size_t kMostGap = 5 * kWindowBins;
constexpr double kGroupTimes = 2;  // for many that live for a moment each, a stretch has to be worse
constexpr double kLostShare = 0.05;
constexpr uint64_t kLeastLostNs = 10'000'000;
constexpr double kOfKernel = 0.1;  // what holds up threads of the kernel matters less
constexpr double kOfNobody = 0.5;  // and what is due to nobody else, or to nobody that is known
constexpr size_t kMostAlso = 5, kMostOfOne = 20, kMostStarved = 8;

double LeastUnusual(const Usual& usual) {
  return std::max(usual.median + kSpreads * usual.spread, 2 * usual.upper);
}

void SortBySeverity(std::vector<Stall>* stalls) {
  std::stable_sort(stalls->begin(), stalls->end(),
                   [](const Stall& a, const Stall& b) { return a.severity_ns > b.severity_ns; });
}

bool HaveOneCause(const Stall& a, const Stall& b) {
  if (a.why != b.why || a.neighbors.empty() || b.neighbors.empty()) return false;
  return a.neighbors.front().who.name == b.neighbors.front().who.name ||
         a.who.name == b.neighbors.front().who.name || b.who.name == a.neighbors.front().who.name;
}

// What would be told as 0.0 ms.
constexpr uint64_t kLeastTold = 50'000;

// The worst first; what the same did to others at that time is part of it.
std::vector<Stall> Join(std::vector<Stall> stalls) {
  SortBySeverity(&stalls);
  std::vector<Stall> joined;
  for (Stall& stall : stalls) {
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const Stall& worse) {
      if (worse.from_ns >= stall.to_ns || stall.from_ns >= worse.to_ns) return false;
      return (worse.who.nr && worse.who.name == stall.who.name && worse.who.tgid == stall.who.tgid) ||
             HaveOneCause(worse, stall);
    });
    if (same == joined.end())
      joined.push_back(std::move(stall));
    else if (same->also.size() < kMostAlso && stall.who.Text() != same->who.Text())
      same->also.emplace_back(stall.who, stall.ns[stall.why]);
  }
  return joined;
}

int64_t OverlapNs(const Stall& a, const Stall& b) {
  return std::min(a.to_ns, b.to_ns) - std::max(a.from_ns, b.from_ns);
}

// In one pod, unit or cgroup; or in none that is known, as in a login.
bool AreTogether(const Party& a, const Party& b) {
  return a.is_place || b.is_place ? a.name == b.name : a.place == b.place;
}

// Whoever is beside it and was held up at just that time: what that one was to bring is most likely what
// its GPU lacked.
Stall* CauseOf(const Stall& starved, std::vector<Stall>* stalls) {
  if (StarvedBy(starved.gpu) != kNoWorkAsleep) return nullptr;
  const auto cause = std::find_if(stalls->begin(), stalls->end(), [&](const Stall& stall) {
    const int64_t both_ns = OverlapNs(stall, starved);
    return stall.who.nr && !stall.who.is_kernel && stall.who.Text() != starved.who.Text() &&
           both_ns * 2 >= starved.length_ns() && both_ns * 2 >= stall.length_ns() &&
           AreTogether(stall.who, starved.who);
  });
  return cause == stalls->end() ? nullptr : &*cause;
}

// A GPU without work is part of what it is due to, if that is found; else it is told by itself, unless
// something else was worse for the same process. REQUIRES: the worst are first, of both.
void JoinStarved(const std::vector<Stall>& starved, std::vector<Stall>* stalls) {
  std::vector<Stall> alone;
  for (const Stall& one : starved) {
    const bool is_told = std::any_of(stalls->begin(), stalls->end(), [&](const Stall& stall) {
      return stall.who.Text() == one.who.Text() && OverlapNs(stall, one) > 0 &&
             stall.severity_ns >= one.severity_ns;
    });
    if (is_told) continue;
    Stall* const cause = CauseOf(one, stalls);
    if (!cause) {
      alone.push_back(one);
      continue;
    }
    cause->severity_ns += one.severity_ns;
    if (cause->starved.size() < kMostStarved)
      cause->starved.push_back({one.who, one.gpu[kGpuNoWork], one.usual_no_work_ns});
    else
      cause->nr_more_starved++;
  }
  std::move(alone.begin(), alone.end(), std::back_inserter(*stalls));
  SortBySeverity(stalls);
}

// Looks through one history.
class Finder {
 public:
  Finder(const History& history, const Selection& selection)
      : history_(history),
        selection_(selection),
        timeline_(history),
        groups_(history, selection.group_by),
        neighbors_(history, timeline_, groups_) {}

  std::vector<Stall> Find() {
    std::vector<Stall> stalls;
    for (const Group& subject : groups_.subjects())
      FindOf(SelectedOf(subject, history_, selection_), &stalls);
    if (!selection_.any()) FindLost(&stalls);
    const auto starved = std::stable_partition(stalls.begin(), stalls.end(),
                                               [](const Stall& stall) { return stall.why != kStarved; });
    std::vector<Stall> gpus(std::make_move_iterator(starved), std::make_move_iterator(stalls.end()));
    SortBySeverity(&gpus);
    stalls.erase(starved, stalls.end());
    stalls = Join(std::move(stalls));
    JoinStarved(gpus, &stalls);
    return stalls;
  }

  std::vector<Stall> In(int64_t from_ns, int64_t to_ns, size_t nr) {
    const BinRange range = timeline_.RangeOf(from_ns, to_ns);
    std::vector<std::pair<Stall, Group>> all;
    if (range.size() == 0) return {};
    for (const Group& subject : groups_.subjects()) {
      const Group group = SelectedOf(subject, history_, selection_);
      if (group.members.empty()) continue;
      const Series series(history_, timeline_, group);
      if (!series.IsActive(range) && !series.Launches(range) &&
          !(selection_.any() && series.Asleep(range)))
        continue;
      size_t why = kByOthers;
      for (size_t i = 0; i < kSlower; i++)
        if (series.Hindrance(i, range) > series.Hindrance(why, range)) why = i;
      if (series.Hindrance(why, range) < kLeastTold && series.Hindrance(kStarved, range) >= kLeastTold)
        why = kStarved;
      if (!selection_.any() && series.Hindrance(why, range) < kLeastTold) continue;
      const BinRange there = WhileThere(group, series, range);
      Stall stall = Make(group, series, static_cast<Hindrance>(why), there);
      for (size_t i = 0; i < kSlower; i++) stall.severity_ns += static_cast<double>(stall.ns[i]);
      if (why == kStarved) stall.severity_ns += kOfNobody * static_cast<double>(stall.ns[kStarved]);
      if (group.is_kernel) stall.severity_ns *= kOfKernel;
      all.emplace_back(std::move(stall), group);
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.first.severity_ns > b.first.severity_ns;
    });
    std::vector<Stall> stalls;
    for (size_t i = 0; i < std::min(all.size(), nr); i++) {
      auto& [stall, group] = all[i];
      const Series series(history_, timeline_, group);
      stall.neighbors = neighbors_.OfWaits(group, series, WhileThere(group, series, range));
      stalls.push_back(std::move(stall));
    }
    return stalls;
  }

 private:
  // That range without the time before the first of them was born, and behind the end of the last.
  BinRange WhileThere(const Group& group, const Series& series, const BinRange& range) const {
    int64_t born_ns = INT64_MAX;
    for (uint32_t member : group.members)
      born_ns = std::min(born_ns, history_.processes()[member].born_ns);
    BinRange there = range;
    if (born_ns != 0) there.begin = std::max(there.begin, timeline_.RangeOf(born_ns, born_ns).begin);
    // Who sleeps, or is stopped, is there until it is heard of again.
    if (history_.has_states()) there.end = std::min(there.end, series.life().end);
    return there.begin < there.end ? there : range;
  }

  // Ranges in which one hindrance is more than that in each window, and what is between them if it is
  // short. They begin and end with a bin that has more than usual_ns.
  std::vector<BinRange> RangesAbove(const Series& series, size_t why, double least_ns,
                                    double usual_ns) const {
    std::vector<BinRange> ranges;
    const size_t nr_bins = timeline_.nr_bins();
    const auto has_any = [&](size_t bin) {
      return static_cast<double>(series.Hindrance(why, {bin, bin + 1})) > usual_ns;
    };
    for (size_t begin = 0; begin < nr_bins; begin++) {
      const BinRange window = {begin, std::min(begin + kWindowBins, nr_bins)};
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

  // Of that range what has most of it: ends that were joined to it, and have less than a third of what
  // it has in the mean, would make "600 of 750 ms" into "640 of 1920 ms".
  static BinRange Densest(const Series& series, size_t why, const BinRange& range) {
    const double third =
        static_cast<double>(series.Hindrance(why, range)) / 3 / static_cast<double>(range.size());
    BinRange densest = range;
    double sum = 0, most = 0;
    for (size_t bin = range.begin, begin = bin; bin < range.end; bin++) {
      sum += static_cast<double>(series.Hindrance(why, {bin, bin + 1})) - third;
      if (sum > most) {
        most = sum;
        densest = {begin, bin + 1};
      }
      if (sum > 0) continue;
      sum = 0;
      begin = bin + 1;
    }
    // It need not begin and end with a bin.
    const auto has_any = [&](size_t bin) { return series.Hindrance(why, {bin, bin + 1}) > 0; };
    if (densest.begin > range.begin && has_any(densest.begin - 1)) densest.begin--;
    if (densest.end < range.end && has_any(densest.end)) densest.end++;
    return densest;
  }

  // Of windows in which it did anything; `of_gpu`: in which it is one that launches.
  template <typename Of>
  Usual UsualOutside(const Series& series, const BinRange& range, const Of& of,
                     bool of_gpu = false) const {
    std::vector<double> values;
    timeline_.ForEachWindowOutside(range, [&](const BinRange& window) {
      if (of_gpu ? series.Launches(window) : series.IsActive(window))
        values.push_back(static_cast<double>(of(window)));
    });
    return UsualOf(&values);
  }
  Usual UsualHindrance(const Series& series, size_t why, const BinRange& range) const {
    return UsualOutside(
        series, range, [&](const BinRange& window) { return series.Hindrance(why, window); },
        why == kStarved);
  }

  // What it waited, for whatever reason, more than it usually does. Where only less was known of it than
  // usual, that is none.
  double MoreWaiting(const Series& series, const BinRange& range) const {
    const Usual usual =
        UsualOutside(series, range, [&](const BinRange& window) { return series.Waited(window); });
    return static_cast<double>(series.Waited(range)) - static_cast<double>(Scaled(usual.median, range));
  }

  void FindOf(const Group& subject, std::vector<Stall>* stalls) {
    if (subject.members.empty()) return;
    const Series series(history_, timeline_, subject);
    for (size_t why = 0; why < kNrHindrances; why++) {
      const std::optional<Rule>& rule = kRules[why];
      // Threads of the kernel are blocked all the time, and by whom is their own business.
      if (subject.is_kernel && why != kByOthers && !selection_.any()) continue;
      if (!rule || static_cast<double>(series.Hindrance(why, {0, timeline_.nr_bins()})) < rule->least_ns)
        continue;
      double least_ns = rule->least_ns * (subject.members.size() > 1 ? kGroupTimes : 1), usual_ns = 0;
      if (rule->unusual_only) {
        const Usual usual = UsualHindrance(series, why, {});
        // Of all windows, bad ones among them: less than half of them do not matter to this.
        least_ns = std::max(least_ns, usual.median + kSpreads * usual.spread);
        // Each step of a loop that launches has some of it.
        if (why == kStarved) usual_ns = 2 * usual.median / kWindowBins;
      }
      std::vector<Stall> found;
      for (const BinRange& range : RangesAbove(series, why, least_ns, usual_ns))
        if (auto stall =
                Judge(subject, series, static_cast<Hindrance>(why), Densest(series, why, range)))
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
    const auto took_ns = static_cast<double>(series.Hindrance(why, range));
    if (rule.unusual_only) {
      const Usual usual = UsualHindrance(series, why, range);
      if (usual.nr < kLeastUsualWindows ||
          took_ns < static_cast<double>(Scaled(LeastUnusual(usual), range)))
        return {};
    }
    // Without what is usual at its ends it may be less.
    if (why == kStarved && took_ns < rule.least_ns) return {};
    Stall stall = Make(subject, series, why, range);
    // It had no less to do than it usually has: it only did something else meanwhile.
    if (why == kStarved && stall.gpu[kGpuNoWork] <= stall.usual_no_work_ns) return {};
    stall.severity_ns = took_ns - static_cast<double>(stall.usual_ns[why]);
    if (why == kByUnknown) stall.severity_ns = std::min(stall.severity_ns, MoreWaiting(series, range));
    if (why == kByUnknown || why == kBySelf || why == kStarved) stall.severity_ns *= kOfNobody;
    if (subject.is_kernel) stall.severity_ns *= kOfKernel;
    if (stall.severity_ns <= 0) return {};
    stall.neighbors = why == kSlower ? neighbors_.OfTraffic(subject, range)
                                     : neighbors_.OfWaits(subject, series, range);
    if (!rule.needs_neighbor || stall.HasUnusualNeighbor()) return stall;
    if (!subject.is_place) return {};
    // Whoever came waits for those who were there: without him it may be clear.
    const Group rest = neighbors_.WithoutNewcomers(subject, range);
    if (rest.members.empty() || rest.members.size() == subject.members.size()) return {};
    return Judge(rest, Series(history_, timeline_, rest), why, range);
  }

  // All of its processes that were held up so; all that there are, if none was.
  Party HeldUp(const Group& subject, Hindrance why, const BinRange& range) const {
    Party party = PartyOf(history_, subject);
    if (subject.members.size() == 1) return party;
    size_t nr = 0;
    for (uint32_t member : subject.members) {
      if (!IsHeldUp(history_.processes()[member], why, range)) continue;
      if (nr++ == 0) party.tgid = history_.processes()[member].key.tgid;
    }
    if (nr) party.nr = nr;
    return party;
  }

  bool IsHeldUp(const ProcessHistory& process, Hindrance why, const BinRange& range) const {
    const auto in_bins = [&](const ProcessBin& bin) {
      return bin.index >= timeline_.IndexAt(range.begin) && bin.index < timeline_.IndexAt(range.end) &&
             bin.ns[why] > 0;
    };
    return std::any_of(process.bins.begin(), process.bins.end(), in_bins) ||
           std::any_of(process.spans.begin(), process.spans.end(), [&](const Span& span) {
             return span.why == why && span.from_ns < timeline_.EndNs(range) &&
                    span.to_ns > timeline_.StartNs(range);
           });
  }

  Stall Make(const Group& subject, const Series& series, Hindrance why, const BinRange& range) const {
    Stall stall;
    stall.from_ns = std::max(timeline_.StartNs(range), history_.from_ns());
    stall.to_ns = std::min(timeline_.EndNs(range), history_.to_ns());
    stall.who = HeldUp(subject, why, range);
    stall.why = why;
    stall.cpu_ns = series.Cpu(range);
    for (size_t i = 0; i < kNrHindrances; i++) {
      stall.ns[i] = series.Hindrance(i, range);
      stall.usual_ns[i] = Scaled(UsualHindrance(series, i, range).median, range);
    }
    const Usual cpu =
        UsualOutside(series, range, [&](const BinRange& window) { return series.Cpu(window); });
    stall.has_usual = cpu.nr >= kLeastUsualWindows;
    stall.usual_cpu_ns = Scaled(cpu.median, range);
    stall.traffic_bytes = series.Traffic(range);
    const Usual traffic =
        UsualOutside(series, range, [&](const BinRange& window) { return series.Traffic(window); });
    stall.usual_traffic_bytes = Scaled(traffic.median, range);
    stall.launches = series.Launches(range);
    for (size_t i = 0; i < kNrGpuValues; i++) stall.gpu[i] = series.Gpu(static_cast<GpuValue>(i), range);
    const Usual no_work = UsualOutside(
        series, range, [&](const BinRange& window) { return series.Gpu(kGpuNoWork, window); }, true);
    for (uint32_t member : subject.members) stall.gpu_known |= history_.processes()[member].gpu_known;
    // Where calls were lost, so that not even when it had some is known, it may have waited.
    stall.never_waits = stall.launches && stall.gpu_known >> kGpuActiveNs & 1 &&
                        series.Gpu(kGpuNoWork, series.life()) == 0;
    stall.usual_no_work_ns = Scaled(no_work.median, range);
    stall.asleep_ns = series.Asleep(range);
    for (uint32_t member : subject.members)
      for (const Span& span : history_.processes()[member].spans)
        if (span.why == kNrHindrances && span.from_ns < stall.to_ns && span.to_ns > stall.from_ns)
          stall.asleep_since_ns = std::max(stall.asleep_since_ns, span.from_ns);
    for (uint32_t member : subject.members) {
      const auto told = history_.ToldLateOf(member, stall.from_ns, stall.to_ns);
      stall.told_until_ns = std::max(stall.told_until_ns, told.until_ns);
      stall.waits_on |= !told.is_over;
      stall.guesses |= told.is_guess;
    }
    stall.has_waits = history_.has_waits();
    const uint64_t waited_ns = stall.waited_ns();
    stall.unknown_share =
        waited_ns ? static_cast<double>(stall.ns[kByUnknown]) / static_cast<double>(waited_ns) : 0;
    stall.lost_share = LostShare(range);
    return stall;
  }

  double LostShare(const BinRange& range) const {
    const MachineBin sum = history_.SumOf(timeline_.StartNs(range), timeline_.EndNs(range));
    if (sum.slots_ns == 0) return 0;
    return std::min(1.0, static_cast<double>(sum.lost_ns) / (static_cast<double>(sum.slots_ns) *
                                                             static_cast<double>(history_.nr_cpus())));
  }

  // Where the recording itself does not know who ran.
  void FindLost(std::vector<Stall>* stalls) const {
    std::vector<BinRange> ranges;
    for (size_t begin = 0; begin < timeline_.nr_bins(); begin++) {
      const BinRange window = {begin, std::min(begin + kWindowBins, timeline_.nr_bins())};
      if (LostShare({begin, begin + 1}) <= kLostShare || LostShare(window) < kLostShare) continue;
      if (!ranges.empty() && begin <= ranges.back().end + kMostGap)
        ranges.back().end = begin + 1;
      else
        ranges.push_back({begin, begin + 1});
    }
    for (const BinRange& range : ranges) {
      Stall stall;
      stall.from_ns = std::max(timeline_.StartNs(range), history_.from_ns());
      stall.to_ns = std::min(timeline_.EndNs(range), history_.to_ns());
      stall.has_waits = history_.has_waits();
      stall.lost_share = LostShare(range);
      stall.ns[kByUnknown] = history_.SumOf(timeline_.StartNs(range), timeline_.EndNs(range)).lost_ns;
      if (stall.ns[kByUnknown] < kLeastLostNs) continue;
      stall.severity_ns = static_cast<double>(stall.ns[kByUnknown]);
      stalls->push_back(std::move(stall));
    }
  }

  const History& history_;
  const Selection& selection_;
  const Timeline timeline_;
  const Groups groups_;
  Neighbors neighbors_;
};

}  // namespace

std::vector<Stall> FindStalls(const History& history, const Selection& selection) {
  return Finder(history, selection).Find();
}

std::vector<Stall> StallsIn(const History& history, const Selection& selection, int64_t from_ns,
                            int64_t to_ns, size_t nr) {
  return Finder(history, selection).In(from_ns, to_ns, nr);
}

}  // namespace slotscope
