// SPDX-License-Identifier: MIT
// Finds the processes that use CUDA and probes their libraries: once per file, for all processes that
// map it, from the first one that does until the last one is gone. A thread of its own, because looking
// takes time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/gpu_device.h"
#include "base/news.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cuda/coverage.h"
#include "cuda/library.h"
#include "cuda/map_events.h"
#include "cuda/probes.h"
#include "cuda/process_maps.h"
#include "cuda/reading_budget.h"
#include "cuda/trap_cost.h"
#include "cuda/watchdog.h"
#include "ring/item_queue.h"

namespace slotscope {

class CudaWatcher {
 public:
  CudaWatcher() = default;
  ~CudaWatcher();

  // Loads the probes, which write into the source's rings, attaches them to the system's CUDA libraries
  // and to those of running processes, and starts the thread. `gpus` are those in the facts; which of
  // them a process sees goes to *items, which outlives this. `has_watchdog`: whoever acts on it may beat
  // (see Watchdog); without a BPF file system nobody can, and that is said. `waits_for_driver`: on a
  // machine without a GPU's driver nothing is loaded and nobody is looked for before there is one; the
  // two descriptors outlive this.
  Status Start(int events_fd, int errors_fd, std::vector<GpuDevice> gpus, bool has_watchdog,
               bool waits_for_driver, ItemQueue* items);
  // Detaches.
  void Stop();

  // Any thread: sentences about what cannot be seen, since the last call; each once.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  // Any thread: CPU time that the probes took so far, about, with the traps that lead to them.
  uint64_t probe_ns() const;
  bool uses_multi() const { return probes_.uses_multi(); }
  // Any thread: nothing is probed soon, to cost less, or all is again.
  void SetProbing(bool probes);
  // Any thread: a process that uses CUDA was seen.
  bool has_seen_any() const { return has_seen_any_.load(std::memory_order_relaxed); }

 private:
  using FileKey = std::pair<uint64_t, uint64_t>;  // dev, inode
  struct File {
    CudaLibrary library;
    CudaAttachment attachment;
    std::string error;                                // why it is not probed
    Backoff backoff{10'000'000'000, 10'000'000'000};  // with an error; a try may take a thousand files
    bool attached = false;
    bool standing = false;  // the system's: stays attached without processes
    std::set<int32_t> users;
  };

  Status LoadProbes(bool has_watchdog);
  void Run();
  void WaitForDriver();
  void FollowWish();
  void WaitForMaps(bool watches);
  void LookAtMapped();
  bool TakeLook(int32_t tgid, uint64_t second);
  void ScanAll();
  // False: not all of its files have been looked at; it is to be looked at again.
  bool ScanProcess(int32_t tgid);
  bool LookAtFilesOf(int32_t tgid);
  void TellView(int32_t tgid);
  // The file of a process, looked into when it is new. Null if it cannot be read, or is not
  // to be now: behind until_ns of our CPU time, or without a file to open it by. Then *later is set.
  File* Look(int32_t tgid, const MappedFile& mapped, uint64_t until_ns, bool* later);
  void Read(int fd, File* file);
  void AttachTo(File* file, const std::string& path);
  void MeasureTraps(const CudaLibrary& library);
  void TellCoverage(int32_t tgid, const std::string& gaps, const std::string& text);
  void AttachSystemLibraries();
  void AttachSystemLibrary(const std::string& path);
  void ReleaseUnused();
  void Release(const std::function<bool(const File&)>& which);

  void AddLosses(SourceLosses* losses, std::vector<LostCalls>* lost);

  CudaProbes probes_;
  Watchdog watchdog_;
  MapEvents map_events_;
  bool is_complete_ = false;  // no event was lost since the last look at all processes
  std::set<int32_t> mapped_;  // to be looked at, each once, however many libraries
  std::map<FileKey, File> files_;
  struct Seen {
    uint64_t began;    // see ReadStartTicks()
    uint64_t stack;    // see ReadStackStart()
    std::string gaps;  // of which was told
  };
  std::map<int32_t, Seen> seen_;  // processes that use CUDA
  // Looks at processes since a second has begun, by which others cannot keep us from the rest.
  uint64_t looks_second_ = 0;
  std::map<int32_t, uint32_t> looks_;
  ReadingBudget budget_;
  Backoff files_backoff_{1'000'000'000, 10'000'000'000};  // there are no descriptors for more
  size_t nr_targets_ = 0;                                 // of all files
  size_t nr_fds_ = 0, most_fds_ = 0;                      // of ours that probes have, and may have
  std::atomic<uint64_t> nr_late_looks_{0};
  uint64_t nr_coverage_notes_ = 0;
  uint64_t notes_since_ns_ = 0;  // of these; see News::kPeriodNs
  std::vector<GpuDevice> gpus_;
  ItemQueue* items_ = nullptr;
  // The reader's thread: calls that were lost, of these those whose process is known, and not.
  uint64_t nr_lost_calls_ = 0, nr_named_calls_ = 0, nr_unnamed_calls_ = 0;
  UniqueFd wake_;
  std::thread thread_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> has_seen_any_{false};
  std::atomic<bool> probing_wanted_{true};
  bool is_suspended_ = false;
  bool waits_for_driver_ = false;
  int events_fd_ = -1, errors_fd_ = -1;
  std::atomic<bool> is_loaded_{false};  // before, only our thread touches probes_
  std::mutex unprobed_mutex_;           // of the two below
  uint64_t unprobed_ns_ = 0;            // before
  uint64_t unprobed_since_ns_ = 0;      // 0: it is probed
  TrapCosts trap_costs_;
  News news_;
};

}  // namespace slotscope
