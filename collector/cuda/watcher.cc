// SPDX-License-Identifier: MIT
#include "cuda/watcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/clock.h"
#include "base/cuda_driver.h"
#include "base/errno_text.h"
#include "base/event_fd.h"
#include "base/file_limit.h"
#include "base/proc.h"
#include "base/thread.h"
#include "cuda/trap_cost.h"
#include "cuda/uretprobe_safety.h"
#include "nvml/visible.h"

namespace slotscope {
namespace {

// A library is probed this much after it was mapped; to initialize CUDA takes longer.
constexpr int kLookMs = 10;
constexpr int kScanMs = 1000;
constexpr uint32_t kMaxLooks = 10;         // in a second, at one process
constexpr uint64_t kSliceNs = 50'000'000;  // of CPU time; then others are looked at
constexpr size_t kMaxFilesOfOne = 4096;    // that are mapped by a process
constexpr size_t kMaxFiles = 65536;
constexpr size_t kMaxTargetsOfAll = 1u << 20;         // of all files
constexpr size_t kReservedFds = 256;                  // of ours: segments, consumers, /proc
constexpr uint64_t kReleasePeriodNs = 5'000'000'000;  // probes that nobody calls cost nothing
constexpr size_t kMaxWaits = 10;                      // when probes are detached, of 0.1 s each
constexpr uint64_t kMaxCoverageNotes = 10'000;
// Where Debian, Red Hat, NVIDIA's installer and WSL put them.
constexpr const char* kSystemFolders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                          "/usr/local/cuda/lib64", "/usr/lib/wsl/lib"};
constexpr const char* kLibraryPatterns[] = {"libcuda.so.1", "libcudart.so.[0-9]*"};

constexpr int kDriverMs = 20'000;

bool IsAlive(int32_t tgid) { return kill(tgid, 0) == 0 || errno == EPERM; }

}  // namespace

CudaWatcher::~CudaWatcher() { Stop(); }

Status CudaWatcher::Start(int events_fd, int errors_fd, std::vector<GpuDevice> gpus, bool has_watchdog,
                          bool waits_for_driver, ItemQueue* items) {
  waits_for_driver_ = waits_for_driver && !HasCudaDriver();
  events_fd_ = events_fd;
  errors_fd_ = errors_fd;
  gpus_ = std::move(gpus);
  items_ = items;
  most_fds_ = FileLimit();
  most_fds_ -= std::min(kReservedFds, most_fds_ / 2);
  if (Status status = CheckUretprobesAreSafe(); !status.ok()) return status;
  probes_.AskKernel();
  if (!waits_for_driver_)
    if (Status status = LoadProbes(has_watchdog); !status.ok()) return status;
  if (has_watchdog) {
    Status status = watchdog_.Pin(probes_.watchdog_fd(), kWatchdogPath, &news_);
    if (status.code() == Exit::kKernel)
      news_.Tell(status.message());
    else if (!status.ok())
      return status;
  }
  if (Status status = OpenEventFd(&wake_); !status.ok()) return status;
  items_->SetLosses([this](SourceLosses* losses, std::vector<LostCalls>* lost) {
    if (is_loaded_) AddLosses(losses, lost);
  });
  items_->SetPrompt([this] {
    if (!is_loaded_) return;
    probes_.Flush();
    watchdog_.Poll(ClockNs(CLOCK_BOOTTIME));
  });
  if (!waits_for_driver_) AttachSystemLibraries();
  thread_ = std::thread([this] { Run(); });
  return {};
}

Status CudaWatcher::LoadProbes(bool has_watchdog) {
  if (Status status = probes_.Load(events_fd_, errors_fd_, has_watchdog); !status.ok()) return status;
  probes_.UseQueues();
  is_loaded_ = true;
  return {};
}

void CudaWatcher::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_relaxed);
  eventfd_write(wake_.get(), 1);
  thread_.join();
  watchdog_.Unpin();
  Release([](const File&) { return true; });
}

// The reader's thread.
void CudaWatcher::AddLosses(SourceLosses* losses, std::vector<LostCalls>* lost) {
  // A name is there before its call is counted, so what has been counted and has none is anybody's.
  const uint64_t nr_lost = probes_.count(SS_CUDA_NR_UNREADABLE) + probes_.count(SS_CUDA_NR_UNTRACKED) +
                           probes_.count(SS_CUDA_NR_UNWRITTEN) + probes_.count(SS_CUDA_NR_RESUMED) +
                           probes_.nr_skipped_runs();
  if (nr_lost != nr_lost_calls_) {
    nr_lost_calls_ = nr_lost;
    const size_t nr_before = lost->size();
    probes_.TakeLosers(lost);
    for (size_t i = nr_before; i < lost->size(); i++) nr_named_calls_ += (*lost)[i].nr;
    const uint64_t nr_known = nr_named_calls_ + nr_unnamed_calls_;
    if (nr_lost > nr_known) nr_unnamed_calls_ += nr_lost - nr_known;
  }
  losses->nr_late_looks = nr_late_looks_.load(std::memory_order_relaxed);
  losses->nr_lost_calls = nr_lost_calls_;
  losses->nr_unnamed_calls = nr_unnamed_calls_;
  losses->nr_bypassed_calls = probes_.count(SS_CUDA_NR_BYPASSED);
  losses->bypassed_ns = watchdog_.bypassed_ns();
  std::lock_guard lock(unprobed_mutex_);
  losses->unprobed_ns = unprobed_ns_ + (unprobed_since_ns_ ? MonotonicNs() - unprobed_since_ns_ : 0);
}

void CudaWatcher::Run() {
  NameThread("ss-cuda");
  if (waits_for_driver_) {
    WaitForDriver();
    if (stop_requested_.load(std::memory_order_relaxed)) return;
    if (const Status status = LoadProbes(false); !status.ok()) {
      news_.Tell(fmt::format("GPUs are not observed: {}", status.message()));
      return;
    }
    AttachSystemLibraries();
  }
  const Status watches = map_events_.Open();
  if (!watches.ok())
    news_.Tell(
        fmt::format("{}; processes that begin to use CUDA are found a second late", watches.message()));
  is_complete_ = watches.ok();
  ScanAll();
  uint64_t next_release_ns = MonotonicNs() + kReleasePeriodNs;
  uint64_t scanned_ns = MonotonicNs();
  while (!stop_requested_.load(std::memory_order_relaxed)) {
    WaitForMaps(watches.ok());
    FollowWish();
    if (is_suspended_) {
      (void)map_events_.Take([](int32_t, std::string_view) {});
      continue;
    }
    LookAtMapped();
    if (!is_complete_ && (!watches.ok() || MonotonicNs() - scanned_ns >= kScanMs * 1'000'000ull)) {
      is_complete_ = watches.ok();
      ScanAll();
      scanned_ns = MonotonicNs();
    } else if (!is_complete_) {
      nr_late_looks_.fetch_add(1, std::memory_order_relaxed);
    }
    if (MonotonicNs() < next_release_ns) continue;
    next_release_ns = MonotonicNs() + kReleasePeriodNs;
    ReleaseUnused();
  }
}

uint64_t CudaWatcher::probe_ns() const {
  if (!is_loaded_) return 0;
  return probes_.costs().ns + probes_.turns_ns() + trap_costs_.SumNs(probes_.entries());
}

// Or for the end.
void CudaWatcher::WaitForDriver() {
  pollfd stop = {wake_.get(), POLLIN, 0};
  while (!HasCudaDriver() && !stop_requested_.load(std::memory_order_relaxed)) {
    eventfd_t times;
    if (poll(&stop, 1, kDriverMs) > 0) eventfd_read(wake_.get(), &times);
  }
}

void CudaWatcher::SetProbing(bool probes) {
  probing_wanted_.store(probes, std::memory_order_relaxed);
  eventfd_write(wake_.get(), 1);
}

// Time without probes is that from before the first is detached until all are attached.
void CudaWatcher::FollowWish() {
  const bool wanted = probing_wanted_.load(std::memory_order_relaxed);
  if (wanted != is_suspended_) return;
  if (!wanted) {
    {
      std::lock_guard lock(unprobed_mutex_);
      unprobed_since_ns_ = MonotonicNs();
    }
    probes_.LeaveThreads();
    Release([](const File&) { return true; });
  } else {
    AttachSystemLibraries();
    ScanAll();
    std::lock_guard lock(unprobed_mutex_);
    unprobed_ns_ += MonotonicNs() - std::exchange(unprobed_since_ns_, 0);
  }
  is_suspended_ = !wanted;
}

// Until a file is mapped, then a while for what is mapped beside it: whoever maps many does not wake us
// for each.
void CudaWatcher::WaitForMaps(bool watches) {
  const bool is_behind = watches && (!mapped_.empty() || !is_complete_);
  if (!is_behind) map_events_.Wait(wake_.get(), kScanMs);
  pollfd wake = {wake_.get(), POLLIN, 0};
  if (poll(&wake, 1, kLookMs) <= 0) return;
  eventfd_t times;
  eventfd_read(wake_.get(), &times);
}

// Those that have mapped something since. Whoever maps files all the time waits, and all do if the
// kernel's buffer was too small for him.
void CudaWatcher::LookAtMapped() {
  is_complete_ &= map_events_.Take([&](int32_t tgid, std::string_view path) {
    // What a process that uses CUDA loads later may have a runtime of its own.
    if (IsCudaName(path) || seen_.contains(tgid)) mapped_.insert(tgid);
  });
  const uint64_t second = MonotonicNs() / 1'000'000'000;
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const bool is_done = TakeLook(*at, second) && ScanProcess(*at);
    at = is_done ? mapped_.erase(at) : std::next(at);
  }
}

// False: not in this second any more.
bool CudaWatcher::TakeLook(int32_t tgid, uint64_t second) {
  if (looks_second_ != second) looks_.clear();
  looks_second_ = second;
  if (looks_[tgid]++ < kMaxLooks && budget_.Allows(tgid, MonotonicNs())) return true;
  nr_late_looks_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// Thousands of processes take a while: one that begins to use CUDA meanwhile does not wait for it.
void CudaWatcher::ScanAll() {
  uint64_t looked_ns = MonotonicNs();
  for (int32_t tgid : ListProcesses()) {
    if (stop_requested_.load(std::memory_order_relaxed)) return;
    if (!budget_.Allows(tgid, MonotonicNs()) || !ScanProcess(tgid)) mapped_.insert(tgid);
    if (const uint64_t now_ns = MonotonicNs(); now_ns - looked_ns >= kLookMs * 1'000'000ull) {
      looked_ns = now_ns;
      LookAtMapped();
    }
  }
}

bool CudaWatcher::ScanProcess(int32_t tgid) {
  const uint64_t begun_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  const bool is_done = LookAtFilesOf(tgid);
  const uint64_t now_ns = MonotonicNs();
  budget_.Took(tgid, ClockNs(CLOCK_THREAD_CPUTIME_ID) - begun_ns, now_ns);
  if (!budget_.Allows(tgid, now_ns))
    news_.TellFirstOf("reading",
                      fmt::format("process {} ({}) maps files that take long to read: what follows of "
                                  "them is read slowly, and calls into it are seen late",
                                  tgid, ReadComm(tgid)));
  return is_done;
}

bool CudaWatcher::LookAtFilesOf(int32_t tgid) {
  std::vector<MappedFile> mapped;
  if (!ReadMaps(tgid, &mapped).ok()) return true;  // it has ended, or is a kernel thread
  // Its CUDA libraries first: until they are probed its calls are not seen.
  auto others = std::stable_partition(mapped.begin(), mapped.end(),
                                      [](const MappedFile& file) { return IsCudaName(file.path); });
  if (others == mapped.begin()) return true;
  TellView(tgid);
  if (mapped.size() > kMaxFilesOfOne) {
    mapped.resize(kMaxFilesOfOne);
    news_.TellFirstOf(
        "files", fmt::format("process {} ({}) maps too many files: its first {} are looked at", tgid,
                             ReadComm(tgid), kMaxFilesOfOne));
  }
  const uint64_t until_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID) + kSliceNs;
  bool later = false;
  std::vector<CudaFileCoverage> coverage;
  for (const MappedFile& one : mapped) {
    File* file = Look(tgid, one, until_ns, &later);
    if (!file) continue;
    file->users.insert(tgid);
    CudaFileCoverage described;
    if (DescribeFile(one.path, file->library, file->error, &described))
      coverage.push_back(std::move(described));
  }
  if (const std::string gaps = GapsOf(coverage); !gaps.empty())
    TellCoverage(tgid, gaps, CoverageText(coverage));
  nr_late_looks_.fetch_add(later, std::memory_order_relaxed);
  return !later;
}

// To the file for each process, to the screen for the first of those that are alike.
void CudaWatcher::TellCoverage(int32_t tgid, const std::string& gaps, const std::string& text) {
  std::string& told = seen_[tgid].gaps;
  if (told == gaps) return;
  told = gaps;
  const std::string sentence =
      fmt::format("process {} ({}) is only partly traced: {}", tgid, ReadComm(tgid), text);
  if (news_.TellFirstOf(gaps, sentence)) return;
  if (const uint64_t now_ns = MonotonicNs(); now_ns - notes_since_ns_ >= News::kPeriodNs) {
    notes_since_ns_ = now_ns;
    nr_coverage_notes_ = 0;
  }
  if (nr_coverage_notes_++ < kMaxCoverageNotes)
    items_->PutNote(sentence);
  else
    news_.Tell("too many processes are only partly traced to name each");
}

// Once per process and program: an exec may change the environment, and with it which GPUs it sees.
void CudaWatcher::TellView(int32_t tgid) {
  if (const Status status = probes_.FollowThreads(); !status.ok())
    news_.TellFirstOf("turns", fmt::format("{}; why a GPU has no work is not known", status.message()));
  has_seen_any_.store(true, std::memory_order_relaxed);
  const uint64_t began = ReadStartTicks(tgid), stack = ReadStackStart(tgid);
  auto [at, is_new] = seen_.try_emplace(tgid);
  if (!is_new && at->second.began == began && at->second.stack == stack) return;
  at->second = {began, stack, ""};
  const GpuView view = ReadGpuView(tgid);
  if (gpus_.empty() && !SeesOneGpu(view)) return;
  const auto visible = gpus_.empty() ? std::vector{kUnknownGpu} : VisibleGpus(gpus_, view);
  if (!visible) {
    news_.Tell(
        "cannot tell which GPU a device number is, for processes that do not name GPUs by UUID: the "
        "GPUs here differ, or are divided (MIG); set CUDA_DEVICE_ORDER=PCI_BUS_ID, or give UUIDs");
    return;
  }
  std::vector<std::byte> payload(sizeof(GpuViewItem) + visible->size() * sizeof(int32_t));
  const GpuViewItem item = {tgid, static_cast<uint32_t>(visible->size())};
  std::memcpy(payload.data(), &item, sizeof(item));
  if (!visible->empty())
    std::memcpy(payload.data() + sizeof(item), visible->data(), visible->size() * sizeof(int32_t));
  items_->Put(ItemKind::kGpuView, payload);
}

CudaWatcher::File* CudaWatcher::Look(int32_t tgid, const MappedFile& mapped, uint64_t until_ns,
                                     bool* later) {
  const std::string path = fmt::format("/proc/{}/map_files/{}", tgid, mapped.range);
  const FileKey key = {mapped.dev, mapped.inode};
  auto at = files_.find(key);
  if (at == files_.end()) {
    if (ClockNs(CLOCK_THREAD_CPUTIME_ID) >= until_ns) {
      *later = true;
      return nullptr;
    }
    if (files_.size() >= kMaxFiles) {
      news_.TellFirstOf("many files",
                        fmt::format("processes that use CUDA map more than {} files: others "
                                    "are not looked at",
                                    kMaxFiles));
      return nullptr;
    }
    if (!files_backoff_.IsDue(MonotonicNs())) {
      *later = true;
      return nullptr;
    }
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) {  // most often the process has ended, or unmapped it
      *later = errno == EMFILE || errno == ENFILE;
      if (!*later) return nullptr;
      news_.TellFirstOf("open files", fmt::format("cannot open the libraries of process {}: {}; raise "
                                                  "LimitNOFILE, or ulimit -n",
                                                  tgid, ErrnoText(errno)));
      files_backoff_.Fail(MonotonicNs());
      return nullptr;
    }
    files_backoff_.Succeed();
    at = files_.try_emplace(key).first;
    Read(fd.get(), &at->second);
  }
  File& file = at->second;
  if (!file.attached && !file.library.targets.empty() && file.backoff.IsDue(MonotonicNs()))
    AttachTo(&file, path);
  return &file;
}

void CudaWatcher::Read(int fd, File* file) {
  if (Status status = ReadCudaLibrary(fd, &file->library, &stop_requested_); !status.ok())
    file->error = status.message();
  nr_targets_ += file->library.targets.size();
  if (nr_targets_ <= kMaxTargetsOfAll) return;
  nr_targets_ -= file->library.targets.size();
  file->library.targets.clear();
  file->error = "other files have as many functions of CUDA as are probed";
}

void CudaWatcher::AttachTo(File* file, const std::string& path) {
  const size_t nr_fds = probes_.uses_multi() ? 2 : 4 * file->library.targets.size();
  if (nr_fds_ + nr_fds > most_fds_) {
    file->error = "its probes would take more open files than are left: raise LimitNOFILE, or ulimit -n";
    file->backoff.Fail(MonotonicNs());
    return;
  }
  const Status status = probes_.Attach(path, file->library, &file->attachment);
  if (!status.ok()) {
    file->attachment = {};
    // Else the process ended meanwhile; the next one tries again.
    if (access(path.c_str(), F_OK)) return;
    file->error = status.message();
    file->backoff.Fail(MonotonicNs());
    return;
  }
  file->attached = true;
  file->backoff.Succeed();
  nr_fds_ += file->attachment.nr_fds();
  file->error.clear();
  MeasureTraps(file->library);
}

void CudaWatcher::MeasureTraps(const CudaLibrary& library) {
  if (Status status = trap_costs_.Measure(&probes_, library); !status.ok())
    news_.TellFirstOf(
        "trap",
        fmt::format(
            "what a trap of a CUDA probe takes could not be measured ({}): --max-overhead counts "
            "what runs behind it alone",
            status.message()));
}

// So that the first process to use one is seen from its first call on. With those in our
// LD_LIBRARY_PATH, which a recorded command inherits.
void CudaWatcher::AttachSystemLibraries() {
  std::vector<std::string> folders(std::begin(kSystemFolders), std::end(kSystemFolders));
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::stringstream list(path ? path : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  for (const std::string& folder : folders)
    for (const char* pattern : kLibraryPatterns) {
      glob_t found = {};
      if (glob((folder + "/" + pattern).c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) AttachSystemLibrary(found.gl_pathv[i]);
      globfree(&found);
    }
}

void CudaWatcher::AttachSystemLibrary(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  // As in /proc/PID/maps.
  auto [at, is_new] =
      files_.try_emplace({uint64_t{major(info.st_dev)} << 32 | minor(info.st_dev), info.st_ino});
  if (!is_new || !ReadCudaLibrary(fd.get(), &at->second.library, &stop_requested_).ok()) return;
  at->second.standing = true;
  if (!at->second.library.targets.empty()) AttachTo(&at->second, path);
}

void CudaWatcher::ReleaseUnused() {
  const auto is_unused = [](const auto& entry) {
    return entry.second.users.empty() && !entry.second.standing;
  };
  for (auto& [key, file] : files_)
    std::erase_if(file.users, [](int32_t tgid) { return !IsAlive(tgid); });
  std::erase_if(seen_, [](const auto& entry) { return !IsAlive(entry.first); });
  budget_.Settle(MonotonicNs());
  if (seen_.empty()) probes_.LeaveThreads();  // nobody's switches need cost anything
  // A child that was forked has mapped nothing itself, and uses it.
  if (std::any_of(files_.begin(), files_.end(), is_unused)) ScanAll();
  // Forgotten altogether: its inode's number may be used for another file.
  Release([](const File& file) { return file.users.empty() && !file.standing; });
}

void CudaWatcher::Release(const std::function<bool(const File&)>& which) {
  size_t nr_waits = 0;
  for (const auto& [key, file] : files_) nr_waits += which(file) ? file.attachment.nr_waits() : 0;
  const UniqueFd background = nr_waits > kMaxWaits ? DetachInBackground() : UniqueFd();
  std::erase_if(files_, [&](const auto& entry) { return which(entry.second); });
  nr_targets_ = nr_fds_ = 0;
  for (const auto& [key, file] : files_) {
    nr_targets_ += file.library.targets.size();
    nr_fds_ += file.attachment.nr_fds();
  }
}

}  // namespace slotscope
