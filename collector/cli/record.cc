// SPDX-License-Identifier: MIT
#include "cli/record.h"

#include <fmt/core.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/escape.h"
#include "base/file_limit.h"
#include "base/say.h"
#include "base/service_manager.h"
#include "cli/progress_period.h"
#include "cuda/watcher.h"
#include "nvml/nvml.h"
#include "nvml/sampler.h"
#include "ring/bpf_object.h"
#include "ring/item_queue.h"
#include "ring/kernel_types.h"
#include "ring/module_info.h"
#include "run/capabilities.h"
#include "run/command.h"
#include "run/last_wait.h"
#include "run/output.h"
#include "run/overhead.h"
#include "run/pipeline.h"
#include "run/services.h"

namespace slotscope {
namespace {

constexpr uint64_t kTtyProgressNs = 900'000'000;
constexpr uint64_t kStatusNs = 10'000'000'000;
constexpr uint64_t kLookMs = 1'000;
constexpr uint64_t kReturnPeriodNs = 10'000'000'000;
constexpr uint64_t kMaxIdleNs = 32'000'000;
// After the command's end: its last slot is complete when every CPU has ticked once more.
constexpr useconds_t kAfterCommandUs = 5'000;
constexpr uint64_t kStartGraceNs = 1'000'000'000;
// Ten probes that are detached, and what a server waits for at most, take some seconds.
constexpr std::chrono::seconds kHelperPatience{30};
constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO of include/linux/proc_ns.h

std::string ReadFirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool IsInInitialPidNamespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == kInitialPidNamespace;
}

// The kernel names processes by their ids in the initial pid namespace; ours would be others.
Status CheckPidNamespace(const RecordOptions& options) {
  if (IsInInitialPidNamespace() || (options.command.empty() && options.output.fold.tgids.empty()))
    return {};
  return {Exit::kUsage,
          "this is a pid namespace (a container): process ids here are not those of the recording, so "
          "--pid and COMMAND cannot work; run slotscope on the host, or with the host's pid namespace"};
}

bool IsModuleLoaded() { return access(kModuleInfoPath, F_OK) == 0; }

struct ChosenSource {
  std::unique_ptr<Source> source;
  std::string why;
};

// Why the module that is loaded cannot be used; empty if it can. An upgrade leaves the old one loaded.
std::string WhyNotModule() {
  std::string text;
  Status status = ReadModuleFile(kModuleInfoPath, &text);
  if (status.ok()) status = CheckModuleAbi(ParseModuleInfo(text));
  return status.code() == Exit::kModule ? status.message() : "";
}

ChosenSource ChooseSource(const RecordOptions& options, std::vector<int32_t> served_first) {
  SourceOptions source = {options.counters,        options.nr_rmids,
                          std::move(served_first), options.waits,
                          options.arguments,       std::min(kMaxIdleNs, options.output.window_ns / 2)};
  switch (options.source) {
    case SourceChoice::kKmod:
      return {MakeKmodSource(source), "asked for"};
    case SourceChoice::kBpf:
      return {MakeNativeSource(source), "asked for"};
    case SourceChoice::kAuto:
      break;
  }
  if (!IsModuleLoaded()) return {MakeNativeSource(source), "the kernel module is not loaded"};
  if (std::string why = WhyNotModule(); !why.empty()) {
    Say(stderr, "slotscope: {}; recording without it\n", why);
    return {MakeNativeSource(source), why};
  }
  return {MakeKmodSource(source), "the kernel module is loaded"};
}

// Fills in what is not known of the GPU.
void GatherFacts(const RecordOptions& options, const SourceInfo& info, const std::string& why,
                 const ClockPair& clocks, int32_t command_tgid, Facts* to) {
  utsname name = {};
  uname(&name);
  Facts& facts = *to;
  facts.host = EscapeName(name.nodename);
  facts.time_zone = EscapeName(HostZoneName());
  facts.boot_id = EscapeName(ReadFirstLine("/proc/sys/kernel/random/boot_id"));
  facts.kernel = EscapeName(name.release);
  facts.source = info.name;
  facts.source_reason = why;
  facts.backend = info.backend;
  facts.backend_reason = info.backend_reason;
  facts.rdt = info.rdt;
  facts.has_waits = info.has_waits;
  facts.has_quota = info.has_quota;
  facts.has_steal = info.has_steal;
  facts.has_states = info.has_states;
  facts.tick = info.tick;
  facts.events.resize(SS_NR_COUNTERS + info.nr_more);
  for (size_t i = 0; i < facts.events.size(); i++)
    if (info.counted >> i & 1) facts.events[i] = options.counters[i].event;
  facts.notes.insert(facts.notes.end(), info.notes.begin(), info.notes.end());
  if (!IsInInitialPidNamespace())
    facts.notes.emplace_back("recorded in a pid namespace; tgid is that of the initial one");
  facts.present_cpus = ReadCpuList("present");
  facts.nr_streams = PossibleCpus();
  facts.unix_offset_ns = clocks.unix_offset_ns;
  facts.command_tgid = command_tgid;
}

// A line that replaces itself on a terminal, plain lines elsewhere.
class ProgressLine {
 public:
  // A command on the same terminal has it for itself.
  ProgressLine(bool has_command, bool is_quiet, const ServiceManager* manager)
      : manager_(manager),
        tty_(isatty(STDERR_FILENO)),
        silent_(is_quiet || (tty_ && has_command)),
        start_ns_(MonotonicNs()) {}

  void Show(const RunCounts& now, uint64_t nr_rows) {
    const uint64_t time_ns = MonotonicNs();
    if (!silent_ && time_ns - said_.ns >= period_ns_) {
      Say(stderr, "{}{}{}", tty_ ? "\r" : "", Text(&said_, time_ns, now, nr_rows),
          tty_ ? " \x1b[K" : "\n");
      fflush(stderr);
      if (!tty_) period_ns_ = PlainProgressNs(time_ns - start_ns_);
    }
    if (time_ns - told_.ns >= kStatusNs) manager_->Status(Text(&told_, time_ns, now, nr_rows));
  }
  // Before anything else is printed.
  void End() {
    if (tty_ && !silent_) Say(stderr, "\r\x1b[K");
  }

 private:
  struct Shown {
    uint64_t ns = MonotonicNs();
    uint64_t nr_messages = 0;
  };
  std::string Text(Shown* last, uint64_t time_ns, const RunCounts& now, uint64_t nr_rows) const {
    const double rate = static_cast<double>(now.merge.nr_messages - last->nr_messages) /
                        (static_cast<double>(time_ns - last->ns) / 1e9);
    *last = {time_ns, now.merge.nr_messages};
    return fmt::format("{:6.1f} s  {:8.0f} events/s  {:10} rows  {} messages lost",
                       static_cast<double>(time_ns - start_ns_) / 1e9, rate, nr_rows, now.merge.nr_lost);
  }

  const ServiceManager* manager_;
  bool tty_;
  bool silent_;
  uint64_t start_ns_;
  uint64_t period_ns_ = tty_ ? kTtyProgressNs : PlainProgressNs(0);
  Shown said_, told_;
};

// Those that ask us to stop. Under nohup a terminal that is gone does not.
sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

// While it exists, SIGINT and SIGTERM end the process at once, which says so. Not SIGHUP: of a terminal
// that is closed the kernel and the shell send one each.
class EndsAtOnce {
 public:
  EndsAtOnce() : set_(StopSignals()) {
    sigdelset(&set_, SIGHUP);
    // A shell starts what is in the background with SIGINT ignored; the first one was obeyed all the
    // same.
    struct sigaction action = {};
    action.sa_handler = End;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int stops : {SIGINT, SIGTERM}) sigaction(stops, &action, nullptr);
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }
  ~EndsAtOnce() { pthread_sigmask(SIG_BLOCK, &set_, nullptr); }

  void FilesAreComplete() { complete_ = true; }

 private:
  static void End(int stops) {
    const std::string_view text =
        complete_ ? "\nslotscope: a second signal ended it at once; the files are complete\n"
                  : "\nslotscope: a second signal ended it at once; what is written so far can be read, "
                    "its end is missing\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    raise(stops);  // as whoever waits for us expects
  }

  static inline std::atomic<bool> complete_ = false;
  sigset_t set_;
};

// They and SIGCHLD as something to poll. Blocked in every thread started later.
UniqueFd OpenSignals() {
  sigset_t set = StopSignals();
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGUSR2);  // what is around now is to be kept
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A reader of our output that went away, or a limit on file size: the write says so.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// One recording, in the order of its life.
class Recording {
 public:
  // `report`: of one that is made to be looked at, and says nothing; may be null.
  Recording(const RecordOptions& options, RecordReport* report) : options_(options), report_(report) {}

  Status Run() {
    if (Status status = CheckBpfUsable(); !status.ok()) return status;
    types_ = KernelTypes::Get();
    if (Status status = CheckPidNamespace(options_); !status.ok()) return status;
    signals_ = OpenSignals();
    manager_.Open();
    if (Status status = output_.Open(); !status.ok()) return status;
    if (!options_.raw.empty())
      if (Status status = OpenRaw(&raw_, options_.raw); !status.ok()) return status;
    if (has_command())
      if (Status status = command_.Prepare(options_.command); !status.ok()) return status;
    for (int32_t tgid : options_.output.fold.tgids)
      if (access(fmt::format("/proc/{}", tgid).c_str(), F_OK))
        Say(stderr, "slotscope: no process {} now; it will be recorded if it starts\n", tgid);
    RaiseFileLimit();  // not the command's, which has been forked
    // Before the source: it may take seconds, in which nobody drains the rings.
    if (options_.gpu != GpuChoice::kOff) nvml_ = OpenNvml(&nvml_status_);
    // Before there are threads, and behind the command, which keeps what it has been given.
    // (How busy a GPU is the driver may show to administrators only.)
    DropCapabilities(NeedsSysAdmin() || (nvml_ && !nvml_->gpus().empty()));
    if (Status status = services_.Open(); !status.ok()) return status;
    std::vector<int32_t> selected(options_.output.fold.tgids.begin(), options_.output.fold.tgids.end());
    if (has_command()) selected.push_back(command_.pid());
    ChosenSource chosen = ChooseSource(options_, std::move(selected));
    source_ = std::move(chosen.source);
    if (Status status = source_->Start(); !status.ok()) return status;
    why_ = chosen.why;
    return RunPipeline();
  }

  // The recording may end first (--duration, --max-size); our exit code is still the command's.
  void WaitForCommand() {
    if (has_command() && command_.is_released() && !command_.HasEnded())
      Say(stderr, "slotscope: the recording has ended; waiting for the command (process {})\n",
          command_.pid());
    while (has_command() && command_.is_released() && !command_.HasEnded()) TakeSignals(100);
  }

  // With a command its status is ours, except where we failed ourselves.
  int ExitCodeOf(const Status& status) const {
    if (!has_command()) return static_cast<int>(status.code());
    switch (status.code()) {
      case Exit::kOk:
        return command_.exit_code();
      case Exit::kCommandNotFound:
      case Exit::kCommandNotExecutable:
        return static_cast<int>(status.code());
      default:
        return static_cast<int>(Exit::kCommandFailed);
    }
  }

 private:
  Status RunPipeline() {
    Facts facts;
    facts.joined = EscapeControls(options_.join_remediate);
    if (Status status = StartGpu(&facts); !status.ok()) return status;
    types_.reset();
    const ClockPair clocks = ReadClocks();
    GatherFacts(options_, source_->info(), why_, clocks, has_command() ? command_.pid() : 0, &facts);
    if (!options_.raw.empty())
      if (Status status = raw_.WriteFacts(facts); !status.ok()) {
        raw_.Discard();
        return status;
      }
    if (Status status = output_.MakeFolder(); !status.ok()) {
      raw_.Discard();
      return status;
    }
    RawSink* raw = options_.raw.empty() ? nullptr : &raw_;
    if (!raw)
      if (Status status = output_.OpenRawTable(facts, clocks.monotonic_ns, &raw); !status.ok())
        return status;
    Writer* writer = output_.MakeWriter(facts, Writer::Queue::kLive);
    SlotSink* first = services_.Chain(facts, writer);
    Pipeline pipeline(facts, clocks, options_.output, source_.get(), &others_, first, services_.keeps(),
                      writer, raw);
    if (!HasConsumer()) pipeline.AllowQuiet();
    if (Status status = pipeline.Start(); !status.ok()) {
      pipeline.Stop();
      output_.Discard();
      raw_.Discard();  // it has facts, and nothing that they are about
      return status;
    }
    const auto abandon = [&] {
      pipeline.Stop();
      services_.StopServing();
      output_.Discard();
      raw_.Discard();
    };
    const auto counts = [this, &pipeline] {
      RunCounts now = pipeline.counts();
      output_.AddTo(&now);
      return now;
    };
    output_.Begin(facts, counts);
    Announce();
    if (Status status = services_.Start(counts, *writer, source_->info().name, &output_); !status.ok()) {
      abandon();
      return status;
    }
    int nr_stops = WaitForFirstSlot(pipeline);
    manager_.Ready();
    uint64_t start_ns = MonotonicNs();
    if (has_command()) {
      if (Status status = command_.Release(); !status.ok()) {
        abandon();
        return status;
      }
    }
    output_.Stay();
    WaitForEnd(&pipeline, writer, start_ns, nr_stops);
    EndsAtOnce from_here_on;
    manager_.Stopping();
    SayAll(TakeNews());
    pipeline.Stop();
    const uint64_t end_ns = MonotonicNs();
    SayAll(pipeline.TakeWarnings());
    RunSummary run = Summarize(pipeline.engine());
    run.elapsed_s = static_cast<double>(end_ns - start_ns) / 1e9;
    const Status status = Finish(pipeline, &run);
    if (status.ok()) from_here_on.FilesAreComplete();
    if (report_) {
      report_->facts = facts;
      report_->counts = run.counts;
      report_->ring_bytes = source_->rings().ring_bytes();
      report_->seconds = run.elapsed_s;
    }
    StopHelpers(status);
    services_.SaySent(run);
    return status.ok() ? services_.status() : status;
  }

  // All files are complete: none of these is waited for without an end.
  void StopHelpers(const Status& status) {
    LastWait wait(kHelperPatience, [&](const char* name) {
      Say(stderr, "slotscope: {} did not end within {} s and was left behind; the files are complete\n",
          name, kHelperPatience.count());
      WaitForCommand();
      _exit(ExitCodeOf(status));
    });
    wait.For("the reader of --join-remediate or a detector");
    services_.StopJoining();
    wait.For("the GPU sampler");
    sampler_.Stop();
    wait.For("the CUDA watcher");
    cuda_.Stop();  // takes a while: probes are detached one by one
    wait.For("the server of --metrics or --remediate");
    services_.StopServing();
    SayAll(GatherNews());
  }

  // Somebody waits for slots, to act on them.
  bool HasConsumer() const {
    return !options_.remediate.empty() || KindOf(options_.output.path) == OutputKind::kStream ||
           options_.output.window_ns < OutputOptions().window_ns;
  }

  // Before a command begins, so that its first call is seen.
  Status StartGpu(Facts* facts) {
    if (options_.gpu == GpuChoice::kOff) return {};
    facts->gpus = nvml_status_.ok() ? nvml_->gpus() : nvml_->driver_gpus();
    const bool is_asked_for =
        options_.gpu == GpuChoice::kOn || !options_.remediate.empty() || !options_.fleet.empty();
    Status status = cuda_.Start(source_->rings().map_fd(), source_->output_errors_fd(), facts->gpus,
                                !options_.remediate.empty(), !is_asked_for, &others_);
    if (status.ok()) {
      facts->gpu = fmt::format("uprobes in CUDA's libraries ({})",
                               cuda_.uses_multi() ? "many at once" : "one by one");
      facts->has_turns = true;
      return {};
    }
    if (is_asked_for) return status;
    facts->notes.push_back(fmt::format("GPUs are not observed: {}", status.message()));
    SayAll({facts->notes.back()});
    return {};
  }

  // What other threads have to say.
  std::vector<std::string> GatherNews() {
    std::vector<std::string> news = cuda_.TakeNews();
    for (std::string& text : services_.TakeNews()) news.push_back(std::move(text));
    for (std::string& text : output_.TakeNews()) news.push_back(std::move(text));
    return news;
  }

  // The same while slots are made: to the screen, and into the file where it happened.
  std::vector<std::string> TakeNews() {
    std::vector<std::string> news = GatherNews();
    if (cuda_.has_seen_any() && !std::exchange(asks_nvml_, true)) {
      if (nvml_status_.ok())
        sampler_.Start(nvml_, &others_);
      else
        news.push_back(fmt::format("GPUs have no {}totals here: {}",
                                   nvml_->driver_gpus().empty() ? "names and no " : "",
                                   nvml_status_.message()));
    }
    for (const std::string& text : news) others_.PutNote(text);
    return news;
  }

  // Duration and command begin with the first slot. A CPU that never speaks delays that by a window.
  // Returns the number of signals that asked us to stop meanwhile.
  int WaitForFirstSlot(const Pipeline& pipeline) {
    uint64_t deadline_ns =
        MonotonicNs() + options_.output.slot_ns + options_.output.window_ns + kStartGraceNs;
    int nr_stops = 0;
    while (nr_stops == 0 && MonotonicNs() < deadline_ns) {
      uint64_t first_ns = pipeline.first_slot_ns();
      if (first_ns && MonotonicNs() >= first_ns) break;
      nr_stops += TakeSignals(1);
    }
    return nr_stops;
  }

  void Announce() {
    if (report_) return;
    const std::string to = KindOf(options_.output.path) == OutputKind::kStream
                               ? "standard output"
                               : EscapeName(options_.output.path);
    Say(stderr, "slotscope: recording to {}, source {}{}\n", to, source_->info().name,
        options_.duration_ns || !options_.command.empty() ? "" : ", Ctrl-C ends it");
  }

  bool has_command() const { return !options_.command.empty(); }

  // Waits up to timeout_ms for signals and returns how many asked us to stop. The command has got a
  // terminal's Ctrl-C of its own; what was sent to us alone is passed on to it.
  int TakeSignals(int timeout_ms) {
    pollfd poll_fd = {signals_.get(), POLLIN, 0};
    poll(&poll_fd, 1, timeout_ms);
    signalfd_siginfo info;
    int nr_stops = 0;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      if (info.ssi_signo == SIGUSR2) {
        output_.Report("signal", fmt::format("SIGUSR2 from process {}", info.ssi_pid));
        continue;
      }
      nr_stops++;
      if (has_command() && info.ssi_code != SI_KERNEL) command_.Signal(static_cast<int>(info.ssi_signo));
    }
    return nr_stops;
  }

  void WaitForEnd(Pipeline* pipeline, Writer* writer, uint64_t start_ns, int nr_stops) {
    ProgressLine progress(has_command(), report_ != nullptr, &manager_);
    const size_t nr_cpus = ReadCpuList("online").size();
    OverheadGuard guard(options_.max_overhead, nr_cpus);
    OverheadMeter meter([this] { return source_->probe_ns() + cuda_.probe_ns(); }, nr_cpus);
    for (;;) {
      uint64_t elapsed_ns = MonotonicNs() - start_ns;
      uint64_t timeout_ms = kLookMs;
      if (options_.duration_ns) {
        if (elapsed_ns >= options_.duration_ns) break;
        timeout_ms = std::min(timeout_ms, (options_.duration_ns - elapsed_ns) / 1'000'000 + 1);
      }
      nr_stops += TakeSignals(static_cast<int>(timeout_ms));
      if (has_command() && command_.HasEnded()) {
        usleep(kAfterCommandUs);
        break;
      }
      // With a command the first signal is the command's to obey, and its end is ours.
      if (nr_stops > (has_command() ? 1 : 0) || writer->failed() || writer->full() || pipeline->failed())
        break;
      auto warnings = pipeline->TakeWarnings();
      for (std::string& news : TakeNews()) warnings.push_back(std::move(news));
      if (!warnings.empty()) {
        progress.End();
        SayAll(warnings);
      }
      const RunCounts now = pipeline->counts();
      progress.Show(now, writer->nr_rows());
      manager_.Poll(MonotonicNs(), now.merge.nr_rounds);  // reader and merge go on
      ReturnMemory(MonotonicNs());
      if (!meter.Poll(MonotonicNs())) continue;
      if (report_)
        report_->TakeCost(meter.percent());
      else if (!Guard(pipeline, &guard, &progress, meter.percent()))
        break;
    }
    progress.End();
  }

  // What a burst took lies in the allocator's lists, between what is in use, and would stay there: with
  // each burst some more of it.
  void ReturnMemory(uint64_t now_ns) {
    if (now_ns - returned_ns_ < kReturnPeriodNs) return;
    returned_ns_ = now_ns;
    malloc_trim(0);
  }

  void SayAll(const std::vector<std::string>& warnings) const {
    if (report_) return;
    for (const std::string& warning : warnings) Say(stderr, "slotscope: {}\n", warning);
  }

  // False: the recording is to stop.
  bool Guard(Pipeline* pipeline, OverheadGuard* guard, ProgressLine* progress, double percent) {
    using Step = OverheadGuard::Step;
    const auto change = guard->OnSecond(percent, [this](Step step) {
      return step == Step::kFastRounds || (step == Step::kCounters && source_->info().counted != 0) ||
             (step == Step::kCuda && cuda_.has_seen_any()) ||
             (step == Step::kWaitCauses && source_->info().has_waits) ||
             (step == Step::kShortSlots && long_slot_ns() > options_.output.slot_ns);
    });
    if (!change) return true;
    progress->End();
    Say(stderr, "slotscope: {}\n", change->text);
    others_.PutNote(change->text);
    stopped_by_guard_ = change->stop;
    if (change->stop || change->stay) return !change->stop;
    switch (change->step) {
      case Step::kFastRounds:
        pipeline->SlowDown(change->without);
        break;
      case Step::kCounters:
        source_->ReadCounters(!change->without);
        break;
      case Step::kCuda:
        cuda_.SetProbing(!change->without);
        break;
      case Step::kWaitCauses:
        others_.PutWaitCauses(!change->without);
        break;
      case Step::kShortSlots:
        others_.PutSlotLength(change->without ? long_slot_ns() : options_.output.slot_ns);
    }
    return true;
  }
  uint64_t long_slot_ns() const { return SlotLengths::LongerOf(options_.output.slot_ns); }

  Status Finish(const Pipeline& pipeline, RunSummary* run) {
    Status status = output_.Finish(run);
    if (status.ok()) status = pipeline.status();
    if (status.ok() && stopped_by_guard_)
      status = {Exit::kTooCostly,
                "the recording was stopped by --max-overhead; what was recorded is kept"};
    if (options_.raw.empty()) return status;
    // Both files are tried; the first error counts.
    Status raw_status = pipeline.raw_status();
    if (raw_status.ok()) raw_status = raw_.Finish();
    if (raw_status.ok())
      Say(stdout, "wrote {} ({:.1f} MB)\n", EscapeName(options_.raw),
          static_cast<double>(raw_.size()) / 1e6);
    return status.ok() ? raw_status : status;
  }

  const RecordOptions& options_;
  RecordReport* const report_;
  UniqueFd signals_;
  ServiceManager manager_;
  Output output_{options_.output};
  RawFileWriter raw_;
  Command command_;
  std::shared_ptr<const KernelTypes> types_;  // all that begins shares them
  std::unique_ptr<Source> source_;
  ItemQueue others_;
  std::shared_ptr<Nvml> nvml_;
  Status nvml_status_;
  CudaWatcher cuda_;
  GpuSampler sampler_;
  bool asks_nvml_ = false;
  uint64_t returned_ns_ = 0;  // see ReturnMemory()
  Services services_{options_, &others_};
  std::string why_;
  bool stopped_by_guard_ = false;
};

}  // namespace

int Record(const RecordOptions& options) {
  Recording recording(options, nullptr);
  Status status = recording.Run();
  if (!status.ok()) Say(stderr, "slotscope: {}\n", status.message());
  recording.WaitForCommand();
  return recording.ExitCodeOf(status);
}

Status RecordQuietly(const RecordOptions& options, RecordReport* report) {
  return Recording(options, report).Run();
}

}  // namespace slotscope
