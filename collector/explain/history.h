// SPDX-License-Identifier: MIT
// What a recording says of a stretch of time, in bins of 10 ms: for whoever looks for the moments in
// which somebody did not get on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explain/gpu_times.h"
#include "explain/process_places.h"
#include "track/tracker.h"

namespace slotscope {

inline constexpr int64_t kBinNs = 10'000'000;
inline constexpr uint64_t kLongestWaitNs = 3'600'000'000'000;  // what is told to be longer is nonsense

// Why a process did not get on: what a wait for a CPU was made of, and how it had left the CPU.
enum Hindrance : uint8_t {
  kByOthers,
  kBySelf,
  kByQuota,
  kByWakeup,
  kBySteal,
  kByUnknown,  // it waited, and nobody knows for whom
  kStopped,
  kTraced,
  kByDisk,
  kBlocked,
  kSlower,   // it ran, with more cycles per instruction than it usually takes
  kStarved,  // its GPU had no work, and the thread that launches waited for something, or worked
  kNrHindrances,
};
inline constexpr size_t kNrWaitHindrances = kByUnknown + 1;
using Hindered = std::array<uint64_t, kNrHindrances>;

// The WaitCause of that name, or kWaitEarlier; kNrWaitValues: none.
size_t WaitCauseOf(std::string_view name);
// By what a row says of how a process left its CPU; kNrHindrances: nothing that holds it up.
Hindrance HindranceOf(std::string_view state);

struct ProcessBin {
  int64_t index = 0;
  uint64_t cpu_ns = 0;
  Hindered ns = {};
  uint64_t asleep_ns = 0;
  // Of slots in which both were counted.
  uint64_t cycles = 0, instructions = 0;
  uint64_t traffic_bytes = 0;
  bool has_traffic = false;  // of some of it the traffic was measured
};

// Of a process that launches.
struct GpuBin {
  int64_t index = 0;
  GpuTimes ns = {};
};

// Of several bins: nothing was heard of it meanwhile.
struct Span {
  Hindrance why = kNrHindrances;   // kNrHindrances: it slept
  int64_t from_ns = 0, to_ns = 0;  // Unix time; a sleep may begin in front of what was read
};

struct ProcessHistory {
  ProcessKey key = {};
  std::string comm;  // its last one, as it is written
  bool is_kernel = false;
  bool has_rows = false;                 // else others waited for it, and no more is known
  int64_t born_ns = 0;                   // Unix time; 0: not known
  std::shared_ptr<const Cgroup> cgroup;  // null: not known
  std::vector<ProcessBin> bins;  // in the order of time; those in which it did nothing are not there
  std::vector<GpuBin> gpu_bins;  // the same
  uint32_t gpu_known = 0;        // bit GpuValue: some row has it
  std::vector<Span> spans;
};

// While one waited on a CPU, another one ran there.
struct RanWhile {
  uint32_t waiter = 0, ran = 0;  // places in processes()
  int64_t bin = 0;
  int32_t cpu = -1;  // -1: not known
  uint64_t ns = 0;
};

struct MachineBin {
  uint64_t slots_ns = 0;  // of slots that begin in it
  uint64_t lost_ns = 0;   // of all CPUs: nobody knows who ran
  uint64_t nr_rows = 0;
};

// One row of slots, as far as this needs it. Whoever makes one keeps its numbers within reason.
struct SlotRow {
  int64_t start_ns = 0;  // Unix time
  int64_t slot_ns = 0;
  ProcessKey key = {};
  int64_t born_ns = 0;  // Unix time of key.start_time_ns; 0: not known
  std::string_view comm, kind, state;
  uint64_t cpu_ns = 0;
  bool has_waits = false;
  std::array<uint64_t, kNrWaitHindrances> wait_ns = {};
  uint8_t measured_waits = 0;  // a bit for each of these: the others are 0 as they were not measured
  uint64_t wait_earlier_ns = 0;
  ProcessKey ran_instead = {};  // for longest; tgid 0: nobody
  uint64_t ran_instead_ns = 0;
  uint64_t nr_cpus = 0;   // that it ran on
  int32_t main_cpu = -1;  // of these, for longest; -1: not known
  bool has_counters = false, has_traffic = false, has_gpu = false;
  uint64_t cycles = 0, instructions = 0, traffic_bytes = 0;
  uint64_t gpu_active_ns = 0;
  bool launches = false;
  GpuTimes gpu = {};
  uint32_t gpu_known = 0;      // bit GpuValue
  int64_t state_since_ns = 0;  // Unix time; 0: not known
  uint64_t nr_slots = 1;       // of the table seconds: rows of slots that are added up in it
};

// One row of waits.
struct WaitTableRow {
  int64_t start_ns = 0;  // Unix time, of its slot
  ProcessKey waiter = {};
  std::string_view cause;
  ProcessKey ran = {};  // of cause others, if it is named
  std::string_view ran_comm;
  int32_t cpu = -1;  // -1: not known
  uint64_t ns = 0;
  // Of cause earlier: Unix time, when it passed and why. Older recordings have only its start.
  int64_t wait_start_ns = 0, wait_until_ns = 0;
  std::string_view earlier_cause = {};

  // Foreign numbers may be any: whoever asks looks at the length first.
  uint64_t earlier_length_ns() const {
    return wait_until_ns > wait_start_ns
               ? static_cast<uint64_t>(wait_until_ns) - static_cast<uint64_t>(wait_start_ns)
               : ns;
  }
  int64_t earlier_end_ns() const {
    return static_cast<int64_t>(static_cast<uint64_t>(wait_start_ns) + earlier_length_ns());
  }
};

class History {
 public:
  // Rows of a table are to come in the order in which they were recorded.
  void OnSlot(const SlotRow& row);
  // A row of waits whose cause is another process.
  void OnWait(int64_t start_ns, const ProcessKey& waiter, const ProcessKey& ran,
              std::string_view ran_comm, int32_t cpu, uint64_t ns);
  // Waiting that was told when its slots had retired: row.start_ns is that of the slot whose row says
  // it. Where nobody has said who ran (older recordings), whoever ran on that CPU then, by what the
  // slots have, ran instead.
  void OnEarlierWait(const WaitTableRow& row);
  void SetCpus(uint64_t nr) { nr_cpus_ = nr; }
  // Of the processes that it has.
  void SetPlaces(const ProcessPlaces& places);
  // All was read: who is still stopped, blocked or waiting is so until the end.
  void Finish();

  const std::vector<ProcessHistory>& processes() const { return processes_; }
  // By waiter, and for each in the order of time.
  const std::vector<RanWhile>& ran_instead() const { return ran_instead_; }
  // By their index; those between which nothing was recorded are not there.
  const std::map<int64_t, MachineBin>& bins() const { return bins_; }
  // Unix time of what was recorded; both 0: nothing.
  int64_t from_ns() const { return from_ns_; }
  int64_t to_ns() const { return to_ns_; }
  uint64_t nr_cpus() const { return nr_cpus_; }
  // Of what it waited in that time and was told late.
  struct ToldLate {
    int64_t until_ns = 0;   // slots tell of it; 0: there is none
    bool is_over = true;    // else it still waited when the recording ended, and for whom is a guess
    bool is_guess = false;  // of some of it nothing says for whom: whoever ran there
  };
  ToldLate ToldLateOf(uint32_t process, int64_t from_ns, int64_t to_ns) const;
  // A row had a value there.
  bool has_waits() const { return has_waits_; }
  bool has_states() const { return has_states_; }
  bool has_counters() const { return has_counters_; }
  bool has_traffic() const { return has_traffic_; }
  // Of the bins that begin in that time.
  MachineBin SumOf(int64_t from_ns, int64_t to_ns) const;

 private:
  // How a process left its last CPU, until it is heard of again.
  struct Left {
    Hindrance why = kNrHindrances;
    bool asleep = false;
    Hindrance waits = kNrHindrances;  // for a CPU: rows tell of it, unless they end
    int64_t since_ns = 0;
    int32_t cpu = -1;  // its last one
  };
  struct EarlierWait {
    int64_t start_ns = 0, end_ns = 0;
    uint32_t waiter = 0;
    int32_t cpu = -1;
    uint64_t ns = 0;  // of it, by this cause
    int64_t told_ns = 0;
    Hindrance why = kNrHindrances;  // kNrHindrances: not known
    uint32_t ran = kNobody;
    bool is_over = true;
  };
  static constexpr uint32_t kNobody = UINT32_MAX;
  using CpuBin = std::pair<int64_t, int32_t>;  // a bin of a CPU

  uint32_t Process(const ProcessKey& key, std::string_view comm);
  ProcessBin& BinOf(uint32_t process, int64_t index);
  void AddSpan(uint32_t process, const Left& left, int64_t to_ns);
  void CloseSpans();
  void OnNewSlot(const SlotRow& row);
  void Add(uint32_t process, const SlotRow& row);
  void FlushWaits();
  void CutSpans(uint32_t process, int64_t from_ns, int64_t to_ns);
  void Place(const EarlierWait& wait);
  void PlaceInBin(const EarlierWait& wait, int64_t index, uint64_t ns);

  std::vector<ProcessHistory> processes_;
  std::unordered_map<ProcessKey, uint32_t, ProcessKeyHash> places_;
  std::vector<Left> left_;  // by process
  std::vector<RanWhile> ran_instead_;
  int64_t waits_bin_ = 0;
  std::map<std::pair<std::pair<uint32_t, uint32_t>, int32_t>, uint64_t> waits_;  // of that bin
  std::vector<EarlierWait> earlier_;
  std::map<CpuBin, std::map<uint32_t, uint64_t>> ran_on_;  // of those who ran on one CPU only
  std::map<int64_t, MachineBin> bins_;
  int64_t from_ns_ = 0, to_ns_ = 0;
  int64_t last_start_ns_ = 0;
  uint64_t nr_cpus_ = 1;
  bool has_waits_ = false, has_states_ = false, has_counters_ = false, has_traffic_ = false;
};

}  // namespace slotscope
