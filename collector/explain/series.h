// SPDX-License-Identifier: MIT
// What some processes did, bin by bin without gaps, and what is usual for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "explain/groups.h"
#include "explain/history.h"

namespace slotscope {

// What is usual is told of windows of 100 ms.
inline constexpr size_t kWindowBins = 10;

// Of bins, from the history's first one on; `end` is behind the last.
struct BinRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
  bool Overlaps(const BinRange& other) const { return begin < other.end && other.begin < end; }
};

// Of values of windows.
struct Usual {
  size_t nr = 0;
  double median = 0, spread = 0;  // spread: of a normal distribution it is the standard deviation
  double upper = 0;               // a quarter is above
};
// Changes the order of the values.
Usual UsualOf(std::vector<double>* values);

class Series {
 public:
  Series(const History& history, const Group& group);

  size_t nr_bins() const { return nr_bins_; }
  uint64_t Cpu(const BinRange& range) const { return In(cpu_, range); }
  uint64_t Hindrance(size_t why, const BinRange& range) const { return In(hindered_[why], range); }
  uint64_t Traffic(const BinRange& range) const { return In(traffic_, range); }
  uint64_t Cycles(const BinRange& range) const { return In(cycles_, range); }
  uint64_t Instructions(const BinRange& range) const { return In(instructions_, range); }
  // It ran, or waited, or was kept from both.
  bool IsActive(const BinRange& range) const;

  // Calls for each window, side by side, that is not in that range.
  template <typename OnWindow>
  void ForEachWindowOutside(const BinRange& range, const OnWindow& on_window) const {
    for (size_t begin = 0; begin + kWindowBins <= nr_bins_; begin += kWindowBins)
      if (const BinRange window = {begin, begin + kWindowBins}; !window.Overlaps(range))
        on_window(window);
  }

 private:
  using Sums = std::vector<uint64_t>;  // each: of the bins in front of it; empty: all are 0

  static uint64_t In(const Sums& sums, const BinRange& range) {
    return sums.empty() ? 0 : sums[range.end] - sums[range.begin];
  }

  void FindSlower(const std::vector<ProcessBin>& bins);

  size_t nr_bins_ = 0;
  Sums cpu_, traffic_, cycles_, instructions_;
  std::array<Sums, kNrHindrances> hindered_;
};

}  // namespace slotscope
