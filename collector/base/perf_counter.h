// SPDX-License-Identifier: MIT
// The table of perf counters: by the index that they have in messages, facts and columns. A new one goes
// to the end; SS_MAX_MORE says how many there can be.
#pragma once

#include <linux/perf_event.h>
#include <slotscope/events.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace slotscope {

// A column, and what it counts unless the user says otherwise.
struct PerfCounter {
  std::string_view name;
  uint32_t type;  // perf_event_attr.type
  uint64_t config;
  std::string_view meaning;
};

inline constexpr uint64_t kDtlbReadMisses =
    PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;

inline constexpr std::array kPerfCounters = {
    PerfCounter{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles of its CPUs"},
    PerfCounter{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "instructions retired"},
    PerfCounter{"llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES,
                "misses of the last-level cache"},
    PerfCounter{"llc_references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES,
                "accesses to the last-level cache"},
    PerfCounter{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches retired"},
    PerfCounter{"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES,
                "branches that were predicted wrongly"},
    PerfCounter{"dtlb_misses", PERF_TYPE_HW_CACHE, kDtlbReadMisses,
                "loads whose page was not in the data TLB"},
    PerfCounter{"ref_cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES,
                "cycles at the nominal frequency, whatever the real one is"},
};
static_assert(kPerfCounters.size() == SS_MAX_COUNTERS);

}  // namespace slotscope
