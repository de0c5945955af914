// SPDX-License-Identifier: MIT
#include "detect/live/live_detectors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/escape.h"
#include "base/event_fd.h"
#include "base/json_line.h"
#include "base/proc.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "detect/host/host_evidence.h"
#include "detect/host/rank_finder.h"
#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

// Also without a sign: file systems of the network give none.
constexpr int kPeriodMs = 1000;
// What changes all the time is looked at only so often.
constexpr int kRestMs = 100;
// All of /proc is looked at for that.
constexpr uint64_t kRankPeriodNs = 5'000'000'000;

int64_t UnixNs() { return static_cast<int64_t>(ClockNs(CLOCK_REALTIME)); }

// Of a process whose rows say start_time_ns (CLOCK_MONOTONIC). What /proc says of its start is in ticks,
// of a clock that goes on while the machine is suspended.
bool IsAlive(int32_t tgid, uint64_t start_time_ns) {
  const uint64_t ticks = ReadStartTicks(tgid);
  if (ticks == 0) return false;
  if (start_time_ns == 0) return true;  // it has not run since it was found
  const auto tick_ns = static_cast<int64_t>(1'000'000'000 / sysconf(_SC_CLK_TCK));
  const auto suspended_ns = static_cast<int64_t>(ClockNs(CLOCK_BOOTTIME) - MonotonicNs());
  const int64_t later_ns = static_cast<int64_t>(ticks) * tick_ns - static_cast<int64_t>(start_time_ns);
  return later_ns >= -tick_ns && later_ns <= suspended_ns + tick_ns;
}

}  // namespace

struct LiveDetectors::Impl {
  std::unique_ptr<LiveJudge> judge;
  HostRecorder* host = nullptr;
  News* news = nullptr;
  VerdictListener* listener = nullptr;
  RankFinder ranks;
  std::optional<uint64_t> ranks_ns;  // when they were looked for
  std::string path;                  // of the verdicts
  UniqueFd out;
  bool is_broken = false;  // the output
  UniqueFd inotify;
  UniqueFd wake;
  std::atomic<bool> stop_requested{false};
  mutable std::mutex mutex;
  LiveCounts counts;
  std::thread thread;

  void Write(const std::string& line) {
    if (!out.valid() || is_broken) return;
    // In one piece, so that who follows the file sees whole lines.
    const ssize_t nr = write(out.get(), line.data(), line.size());
    if (nr == static_cast<ssize_t>(line.size())) return;
    is_broken = true;
    news->TellEvent(fmt::format("{}: cannot write verdicts any more: {}", EscapeControls(path),
                                nr < 0 ? ErrnoText(errno) : "the disk is full"));
  }

  void Write(const FoundNow& found) {
    nlohmann::ordered_json verdict = VerdictJson(*found.finding, found.resolved);
    if (!found.host_evidence.empty()) verdict["host_evidence"] = HostEvidenceJson(found.host_evidence);
    const std::string line = JsonLine(verdict);
    Write(line);
    if (listener) listener->OnVerdict(line);
  }

  void Tell(const std::vector<FoundNow>& all) {
    for (const FoundNow& found : all)
      news->TellEvent(fmt::format("{}{}", found.is_over() ? "over: " : "", found.finding->Headline()));
  }

  void TellListener(const std::vector<FoundNow>& found) {
    for (const FoundNow& one : found)
      if (!one.is_over()) listener->OnEvent(one.finding->pattern().name, one.finding->Headline());
    const uint64_t nr_new = judge->counts().nr_xids - counts.nr_xids;
    if (nr_new) listener->OnEvent("xid", fmt::format("{} new in the kernel's log", nr_new));
  }

  void Look(bool is_last) {
    if (host && (!ranks_ns || MonotonicNs() - *ranks_ns >= kRankPeriodNs)) {
      ranks_ns = MonotonicNs();
      for (std::string& text : ranks.Scan(*ranks_ns)) news->TellEvent(std::move(text));
      for (std::string& text : ranks.TakeProblems()) news->TellEvent(std::move(text));
      host->Look([](HostHistory& history) { history.ForgetEnded(IsAlive); });
    }
    EvidenceFn evidence;
    if (host)
      evidence = [this](const NcclHang& hang) {
        return host->Look(
            [&](const HostHistory& history) { return HostEvidenceOf(history, hang, IsAlive); });
      };
    const std::vector<FoundNow> found = judge->Look(UnixNs(), evidence, is_last);
    for (const FoundNow& one : found) Write(one);
    Tell(found);
    if (listener) TellListener(found);
    for (std::string& text : judge->TakeNews()) news->TellEvent(std::move(text));
    std::lock_guard lock(mutex);
    counts = judge->counts();
  }

  void Run() {
    NameThread("ss-detect");
    while (!stop_requested) {
      Look(false);
      pollfd fds[] = {{wake.get(), POLLIN, 0}, {inotify.get(), POLLIN, 0}};
      poll(fds, 1, kRestMs);
      if (fds[0].revents) continue;
      poll(fds, inotify.valid() ? 2 : 1, kPeriodMs - kRestMs);
      char events[4096];
      while (inotify.valid() && read(inotify.get(), events, sizeof(events)) > 0) {
      }
    }
    Look(true);
  }

  // The folder itself, or that of a file: it may be replaced.
  void WatchFolder(const std::string& folder) {
    inotify_add_watch(inotify.get(), folder.empty() ? "." : folder.c_str(),
                      IN_CLOSE_WRITE | IN_MODIFY | IN_MOVED_TO | IN_DELETE);
  }
};

LiveDetectors::LiveDetectors() = default;
LiveDetectors::~LiveDetectors() { Stop(); }

Status LiveDetectors::Start(const LiveInputs& inputs, const JudgeOptions& options,
                            const std::string& verdicts, HostRecorder* host, News* news,
                            VerdictListener* listener) {
  auto impl = std::make_unique<Impl>();
  if (!verdicts.empty()) {
    impl->path = verdicts;
    impl->out.Reset(
        open(verdicts.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
    if (!impl->out.valid())
      return {Exit::kOutput, fmt::format("--verdicts {}: cannot write it: {}", EscapeControls(verdicts),
                                         ErrnoText(errno))};
  }
  if (Status status = OpenEventFd(&impl->wake); !status.ok()) return status;
  // Without inotify it looks every second.
  impl->inotify.Reset(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inputs.fr_dir.empty()) impl->WatchFolder(inputs.fr_dir);
  for (const std::string* file : {&inputs.kmsg, &inputs.k8s_events})
    if (!file->empty() && *file != "/dev/kmsg")
      impl->WatchFolder(std::filesystem::path(*file).parent_path().string());
  for (const std::string* input : {&inputs.fr_dir, &inputs.kmsg, &inputs.k8s_events}) {
    std::error_code error;
    if (!input->empty() && !std::filesystem::exists(*input, error))
      news->TellEvent(fmt::format("{} is not there yet; detectors wait for it", EscapeControls(*input)));
  }
  if (std::error_code error;
      !inputs.fr_dir.empty() && std::filesystem::is_regular_file(inputs.fr_dir, error))
    return {Exit::kUsage, fmt::format("--fr-dir {}: it is a file; give the folder of the dumps",
                                      EscapeControls(inputs.fr_dir))};
  impl->judge = std::make_unique<LiveJudge>(inputs, options, UnixNs(), ReadClocks().unix_offset_ns);
  impl->host = host;
  impl->news = news;
  impl->listener = listener;
  impl_ = std::move(impl);
  impl_->thread = std::thread([this] { impl_->Run(); });
  return {};
}

void LiveDetectors::Stop() {
  if (!impl_ || !impl_->thread.joinable()) return;
  impl_->stop_requested = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t nr = write(impl_->wake.get(), &one, sizeof(one));
  impl_->thread.join();
}

Status LiveDetectors::status() const {
  if (!impl_ || !impl_->is_broken) return {};
  return {Exit::kOutput, fmt::format("not all verdicts are in {}", EscapeControls(impl_->path))};
}

LiveCounts LiveDetectors::counts() const {
  if (!impl_) return {};
  std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

}  // namespace slotscope
