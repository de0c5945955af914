// SPDX-License-Identifier: MIT
// The kernel module, and bpf/relay.bpf.c on its tracepoints.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>

#include "base/cpu_list.h"
#include "base/errno_text.h"
#include "relay.skel.h"
#include "ring/bpf_object.h"
#include "ring/existing_texts.h"
#include "ring/module_info.h"
#include "ring/quota_hooks.h"
#include "ring/source.h"
#include "ring/steal.h"
#include "ring/texts.h"

namespace slotscope {
namespace {

constexpr std::string_view kHardware = "hardware";  // of "backend"

struct SkeletonDeleter {
  void operator()(relay* skeleton) const { relay__destroy(skeleton); }
};

uint64_t ToNumber(const ModuleInfo& info, const char* key) {
  auto found = info.find(key);
  return found == info.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

// The module's own counters; all zero if it is gone.
SourceLosses ReadModuleLosses() {
  SourceLosses losses;
  std::string text;
  if (!ReadModuleFile(kModuleInfoPath, &text).ok()) return losses;
  ModuleInfo info = ParseModuleInfo(text);
  losses.nr_untracked = ToNumber(info, "untracked");
  losses.nr_failed_allocs = ToNumber(info, "rmid_failed_none_free") +
                            ToNumber(info, "rmid_failed_in_limbo") +
                            ToNumber(info, "rmid_failed_over_share");
  losses.nr_untold_renames = ToNumber(info, "untold_renames");
  return losses;
}

Status WriteDump() {
  UniqueFd fd(open(kModuleRmidsPath, O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || write(fd.get(), "dump", 4) != 4)
    return {Exit::kModule, fmt::format("cannot ask the module for a dump ({}): {}", kModuleRmidsPath,
                                       ErrnoText(errno))};
  return {};
}

class KmodSource final : public Source {
 public:
  explicit KmodSource(const SourceOptions& options)
      : nr_cpus_(PossibleCpus()),
        counters_(options.counters, nr_cpus_),
        has_waits_(options.waits),
        has_arguments_(options.arguments),
        existing_texts_(options.arguments),
        served_first_(options.served_first) {}

  const SourceInfo& info() const override { return info_; }
  PerfRings& rings() override { return *rings_; }

  Status Start() override {
    std::string text;
    if (Status status = CheckBpfUsable(); !status.ok()) return status;
    if (Status status = ReadModuleFile(kModuleInfoPath, &text); !status.ok()) return status;
    ModuleInfo module = ParseModuleInfo(text);
    if (Status status = CheckModuleAbi(module); !status.ok()) return status;
    auto online = ReadCpuList("online");
    if (online.empty())
      return {Exit::kKernel, "cannot read the list of online CPUs in /sys/devices/system/cpu"};
    FillInfo(module, online.front());
    at_start_ = ReadModuleLosses();

    if (Status status = Load(); !status.ok()) return status;
    rings_ = std::make_unique<PerfRings>(bpf_map__fd(skeleton_->maps.ss_events), nr_cpus_);
    for (int cpu : online)
      if (Status status = IfOnline(cpu, [&] { return OnlineCpu(cpu); }); !status.ok()) return status;
    if (int err = relay__attach(skeleton_.get()))
      return {Exit::kModule,
              fmt::format("cannot attach to the module's tracepoints: {}", ErrnoText(err))};
    if (info_.has_quota)
      info_.has_quota =
          quota_.Attach(skeleton_->progs.ss_tg_throttle_down, skeleton_->progs.ss_tg_unthrottle_up);
    ServeFirst();
    return {};
  }

  // The module writes the dump into the rings, so somebody must drain them meanwhile.
  Status Dump(const MessagesFn& sink, const std::function<void()>& pump) override {
    auto writing = std::async(std::launch::async, WriteDump);
    while (writing.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) pump();
    existing_texts_.Tell(sink);
    return writing.get();
  }

  Status OnlineCpu(int cpu) override {
    if (Status status = rings_->Open(cpu); !status.ok()) return status;
    if (!std::binary_search(info_.watched_cpus.begin(), info_.watched_cpus.end(), cpu)) return {};
    return counters_.Open(cpu, bpf_map__fd(skeleton_->maps.ss_perf_counters));
  }

  void OfflineCpu(int cpu) override { counters_.Close(cpu); }

  void Heal() override {}

  void Stop() override {
    if (skeleton_) relay__detach(skeleton_.get());
    quota_.Detach();
  }

  SourceLosses losses() const override {
    SourceLosses losses;
    if (!skeleton_) return losses;
    losses = ReadModuleLosses();
    losses.nr_untracked -= std::min(losses.nr_untracked, at_start_.nr_untracked);
    losses.nr_failed_allocs -= std::min(losses.nr_failed_allocs, at_start_.nr_failed_allocs);
    losses.nr_untold_renames -= std::min(losses.nr_untold_renames, at_start_.nr_untold_renames);
    losses.nr_output_errors = SumOutputErrors(bpf_map__fd(skeleton_->maps.ss_output_errors));
    losses.nr_skipped_runs = SumSkippedRuns(skeleton_->obj, nullptr);
    return losses;
  }

  // The module gives RDT hardware up for good when somebody else uses it.
  std::string TakeNews() override {
    std::string text;
    if (!has_hardware_ || !ReadModuleFile(kModuleInfoPath, &text).ok()) return {};
    ModuleInfo module = ParseModuleInfo(text);
    has_hardware_ = module["backend"] == kHardware;
    if (has_hardware_) return {};
    return fmt::format("the module does not use RDT hardware any more: {}", module["backend_reason"]);
  }

  int output_errors_fd() const override { return bpf_map__fd(skeleton_->maps.ss_output_errors); }

  std::vector<uint64_t> output_errors() const override {
    return OutputErrorsByCpu(bpf_map__fd(skeleton_->maps.ss_output_errors));
  }

  // The module's, with the relay, which runs within, and what looks at quotas, which does not.
  uint64_t probe_ns() const override {
    std::string text;
    const uint64_t quota_ns = ReadProgramCosts(bpf_map__fd(skeleton_->maps.ss_costs)).ns;
    return quota_ns + (ReadModuleFile(kModuleInfoPath, &text).ok()
                           ? ToNumber(ParseModuleInfo(text), "probe_ns")
                           : 0);
  }

  void ReadCounters(bool read) override { skeleton_->bss->ss_counters_era = read ? ++counters_era_ : 0; }

 private:
  void FillInfo(const ModuleInfo& module, int some_online_cpu) {
    auto value = [&](const char* key) {
      auto found = module.find(key);
      return found == module.end() ? std::string() : found->second;
    };
    info_.name = "kmod";
    info_.backend = value("backend");
    info_.backend_reason = value("backend_reason");
    info_.rdt = ParseModuleRdt(module);
    has_hardware_ = info_.backend == kHardware;
    info_.tick = "hrtimer, pinned, at the slot border";
    auto present = ReadCpuList("present");
    for (int cpu : ParseCpuList(value("watched_cpus")).value_or(std::vector<int>{}))
      if (std::binary_search(present.begin(), present.end(), cpu)) info_.watched_cpus.push_back(cpu);
    if (info_.watched_cpus.size() < present.size())
      info_.notes.push_back(
          fmt::format("the module watches CPUs {} only; the time of the others is in rows of kind "
                      "offline",
                      value("watched_cpus")));
    if (!module.contains("probe_ns"))
      info_.notes.emplace_back(
          "this module does not say what its probes take: --max-overhead counts everything else");
    counters_.Probe(some_online_cpu);
    info_.counted = counters_.opened_mask();
    info_.nr_more = counters_.nr_more();
    info_.has_waits = has_waits_;
    info_.has_states = true;
    info_.notes.insert(info_.notes.end(), counters_.notes().begin(), counters_.notes().end());
  }

  // Holds as long as the file is open. A process that is not there has nothing to be served.
  void ServeFirst() {
    if (served_first_.empty()) return;
    first_file_.Reset(open(kModuleRmidsPath, O_WRONLY | O_CLOEXEC));
    for (int32_t tgid : served_first_) {
      const std::string line = fmt::format("first {}\n", tgid);
      if (!first_file_.valid() ||
          (write(first_file_.get(), line.data(), line.size()) < 0 && errno != ESRCH)) {
        info_.notes.push_back(
            fmt::format("the selected processes are not served first when RMIDs are short: {}",
                        errno == EBUSY ? "too many others have asked for that" : ErrnoText(errno)));
        return;
      }
    }
  }

  Status Load() {
    skeleton_.reset(relay__open());
    if (!skeleton_)
      return {ExitOfErrno(errno), fmt::format("cannot open the relay: {}", ErrnoText(errno))};
    bpf_map__set_max_entries(skeleton_->maps.ss_events, static_cast<uint32_t>(nr_cpus_));
    bpf_map__set_max_entries(skeleton_->maps.ss_perf_counters, counters_.nr_map_entries());
    counters_.Tell(skeleton_->rodata);
    skeleton_->rodata->ss_waits = has_waits_;
    ChooseTexts(*KernelTypes::Get(), has_arguments_, skeleton_.get());
    bpf_program__set_autoload(skeleton_->progs.ss_wait_relay, has_waits_);
    auto& progs = skeleton_->progs;
    const auto types = KernelTypes::Get();
    const QuotaWay way = has_waits_ ? QuotaHooks::Best(*types, false) : QuotaWay();
    info_.has_steal = has_waits_ && TellsSteal(*types);
    info_.has_quota = way.view == QuotaView::kHooks;
    skeleton_->rodata->ss_queues_are_per_cpu = way.has_per_cpu_queues;
    QuotaHooks::Choose(way.view, progs.ss_tg_throttle_down, progs.ss_tg_unthrottle_up);
    skeleton_->rodata->ss_has_quota = info_.has_quota;
    skeleton_->rodata->ss_has_steal = info_.has_steal;
    bpf_map__set_autocreate(skeleton_->maps.ss_quotas, info_.has_quota);
    skeleton_->bss->ss_counters_era = counters_era_;
    if (int err = relay__load(skeleton_.get()))
      return {
          ExitOfErrno(err),
          fmt::format("cannot load the relay: {}. {} Set SLOTSCOPE_BPF_LOG=1 to see its whole answer",
                      ErrnoText(err), LastLibbpfWarning())};
    return {};
  }

  size_t nr_cpus_;
  CounterGroups counters_;
  uint32_t counters_era_ = 1;
  SourceInfo info_;
  SourceLosses at_start_;
  bool has_hardware_ = false;
  const bool has_waits_, has_arguments_;
  ExistingTexts existing_texts_;
  std::vector<int32_t> served_first_;
  UniqueFd first_file_;
  // Destroyed in reverse: rings first, then the object.
  std::unique_ptr<relay, SkeletonDeleter> skeleton_;
  QuotaHooks quota_;
  std::unique_ptr<PerfRings> rings_;
};

}  // namespace

std::unique_ptr<Source> MakeKmodSource(const SourceOptions& options) {
  QuietLibbpf();
  return std::make_unique<KmodSource>(options);
}

}  // namespace slotscope
