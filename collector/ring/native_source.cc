// SPDX-License-Identifier: MIT
// The module-less source: bpf/native.bpf.c, in the order of life that its head describes.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <slotscope/rmid_fifo.h>

#include "base/cpu_list.h"
#include "base/errno_text.h"
#include "native.skel.h"
#include "ring/bpf_object.h"
#include "ring/existing_texts.h"
#include "ring/quota_hooks.h"
#include "ring/source.h"
#include "ring/steal.h"
#include "ring/texts.h"

namespace slotscope {
namespace {

constexpr size_t kMaxCpus = sizeof(native::native__bss::ss_watch) / sizeof(uint32_t);
constexpr uint32_t kMaxThreads = 262144;       // some 20 MB of preallocated elements
constexpr uint32_t kTimerFlags[] = {3, 1, 0};  // best first, see native.bpf.c
// The kernel allocates a timer without waiting for anybody (6.18: not even for the allocator's own
// locks), so with another CPU busy allocating it may say ENOMEM where there is memory.
constexpr int kMaxTimerRetries = 500;
constexpr useconds_t kTimerRetryUs = 1'000;

// It takes from what the CPU has at hand, and an idle one (seen with 16) may have nothing for as long as
// nobody fetches something there: this does.
void FetchPages() {
  constexpr size_t kBytes = 256u << 10;
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages != MAP_FAILED) munmap(pages, kBytes);
}

struct SkeletonDeleter {
  void operator()(native* skeleton) const { native__destroy(skeleton); }
};
struct LinkDeleter {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;

// The head of struct ss_allocator in process.bpf.h: the lock is the kernel's business.
struct AllocatorValue {
  uint32_t lock;
  uint32_t zero;
  ss_rmid_fifo fifo;
};

uint32_t ReadPidMax() {
  std::ifstream file("/proc/sys/kernel/pid_max");
  uint32_t pid_max = 0;
  if (!(file >> pid_max) || pid_max == 0) pid_max = 32768;
  return std::min(pid_max, kMaxThreads);
}

// Runs `call` on `cpu`. Returns false if this thread could not get there.
template <typename Call>
bool OnCpu(int cpu, Call call) {
  cpu_set_t before, only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (sched_getaffinity(0, sizeof(before), &before) || sched_setaffinity(0, sizeof(only), &only))
    return false;
  call();
  sched_setaffinity(0, sizeof(before), &before);
  return true;
}

class NativeSource final : public Source {
 public:
  explicit NativeSource(const SourceOptions& options)
      : options_(options), nr_cpus_(PossibleCpus()), counters_(options.counters, nr_cpus_) {}

  ~NativeSource() override { Stop(); }

  const SourceInfo& info() const override { return info_; }
  PerfRings& rings() override { return *rings_; }

  Status Start() override {
    if (Status status = CheckBpfUsable(); !status.ok()) return status;
    if (nr_cpus_ > kMaxCpus)
      return {Exit::kKernel,
              fmt::format("this machine may have {} CPUs, the eBPF source is built for {}", nr_cpus_,
                          kMaxCpus)};
    FillInfo();
    auto online = ReadCpuList("online");
    if (online.empty())
      return {Exit::kKernel, "cannot read the list of online CPUs in /sys/devices/system/cpu"};
    counters_.Probe(online.front());
    info_.counted = counters_.opened_mask();
    info_.nr_more = counters_.nr_more();
    info_.has_waits = options_.waits;
    info_.has_states = true;
    info_.notes.insert(info_.notes.end(), counters_.notes().begin(), counters_.notes().end());

    if (Status status = Load(); !status.ok()) return status;
    if (Status status = FillAllocator(); !status.ok()) return status;
    rings_ = std::make_unique<PerfRings>(bpf_map__fd(skeleton_->maps.ss_events), nr_cpus_);
    for (int cpu : online)
      if (Status status = IfOnline(cpu, [&] { return OpenCpu(cpu); }); !status.ok()) return status;
    if (Status status = Attach(); !status.ok()) return status;
    // A tick that nobody listens to yet: which kind this kernel has belongs into info().
    for (int cpu : info_.watched_cpus)
      if (rings_->is_open(cpu)) return IfOnline(cpu, [&] { return StartTick(cpu); });
    return {};
  }

  Status Dump(const MessagesFn& sink, const std::function<void()>& pump) override {
    Link link(bpf_program__attach_iter(skeleton_->progs.ss_walk, nullptr));
    if (!link)
      return {ExitOfErrno(errno),
              fmt::format("cannot walk the processes (iter/task): {}", ErrnoText(errno))};
    UniqueFd iter(bpf_iter_create(bpf_link__fd(link.get())));
    if (!iter.valid())
      return {ExitOfErrno(errno),
              fmt::format("cannot walk the processes (bpf_iter_create): {}", ErrnoText(errno))};
    if (Status status = ReadMessages(iter.get(), sink, pump); !status.ok()) return status;
    existing_texts_.Tell(sink);
    if (!skeleton_->bss->ss_recording) {
      skeleton_->bss->ss_recording = 1;
      for (int cpu : info_.watched_cpus)
        if (rings_->is_open(cpu))
          if (Status status = IfOnline(cpu, [&] { return StartTick(cpu); }); !status.ok()) return status;
    }
    return {};
  }

  Status OnlineCpu(int cpu) override {
    if (Status status = OpenCpu(cpu); !status.ok()) return status;
    return IsWatched(cpu) ? StartTick(cpu) : Status();
  }

  void OfflineCpu(int cpu) override {
    skeleton_->bss->ss_watch[cpu] = 0;
    tick_links_[static_cast<size_t>(cpu)].reset();
    counters_.Close(cpu);
  }

  void Heal() override {
    if (!use_timer_ || !skeleton_->bss->ss_recording) return;
    for (int cpu : info_.watched_cpus) {
      if (!rings_->is_open(cpu)) continue;
      // An offline CPU is not an error here: OnlineCpu() will start its timer.
      if (!skeleton_->bss->ss_timer_armed[cpu]) (void)StartTimer(cpu);
    }
  }

  void Stop() override {
    // Ends what idle CPUs are in the midst of: to be switched to is a measure.
    if (skeleton_ && skeleton_->bss && skeleton_->bss->ss_recording && options_.max_idle_ns)
      for (int cpu : info_.watched_cpus)
        if (rings_->is_open(cpu)) (void)OnCpu(cpu, [] {});
    // To detach takes a while: from tens of milliseconds to seconds (PREEMPT_RT), in which some CPUs
    // would have ticks and others none.
    if (skeleton_ && skeleton_->bss) skeleton_->bss->ss_recording = 0;
    for (Link& link : tick_links_) link.reset();  // a CPU may still go offline
    links_.clear();
    quota_.Detach();
  }

  SourceLosses losses() const override {
    SourceLosses losses;
    if (!skeleton_ || !skeleton_->bss) return losses;
    losses.nr_output_errors = SumOutputErrors(bpf_map__fd(skeleton_->maps.ss_output_errors));
    // Another timer that interrupts our tick skips the program that would only have ignored it.
    losses.nr_skipped_runs = SumSkippedRuns(skeleton_->obj, skeleton_->progs.ss_hrtimer_expire_exit);
    losses.nr_untracked = skeleton_->bss->ss_nr_untracked;
    losses.nr_untold_renames = skeleton_->bss->ss_nr_untold_renames;
    losses.nr_failed_allocs = skeleton_->bss->ss_nr_failed_none + skeleton_->bss->ss_nr_failed_limbo;
    return losses;
  }

  int output_errors_fd() const override { return bpf_map__fd(skeleton_->maps.ss_output_errors); }

  std::vector<uint64_t> output_errors() const override {
    return OutputErrorsByCpu(bpf_map__fd(skeleton_->maps.ss_output_errors));
  }

  uint64_t probe_ns() const override {
    return ReadProgramCosts(bpf_map__fd(skeleton_->maps.ss_costs)).ns;
  }

  void ReadCounters(bool read) override { skeleton_->bss->ss_counters_era = read ? ++counters_era_ : 0; }

 private:
  // The tracepoint of a program that is to be attached to one; empty: it is another kind of program.
  static std::string_view HookOf(const bpf_program* program) {
    constexpr std::string_view kHook = "tp_btf/";
    const std::string_view section = bpf_program__section_name(program);
    return bpf_program__autoload(program) && section.starts_with(kHook) ? section.substr(kHook.size())
                                                                        : std::string_view();
  }

  // A hook that the kernel's BTF does not know; empty: it knows all.
  std::string_view MissingHook() const {
    bpf_program* program;
    bpf_object__for_each_program(program, skeleton_->obj) {
      const std::string_view hook = HookOf(program);
      if (!hook.empty() && !KernelTypes::Get()->HasTracepoint(hook)) return hook;
    }
    return {};
  }

  void FillInfo() {
    info_.name = "bpf";
    info_.backend = "emulated";
    info_.backend_reason =
        "the eBPF source does not program RDT: memory bandwidth and cache occupancy are not measured";
    auto present = ReadCpuList("present");
    auto isolated = ReadCpuList("isolated");
    auto nohz_full = ReadCpuList("nohz_full");
    for (int cpu : present)
      if (!std::binary_search(isolated.begin(), isolated.end(), cpu) &&
          !std::binary_search(nohz_full.begin(), nohz_full.end(), cpu))
        info_.watched_cpus.push_back(cpu);
    if (info_.watched_cpus.size() < present.size())
      info_.notes.emplace_back(
          "isolated and nohz_full CPUs are not watched; their time is in rows of kind offline");
  }

  // With the timer if the kernel allows bpf_timer, else with the perf event tick.
  Status Load() {
    const auto types = KernelTypes::Get();
    use_timer_ = types->HasTracepoint("hrtimer_expire_exit");
    has_switch_state_ = types->NrTracepointArguments("sched_switch") > 3;
    if (!has_switch_state_)
      info_.notes.emplace_back(
          "this kernel does not pass the state of the thread that is switched out: some that were woken "
          "meanwhile count as preempted");
    if (options_.waits) quota_way_ = QuotaHooks::Best(*types, true);
    info_.has_quota = quota_way_.view != QuotaView::kNone;
    info_.has_steal = options_.waits && TellsSteal(*types);
    int err = TryLoad();
    if (err && use_timer_ && err != -EPERM) {
      use_timer_ = false;
      err = TryLoad();
    }
    if (err && skeleton_ && !MissingHook().empty())
      return {
          Exit::kKernel,
          fmt::format("this kernel has no tracepoint {}, which the eBPF source needs; use the kernel "
                      "module (--source kmod)",
                      MissingHook())};
    if (err)
      return {
          ExitOfErrno(err),
          fmt::format("cannot load the eBPF programs: {}. {} Set SLOTSCOPE_BPF_LOG=1 to see its whole "
                      "answer",
                      ErrnoText(err), LastLibbpfWarning())};
    return {};
  }

  int TryLoad() {
    skeleton_.reset(native__open());
    if (!skeleton_) return -errno;
    auto cpus = static_cast<uint32_t>(nr_cpus_);
    auto& maps = skeleton_->maps;
    for (bpf_map* map : {maps.ss_events, maps.ss_cpus, maps.ss_timers})
      bpf_map__set_max_entries(map, cpus);
    bpf_map__set_max_entries(maps.ss_perf_counters, counters_.nr_map_entries());
    counters_.Tell(skeleton_->rodata);
    skeleton_->rodata->ss_waits = options_.waits;
    ChooseTexts(*KernelTypes::Get(), options_.arguments, skeleton_.get());
    for (bpf_map* map : {maps.ss_processes, maps.ss_threads})
      bpf_map__set_max_entries(map, ReadPidMax());
    skeleton_->bss->ss_max_idle_ns = options_.max_idle_ns;
    skeleton_->bss->ss_counters_era = counters_era_;
    auto& progs = skeleton_->progs;
    bpf_program__set_autoload(progs.ss_sched_switch, has_switch_state_);
    bpf_program__set_autoload(progs.ss_sched_switch_stateless, !has_switch_state_);
    bpf_program__set_autoload(progs.ss_sched_migrate_task, options_.waits);
    bpf_map__set_autocreate(maps.ss_last_runs, options_.waits);
    QuotaHooks::Choose(quota_way_.view, progs.ss_tg_throttle_down, progs.ss_tg_unthrottle_up);
    skeleton_->rodata->ss_has_quota = info_.has_quota;
    skeleton_->rodata->ss_has_steal = info_.has_steal;
    skeleton_->rodata->ss_quota_by_fields = quota_way_.view == QuotaView::kFields;
    skeleton_->rodata->ss_queues_are_per_cpu = quota_way_.has_per_cpu_queues;
    bpf_map__set_autocreate(maps.ss_quotas, info_.has_quota);
    bpf_program__set_autoload(progs.ss_start_timer, use_timer_);
    bpf_program__set_autoload(progs.ss_hrtimer_expire_exit, use_timer_);
    bpf_map__set_autocreate(maps.ss_timers, use_timer_);
    bpf_program__set_autoload(progs.ss_tick_perf_event, !use_timer_);
    return native__load(skeleton_.get());
  }

  Status FillAllocator() {
    AllocatorValue value = {};
    ss_rmid_fifo_init(&value.fifo, options_.nr_rmids, SS_RMID_LIMBO_NS);
    uint32_t key = 0;
    if (bpf_map__value_size(skeleton_->maps.ss_allocator) != sizeof(value) ||
        bpf_map_update_elem(bpf_map__fd(skeleton_->maps.ss_allocator), &key, &value, BPF_ANY))
      return {ExitOfErrno(errno), fmt::format("cannot fill the RMID allocator: {}", ErrnoText(errno))};
    return {};
  }

  Status OpenCpu(int cpu) {
    if (Status status = rings_->Open(cpu); !status.ok()) return status;
    if (!IsWatched(cpu)) return {};
    if (Status status = counters_.Open(cpu, bpf_map__fd(skeleton_->maps.ss_perf_counters)); !status.ok())
      return status;
    skeleton_->bss->ss_watch[cpu] = ++epoch_;
    return {};
  }

  bool IsWatched(int cpu) const {
    return std::binary_search(info_.watched_cpus.begin(), info_.watched_cpus.end(), cpu);
  }

  // Every hook, in the order of bpf/native.bpf.c: sched_switch first, as a death that is missed is an
  // RMID that never comes back.
  Status Attach() {
    tick_links_.resize(nr_cpus_);
    bpf_program* program;
    bpf_object__for_each_program(program, skeleton_->obj) {
      if (HookOf(program).empty()) continue;
      Link link(bpf_program__attach(program));
      if (!link)
        return {ExitOfErrno(errno),
                fmt::format("cannot attach {}: {}", bpf_program__name(program), ErrnoText(errno))};
      links_.push_back(std::move(link));
    }
    if (quota_way_.view == QuotaView::kHooks)
      info_.has_quota =
          quota_.Attach(skeleton_->progs.ss_tg_throttle_down, skeleton_->progs.ss_tg_unthrottle_up);
    return {};
  }

  static Status ReadMessages(int fd, const MessagesFn& sink, const std::function<void()>& pump) {
    std::vector<std::byte> pending;
    std::byte chunk[4096];
    for (;;) {
      ssize_t got = read(fd, chunk, sizeof(chunk));
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0)
        return {ExitOfErrno(errno), fmt::format("cannot read the processes: {}", ErrnoText(errno))};
      if (got == 0) return {};
      pending.insert(pending.end(), chunk, chunk + got);
      size_t at = 0;
      while (pending.size() - at >= sizeof(ss_hdr)) {
        ss_hdr header;
        std::memcpy(&header, pending.data() + at, sizeof(header));
        if (header.size < sizeof(header) || header.size % kItemAlign)
          return {Exit::kKernel, "the list of processes is malformed"};
        if (pending.size() - at < header.size) break;
        at += header.size;
      }
      if (at > 0) sink({pending.data(), at});
      pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(at));
      pump();
    }
  }

  Status StartTick(int cpu) {
    if (use_timer_) return StartTimer(cpu);
    perf_event_attr attr = {};
    attr.size = sizeof(attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_CPU_CLOCK;
    attr.sample_period = SS_TICK_PERIOD_NS;
    int fd = static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd < 0)
      return {ExitOfErrno(errno),
              fmt::format("cannot open the tick of CPU {}: {}", cpu, ErrnoText(errno))};
    Link link(bpf_program__attach_perf_event(skeleton_->progs.ss_tick_perf_event, fd));
    if (!link) {
      int err = errno;
      close(fd);
      return {ExitOfErrno(err),
              fmt::format("cannot attach the tick of CPU {}: {}", cpu, ErrnoText(err))};
    }
    tick_links_[static_cast<size_t>(cpu)] = std::move(link);  // owns fd from here
    if (info_.tick.empty())
      info_.tick = "cpu-clock perf event, not aligned to the slot (this kernel has no bpf_timer)";
    return {};
  }

  Status StartTimer(int cpu) {
    uint32_t result = EINVAL;
    int err = 0, nr_retries = 0;
    while (timer_flags_ < std::size(kTimerFlags)) {
      skeleton_->bss->ss_timer_flags = kTimerFlags[timer_flags_];
      LIBBPF_OPTS(bpf_test_run_opts, run);
      if (!OnCpu(cpu, [&] {
            err = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.ss_start_timer), &run);
          }))
        return {ExitOfErrno(errno),
                fmt::format("cannot run on CPU {} to start its tick: {}", cpu, ErrnoText(errno))};
      result = run.retval;
      if (!err && result == ENOMEM && nr_retries++ < kMaxTimerRetries) {
        OnCpu(cpu, FetchPages);
        usleep(kTimerRetryUs);
        continue;
      }
      if (err || result != EINVAL) break;
      timer_flags_++;  // this kernel does not know these flags
    }
    if (err || result)
      return {ExitOfErrno(err ? err : static_cast<int>(result)),
              fmt::format("cannot start the tick of CPU {}: {}", cpu,
                          ErrnoText(err ? err : static_cast<int>(result)))};
    static constexpr const char* kNames[] = {"bpf_timer, pinned, at the slot border",
                                             "bpf_timer, at the slot border",
                                             "bpf_timer, relative, near the slot border"};
    if (info_.tick.empty())
      info_.tick = kNames[timer_flags_];  // once: later calls are the reader thread's
    return {};
  }

  SourceOptions options_;
  ExistingTexts existing_texts_{options_.arguments};
  uint32_t counters_era_ = 1;
  size_t nr_cpus_;
  CounterGroups counters_;
  SourceInfo info_;
  // Destroyed in reverse: links first, then rings, then the object.
  std::unique_ptr<native, SkeletonDeleter> skeleton_;
  QuotaWay quota_way_;
  QuotaHooks quota_;
  std::unique_ptr<PerfRings> rings_;
  std::vector<Link> links_;
  std::vector<Link> tick_links_;  // by CPU, perf event tick only
  bool use_timer_ = false;
  bool has_switch_state_ = true;  // sched_switch has a fourth argument
  uint32_t epoch_ = 0;            // of ss_watch, never 0 once used
  size_t timer_flags_ = 0;        // index into kTimerFlags
};

}  // namespace

std::unique_ptr<Source> MakeNativeSource(const SourceOptions& options) {
  QuietLibbpf();
  return std::make_unique<NativeSource>(options);
}

}  // namespace slotscope
