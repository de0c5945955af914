// SPDX-License-Identifier: MIT
#include "cuda/probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <slotscope/cost.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <fstream>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/errno_text.h"
#include "cuda.skel.h"
#include "cuda/calls.h"
#include "ring/bpf_object.h"
#include "ring/kernel_types.h"

namespace slotscope {
namespace {

// Newer than the headers that we build with.
constexpr uint32_t kTraceUprobeMulti = 48;  // BPF_TRACE_UPROBE_MULTI
constexpr uint32_t kUprobeMultiReturn = 1;  // BPF_F_UPROBE_MULTI_RETURN
struct UprobeMultiAttr {                    // of union bpf_attr, for BPF_LINK_CREATE
  uint32_t prog_fd;
  uint32_t target_fd;
  uint32_t attach_type;
  uint32_t flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_ctr_offsets;
  uint64_t cookies;
  uint32_t nr;
  uint32_t multi_flags;
  uint32_t pid;
  uint32_t zero;
};

int CreateMultiLink(const bpf_program* program, uint32_t multi_flags, const std::string& path,
                    const std::vector<uint64_t>& offsets, const std::vector<uint64_t>& cookies) {
  UprobeMultiAttr attr = {};
  attr.prog_fd = static_cast<uint32_t>(bpf_program__fd(program));
  attr.attach_type = kTraceUprobeMulti;
  attr.path = reinterpret_cast<uint64_t>(path.c_str());
  attr.offsets = reinterpret_cast<uint64_t>(offsets.data());
  attr.cookies = reinterpret_cast<uint64_t>(cookies.data());
  attr.nr = static_cast<uint32_t>(offsets.size());
  attr.multi_flags = multi_flags;
  return static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr)));
}

// Of all processes. ENODEV: this kernel has no uprobes.
UniqueFd OpenUprobe(const std::string& path, uint64_t offset, bool leave) {
  perf_event_attr attr = {};
  std::ifstream("/sys/bus/event_source/devices/uprobe/type") >> attr.type;
  if (attr.type == 0) {
    errno = ENODEV;
    return {};
  }
  attr.size = sizeof(attr);
  attr.config = leave;  // format/retprobe: config:0
  attr.uprobe_path = reinterpret_cast<uint64_t>(path.c_str());
  attr.probe_offset = offset;
  return UniqueFd(
      static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
}

uint64_t CookieOf(const CudaLibrary::Target& target) {
  const uint16_t op = CudaCalls()[target.call].probe.op;
  const bool told = op == SS_CUDA_INIT || op == SS_CUDA_DEVICE_IS || op == SS_CUDA_CTX_RETAIN;
  return target.call | (told ? SS_CUDA_COOKIE_TOLD : 0) |
         uint64_t{target.prologue} << SS_CUDA_COOKIE_PROLOGUE_SHIFT;
}

Status CannotAttach(int error) {
  return {Exit::kKernel, fmt::format("cannot attach to its functions: {}", ErrnoText(error))};
}

}  // namespace

UniqueFd DetachInBackground() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return {};
  UniqueFd wait(ends[0]), go(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    // A grandchild, for which nobody has to wait. Only system calls: other threads' locks may be held.
    if (fork() == 0) {
      setsid();
      prctl(PR_SET_NAME, kDetacherName);
      close(go.get());
      for (int fd : {0, 1, 2}) close(fd);  // whoever reads our output sees its end at once
      char none;
      while (read(wait.get(), &none, 1) < 0 && errno == EINTR) continue;
      syscall(SYS_close_range, 0u, UINT_MAX, 0u);
    }
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
  return go;
}

void CudaProbes::SkeletonDeleter::operator()(cuda* skeleton) const { cuda__destroy(skeleton); }

CudaProbes::CudaProbes() = default;
CudaProbes::~CudaProbes() {
  if (queues_) munmap(queues_, nr_cpus_ * sizeof(ss_cuda_queue));
}

int CudaProbes::watchdog_fd() const { return bpf_map__fd(skeleton_->maps.ss_cuda_watchdog); }

void CudaProbes::AskKernel() {
  const auto types = KernelTypes::Get();
  use_multi_ = types->HasUprobeMulti();
  shares_stack_ = types->HasFunction("bpf_jit_supports_private_stack");
  has_switch_state_ = types->NrTracepointArguments("sched_switch") > 3;
}

Status CudaProbes::Load(int events_fd, int errors_fd, bool is_watched) {
  skeleton_.reset(cuda__open());
  if (!skeleton_)
    return {Exit::kKernel, fmt::format("cannot open the CUDA probes: {}", ErrnoText(errno))};
  auto& progs = skeleton_->progs;
  if (use_multi_)
    for (bpf_program* program : {progs.ss_cuda_enter, progs.ss_cuda_leave, progs.ss_cuda_nothing})
      bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kTraceUprobeMulti));
  bpf_program__set_autoload(progs.ss_cuda_switched, has_switch_state_);
  bpf_program__set_autoload(progs.ss_cuda_switched_stateless, !has_switch_state_);
  skeleton_->rodata->ss_cuda_is_watched = is_watched;
  skeleton_->rodata->ss_cuda_shares_stack = shares_stack_;
  nr_cpus_ = PossibleCpus();
  bpf_map__set_max_entries(skeleton_->maps.ss_cuda_queues, static_cast<uint32_t>(nr_cpus_));
  int error = bpf_map__reuse_fd(skeleton_->maps.ss_events, events_fd);
  if (error == 0) error = bpf_map__reuse_fd(skeleton_->maps.ss_output_errors, errors_fd);
  if (error == 0) error = cuda__load(skeleton_.get());
  if (error)
    return {error == -EPERM ? Exit::kPrivilege : Exit::kKernel,
            fmt::format("cannot load the CUDA probes: {}. {}", ErrnoText(error), LastLibbpfWarning())};
  const auto& calls = CudaCalls();
  for (uint32_t i = 0; i < calls.size(); i++)
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.ss_cuda_probes), &i, &calls[i].probe, BPF_ANY))
      return {Exit::kKernel,
              fmt::format("cannot describe {} to the CUDA probes: {}", calls[i].name, ErrnoText(errno))};
  return {};
}

void CudaProbes::LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

// First those that end what is told, and that begin to tell, so that who makes a call now is told to run
// before its next turn.
Status CudaProbes::FollowThreads() {
  if (!turns_.empty()) return {};
  auto& progs = skeleton_->progs;
  for (bpf_program* program : {progs.ss_cuda_executed, progs.ss_cuda_woken, progs.ss_cuda_switched,
                               progs.ss_cuda_switched_stateless}) {
    if (!bpf_program__autoload(program)) continue;
    turns_.emplace_back(bpf_program__attach(program));
    if (turns_.back()) continue;
    const int error = errno;
    turns_.clear();
    return {Exit::kKernel, fmt::format("cannot follow threads that use CUDA: {}", ErrnoText(error))};
  }
  skeleton_->bss->ss_cuda_follows = ++follows_;
  return {};
}

void CudaProbes::LeaveThreads() {
  if (!turns_.empty()) skeleton_->bss->ss_cuda_follows = 0;
  turns_.clear();
}

void CudaProbes::UseQueues() {
  if (!FlushCpu(0)) return;
  void* const queues = mmap(nullptr, nr_cpus_ * sizeof(ss_cuda_queue), PROT_READ, MAP_SHARED,
                            bpf_map__fd(skeleton_->maps.ss_cuda_queues), 0);
  if (queues == MAP_FAILED) return;
  queues_ = static_cast<ss_cuda_queue*>(queues);
  skeleton_->bss->ss_cuda_is_flushed = true;
}

// On the CPU itself, so that nobody else is at its queue; of one that is offline nobody is.
bool CudaProbes::FlushCpu(uint32_t cpu) {
  uint64_t args[1] = {cpu};
  LIBBPF_OPTS(bpf_test_run_opts, options);
  options.ctx_in = args;
  options.ctx_size_in = sizeof(args);
  options.flags = BPF_F_TEST_RUN_ON_CPU;
  options.cpu = cpu;
  const int fd = bpf_program__fd(skeleton_->progs.ss_cuda_flush);
  int error = bpf_prog_test_run_opts(fd, &options);
  if (error == 0) return true;
  options.flags = 0;
  options.cpu = 0;
  return bpf_prog_test_run_opts(fd, &options) == 0;
}

void CudaProbes::Flush() {
  for (uint32_t cpu = 0; queues_ && cpu < nr_cpus_; cpu++)
    if (__atomic_load_n(&queues_[cpu].nr, __ATOMIC_RELAXED) > 0) FlushCpu(cpu);
}

Status CudaProbes::Attach(const std::string& path, const CudaLibrary& library,
                          CudaAttachment* attachment) {
  if (library.targets.empty()) return {};
  return use_multi_ ? AttachMulti(path, library, attachment) : AttachSingle(path, library, attachment);
}

// The return first: a call that is entered between the two is half seen, and not one that never returns.
Status CudaProbes::AttachMulti(const std::string& path, const CudaLibrary& library,
                               CudaAttachment* attachment) {
  std::vector<uint64_t> offsets, cookies;
  for (const CudaLibrary::Target& target : library.targets) {
    offsets.push_back(target.offset);
    cookies.push_back(CookieOf(target));
  }
  auto& progs = skeleton_->progs;
  attachment->leave_.Reset(
      CreateMultiLink(progs.ss_cuda_leave, kUprobeMultiReturn, path, offsets, cookies));
  if (!attachment->leave_.valid()) return CannotAttach(errno);
  attachment->enter_.Reset(CreateMultiLink(progs.ss_cuda_enter, 0, path, offsets, cookies));
  if (!attachment->enter_.valid()) return CannotAttach(errno);
  return {};
}

Status CudaProbes::AttachNothing(const std::string& path, uint64_t offset, CudaAttachment* attachment) {
  for (const bool leave : {true, false}) {
    UniqueFd link;
    if (use_multi_)
      link.Reset(CreateMultiLink(skeleton_->progs.ss_cuda_nothing, leave ? kUprobeMultiReturn : 0, path,
                                 {offset}, {0}));
    else
      link = OpenUprobe(path, offset, leave);
    if (!link.valid()) return CannotAttach(errno);
    attachment->single_.push_back(std::move(link));
  }
  return {};
}

// Not by libbpf, whose links disable an event before they close it: that is what takes long, and only to
// close can be left to another process.
Status CudaProbes::AttachSingle(const std::string& path, const CudaLibrary& library,
                                CudaAttachment* attachment) {
  for (bool leave : {true, false})
    for (const CudaLibrary::Target& target : library.targets) {
      UniqueFd event = OpenUprobe(path, target.offset, leave);
      if (!event.valid() && errno == ENODEV)
        return {Exit::kKernel, "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"};
      if (!event.valid()) return CannotAttach(errno);
      LIBBPF_OPTS(bpf_link_create_opts, options);
      options.perf_event.bpf_cookie = CookieOf(target);
      const bpf_program* program =
          leave ? skeleton_->progs.ss_cuda_leave : skeleton_->progs.ss_cuda_enter;
      UniqueFd link(bpf_link_create(bpf_program__fd(program), event.get(), BPF_PERF_EVENT, &options));
      if (!link.valid() || ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0)) return CannotAttach(errno);
      attachment->single_.push_back(std::move(event));
      attachment->single_.push_back(std::move(link));
    }
  return {};
}

void CudaProbes::TakeLosers(std::vector<LostCalls>* lost) {
  if (!skeleton_) return;
  const int fd = bpf_map__fd(skeleton_->maps.ss_cuda_losers);
  std::vector<ss_cuda_loser> keys(SS_CUDA_MAX_LOSERS), idle;
  std::vector<uint64_t> values(keys.size());
  uint32_t at = 0, nr = static_cast<uint32_t>(keys.size());
  // That there are no more is an error, too.
  if (bpf_map_lookup_batch(fd, nullptr, &at, keys.data(), values.data(), &nr, nullptr) &&
      errno != ENOENT)
    return;
  std::vector<Losers::Count> counts(nr);
  for (uint32_t i = 0; i < nr; i++) counts[i] = {keys[i], values[i]};
  losers_.Look(counts, MonotonicNs(), lost, &idle);
  for (const ss_cuda_loser& loser : idle) bpf_map_delete_elem(fd, &loser);
}

uint64_t CudaProbes::nr_skipped_runs() const {
  return skeleton_ ? SumSkippedRuns(skeleton_->obj, skeleton_->progs.ss_cuda_flush) : 0;
}

uint64_t CudaProbes::SumOfCpus(const bpf_map* map, uint32_t key) const {
  std::vector<uint64_t> per_cpu(nr_cpus_);
  if (bpf_map_lookup_elem(bpf_map__fd(map), &key, per_cpu.data())) return 0;
  return std::accumulate(per_cpu.begin(), per_cpu.end(), uint64_t{0});
}

uint64_t CudaProbes::count(ss_cuda_count which) const {
  return skeleton_ ? SumOfCpus(skeleton_->maps.ss_cuda_counts, which) : 0;
}

CudaEntries CudaProbes::entries() const {
  CudaEntries entries{};
  for (uint32_t i = 0; skeleton_ && i < entries.size(); i++)
    entries[i] = SS_TIMED_RUNS * SumOfCpus(skeleton_->maps.ss_cuda_entries, i);
  return entries;
}

CudaCounts CudaProbes::counts() const {
  CudaCounts counts;
  for (uint32_t which = 0; which < counts.size(); which++)
    counts[which] = count(static_cast<ss_cuda_count>(which));
  return counts;
}

ProgramCosts CudaProbes::costs() const {
  return skeleton_ ? ReadProgramCosts(bpf_map__fd(skeleton_->maps.ss_costs)) : ProgramCosts();
}

uint64_t CudaProbes::turns_ns() const {
  return skeleton_ ? ReadProgramCosts(bpf_map__fd(skeleton_->maps.ss_turn_costs)).ns : 0;
}

}  // namespace slotscope
