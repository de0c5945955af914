// SPDX-License-Identifier: MIT
// What some processes did, bin by bin without gaps, and what is usual for them.
#pragma once

#include <algorithm>
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
inline constexpr size_t kLeastUsualWindows = 5;  // fewer say nothing of what is usual

// Of as long a time as that range.
uint64_t Scaled(double of_window, const BinRange& range);
// Not negative, and not beyond the type.
uint64_t Whole(double number);

// Changes the order of the values; 0 of none.
double MedianOf(std::vector<double>* values);
Usual UsualOf(std::vector<double>* values);

// Which of the bins of a history were recorded.
class Timeline {
 public:
  explicit Timeline(const History& history);

  size_t nr_bins() const { return nr_bins_; }
  int64_t first_bin() const { return first_bin_; }
  // What that much of Unix time overlaps, as far as there are bins.
  BinRange RangeOf(int64_t from_ns, int64_t to_ns) const;
  int64_t StartNs(const BinRange& range) const { return IndexAt(range.begin) * kBinNs; }
  int64_t EndNs(const BinRange& range) const { return IndexAt(range.end) * kBinNs; }
  int64_t IndexAt(size_t bin) const { return first_bin_ + static_cast<int64_t>(bin); }
  // All of it; a bin may lack, as recordings begin and end within one.
  bool IsRecorded(const BinRange& range) const {
    return recorded_[range.end] - recorded_[range.begin] + 1 >= range.size();
  }

  // Calls for each recorded window, side by side, that is not in that range.
  template <typename OnWindow>
  void ForEachWindowOutside(const BinRange& range, const OnWindow& on_window) const {
    for (size_t begin = 0; begin + kWindowBins <= nr_bins_; begin += kWindowBins)
      if (const BinRange window = {begin, begin + kWindowBins};
          !window.Overlaps(range) && IsRecorded(window))
        on_window(window);
  }

 private:
  int64_t first_bin_ = 0;
  size_t nr_bins_ = 0;
  std::vector<uint32_t> recorded_ = {0};  // of the bins in front of each
};

class Series {
 public:
  // The group's processes; both outlive it.
  Series(const History& history, const Timeline& timeline, const Group& group);

  uint64_t Cpu(const BinRange& range) const { return In(cpu_, range); }
  uint64_t Hindrance(size_t why, const BinRange& range) const { return In(hindered_[why], range); }
  // For a CPU, for whatever reason.
  uint64_t Waited(const BinRange& range) const;
  uint64_t Traffic(const BinRange& range) const { return In(traffic_, range); }
  uint64_t Cycles(const BinRange& range) const { return In(cycles_, range); }
  uint64_t Instructions(const BinRange& range) const { return In(instructions_, range); }
  uint64_t Asleep(const BinRange& range) const { return In(asleep_, range); }
  // Of some of it its memory traffic was measured.
  bool HasTraffic(const BinRange& range) const { return In(traffic_bins_, range) > 0; }
  // Of those that launch; they do in some of it.
  uint64_t Gpu(GpuValue value, const BinRange& range) const { return In(gpu_[value], range); }
  bool Launches(const BinRange& range) const { return In(launching_bins_, range) > 0; }
  // From the first to the last that is known of them.
  const BinRange& life() const { return life_; }
  // It ran, or waited, or was kept from both.
  bool IsActive(const BinRange& range) const;

 private:
  // Each: of the bins in front of it, from life_.begin on; empty: all are 0.
  using Sums = std::vector<uint64_t>;

  uint64_t In(const Sums& sums, const BinRange& range) const {
    if (sums.empty()) return 0;
    const auto place = [&](size_t bin) { return std::clamp(bin, life_.begin, life_.end) - life_.begin; };
    return sums[place(range.end)] - sums[place(range.begin)];
  }

  void FindLife(const History& history, const Group& group);

  void FindSlower(const std::vector<ProcessBin>& bins);
  void AddGpu(const History& history, const Group& group);

  const Timeline& timeline_;
  BinRange life_;  // outside of it nothing is known of the group: thousands live for a moment
  Sums cpu_, traffic_, traffic_bins_, cycles_, instructions_, asleep_, launching_bins_;
  std::array<Sums, kNrGpuValues> gpu_;
  std::array<Sums, kNrHindrances> hindered_;
};

}  // namespace slotscope
