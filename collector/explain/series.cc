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
template <typename Of>
std::vector<uint64_t> SumsOf(const std::vector<ProcessBin>& bins, const Of& of) {
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
  sum->traffic_bytes += bin.traffic_bytes;
}

}  // namespace

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

Series::Series(const History& history, const Group& group) {
  if (history.bins().empty()) return;
  const int64_t first = history.bins().begin()->first;
  nr_bins_ = static_cast<size_t>(history.bins().rbegin()->first - first + 1);
  std::vector<ProcessBin> bins(nr_bins_);
  for (uint32_t member : group.members)
    for (const ProcessBin& bin : history.processes()[member].bins)
      if (bin.index >= first && bin.index - first < static_cast<int64_t>(nr_bins_))
        Add(&bins[static_cast<size_t>(bin.index - first)], bin);
  cpu_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.cpu_ns; });
  traffic_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.traffic_bytes; });
  cycles_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.cycles; });
  instructions_ = SumsOf(bins, [](const ProcessBin& bin) { return bin.instructions; });
  for (size_t why = 0; why < kNrHindrances; why++)
    hindered_[why] = SumsOf(bins, [&](const ProcessBin& bin) { return bin.ns[why]; });
  if (history.has_counters()) FindSlower(bins);
}

// What each bin took longer than its instructions usually take.
void Series::FindSlower(const std::vector<ProcessBin>& bins) {
  std::vector<double> per_instruction;
  ForEachWindowOutside({}, [&](const BinRange& window) {
    if (Instructions(window) > 0)
      per_instruction.push_back(static_cast<double>(Cycles(window)) /
                                static_cast<double>(Instructions(window)));
  });
  const double usual = UsualOf(&per_instruction).median;
  hindered_[kSlower] = SumsOf(bins, [&](const ProcessBin& bin) {
    const double expected = usual * static_cast<double>(bin.instructions);
    const auto cycles = static_cast<double>(bin.cycles);
    if (expected <= 0 || cycles <= expected) return uint64_t{0};
    return static_cast<uint64_t>(static_cast<double>(bin.cpu_ns) * (1 - expected / cycles));
  });
}

bool Series::IsActive(const BinRange& range) const {
  if (Cpu(range) > 0) return true;
  for (size_t why = 0; why < kSlower; why++)
    if (Hindrance(why, range) > 0) return true;
  return false;
}

}  // namespace slotscope
