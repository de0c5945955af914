// SPDX-License-Identifier: MIT
#include "explain/history.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "slots/process_state.h"
#include "slots/wait_row.h"

namespace slotscope {
namespace {

constexpr int64_t kGapNs = 1'000'000'000;  // without slots: nothing was recorded
// A recording is foreign input: so many are looked at.
constexpr size_t kMostEarlierWaits = 1'000'000, kMostPairs = 20'000'000;

std::string_view NameOf(ProcessState state) { return kProcessStateNames[static_cast<size_t>(state)]; }

int64_t IndexOf(int64_t unix_ns) { return unix_ns / kBinNs; }

// The first that ends behind that moment. They are in the order of time, and do not overlap.
size_t FirstBehind(const std::vector<Span>& spans, int64_t unix_ns) {
  return static_cast<size_t>(
      std::partition_point(spans.begin(), spans.end(),
                           [unix_ns](const Span& span) { return span.to_ns <= unix_ns; }) -
      spans.begin());
}

// It waited for that long in a bin in which it was said to do something else.
void LeaveRoom(ProcessBin* bin, uint64_t waited_ns) {
  uint64_t all_ns = bin->cpu_ns + bin->asleep_ns;
  for (size_t why = 0; why <= kBlocked; why++) all_ns += bin->ns[why];
  uint64_t too_much_ns = std::min(waited_ns, all_ns - std::min(all_ns, static_cast<uint64_t>(kBinNs)));
  for (uint64_t* ns :
       {&bin->asleep_ns, &bin->ns[kByDisk], &bin->ns[kBlocked], &bin->ns[kStopped], &bin->ns[kTraced]}) {
    const uint64_t cut_ns = std::min(*ns, too_much_ns);
    *ns -= cut_ns;
    too_much_ns -= cut_ns;
  }
}

// That of the index; the others are in the order of time.
template <typename Bin>
Bin& BinAt(int64_t index, std::vector<Bin>* bins) {
  if (!bins->empty() && bins->back().index == index) return bins->back();
  const auto at = std::lower_bound(bins->begin(), bins->end(), index,
                                   [](const Bin& bin, int64_t wanted) { return bin.index < wanted; });
  if (at != bins->end() && at->index == index) return *at;
  Bin bin;
  bin.index = index;
  return *bins->insert(at, bin);
}

}  // namespace

size_t WaitCauseOf(std::string_view name) {
  return static_cast<size_t>(std::find(kWaitCauseNames.begin(), kWaitCauseNames.end(), name) -
                             kWaitCauseNames.begin());
}

Hindrance HindranceOf(std::string_view state) {
  if (state == NameOf(ProcessState::kStopped)) return kStopped;
  if (state == NameOf(ProcessState::kTraced)) return kTraced;
  if (state == NameOf(ProcessState::kDisk)) return kByDisk;
  if (state == NameOf(ProcessState::kBlocked)) return kBlocked;
  return kNrHindrances;
}

uint32_t History::Process(const ProcessKey& key, std::string_view comm) {
  const auto [place, is_new] = places_.try_emplace(key, static_cast<uint32_t>(processes_.size()));
  if (is_new) {
    processes_.emplace_back().key = key;
    left_.emplace_back();
  }
  std::string& known = processes_[place->second].comm;
  if (!comm.empty() && known != comm) known = comm;
  return place->second;
}

// Mostly the last one: short spans reach back, and waits that are told late.
ProcessBin& History::BinOf(uint32_t process, int64_t index) {
  return BinAt(index, &processes_[process].bins);
}

// A short one goes into its bins; of a long one there would be too many.
void History::AddSpan(uint32_t process, const Left& left, int64_t to_ns) {
  if ((left.why == kNrHindrances && !left.asleep) || left.since_ns >= to_ns) return;
  if (to_ns - left.since_ns >= 2 * kBinNs) {
    processes_[process].spans.push_back({left.why, left.since_ns, to_ns});
    return;
  }
  for (int64_t at_ns = std::max(left.since_ns, from_ns_); at_ns < to_ns;) {
    const int64_t end_ns = std::min(to_ns, (IndexOf(at_ns) + 1) * kBinNs);
    ProcessBin& bin = BinOf(process, IndexOf(at_ns));
    (left.asleep ? bin.asleep_ns : bin.ns[left.why]) += static_cast<uint64_t>(end_ns - at_ns);
    at_ns = end_ns;
  }
}

// Of what comes behind a gap, or another boot, nobody knows how it was in between.
void History::CloseSpans() {
  for (uint32_t process = 0; process < left_.size(); process++)
    AddSpan(process, std::exchange(left_[process], {}), to_ns_);
}

void History::OnNewSlot(const SlotRow& row) {
  if (from_ns_ != 0 && (row.start_ns > to_ns_ + kGapNs || row.start_ns < last_start_ns_)) CloseSpans();
  last_start_ns_ = row.start_ns;
  from_ns_ = from_ns_ ? std::min(from_ns_, row.start_ns) : row.start_ns;
  to_ns_ = std::max(to_ns_, row.start_ns + row.slot_ns);
  bins_[IndexOf(row.start_ns)].slots_ns += static_cast<uint64_t>(row.slot_ns);
  // A long one is of several bins.
  for (int64_t index = IndexOf(row.start_ns) + 1; (index + 1) * kBinNs <= row.start_ns + row.slot_ns;
       index++)
    bins_[index];
}

void History::OnSlot(const SlotRow& row) {
  if (row.start_ns != last_start_ns_) OnNewSlot(row);
  MachineBin& machine = bins_[IndexOf(row.start_ns)];
  machine.nr_rows++;
  has_waits_ |= row.has_waits;  // also of those who were folded into one row
  if (row.kind == "lost") machine.lost_ns += row.cpu_ns;
  if (row.key.tgid <= 0 || (row.kind != "user" && row.kind != "kernel" && row.kind != "unassigned"))
    return;
  const uint32_t process = Process(row.key, row.comm);
  processes_[process].has_rows = true;
  processes_[process].is_kernel = row.kind == "kernel";
  processes_[process].born_ns = row.born_ns;
  // Whoever has a row was heard of: what it was about until then has ended, if not before. It may have
  // waited since then, and that was told late.
  Left& left = left_[process];
  const bool is_known = left.since_ns != 0;
  const int64_t end_ns = is_known && row.state_since_ns > left.since_ns
                             ? std::min(row.start_ns, row.state_since_ns)
                             : row.start_ns;
  const bool asleep = row.state == NameOf(ProcessState::kAsleep);
  // Of a process that uses a GPU there are rows while it sleeps, too.
  const bool goes_on = is_known && row.state_since_ns > 0 && row.state_since_ns <= left.since_ns &&
                       asleep == left.asleep && HindranceOf(row.state) == left.why &&
                       left.waits == kNrHindrances && row.cpu_ns == 0;
  if (!goes_on) {
    AddSpan(process, left, end_ns);
    left = {HindranceOf(row.state), asleep, kNrHindrances, row.state_since_ns, left.cpu};
    if (!asleep || left.since_ns == 0 || is_known) left.since_ns = std::max(row.state_since_ns, end_ns);
  }
  if (row.state == NameOf(ProcessState::kWaiting) || row.state == NameOf(ProcessState::kThrottled)) {
    left.waits = row.state == NameOf(ProcessState::kWaiting) ? kByUnknown : kByQuota;
    left.since_ns = row.start_ns + row.slot_ns;
  }
  if (row.main_cpu >= 0) left.cpu = row.main_cpu;
  has_states_ |= !row.state.empty();
  has_counters_ |= row.has_counters;
  has_traffic_ |= row.has_traffic;
  if (row.nr_cpus == 1 && row.main_cpu >= 0 && row.cpu_ns)
    ran_on_[{IndexOf(row.start_ns), row.main_cpu}][process] += row.cpu_ns;
  Add(process, row);
}

// In equal parts to the bins of its slot.
void History::Add(uint32_t process, const SlotRow& row) {
  const int64_t first = IndexOf(row.start_ns);
  const auto nr = static_cast<uint64_t>(std::max<int64_t>(1, row.slot_ns / kBinNs));
  for (uint64_t i = 0; i < nr; i++) {
    const auto part = [&](uint64_t number) { return number * (i + 1) / nr - number * i / nr; };
    ProcessBin& bin = BinOf(process, first + static_cast<int64_t>(i));
    bin.cpu_ns += part(row.cpu_ns);
    for (size_t cause = 0; cause < kNrWaitHindrances; cause++) bin.ns[cause] += part(row.wait_ns[cause]);
    if (row.has_counters) {
      bin.cycles += part(row.cycles);
      bin.instructions += part(row.instructions);
    }
    if (row.launches) {
      bin.ns[kStarved] += part(StarvedNs(row.gpu));
      processes_[process].gpu_known |= row.gpu_known;
      GpuBin& gpu = BinAt(bin.index, &processes_[process].gpu_bins);
      for (size_t value = 0; value < kNrGpuValues; value++) gpu.ns[value] += part(row.gpu[value]);
    }
    if (!row.has_traffic) continue;
    bin.has_traffic = true;
    bin.traffic_bytes += part(row.traffic_bytes);
  }
}

void History::FlushWaits() {
  for (const auto& [who, ns] : waits_)
    if (ran_instead_.size() < kMostPairs)
      ran_instead_.push_back({who.first.first, who.first.second, waits_bin_, who.second, ns});
  waits_.clear();
}

void History::OnWait(int64_t start_ns, const ProcessKey& waiter, const ProcessKey& ran,
                     std::string_view ran_comm, int32_t cpu, uint64_t ns) {
  if (IndexOf(start_ns) != waits_bin_) {
    FlushWaits();
    waits_bin_ = IndexOf(start_ns);
  }
  const uint32_t by = Process(ran, ran_comm);
  waits_[{{Process(waiter, ""), by}, cpu}] += ns;
}

void History::OnEarlierWait(const WaitTableRow& row) {
  if (earlier_.size() >= kMostEarlierWaits || row.ns > kLongestWaitNs ||
      row.earlier_length_ns() > kLongestWaitNs)
    return;
  EarlierWait wait = {row.wait_start_ns, row.earlier_end_ns(), Process(row.waiter, ""), row.cpu, row.ns,
                      row.start_ns};
  const size_t which = WaitCauseOf(row.earlier_cause);
  // Of several that are not named, and where no cause is told, whoever ran there then.
  if (which <= kByUnknown && (which != kByOthers || row.ran.tgid > 0)) {
    wait.why = static_cast<Hindrance>(which);
    if (row.ran.tgid > 0) wait.ran = Process(row.ran, row.ran_comm);
  }
  earlier_.push_back(wait);
}

// Whoever waited was not asleep, and not blocked.
void History::CutSpans(uint32_t process, int64_t from_ns, int64_t to_ns) {
  std::vector<Span>& spans = processes_[process].spans;
  for (size_t i = FirstBehind(spans, from_ns); i < spans.size() && spans[i].from_ns < to_ns;) {
    const auto at = [&] { return spans.begin() + static_cast<std::ptrdiff_t>(i); };
    const Span whole = spans[i];
    if (whole.from_ns >= from_ns)
      spans.erase(at());
    else
      spans[i++].to_ns = from_ns;
    if (whole.to_ns > to_ns) {
      spans.insert(at(), {whole.why, to_ns, whole.to_ns});
      return;
    }
  }
}

void History::Place(const EarlierWait& wait) {
  if (wait.start_ns >= to_ns_ || wait.start_ns < from_ns_ - static_cast<int64_t>(kLongestWaitNs)) return;
  const int64_t end_ns = std::min(to_ns_, wait.end_ns);
  CutSpans(wait.waiter, wait.start_ns, end_ns);
  const double density = static_cast<double>(wait.ns) / static_cast<double>(wait.end_ns - wait.start_ns);
  for (int64_t at_ns = std::max(wait.start_ns, from_ns_); at_ns < end_ns;) {
    const int64_t index = IndexOf(at_ns);
    const int64_t to_ns = std::min(end_ns, (index + 1) * kBinNs);
    PlaceInBin(wait, index, static_cast<uint64_t>(density * static_cast<double>(to_ns - at_ns)));
    at_ns = to_ns;
  }
}

void History::PlaceInBin(const EarlierWait& wait, int64_t index, uint64_t ns) {
  ProcessBin& bin = BinOf(wait.waiter, index);
  uint64_t left_ns = ns;
  const auto ran = [&](uint32_t process, uint64_t ran_ns) {
    if (ran_instead_.size() < kMostPairs)
      ran_instead_.push_back({wait.waiter, process, index, wait.cpu, ran_ns});
  };
  if (wait.why != kNrHindrances) {
    bin.ns[wait.why] += std::exchange(left_ns, 0);
    if (wait.ran != kNobody) ran(wait.ran, ns);
  } else if (const auto here = ran_on_.find({index, wait.cpu}); here != ran_on_.end()) {
    const double share = static_cast<double>(ns) / kBinNs;
    for (const auto& [process, cpu_ns] : here->second) {
      const uint64_t ran_ns =
          std::min(left_ns, static_cast<uint64_t>(share * static_cast<double>(cpu_ns)));
      bin.ns[process == wait.waiter ? kBySelf : kByOthers] += ran_ns;
      if (process != wait.waiter) ran(process, ran_ns);
      left_ns -= ran_ns;
    }
  }
  bin.ns[kByUnknown] += left_ns;
  LeaveRoom(&bin, ns);
}

void History::Finish() {
  FlushWaits();
  // No row told of the rest of their waits; whoever waits for a moment is not worth it. Most wait where
  // they ran.
  constexpr int64_t kLongNs = 100'000'000;
  for (uint32_t process = 0; process < left_.size(); process++) {
    Left& left = left_[process];
    const int64_t ns = to_ns_ - left.since_ns;
    if (left.waits == kNrHindrances || ns < kLongNs) continue;
    if (left.waits == kByUnknown && left.cpu >= 0 && earlier_.size() < kMostEarlierWaits)
      earlier_.push_back({left.since_ns, to_ns_, process, left.cpu, static_cast<uint64_t>(ns),
                          to_ns_ - kBinNs, kNrHindrances, kNobody, false});
    else
      left.why = left.waits;
  }
  CloseSpans();
  for (const EarlierWait& wait : earlier_) Place(wait);
  std::stable_sort(earlier_.begin(), earlier_.end(),
                   [](const EarlierWait& a, const EarlierWait& b) { return a.waiter < b.waiter; });
  ran_on_.clear();
  std::sort(ran_instead_.begin(), ran_instead_.end(), [](const RanWhile& a, const RanWhile& b) {
    return std::tie(a.waiter, a.bin, a.ran, a.cpu) < std::tie(b.waiter, b.bin, b.ran, b.cpu);
  });
}

History::ToldLate History::ToldLateOf(uint32_t process, int64_t from_ns, int64_t to_ns) const {
  ToldLate told;
  const auto is_in_front = [](const EarlierWait& one, uint32_t wanted) { return one.waiter < wanted; };
  for (auto wait = std::lower_bound(earlier_.begin(), earlier_.end(), process, is_in_front);
       wait != earlier_.end() && wait->waiter == process; ++wait) {
    if (wait->start_ns >= to_ns || wait->end_ns <= from_ns) continue;
    told.until_ns = std::max(told.until_ns, wait->told_ns + kBinNs);
    told.is_over &= wait->is_over;
    told.is_guess |= wait->is_over && wait->why == kNrHindrances;
  }
  return told;
}

MachineBin History::SumOf(int64_t from_ns, int64_t to_ns) const {
  MachineBin sum;
  for (auto bin = bins_.lower_bound(IndexOf(from_ns)); bin != bins_.end() && bin->first * kBinNs < to_ns;
       ++bin) {
    sum.slots_ns += bin->second.slots_ns;
    sum.lost_ns += bin->second.lost_ns;
    sum.nr_rows += bin->second.nr_rows;
  }
  return sum;
}

void History::SetPlaces(const ProcessPlaces& places) {
  for (ProcessHistory& process : processes_) process.cgroup = places.Find(process.key);
}

}  // namespace slotscope
