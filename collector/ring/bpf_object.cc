// SPDX-License-Identifier: MIT
#include "ring/bpf_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "base/cpu_list.h"
#include "base/errno_text.h"
#include "ring/kernel_types.h"

namespace slotscope {
namespace {

std::mutex g_warning_mutex;
std::string g_last_warning;

int PrintLibbpf(enum libbpf_print_level level, const char* format, va_list args) {
  if (std::getenv("SLOTSCOPE_BPF_LOG")) {  // the verifier's answer is long
    va_list all;
    va_copy(all, args);
    vfprintf(stderr, format, all);
    va_end(all);
  }
  char line[1024];
  vsnprintf(line, sizeof(line), format, args);
  if (level == LIBBPF_WARN) {
    std::lock_guard lock(g_warning_mutex);
    g_last_warning = line;
    while (!g_last_warning.empty() && g_last_warning.back() == '\n') g_last_warning.pop_back();
  }
  return 0;
}

}  // namespace

Status CheckBpfUsable() {
  if (geteuid() != 0)
    return {Exit::kPrivilege, "recording needs root (to load eBPF programs): run it with sudo"};
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
    return {Exit::kKernel,
            "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing): it must be built with "
            "CONFIG_DEBUG_INFO_BTF=y, as the kernels of Debian 11 and later are"};
  // Kernels before 5.11 charge BPF maps to RLIMIT_MEMLOCK.
  rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &unlimited);
  return {};
}

bool NeedsSysAdmin() {
  // Upstream's largest is 2: what is above that is of the distribution's own patch.
  int paranoid = 0;
  std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> paranoid;
  // A uprobe that is a perf event asks for it, whatever CAP_PERFMON is for. Before 6.2 libbpf does, too:
  // it looks for bpf_rdonly_cast in all modules then.
  return paranoid > 2 || !KernelTypes::Get()->HasUprobeMulti();
}

void QuietLibbpf() { libbpf_set_print(PrintLibbpf); }

std::string LastLibbpfWarning() {
  std::lock_guard lock(g_warning_mutex);
  return g_last_warning;
}

size_t PossibleCpus() {
  auto cpus = ReadCpuList("possible");
  return cpus.empty() ? 1 : static_cast<size_t>(cpus.back()) + 1;
}

std::vector<uint64_t> OutputErrorsByCpu(int map_fd) {
  int nr_cpus = libbpf_num_possible_cpus();
  if (nr_cpus <= 0) return {};
  std::vector<uint64_t> per_cpu(static_cast<size_t>(nr_cpus)), sums(static_cast<size_t>(nr_cpus));
  for (uint32_t type = 0; type < SS_NR_TYPES; type++) {
    if (bpf_map_lookup_elem(map_fd, &type, per_cpu.data())) continue;
    for (size_t cpu = 0; cpu < sums.size(); cpu++) sums[cpu] += per_cpu[cpu];
  }
  return sums;
}

uint64_t SumOutputErrors(int map_fd) {
  uint64_t sum = 0;
  for (uint64_t count : OutputErrorsByCpu(map_fd)) sum += count;
  return sum;
}

ProgramCosts ReadProgramCosts(int map_fd) {
  const int nr_cpus = libbpf_num_possible_cpus();
  const uint32_t key = 0;
  ProgramCosts sum;
  std::vector<ProgramCosts> per_cpu(nr_cpus > 0 ? static_cast<size_t>(nr_cpus) : 0);
  if (per_cpu.empty() || bpf_map_lookup_elem(map_fd, &key, per_cpu.data())) return {};
  for (const ProgramCosts& cpu : per_cpu) {
    sum.nr_runs += cpu.nr_runs;
    sum.ns += cpu.ns;
  }
  return sum;
}

uint64_t SumSkippedRuns(const bpf_object* object, const bpf_program* except) {
  uint64_t sum = 0;
  bpf_program* program;
  bpf_object__for_each_program(program, object) {
    if (program == except) continue;
    bpf_prog_info info = {};
    uint32_t size = sizeof(info);
    int fd = bpf_program__fd(program);
    if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0) sum += info.recursion_misses;
  }
  return sum;
}

}  // namespace slotscope
