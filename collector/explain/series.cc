// SPDX-License-Identifier: MIT
#include "explain/series.h"

#include <algorithm>
#include <cmath>

namespace slotscope {
namespace {

double Quantile(std::vector<double>* values, double share) {
  const auto at =
      values->begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// Sums of what is in front of each bin, and of all.
template <typename Bin, typename Of>
std::vector<uint64_t> SumsOf(const std::vector<Bin>& bins, const Of& of) {
  std::vector<uint64_t> sums(bins.size() + 1);
  for (size_t i = 0; i < bins.size(); i++) sums[i + 1] = sums[i] + of(bins[i]);
  if (sums.back() == 0) sums = {};
  return sums;
}

void Add(ProcessBin* sum, const ProcessBin& bin) {
  sum->cpu_ns += bin.cpu_ns;
  for (size_t why = 0; why < kNrHindrances; why++) sum->ns[why] += bin.ns[why];
  sum->cycles += bin.cycles;
  sum->instructions += bin.instructions;
  sum->asleep_ns += bin.asleep_ns;
  sum->traffic_bytes += bin.traffic_bytes;
  sum->has_traffic |= bin.has_traffic;
}

}  // namespace

uint64_t Whole(double number) {
  constexpr double kMost = 1e18;
  return static_cast<uint64_t>(std::clamp(number, 0.0, kMost));
}

uint64_t Scaled(double of_window, const BinRange& range) {
  return Whole(of_window * static_cast<double>(range.size()) / kWindowBins);
}

double MedianOf(std::vector<double>* values) { return values->empty() ? 0 : Quantile(values, 0.5); }

Usual UsualOf(std::vector<double>* values) {
  Usual usual;
  usual.nr = values->size();
  if (values->empty()) return usual;
  usual.upper = Quantile(values, 0.75);
  usual.median = Quantile(values, 0.5);
  for (double& value : *values) value = std::abs(value - usual.median);
  constexpr double kNormal = 1.4826;
  usual.spread = kNormal * Quantile(values, 0.5);
  return usual;
}

Timeline::Timeline(const History& history) {
  if (history.bins().empty()) return;
  first_bin_ = history.bins().begin()->first;
  nr_bins_ = static_cast<size_t>(history.bins().rbegin()->first - first_bin_ + 1);
  recorded_.resize(nr_bins_ + 1);
  for (const auto& [index, bin] : history.bins())
    recorded_[static_cast<size_t>(index - first_bin_) + 1] = 1;
  for (size_t i = 0; i < nr_bins_; i++) recorded_[i + 1] += recorded_[i];
}

BinRange Timeline::RangeOf(int64_t from_ns, int64_t to_ns) const {
  const auto place = [&](int64_t index) {
    return static_cast<size_t>(
        std::clamp<int64_t>(index - first_bin_, 0, static_cast<int64_t>(nr_bins_)));
  };
  return {place(from_ns / kBinNs), place((to_ns + kBinNs - 1) / kBinNs)};
}

Series::Series(const History& history, const Timeline& timeline, const Group& group)
    : timeline_(timeline) {
  FindLife(history, group);
  std::vector<ProcessBin> bins(life_.size());
  for (uint32_t member : group.members) {
    const ProcessHistory& process = history.processes()[member];
    for (const ProcessBin& bin : process.bins)
      if (bin.index >= timeline.IndexAt(life_.begin) && bin.index < timeline.IndexAt(life_.end))
        Add(&bins[static_cast<size_t>(bin.index - timeline.IndexAt(life_.begin))], bin);
    for (const Span& span : process.spans) {
      const BinRange range = timeline.RangeOf(span.from_ns, span.to_ns);
      for (size_t bin = range.begin; bin < range.end; bin++) {
        const int64_t start_ns = timeline.IndexAt(bin) * kBinNs;
        const auto ns = static_cast<uint64_t>(std::min(span.to_ns, start_ns + kBinNs) -
                                              std::max(span.from_ns, start_ns));
        ProcessBin& of = bins[bin - life_.begin];
        (span.why == kNrHindrances ? of.asleep_ns : of.ns[span.why]) += ns;
      }
    }
  }
  cpu_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.cpu_ns; });
  traffic_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.traffic_bytes; });
  traffic_bins_ = SumsOf(bins, [](const ProcessBin& bin) { return uint64_t{bin.has_traffic}; });
  cycles_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.cycles; });
  instructions_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.instructions; });
  asleep_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.asleep_ns; });
  for (size_t why = 0; why < kNrHindrances; why++)
    hindered_[why] = SumsOf(bins, [&](const ProcessBin& bin) { return bin.ns[why]; });
  if (history.has_counters()) FindSlower(bins);
  AddGpu(history, group);
}

void Series::AddGpu(const History& history, const Group& group) {
  const auto launches = [&](uint32_t member) { return !history.processes()[member].gpu_bins.empty(); };
  if (std::none_of(group.members.begin(), group.members.end(), launches)) return;
  std::vector<GpuTimes> sums(life_.size());
  std::vector<bool> has(life_.size());
  for (uint32_t member : group.members)
    for (const GpuBin& bin : history.processes()[member].gpu_bins) {
      if (bin.index < timeline_.IndexAt(life_.begin) || bin.index >= timeline_.IndexAt(life_.end))
        continue;
      const auto at = static_cast<size_t>(bin.index - timeline_.IndexAt(life_.begin));
      for (size_t i = 0; i < kNrGpuValues; i++) sums[at][i] += bin.ns[i];
      has[at] = true;
    }
  for (size_t i = 0; i < kNrGpuValues; i++)
    gpu_[i] = SumsOf(sums, [i](const GpuTimes& times) { return times[i]; });
  launching_bins_ = SumsOf(has, [](bool one) { return uint64_t{one}; });
}

void Series::FindLife(const History& history, const Group& group) {
  life_ = {timeline_.nr_bins(), 0};
  const auto add = [this](const BinRange& range) {
    if (range.begin >= range.end) return;
    life_.begin = std::min(life_.begin, range.begin);
    life_.end = std::max(life_.end, range.end);
  };
  for (uint32_t member : group.members) {
    const ProcessHistory& process = history.processes()[member];
    if (!process.bins.empty())
      add(timeline_.RangeOf(process.bins.front().index * kBinNs,
                            (process.bins.back().index + 1) * kBinNs));
    for (const Span& span : process.spans) add(timeline_.RangeOf(span.from_ns, span.to_ns));
  }
  life_.begin = std::min(life_.begin, life_.end);
}

// What each bin took longer than its instructions usually take.
void Series::FindSlower(const std::vector<ProcessBin>& bins) {
  std::vector<double> per_instruction;
  timeline_.ForEachWindowOutside({}, [&](const BinRange& window) {
    if (Instructions(window) > 0)
      per_instruction.push_back(static_cast<double>(Cycles(window)) /
                                static_cast<double>(Instructions(window)));
  });
  const double usual = UsualOf(&per_instruction).median;
  hindered_[kSlower] = SumsOf(bins, [&](const ProcessBin& bin) {
    const double expected = usual * static_cast<double>(bin.instructions);
    const auto cycles = static_cast<double>(bin.cycles);
    if (expected <= 0 || cycles <= expected) return uint64_t{0};
    return Whole(static_cast<double>(bin.cpu_ns) * (1 - expected / cycles));
  });
}

uint64_t Series::Waited(const BinRange& range) const {
  uint64_t sum_ns = 0;
  for (size_t why = 0; why < kNrWaitHindrances; why++) sum_ns += Hindrance(why, range);
  return sum_ns;
}

bool Series::IsActive(const BinRange& range) const {
  if (Cpu(range) > 0) return true;
  for (size_t why = 0; why < kSlower; why++)
    if (Hindrance(why, range) > 0) return true;
  return false;
}

}  // namespace slotscope
