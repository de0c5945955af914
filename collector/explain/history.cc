// SPDX-License-Identifier: MIT
#include "explain/history.h"

#include <algorithm>

namespace slotscope {
namespace {

Hindrance HindranceOf(std::string_view state) {
  if (state == "stopped") return kStopped;
  if (state == "traced") return kTraced;
  if (state == "disk") return kByDisk;
  if (state == "blocked") return kBlocked;
  return kNrHindrances;
}

constexpr int64_t kLongestWaitNs = 3'600'000'000'000;  // longer ones are told from their end on

int64_t IndexOf(int64_t unix_ns) { return unix_ns / kBinNs; }

}  // namespace

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

// Mostly the last one: spans reach back, and into bins that are not there.
ProcessBin& History::BinOf(uint32_t process, int64_t index) {
  std::vector<ProcessBin>& bins = processes_[process].bins;
  if (!bins.empty() && bins.back().index == index) return bins.back();
  const auto at =
      std::lower_bound(bins.begin(), bins.end(), index,
                       [](const ProcessBin& bin, int64_t wanted) { return bin.index < wanted; });
  if (at != bins.end() && at->index == index) return *at;
  ProcessBin bin;
  bin.index = index;
  return *bins.insert(at, bin);
}

void History::AddSpan(uint32_t process, const Left& left, int64_t to_ns) {
  if (left.asleep && to_ns - left.since_ns >= kBinNs)
    processes_[process].sleeps.push_back({left.since_ns, to_ns});
  if (left.why == kNrHindrances) return;
  for (int64_t at_ns = std::max(left.since_ns, from_ns_); at_ns < to_ns;) {
    const int64_t end_ns = std::min(to_ns, (IndexOf(at_ns) + 1) * kBinNs);
    BinOf(process, IndexOf(at_ns)).ns[left.why] += static_cast<uint64_t>(end_ns - at_ns);
    at_ns = end_ns;
  }
}

void History::OnSlot(const SlotRow& row) {
  nr_rows_++;
  const int64_t index = IndexOf(row.start_ns);
  if (row.start_ns != last_start_ns_) {
    last_start_ns_ = row.start_ns;
    if (from_ns_ == 0) from_ns_ = row.start_ns;
    to_ns_ = std::max(to_ns_, row.start_ns + row.slot_ns);
    bins_[index].slots_ns += static_cast<uint64_t>(row.slot_ns);
  }
  if (row.kind == "lost") bins_[index].lost_ns += row.cpu_ns;
  if (row.key.tgid <= 0 || (row.kind != "user" && row.kind != "kernel" && row.kind != "unassigned"))
    return;
  const uint32_t process = Process(row.key, row.comm);
  processes_[process].is_kernel = row.kind == "kernel";
  // Whoever has a row was heard of: what it was about until then has ended.
  AddSpan(process, left_[process], row.start_ns);
  const bool asleep = row.state == "asleep";
  const int64_t since_ns =
      asleep && row.state_since_ns ? row.state_since_ns : std::max(row.state_since_ns, row.start_ns);
  left_[process] = {HindranceOf(row.state), asleep, since_ns};
  ProcessBin& bin = BinOf(process, index);
  bin.cpu_ns += row.cpu_ns;
  if (row.nr_cpus == 1 && row.main_cpu >= 0 && row.cpu_ns)
    ran_on_[{index, row.main_cpu}][process] += row.cpu_ns;
  for (size_t cause = 0; cause < kNrWaitHindrances; cause++) bin.ns[cause] += row.wait_ns[cause];
  if (row.has_counters) {
    has_counters_ = true;
    bin.cycles += row.cycles;
    bin.instructions += row.instructions;
  }
  if (row.has_traffic) {
    has_traffic_ = true;
    bin.traffic_bytes += row.traffic_bytes;
  }
}

void History::FlushWaits() {
  for (const auto& [who, ns] : waits_)
    ran_instead_.push_back({waits_bin_, who.first.first, who.first.second, who.second, ns});
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

void History::OnEarlierWait(int64_t start_ns, const ProcessKey& waiter, int32_t cpu, uint64_t ns) {
  earlier_.push_back({start_ns, Process(waiter, ""), cpu, std::min<uint64_t>(ns, kLongestWaitNs)});
}

void History::Place(const EarlierWait& wait) {
  if (wait.start_ns >= to_ns_ || wait.start_ns < from_ns_ - kLongestWaitNs) return;
  const int64_t end_ns = std::min(to_ns_, wait.start_ns + static_cast<int64_t>(wait.ns));
  for (int64_t at_ns = std::max(wait.start_ns, from_ns_); at_ns < end_ns;) {
    const int64_t index = IndexOf(at_ns);
    const int64_t to_ns = std::min(end_ns, (index + 1) * kBinNs);
    auto left_ns = static_cast<uint64_t>(to_ns - at_ns);
    const double share = static_cast<double>(left_ns) / kBinNs;
    ProcessBin& bin = BinOf(wait.waiter, index);
    if (const auto here = ran_on_.find({index, wait.cpu}); here != ran_on_.end())
      for (const auto& [process, cpu_ns] : here->second) {
        const uint64_t ns =
            std::min(left_ns, static_cast<uint64_t>(share * static_cast<double>(cpu_ns)));
        bin.ns[process == wait.waiter ? kBySelf : kByOthers] += ns;
        if (process != wait.waiter) ran_instead_.push_back({index, wait.waiter, process, wait.cpu, ns});
        left_ns -= ns;
      }
    bin.ns[kByUnknown] += left_ns;
    at_ns = to_ns;
  }
}

void History::Finish() {
  FlushWaits();
  for (const EarlierWait& wait : earlier_) Place(wait);
  if (!earlier_.empty())
    std::stable_sort(ran_instead_.begin(), ran_instead_.end(),
                     [](const RanWhile& a, const RanWhile& b) { return a.bin < b.bin; });
  earlier_.clear();
  for (uint32_t process = 0; process < left_.size(); process++) {
    AddSpan(process, left_[process], to_ns_);
    left_[process] = {};
  }
}

uint64_t History::lost_ns() const {
  uint64_t sum = 0;
  for (const auto& [index, bin] : bins_) sum += bin.lost_ns;
  return sum;
}

uint64_t History::slots_ns() const {
  uint64_t sum = 0;
  for (const auto& [index, bin] : bins_) sum += bin.slots_ns;
  return sum;
}

}  // namespace slotscope
