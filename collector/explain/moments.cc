// SPDX-License-Identifier: MIT
#include "explain/moments.h"

#include <algorithm>
#include <utility>

#include "explain/usual_waiting.h"
#include "explain/worst_seconds.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

// A recording up to this length is read by the millisecond, of a longer one the worst seconds.
constexpr int64_t kReadWhole = 120'000'000'000;
constexpr size_t kWorstSeconds = 20;
// Of a range up to this length it is told what happened, whatever is usual.
constexpr int64_t kShortRange = 60'000'000'000;
constexpr size_t kMostUsual = 3;

// What is read by the millisecond: the whole of it, if it is short, or if it is a moment.
Status FindRanges(const RecordingTables& tables, const UnixRange& wanted, bool is_moment,
                  const Selection& selection, std::vector<UnixRange>* ranges) {
  const int64_t length_ns = wanted.to_ns - wanted.from_ns;
  uint64_t nr_rows = 0;
  if (length_ns <= kReadWhole)
    if (Status status = CountRows(tables, wanted, &nr_rows); !status.ok()) nr_rows = 0;  // told later
  if (!is_moment && (length_ns > kReadWhole || nr_rows > kMostRows))
    return FindWorstSeconds(tables, wanted, selection, kWorstSeconds, ranges);
  // Of whole seconds, those at its ends too.
  const double seconds = static_cast<double>(length_ns) / 1e9 + 1;
  const int64_t context_ns = ContextOf(length_ns, static_cast<double>(nr_rows) / seconds);
  *ranges = {{wanted.from_ns - context_ns, wanted.to_ns + context_ns}};
  return {};
}

bool Overlaps(const Stall& stall, const UnixRange& range) {
  return stall.from_ns < range.to_ns && stall.to_ns > range.from_ns;
}

}  // namespace

Status FindMoments(const RecordingTables& tables, const MomentsWanted& wanted,
                   const Selection& selection, const ProcessPlaces& places, const Zone& zone,
                   Moments* moments) {
  using Told = StoryContext::Told;
  StoryContext& context = moments->context;
  context = {};
  context.path = tables.path();
  context.host = tables.facts().host;
  context.zone = zone;
  context.from_ns = std::max(wanted.range.from_ns, tables.facts().first_ns);
  context.to_ns = std::min(wanted.range.to_ns, tables.facts().last_ns);
  context.has_waits_table = tables.Has(kWaitsTable);
  context.has_selection = selection.any();
  context.is_part = wanted.is_part;
  if (wanted.is_moment) {  // to whole bins, as all that is told of it
    context.told = Told::kAt;
    const int64_t nr_bins = std::max<int64_t>(1, (context.to_ns - context.from_ns) / kBinNs);
    context.from_ns = context.from_ns / kBinNs * kBinNs;
    context.to_ns = context.from_ns + nr_bins * kBinNs;
  }

  std::vector<UnixRange> ranges;
  Status damage =
      FindRanges(tables, {context.from_ns, context.to_ns}, wanted.is_moment, selection, &ranges);
  // Of quiet hours there is no worst second.
  if (ranges.empty()) ranges = {{context.to_ns - kContextNs, context.to_ns}};
  std::vector<Stall>& stalls = moments->stalls;
  std::vector<Stall> all;
  stalls.clear();
  uint64_t lost_ns = 0, slots_ns = 0;
  UsualWaitingFinder usual;
  // Where no moment is worse than usual: of a part, or of those who were asked for, it is told what was.
  // Of what is read in pieces there is no such whole, and of an hour nobody wants it.
  const bool is_short = context.to_ns - context.from_ns <= kShortRange;
  const bool tells_all = ranges.size() == 1 && (selection.any() || (wanted.is_part && is_short));
  for (const UnixRange& range : ranges) {
    History history;
    if (Status status = tables.ReadHistory(range, &history); damage.ok()) damage = status;
    history.SetPlaces(places);
    const UnixRange here = {std::max(context.from_ns, range.from_ns),
                            std::min(context.to_ns, range.to_ns)};
    const MachineBin sum = history.SumOf(here.from_ns, here.to_ns);
    context.nr_rows += sum.nr_rows;
    context.read_ns += static_cast<int64_t>(sum.slots_ns);
    lost_ns += sum.lost_ns;
    slots_ns += sum.slots_ns * history.nr_cpus();
    context.has_waits |= history.has_waits();
    context.has_states |= history.has_states();
    if (context.told != Told::kAt)
      for (Stall& stall : FindStalls(history, selection))
        if (Overlaps(stall, wanted.range)) stalls.push_back(std::move(stall));
    if (tells_all && stalls.empty())
      all = StallsIn(history, selection, here.from_ns, here.to_ns, wanted.nr);
    else if (stalls.empty() && context.told == Told::kWorst)
      usual.Add(history, selection, here.from_ns, here.to_ns);
  }
  if (stalls.empty() && context.told != Told::kAt && tells_all) context.told = Told::kWhatWas;
  if (stalls.empty() && context.told == Told::kWorst)
    context.usual_waiting = usual.Find(context.read_ns, kMostUsual);
  if (stalls.empty()) stalls = std::move(all);
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.severity_ns > b.severity_ns; });
  context.nr_found = stalls.size();
  stalls.resize(std::min(stalls.size(), wanted.nr));
  context.is_damaged = !damage.ok();
  if (slots_ns) context.lost_share = static_cast<double>(lost_ns) / static_cast<double>(slots_ns);
  return damage;
}

}  // namespace slotscope
