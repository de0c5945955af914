// SPDX-License-Identifier: MIT
// Stretches of time in which somebody did not get on: more than is usual for it, because of something
// that is not usual either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "explain/history.h"
#include "track/group_filter.h"

namespace slotscope {

// A process, or all of one name, or all that are in one place.
struct Party {
  std::string name;
  size_t nr = 0;
  int32_t tgid = 0;  // of one of them
  bool is_kernel = false;
  bool is_place = false;  // the name is that of a pod, a container, a unit or a cgroup
  std::string place;      // in which all of them are, see PlaceText(); empty: not known, or in none
  std::string Text() const;
};

// Who ran while another one waited, or moved memory while it got slower.
struct Neighbor {
  Party who;
  uint64_t ns = 0;        // it ran on that CPU meanwhile
  std::vector<int> cpus;  // on which, those with the most time first; empty: not known
  // False: the recording has no rows of it, as of a selection's neighbors; its CPU time is not known.
  bool has_rows = true;
  uint64_t cpu_ns = 0;  // CPU time, on any
  uint64_t usual_cpu_ns = 0;
  uint64_t traffic_bytes = 0;  // of memory
  uint64_t usual_traffic_bytes = 0;
  bool has_usual = false;   // enough was recorded at other times to say so
  bool is_unusual = false;  // it did more than it usually does
  // Of a place that is unusual for this name's sake: both CPU times are all of that name's.
  std::string of_name;
};

// Whose GPU had no work meanwhile, as the thread that launches slept.
struct StarvedGpu {
  Party who;
  uint64_t no_work_ns = 0, usual_no_work_ns = 0;
};

enum class Confidence : uint8_t { kHigh, kMedium, kLow };
const char* ConfidenceText(Confidence confidence);

struct Stall {
  int64_t from_ns = 0, to_ns = 0;  // Unix time
  int64_t told_until_ns = 0;       // by rows of slots up to then; some of its waiting was told late
  bool waits_on = false;           // when the recording ended; for whom is a guess
  bool guesses = false;            // for whom it waited, of what was told late without saying so
  Party who;                       // nr 0: nobody; the recording has lost who ran
  Hindrance why = kByUnknown;      // what held it up for longest
  Hindered ns = {};
  Hindered usual_ns = {};  // in as long a time
  bool has_usual = false;  // enough of it was seen at other times to say so
  uint64_t cpu_ns = 0;
  uint64_t usual_cpu_ns = 0;
  uint64_t traffic_bytes = 0;  // of memory
  uint64_t usual_traffic_bytes = 0;
  bool launches = false;  // it uses a GPU
  GpuTimes gpu = {};      // which had no work of it for at least so long
  uint64_t usual_no_work_ns = 0;
  uint32_t gpu_known = 0;           // bit GpuValue: it was measured
  bool never_waits = false;         // in all that is known of it, for all that it has launched
  uint64_t asleep_ns = 0;           // all of its processes, until something happened
  int64_t asleep_since_ns = 0;      // Unix time: of the last of these that was long; 0: none
  std::vector<Neighbor> neighbors;  // the one that matters most first
  std::vector<std::pair<Party, uint64_t>> also;  // who else was held up by the same, and for how long
  std::vector<StarvedGpu> starved;
  size_t nr_more_starved = 0;
  double lost_share = 0;     // of the CPUs' time
  double unknown_share = 0;  // of its waiting
  bool has_waits = false;    // waiting was measured
  double severity_ns = 0;    // what it lost more than usual

  int64_t length_ns() const { return to_ns - from_ns; }
  uint64_t waited_ns() const;
  // For how long its GPU had no work since it was held up so; 0: that is little beside it.
  uint64_t idle_gpu_ns() const;
  // Of what it waited for others, or lost to slow memory, at least half was due to those who did more
  // than they usually do.
  bool HasUnusualNeighbor() const;
  Confidence confidence() const;
};

// Whose processes are spoken of as one.
enum class GroupBy : uint8_t { kName, kPod, kUnit, kCgroup };

// Whose stalls: empty: everybody's.
struct Selection {
  std::vector<int32_t> pids;
  std::vector<std::string> comms;  // as they are written
  GroupFilter groups;
  std::unordered_set<ProcessKey, ProcessKeyHash> members;  // of these groups
  GroupBy group_by = GroupBy::kName;

  bool any() const { return !pids.empty() || !comms.empty() || groups.any(); }
  bool Has(const ProcessKey& process, const std::string& comm) const;
};

// The worst first. None: it was quiet.
std::vector<Stall> FindStalls(const History& history, const Selection& selection);

// That stretch, whatever is usual: those that were held up for longest, at most nr.
std::vector<Stall> StallsIn(const History& history, const Selection& selection, int64_t from_ns,
                            int64_t to_ns, size_t nr);

}  // namespace slotscope
