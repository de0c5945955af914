// SPDX-License-Identifier: MIT
// What the machine and each process did, millisecond by millisecond, for a page: in steps of 10 us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "explain/history.h"
#include "recording/reader.h"

namespace slotscope {

inline constexpr int64_t kMsNs = 1'000'000;
inline constexpr uint64_t kStepNs = 10'000;   // of times
inline constexpr uint64_t kStepBytes = 1024;  // of memory traffic

// A process in one millisecond, in steps.
struct TrackRow {
  uint32_t ms;  // from the beginning of the range
  uint32_t cpu, wait, gpu;
};

struct Track {
  ProcessKey key = {};
  std::string comm;  // its last one
  bool is_kernel = false;
  bool has_gpu = false;        // what it did there was measured, in some row
  uint64_t cpu = 0, wait = 0;  // in all
  std::vector<TrackRow> rows;  // in order
};

// All of it: what the CPUs did.
struct MachineTrack {
  std::vector<uint8_t> is_recorded;  // [ms]
  std::vector<uint32_t> cpu, wait, lost, gpu, no_work, traffic;
  bool has_waits = false, has_gpu = false, has_no_work = false, has_traffic = false,
       has_counters = false;
};

class Tracks {
 public:
  // A range of at most kMostMs.
  static constexpr int64_t kMostMs = 3'600'000;
  explicit Tracks(const UnixRange& range);

  // Rows of slots, in the order in which they were recorded.
  void OnRow(const SlotRow& row);

  size_t nr_ms() const { return machine_.is_recorded.size(); }
  const MachineTrack& machine() const { return machine_; }
  const std::vector<Track>& processes() const { return processes_; }
  // Of the slots, in ms; more than one where a recorder had to get cheaper.
  int64_t longest_slot_ms() const { return longest_slot_ms_; }
  uint64_t nr_rows() const { return nr_rows_; }

 private:
  Track& TrackOf(const SlotRow& row);

  UnixRange range_;
  MachineTrack machine_;
  std::vector<Track> processes_;
  std::unordered_map<ProcessKey, size_t, ProcessKeyHash> places_;
  int64_t longest_slot_ms_ = 1;
  uint64_t nr_rows_ = 0;
};

}  // namespace slotscope
