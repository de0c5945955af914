// SPDX-License-Identifier: MIT
// What the newest ten seconds of a recording say of each process, by the slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explain/history.h"
#include "explain/process_places.h"

namespace slotscope {

inline constexpr int64_t kSecondNs = 1'000'000'000;

// What a process, or several, did in a stretch of time, or a slot.
struct Doing {
  uint64_t cpu_ns = 0, wait_ns = 0;
  uint64_t throttled_ns = 0;  // of wait_ns
  uint64_t gpu_active_ns = 0;
  uint64_t traffic_bytes = 0;
  bool has_waits = false, has_gpu = false, has_traffic = false;  // some of it was measured
  uint8_t measured_waits = 0;  // of the causes of waiting, a bit for each

  bool IsMeasured(Hindrance cause) const { return measured_waits >> cause & 1; }
  void Add(const Doing& other);
};

// A slot in which a process did something.
struct Cell {
  int64_t start_ns = 0;  // Unix time
  int64_t slot_ns = 0;
  Doing did;
};

// What it was about when it was heard of last.
struct LastState {
  std::string name;      // as in the column `state`; empty: not known
  int64_t since_ns = 0;  // Unix time; 0: not known, or it runs

  bool waits() const { return name == "waiting" || name == "throttled"; }
  // It does not run, and not because it has nothing to do.
  bool is_held() const { return waits() || HindranceOf(name) != kNrHindrances; }
};

// Of a strip of time: a process, or several, and how well that was seen.
struct StripStep {
  bool is_recorded = false;
  Doing worst;           // of the slots that begin in it, the one with the most waiting
  uint64_t cpu_ns = 0;   // the most in a slot
  uint64_t lost_ns = 0;  // in all: nobody knows who ran
  int64_t slots_ns = 0;  // of slots that begin in it, in all
  int64_t slot_ns = 0;   // the longest
};

class Board {
 public:
  // So far back it goes: ten whole seconds, and the one that has begun.
  static constexpr int64_t kKeptNs = 11 * kSecondNs;

  struct Process {
    std::string comm;
    bool is_kernel = false;
    std::shared_ptr<const Cgroup> cgroup;  // null: not known
    LastState state;
    int64_t heard_ns = 0;    // Unix time: where its last slot ends
    std::deque<Cell> cells;  // in the order of time
  };
  // A slot of the whole machine.
  struct Machine {
    int64_t start_ns = 0;  // Unix time
    int64_t slot_ns = 0;
    uint64_t cpu_ns = 0;   // of processes
    uint64_t lost_ns = 0;  // nobody knows who ran
    uint64_t wait_ns = 0;
    bool has_waits = false;
  };

  // Rows of a table are to come in the order in which they were recorded.
  void OnSlot(const SlotRow& row);
  // What had passed of a wait before the slot in which it ended.
  void OnEarlierWait(const WaitTableRow& row);
  // Who is where. All that are there, or those of whom there is news.
  enum class Known { kAll, kSome };
  void SetPlaces(const ProcessPlaces& places, Known known);

  // Where the newest slot ends; 0: there was none.
  int64_t end_ns() const { return end_ns_; }
  const std::unordered_map<ProcessKey, Process, ProcessKeyHash>& processes() const { return processes_; }
  const std::deque<Machine>& machine() const { return machine_; }
  // What these did in the steps of that length from then on.
  std::vector<StripStep> Strip(const std::vector<ProcessKey>& members, int64_t from_ns, int64_t step_ns,
                               size_t nr) const;

 private:
  void Forget();

  int64_t end_ns_ = 0;
  int64_t forgotten_ns_ = 0;  // what is before that
  std::unordered_map<ProcessKey, Process, ProcessKeyHash> processes_;
  std::deque<Machine> machine_;
};

}  // namespace slotscope
