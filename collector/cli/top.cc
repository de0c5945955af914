// SPDX-License-Identifier: MIT
#include "cli/top.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/escape.h"
#include "base/say.h"
#include "cli/exit_code.h"
#include "cli/record.h"
#include "recording/reader.h"
#include "top/follower.h"
#include "top/recorder.h"
#include "top/screen.h"
#include "top/second_json.h"
#include "top/view.h"

namespace slotscope {
namespace {

constexpr int kPollMs = 250;
constexpr uint64_t kStaleNs = 5'000'000'000;

volatile sig_atomic_t g_wants_end = 0;
void OnSignal(int) { g_wants_end = 1; }

// As slotscope record with these options.
int RecordTo(const std::string& path) {
  std::vector<std::string> words = {"slotscope", "record",   "--segment", "10",
                                    "--keep",    "60s,512M", "-o",        path};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Options options;
  Status status = ParseOptions(static_cast<int>(argv.size()), argv.data(), &options);
  return status.ok() ? Record(options.record) : ExitCode(status);
}

// Where the rows come from, and what was made of them.
class TopSession {
 public:
  explicit TopSession(const TopOptions& options) : options_(options) {
    control_.by = options.by;
    control_.sort = options.sort;
  }

  // The recording that was named, one that is being written, or one that this starts.
  Status Open() {
    std::string path = options_.reader.path;
    const auto wants_end = [] { return g_wants_end != 0; };
    if (path.empty()) path = FindBeingWritten(wants_end);
    source_ = EscapeName(path);
    if (path.empty()) {
      if (Status status = recorder_.Start(RecordTo, wants_end, &path); !status.ok()) return status;
      source_ = "this machine, recorded by top";
    }
    follower_.emplace(path);
    if (Status status = FindTimeZone(); !status.ok()) return status;
    if (Status status = Refresh(); !status.ok() || IsBeingWritten(path)) return status;
    notice_ = fmt::format("{} is not being written: its last second, of {} {}", source_,
                          zone_.Text(second_.to_ns), zone_.name());
    return {};
  }

  // Reads what has come since. While it stands still nothing is read: what is shown stays.
  Status Refresh() {
    bool is_new = false;
    if (Status status = recorder_.Check(); !status.ok() || control_.is_paused) return status;
    Status status = follower_->Poll(&is_new);
    if (is_new) {
      news_ns_ = MonotonicNs();
      notice_.clear();
      // Some of it is damaged, and the rest is there.
      if (!status.ok()) notice_ = status.message();
      Update();
      return {};
    }
    if (!status.ok()) return status;
    if (MonotonicNs() - news_ns_ > kStaleNs)
      notice_ = fmt::format("nothing new for {} s: {} is not being written now",
                            (MonotonicNs() - news_ns_) / 1'000'000'000, source_);
    return {};
  }

  TopView View() const {
    return {follower_->board(), second_, follower_->facts().host, source_, zone_, notice_};
  }
  TopControl& control() { return control_; }
  // Also after a key: whose rows are one may have changed.
  void Update() {
    second_ =
        MakeSecond(follower_->board(), follower_->history(), control_.by, options_.reader.selection);
  }

 private:
  Status FindTimeZone() {
    RecordingTables tables;
    if (Status status = tables.Open(follower_->path()); !status.ok()) return status;
    const std::string name =
        options_.reader.zone.empty() ? tables.facts().time_zone : options_.reader.zone;
    if (name.empty()) return {};
    Status status = Zone::Find(name, &zone_);
    if (!status.ok() && options_.reader.zone.empty()) return {};  // times are in UTC, and say so
    return status;
  }

  const TopOptions& options_;
  TopRecorder recorder_;
  std::optional<Follower> follower_;
  std::string source_, notice_;
  Zone zone_;
  TopControl control_;
  TopSecond second_;
  uint64_t news_ns_ = MonotonicNs();
};

Status PrintOnce(TopSession* session, const TopOptions& options) {
  if (Status status = session->Open(); !status.ok()) return status;
  const std::string text =
      options.reader.json ? SecondJson(session->View(), options.nr_rows, session->control()) + "\n"
                          : PlainText(MakeTable(session->View(), options.nr_rows, session->control()));
  Say(stdout, "{}", text);
  if (options.reader.selection.any() && session->View().second.rows.empty())
    Say(stderr, "slotscope: no process that is selected did anything in that second\n");
  return {};
}

Status RunScreen(TopSession* session) {
  Screen screen;
  if (Status status = screen.Open(); !status.ok()) return status;
  screen.Show({{{"slotscope top: starts to record, or finds who does ...", Tone::kPlain}}});
  if (Status status = session->Open(); !status.ok()) return status;
  TopControl& control = session->control();
  for (uint64_t polled_ns = 0; !g_wants_end && !control.wants_end;) {
    if (MonotonicNs() - polled_ns > uint64_t{kPollMs} * 1'000'000) {
      if (Status status = session->Refresh(); !status.ok()) return status;
      polled_ns = MonotonicNs();
    }
    TopControl::Shown shown;
    screen.Show(MakeScreen(session->View(), screen.height(), screen.width(), &control, &shown));
    const KeyPress press = screen.Wait(kPollMs);
    if (press.key == Key::kNone) continue;
    control.OnKey(press, shown);
    session->Update();
  }
  return {};
}

Status RunTop(const TopOptions& options) {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(signal, &action, nullptr);
  TopSession session(options);
  return options.once ? PrintOnce(&session, options) : RunScreen(&session);
}

}  // namespace

int Top(const TopOptions& options) { return ExitCode(RunTop(options)); }

}  // namespace slotscope
