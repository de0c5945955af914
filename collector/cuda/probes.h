// SPDX-License-Identifier: MIT
// bpf/cuda.bpf.c, loaded, and its attachments to libraries. Used by one thread at a time.
#pragma once

#include <slotscope/cuda_probe.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "cuda/library.h"
#include "cuda/losers.h"
#include "ring/bpf_object.h"
#include "ring/item.h"

struct bpf_link;
struct bpf_map;
struct cuda;

namespace slotscope {

using CudaCounts = std::array<uint64_t, SS_CUDA_NR_COUNTS>;
using CudaEntries = std::array<uint64_t, SS_NR_PROLOGUES>;

// Probes on the functions of one file, in all processes that map it.
class CudaAttachment {
 public:
  CudaAttachment() = default;
  // How many times the kernel waits for all CPUs when it is detached, 0.1 s each: for each function
  // where it has no uprobe_multi.
  size_t nr_waits() const { return single_.size() / 2 + enter_.valid() + leave_.valid(); }
  size_t nr_fds() const { return single_.size() + enter_.valid() + leave_.valid(); }

 private:
  friend class CudaProbes;
  UniqueFd enter_;  // uprobe_multi links
  UniqueFd leave_;
  std::vector<UniqueFd> single_;  // events and links, where the kernel has no uprobe_multi
};

// Makes a process that has all open files of this one, too, and closes them when the one that is
// returned is closed. Destroying attachments in between takes no time.
UniqueFd DetachInBackground();
inline constexpr const char* kDetacherName = "slotscope-close";

class CudaProbes {
 public:
  CudaProbes();
  ~CudaProbes();

  // What the kernel can do. Before Load().
  void AskKernel();
  // Messages go into the source's rings: `events_fd` is its perf event array, `errors_fd` counts what
  // could not be written. `is_watched`: there may be heartbeats in watchdog_fd().
  Status Load(int events_fd, int errors_fd, bool is_watched);
  int watchdog_fd() const;
  // From now on messages wait for each other, and Flush() has to be called every few milliseconds. If
  // the kernel cannot flush, each is written at once. REQUIRES: Load().
  void UseQueues();
  // One thread at a time, also while another one uses the rest: what waits is in the rings.
  void Flush();
  // `path`: of the file, as this process can open it (/proc/PID/map_files/...). REQUIRES: Load().
  Status Attach(const std::string& path, const CudaLibrary& library, CudaAttachment* attachment);
  // A probe at a function's entry and one at its return, which do nothing.
  Status AttachNothing(const std::string& path, uint64_t offset, CudaAttachment* attachment);
  // Turns of threads that have made calls are told from here on, or are not any more: which threads do
  // what is not known until the next of each. REQUIRES: Load().
  Status FollowThreads();
  void LeaveThreads();
  // Sums over all CPUs: of one of enum ss_cuda_count, and of all.
  uint64_t count(ss_cuda_count which) const;
  // Adds those whose calls were lost since they were last taken. What has been counted (see
  // SS_CUDA_NR_UNREADABLE and the like) before this call, and is not among them, may be anybody's.
  void TakeLosers(std::vector<LostCalls>* lost);
  // Of the probes: see SumSkippedRuns.
  uint64_t nr_skipped_runs() const;
  CudaCounts counts() const;
  // Any thread, after Load(); nothing before. Of the probes, and what turns took beside them.
  ProgramCosts costs() const;
  uint64_t turns_ns() const;
  // Also any thread: how often functions were entered, about, by how they begin.
  CudaEntries entries() const;
  bool uses_multi() const { return use_multi_; }

 private:
  Status AttachMulti(const std::string& path, const CudaLibrary& library, CudaAttachment* attachment);
  Status AttachSingle(const std::string& path, const CudaLibrary& library, CudaAttachment* attachment);

  struct SkeletonDeleter {
    void operator()(cuda* skeleton) const;
  };
  bool FlushCpu(uint32_t cpu);
  uint64_t SumOfCpus(const bpf_map* map, uint32_t key) const;

  std::unique_ptr<cuda, SkeletonDeleter> skeleton_;
  ss_cuda_queue* queues_ = nullptr;  // nr_cpus_ of them, mapped; null: none is used
  size_t nr_cpus_ = 0;
  bool use_multi_ = false;
  bool has_switch_state_ = true;  // see native_source.cc
  bool shares_stack_ = false;     // see cuda.bpf.c
  struct LinkDeleter {
    void operator()(bpf_link* link) const;
  };
  std::vector<std::unique_ptr<bpf_link, LinkDeleter>> turns_;
  uint32_t follows_ = 0;  // of cuda.bpf.c, the latest
  Losers losers_;
};

}  // namespace slotscope
