// SPDX-License-Identifier: MIT
// What both live sources do with a loaded BPF object.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/status.h"
#include "ring/counters.h"

struct bpf_map;
struct bpf_object;
struct bpf_program;

namespace slotscope {

// Checks the privileges and the kernel features without which no object of ours can be loaded.
Status CheckBpfUsable();

// Does this kernel want CAP_SYS_ADMIN for what CAP_BPF and CAP_PERFMON are for? It may be configured so
// (as Debian's and Ubuntu's are), or be older than 6.6.
bool NeedsSysAdmin();

// libbpf prints to nobody unless SLOTSCOPE_BPF_LOG is set; what it said last helps an error message.
void QuietLibbpf();
std::string LastLibbpfWarning();

// CPU numbers are below this: the size of per-CPU arrays that are indexed by CPU number.
size_t PossibleCpus();

// Sum over CPUs and types of ss_output_errors.
uint64_t SumOutputErrors(int map_fd);
// The same by CPU.
std::vector<uint64_t> OutputErrorsByCpu(int map_fd);

// What programs took so far, as they measure themselves (ss_costs).
struct ProgramCosts {
  uint64_t nr_runs = 0;
  uint64_t ns = 0;
};
ProgramCosts ReadProgramCosts(int map_fd);

// Runs that the kernel skipped because the program was already running on that CPU, over all programs
// of the object but `except` (may be null).
uint64_t SumSkippedRuns(const bpf_object* object, const bpf_program* except);

}  // namespace slotscope
