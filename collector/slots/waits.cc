// SPDX-License-Identifier: MIT
#include "slots/waits.h"

#include <slotscope/waits.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "base/state.h"
#include "slots/share.h"

namespace slotscope {
namespace {

// In the flags of one that is kept here: of many waits, in [start_ns, end_ns).
constexpr uint32_t kSum = 1u << 31;

constexpr size_t kMaxPairs = 1u << 16;    // of one slot
constexpr size_t kMaxPending = 1u << 18;  // 20 MiB
constexpr size_t kMaxEarlier = 8;         // reasons that are kept apart, of a wait's earlier part

// Who ran meanwhile is not asked of the CPU.
constexpr uint32_t kNoTimeline = SS_WAIT_HIDDEN | SS_WAIT_PHANTOM | kSum;
// Sums of a batch, by who ran.
constexpr uint32_t kOfBatch = SS_WAIT_FOR | SS_WAIT_IDLE | SS_WAIT_FAR;

auto ReasonOf(const WaitPair& pair) {
  return std::tie(pair.process, pair.start_ns, pair.until_ns, pair.cause, pair.ran, pair.ran_comm,
                  pair.cpu);
}

bool IsSameReason(const WaitPair& a, const WaitPair& b) { return ReasonOf(a) == ReasonOf(b); }

// Of a measure, as a message of its own.
ss_wait WaitOf(const ss_measure& measure) {
  ss_wait wait = {};
  wait.hdr = measure.hdr;
  wait.end_ns = measure.start_ns;
  wait.wait_ns = measure.wait_ns;
  wait.cut_ns = measure.cut_ns;
  wait.queue_cpu = measure.hdr.cpu;
  ss_wait_set_measure(&wait, &measure);
  if (!(measure.flags & SS_MEASURE_ONE_WAIT)) {
    wait.flags |= kSum;
    wait.start_ns = measure.start_ns;
    wait.end_ns = std::max<uint64_t>(measure.start_ns + 1, measure.hdr.ts_ns);
  }
  return wait;
}

}  // namespace

void Waits::OnMeasure(const ss_measure& measure) {
  if (measure.hdr.cpu >= lines_.size()) return;
  if (measure.wait_ns > 0 && !(measure.flags & SS_MEASURE_UNKNOWN)) Put(WaitOf(measure), true);
  lines_[measure.hdr.cpu].Add(measure);
}

void Waits::OnWait(const ss_wait& wait) {
  ss_wait known = wait;
  known.flags &= ~kSum;
  Put(known, false);
}

void Waits::Put(const ss_wait& wait, bool is_known) {
  accounting_->received[kWaitNs] += wait.wait_ns;
  if (first_ns_ && is_known) {
    Resolve(wait);
  } else if (pending_.size() < kMaxPending) {
    pending_.push_back(wait);
  } else if (first_ns_) {
    Resolve(wait);
  } else {
    accounting_->before[kWaitNs] += wait.wait_ns;
    stats_.nr_unplaced++;
  }
}

void Waits::OnCauses(uint64_t from_ns, bool told) {
  if (told != TellsCauseAt(UINT64_MAX) && eras_.size() < kMaxEras)
    eras_.emplace_back(eras_.empty() ? from_ns : std::max(from_ns, eras_.back().first), told);
}

bool Waits::TellsCauseAt(uint64_t ts_ns) const {
  for (auto era = eras_.rbegin(); era != eras_.rend(); ++era)
    if (era->first <= ts_ns) return era->second;
  return true;
}

void Waits::OnWatermark(uint64_t ts_ns, uint64_t patience_ns) {
  if (!first_ns_) return;
  const auto is_known = [&](const ss_wait& wait) {
    if (wait.end_ns > ts_ns) return false;
    return (wait.flags & kNoTimeline) || wait.queue_cpu >= lines_.size() ||
           lines_[wait.queue_cpu].end_ns() >= wait.end_ns || ts_ns - wait.end_ns >= patience_ns;
  };
  auto left = pending_.begin();
  for (const ss_wait& wait : pending_) {
    if (is_known(wait))
      Resolve(wait);
    else
      *left++ = wait;
  }
  pending_.erase(left, pending_.end());
}

void Waits::OnSlots(uint64_t first_ns, uint64_t next_ns) {
  first_ns_ = first_ns;
  next_ns_ = next_ns;
  for (Timeline& line : lines_) line.Retire(next_ns);
  // What ends in front of next_ns is late, whatever its cause.
  while (eras_.size() > 1 && eras_[1].first <= next_ns) eras_.erase(eras_.begin());
  if (!eras_.empty() && eras_[0].second && eras_[0].first <= next_ns) eras_.erase(eras_.begin());
}

void Waits::OnEnd() {
  for (const ss_wait& wait : pending_) {
    if (first_ns_)
      Resolve(wait);
    else
      accounting_->before[kWaitNs] += wait.wait_ns;
  }
  pending_.clear();
}

void Waits::Resolve(const ss_wait& wait) {
  const ProcessKey key = {wait.tgid, wait.start_time_ns};
  const Waiter who = {key, tracker_->Resolve(key, wait.rmid, wait.hdr.ts_ns), wait.rmid,
                      wait.flags & SS_WAIT_KTHREAD ? SS_MEASURE_KTHREAD : 0};
  if (wait.flags & SS_WAIT_OWN) {
    if (who.process >= threaded_.size()) threaded_.resize(who.process + 1);
    threaded_[who.process] = key;
  }
  const bool is_sum = wait.flags & kSum;
  const uint32_t odd = wait.flags & (SS_WAIT_HIDDEN | SS_WAIT_PHANTOM);
  (is_sum ? stats_.nr_sums : stats_.nr_waits)++;
  stats_.nr_hidden += (odd & SS_WAIT_HIDDEN) != 0;
  stats_.nr_phantom += (odd & SS_WAIT_PHANTOM) != 0;
  const ProcessKey ran = {wait.ran_tgid, wait.ran_start_time_ns};
  one_ = {};
  earlier_.clear();
  const auto sum = [&](WaitCause cause, const ProcessKey& of) {
    const Piece piece = {cause, of, wait.queue_cpu, 0};
    const uint64_t stolen_ns =
        cause == kWaitUnknown ? 0 : StolenWhile(who, piece, wait.start_ns, wait.end_ns, wait.wait_ns);
    Add(who, piece, wait.start_ns, wait.end_ns, wait.wait_ns, {wait.start_ns, wait.end_ns, stolen_ns});
  };
  const bool is_told = TellsCauseAt(wait.end_ns);
  const bool is_single = !is_sum && !(wait.flags & (SS_WAIT_OWN | kOfBatch));
  const uint32_t cpu = is_told && !odd ? wait.queue_cpu : UINT32_MAX;
  if (!is_told && !is_single)
    sum(kWaitUnknown, {});
  else if (wait.flags & SS_WAIT_FAR)
    AttributeFar(who, wait);
  else if (wait.flags & SS_WAIT_FOR)
    sum(kWaitOthers, ran);
  else if (wait.flags & SS_WAIT_IDLE)
    sum(kWaitWakeup, {});
  else if (is_sum)
    sum(kWaitUnknown, {});
  else if (wait.flags & SS_WAIT_OWN)
    sum(kWaitSelf, {});
  else if ((wait.flags & SS_WAIT_QUOTA) && !odd && IsToldApart(causes_, kWaitThrottled))
    AttributeThrottled(who, wait, cpu);
  else
    Attribute(who, cpu, wait.end_ns, wait.wait_ns, wait.cut_ns);
  PutEarlier(who, one_.to_ns > 0 ? one_ : Stretch{wait.start_ns, wait.end_ns});
  if (is_single && !(wait.flags & SS_WAIT_PHANTOM) && wait.wait_ns > 0 && wait.end_ns > next_ns_)
    if (OpenSlot* slot = open_->At(wait.end_ns - 1, next_ns_)) {
      WaitRow& ended = slot->waits[RowOf(slot, who)->wait - 1];
      ended.longest_ns = std::max<uint64_t>(ended.longest_ns, wait.wait_ns);
    }
}

Waits::Piece Waits::PieceOf(const Timeline::Run& run, const ProcessKey& waiter, uint32_t cpu,
                            uint64_t nr) {
  switch (run.kind) {
    case Timeline::Kind::kProcess:
      if (run.key == waiter) return {kWaitSelf, {}, cpu, nr};
      return {kWaitOthers, run.key, cpu, nr};
    case Timeline::Kind::kIdle:
      return {kWaitWakeup, {}, cpu, nr};
    case Timeline::Kind::kUnknown:
      break;
  }
  return {kWaitUnknown, {}, cpu, nr};
}

// From its end to its beginning. A CPU that is none: nobody knows who ran. What of it seems to lie in
// front of its beginning (cut_ns) is of whoever ran then.
void Waits::Attribute(const Waiter& who, uint32_t cpu, uint64_t end_ns, uint64_t wait_ns,
                      uint64_t cut_ns) {
  static const Timeline kNobody;
  const Timeline& line = cpu < lines_.size() ? lines_[cpu] : kNobody;
  cut_ns = std::min(cut_ns, wait_ns);
  const uint64_t begin_ns = end_ns - wait_ns + cut_ns;
  if (one_.to_ns == 0) one_ = {begin_ns, end_ns};
  uint64_t at_ns = end_ns;
  Piece piece = {kWaitUnknown, {}, cpu};
  if (at_ns > line.end_ns() && at_ns > begin_ns) {
    const uint64_t from_ns = std::max(begin_ns, std::min(line.end_ns(), at_ns));
    Add(who, piece, from_ns, at_ns, at_ns - from_ns);
    at_ns = from_ns;
  }
  size_t i = line.NrUntil(at_ns);
  if (i == line.size() || line.StartOf(i) >= at_ns) i--;  // may be none: SIZE_MAX
  for (; at_ns > begin_ns && i < line.size(); i--) {
    const Timeline::Run& run = line[i];
    if (run.is_sum) {  // all of its batch has a share of any part of it
      const size_t first = line.FirstOfBatch(i);
      const uint64_t from_ns = std::max(begin_ns, line.StartOf(first));
      const uint64_t more_ns = from_ns == begin_ns ? std::exchange(cut_ns, 0) : 0;
      AddShares(who, cpu, first, i + 1, {line.StartOf(first), run.end_ns}, from_ns, at_ns,
                at_ns - from_ns + more_ns);
      at_ns = from_ns;
      i = first;
      continue;
    }
    piece = PieceOf(run, who.key, cpu, 1);
    const uint64_t from_ns = std::max(begin_ns, line.StartOf(i));
    Add(who, piece, from_ns, at_ns, at_ns - from_ns, StolenOf(line, i));
    at_ns = from_ns;
  }
  if (at_ns > begin_ns) {
    piece = {kWaitUnknown, {}, cpu};
    Add(who, piece, begin_ns, at_ns, at_ns - begin_ns);
  }
  if (cut_ns > 0) Add(who, piece, begin_ns, begin_ns + 1, cut_ns);
}

// In a part of it the quota was used up; whoever ran then has nothing to do with it.
void Waits::AttributeThrottled(const Waiter& who, const ss_wait& wait, uint32_t cpu) {
  const uint64_t begin_ns = wait.end_ns - wait.wait_ns;
  const uint64_t from_ns = std::clamp<uint64_t>(wait.start_ns, begin_ns, wait.end_ns);
  const uint64_t to_ns = std::clamp<uint64_t>(wait.throttled_until_ns, from_ns, wait.end_ns);
  one_ = {begin_ns, wait.end_ns};
  Attribute(who, cpu, wait.end_ns, wait.end_ns - to_ns, 0);
  Add(who, {kWaitThrottled, {}, wait.queue_cpu}, from_ns, to_ns, to_ns - from_ns);
  const uint64_t before_ns = from_ns - begin_ns;
  const uint64_t cut_ns = std::min<uint64_t>(wait.cut_ns, before_ns);
  if (cut_ns == before_ns && to_ns > from_ns)  // it was throttled while it still ran
    Add(who, {kWaitThrottled, {}, wait.queue_cpu}, from_ns, from_ns + 1, before_ns);
  else
    Attribute(who, cpu, from_ns, before_ns, cut_ns);
}

// Of `ns` of waiting while somebody ran, in a stretch of the CPU's time: what the hypervisor took of it.
uint64_t Waits::StolenWhile(const Waiter& who, const Piece& ran, uint64_t from_ns, uint64_t to_ns,
                            uint64_t ns) const {
  if (!IsToldApart(causes_, kWaitSteal) || ran.cpu >= lines_.size()) return 0;
  const Timeline& line = lines_[ran.cpu];
  uint64_t ran_ns = 0, stolen_ns = 0;
  for (size_t i = line.NrUntil(from_ns); i < line.size() && line.StartOf(i) < to_ns; i++) {
    const Piece one = PieceOf(line[i], who.key, ran.cpu, 0);
    if (one.cause != ran.cause || one.ran != ran.ran) continue;
    const uint64_t one_from_ns = std::max(line.StartOf(i), from_ns);
    const uint64_t one_to_ns = std::min(line[i].end_ns, to_ns);
    ran_ns += one_to_ns - one_from_ns;
    stolen_ns += StolenOf(line, i).Between(one_from_ns, one_to_ns);
  }
  return ran_ns == 0 ? 0 : Share(ns, stolen_ns, ran_ns);
}

// Of a batch it is known who ran for how long, and not when: all have their share of `ns`, but for its
// own process if that has one thread only, which passed in [from_ns, to_ns). Runs [first, end) of its
// CPU, as far as they are in `among`.
void Waits::AddShares(const Waiter& who, uint32_t cpu, size_t first, size_t end, const Stretch& among,
                      uint64_t from_ns, uint64_t to_ns, uint64_t ns) {
  const Timeline& line = lines_[cpu];
  std::vector<std::pair<Piece, uint64_t>> ran;  // and for how long
  uint64_t sum_ns = 0;
  for (size_t i = first; i < end; i++) {
    if (line[i].kind == Timeline::Kind::kProcess && line[i].key == who.key && !HasThreads(who)) continue;
    const uint64_t part_from_ns = std::max(line.StartOf(i), among.from_ns);
    const uint64_t part_to_ns = std::min(line[i].end_ns, among.to_ns);
    const uint64_t ran_ns = part_to_ns - part_from_ns;
    const uint64_t stolen_ns = StolenOf(line, i).Between(part_from_ns, part_to_ns);
    ran.push_back({PieceOf(line[i], who.key, cpu, 0), ran_ns - stolen_ns});
    if (stolen_ns > 0) ran.push_back({{kWaitSteal, {}, cpu, 0}, stolen_ns});
    sum_ns += ran_ns;
  }
  if (sum_ns == 0) {
    Add(who, {kWaitUnknown, {}, cpu, 0}, from_ns, to_ns, ns);
    return;
  }
  uint64_t until_ns = 0, done_ns = 0;
  for (const auto& [piece, ran_ns] : ran) {
    until_ns += ran_ns;
    const uint64_t share_ns = Share(ns, until_ns, sum_ns) - done_ns;
    Add(who, piece, from_ns, to_ns, share_ns);
    done_ns += share_ns;
  }
}

void Waits::AttributeFar(const Waiter& who, const ss_wait& wait) {
  size_t first = 0, end = 0;
  if (wait.queue_cpu < lines_.size()) {
    const Timeline& line = lines_[wait.queue_cpu];
    end = first = line.NrUntil(wait.start_ns);
    while (end < line.size() && line.StartOf(end) < wait.end_ns) end++;
  }
  if (first == end)
    Add(who, {kWaitUnknown, {}, wait.queue_cpu, 0}, wait.start_ns, wait.end_ns, wait.wait_ns);
  else
    AddShares(who, wait.queue_cpu, first, end, {wait.start_ns, wait.end_ns}, wait.start_ns, wait.end_ns,
              wait.wait_ns);
}

// `ns` of waiting, in [from_ns, to_ns): as many, or more or less where several waited or it is not known
// when. `stolen`: of what ran meanwhile; that part is not its.
void Waits::Add(const Waiter& who, const Piece& piece, uint64_t from_ns, uint64_t to_ns, uint64_t ns,
                const Timeline::Stolen& stolen) {
  if (ns == 0) return;
  const uint64_t length_ns = to_ns - from_ns;
  uint64_t done_ns = 0;
  if (from_ns < next_ns_) {
    const uint64_t until_ns = std::min(next_ns_, to_ns);
    done_ns = Share(ns, until_ns - from_ns, length_ns);
    const uint64_t stolen_ns = std::min(done_ns, stolen.Between(from_ns, until_ns));
    AddEarlier(piece, done_ns - stolen_ns);
    AddEarlier({kWaitSteal, {}, piece.cpu, piece.nr}, stolen_ns);
  }
  for (uint64_t at_ns = std::max(from_ns, next_ns_); at_ns < to_ns;) {
    OpenSlot* slot = open_->At(at_ns, next_ns_);
    if (!slot) break;
    const uint64_t piece_ns = at_ns;
    at_ns = std::min(slot->end_ns, to_ns);
    const uint64_t until_ns = at_ns == to_ns ? ns : Share(ns, at_ns - from_ns, length_ns);
    const uint64_t stolen_ns = std::min(until_ns - done_ns, stolen.Between(piece_ns, at_ns));
    AddTo(slot, who, piece, until_ns - done_ns - stolen_ns);
    AddTo(slot, who, {kWaitSteal, {}, piece.cpu, piece.nr}, stolen_ns);
    if (at_ns == slot->end_ns && one_.to_ns > at_ns) NoteThatItLasts(slot, who, piece.cause);
    done_ns = until_ns;
  }
  accounting_->late[kWaitNs] += ns - done_ns;  // too far away to be true
}

void Waits::AddTo(OpenSlot* slot, const Waiter& who, const Piece& piece, uint64_t ns) {
  if (ns == 0) return;
  OpenRow* row = RowOf(slot, who);
  row->sums[kWaitNs] += ns;
  slot->waits[row->wait - 1].ns[piece.cause] += ns;
  AddDetail(slot, {who.process, piece.cpu, piece.cause, piece.ran, {}, 0, 0, ns, piece.nr});
}

// It waits on when the slot ends.
void Waits::NoteThatItLasts(OpenSlot* slot, const Waiter& who, WaitCause cause) {
  WaitRow& row = slot->waits[RowOf(slot, who)->wait - 1];
  const bool throttled = cause == kWaitThrottled;
  if (row.on_since_ns == 0 || one_.from_ns < row.on_since_ns) {
    row.on_since_ns = one_.from_ns;
    row.on_throttled = throttled;
  } else if (one_.from_ns == row.on_since_ns) {
    row.on_throttled &= throttled;
  }
}

void Waits::AddDetail(OpenSlot* slot, const WaitPair& pair) {
  auto& pairs = slot->wait_pairs;
  if (!pairs.empty() && IsSameReason(pairs.back(), pair)) {
    pairs.back().ns += pair.ns;
    pairs.back().nr += pair.nr;
  } else if (pairs.size() < kMaxPairs) {
    pairs.push_back(pair);
  } else {
    stats_.nr_unfolded++;
  }
}

// What passed in slots that have retired is said where the wait ended; if that has, too, it is late, and
// in front of the first slot it is before.
void Waits::PutEarlier(const Waiter& who, const Stretch& whole) {
  if (earlier_.empty()) return;
  uint64_t ns = 0;
  for (const Piece& piece : earlier_) ns += piece.ns;
  if (whole.to_ns <= first_ns_) {
    accounting_->before[kWaitNs] += ns;
    return;
  }
  OpenSlot* slot = whole.to_ns > next_ns_ ? open_->At(whole.to_ns - 1, next_ns_) : nullptr;
  if (!slot) {
    accounting_->late[kWaitNs] += ns;
    return;
  }
  accounting_->wait_earlier_ns += ns;
  slot->waits[RowOf(slot, who)->wait - 1].earlier_ns += ns;
  FoldEarlier();
  const uint64_t start_ns = std::max<uint64_t>(1, whole.from_ns);
  for (const Piece& piece : earlier_)
    AddDetail(slot, {who.process, piece.cpu, piece.cause, piece.ran, piece.ran_comm, start_ns, next_ns_,
                     piece.ns, piece.nr});
}

void Waits::AddEarlier(const Piece& piece, uint64_t ns) {
  if (ns == 0) return;
  earlier_.push_back(piece);
  earlier_.back().ns = ns;
}

// One for each reason. The longest are kept apart; of the other processes that ran there is one for each
// name, and what is too many of these is just several.
void Waits::FoldEarlier() {
  const auto fold = [this](size_t nr, auto forget) {
    JoinEarlier();
    if (earlier_.size() <= nr) return;
    std::nth_element(earlier_.begin(), earlier_.begin() + static_cast<ptrdiff_t>(nr), earlier_.end(),
                     [](const Piece& a, const Piece& b) {
                       return a.ns != b.ns ? a.ns > b.ns : a.Reason() < b.Reason();
                     });
    std::for_each(earlier_.begin() + static_cast<ptrdiff_t>(nr), earlier_.end(), forget);
    JoinEarlier();
  };
  fold(kMaxEarlier, [this](Piece& piece) {
    if (piece.cause == kWaitOthers) piece.ran_comm = tracker_->NameOf(piece.ran);
    piece.ran = {};
  });
  fold(2 * kMaxEarlier, [](Piece& piece) {
    piece.ran = {};
    piece.ran_comm = {};
  });
}

void Waits::JoinEarlier() {
  std::sort(earlier_.begin(), earlier_.end(),
            [](const Piece& a, const Piece& b) { return a.Reason() < b.Reason(); });
  auto out = earlier_.begin();
  for (auto at = std::next(out); at != earlier_.end(); ++at) {
    if (at->Reason() != out->Reason()) {
      *++out = *at;
      continue;
    }
    out->ns += at->ns;
    out->nr += at->nr;
  }
  earlier_.erase(std::next(out), earlier_.end());
}

// With what it has of waits.
OpenRow* Waits::RowOf(OpenSlot* slot, const Waiter& who) {
  bool is_new;
  OpenRow* row = open_->RowOf(slot, who.process, &is_new);
  if (is_new) tracker_->Hold(who.process, slot->end_ns);
  row->rmid = std::max(row->rmid, who.rmid);
  row->flags |= who.flags;
  if (row->wait) return row;
  slot->waits.emplace_back();
  row->wait = static_cast<uint32_t>(slot->waits.size());
  return row;
}

void Waits::Finish(OpenSlot* slot) {
  auto& pairs = slot->wait_pairs;
  std::sort(pairs.begin(), pairs.end(),
            [](const WaitPair& a, const WaitPair& b) { return ReasonOf(a) < ReasonOf(b); });
  auto out = pairs.begin();
  for (auto at = pairs.begin(); at != pairs.end(); ++out) {
    *out = *at;
    for (++at; at != pairs.end() && IsSameReason(*at, *out); ++at) {
      out->ns += at->ns;
      out->nr += at->nr;
    }
  }
  pairs.erase(out, pairs.end());
  for (const OpenRow& row : slot->rows) {
    if (!row.wait || slot->waits[row.wait - 1].ns[kWaitOthers] == 0) continue;
    WaitRow& wait = slot->waits[row.wait - 1];
    auto at = std::partition_point(pairs.begin(), pairs.end(),
                                   [&](const WaitPair& pair) { return pair.process < row.process; });
    // On all CPUs together.
    uint64_t ns = 0;
    for (; at != pairs.end() && at->process == row.process && at->cause == kWaitOthers && !at->start_ns;
         ++at) {
      const bool is_first =
          at == pairs.begin() || std::prev(at)->process != row.process || std::prev(at)->ran != at->ran;
      ns = at->ns + (is_first ? 0 : ns);
      if (ns <= wait.ran_ns) continue;
      wait.ran_ns = ns;
      wait.ran_instead = at->ran;
    }
  }
}

template <typename Archive>
void Waits::State(Archive& state) {
  state(lines_, threaded_, first_ns_, next_ns_, eras_);
  state.Require(eras_.size() <= kMaxEras && std::ranges::is_sorted(eras_, {}, &Era::first));
  const size_t nr = state.Count(pending_.size());
  for (size_t i = 0; i < nr; i++) {
    if constexpr (Archive::kReads) {
      if (!state.ok()) return;
      pending_.emplace_back();
    }
    state.Plain(pending_[i]);
    state.Require(pending_[i].start_ns < pending_[i].end_ns && pending_[i].end_ns <= UINT64_MAX / 2 &&
                  pending_[i].wait_ns <= pending_[i].end_ns);
  }
  state.Plain(stats_);
}

template void Waits::State(StateWriter& state);
template void Waits::State(StateReader& state);

}  // namespace slotscope
