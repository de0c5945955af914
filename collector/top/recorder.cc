// SPDX-License-Identifier: MIT
#include "top/recorder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/escape.h"
#include "base/text_input.h"
#include "base/unique_fd.h"
#include "recording/segment_name.h"
#include "top/follower.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kStartNs = 20'000'000'000;  // until its first rows are there
constexpr uint64_t kStopNs = 20'000'000'000;   // a recorder that is asked to end does so in a moment

// A whole one, and something in front of it: who was there before.
bool HasASecond(const std::string& recording) {
  RecordingTables tables;
  return tables.Open(recording).ok() &&
         tables.facts().last_ns - tables.facts().first_ns > kSecondNs + kSecondNs / 4;
}

constexpr const char* kPrefix = "slotscope-top.";
constexpr auto kInterrupted = static_cast<Exit>(130);

// What those left that were killed: nobody holds their folders.
void RemoveLeftovers(const std::string& folders) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator it(folders, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    UniqueFd fd(open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (fd.valid() && fstat(fd.get(), &info) == 0 && info.st_uid == geteuid() &&
        flock(fd.get(), LOCK_EX | LOCK_NB) == 0)
      left.push_back(it->path());
  }
  for (const fs::path& folder : left) fs::remove_all(folder, error);
}

void Sleep(int milliseconds) { poll(nullptr, 0, milliseconds); }

// The child: a recorder that ends with us, however that happens.
[[noreturn]] void Run(const TopRecorder::Record& record, const std::string& path, int said,
                      pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  setpgid(0, 0);  // Ctrl-C is for us
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(said, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP})
    ::signal(signal, SIG_DFL);
  const int code = record(path);
  fflush(nullptr);
  _exit(code);  // the terminal is the parent's
}

}  // namespace

Status TopRecorder::Start(const Record& record, const std::function<bool()>& wants_end,
                          std::string* recording) {
  const char* temporary = getenv("TMPDIR");
  const std::string folders = temporary && *temporary ? temporary : "/tmp";
  RemoveLeftovers(folders);
  folder_ = fmt::format("{}/{}XXXXXX", folders, kPrefix);
  if (!mkdtemp(folder_.data())) {
    const int err = errno;
    const std::string name = std::exchange(folder_, "");
    return {Exit::kOutput, fmt::format("cannot make a folder for what top records, {}: {}",
                                       EscapeName(name), ErrnoText(err))};
  }
  lock_.Reset(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.valid()) flock(lock_.get(), LOCK_EX);
  *recording = folder_ + "/top.rec";
  UniqueFd said(open((folder_ + "/said").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!said.valid())
    return {Exit::kOutput, fmt::format("cannot write to {}: {}", EscapeName(folder_), ErrnoText(errno))};
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) Run(record, *recording, said.get(), parent);
  if (pid_ < 0) return {Exit::kKernel, fmt::format("cannot start a recorder: {}", ErrnoText(errno))};
  for (const uint64_t until_ns = MonotonicNs() + kStartNs; MonotonicNs() < until_ns;) {
    if (Status status = Check(); !status.ok()) return status;
    if (HasASecond(*recording)) return {};
    if (wants_end()) return {kInterrupted, "interrupted before there was a second to show"};
    Sleep(50);
  }
  return {Exit::kDataLost, fmt::format("the recorder that top started has no row after {} s: {}",
                                       kStartNs / 1'000'000'000, Said())};
}

Status TopRecorder::Check() {
  int status;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return {};
  pid_ = -1;
  if (WIFSIGNALED(status))
    return {Exit::kDataLost,
            fmt::format("the recorder that top started was killed (signal {})", WTERMSIG(status))};
  const int code = WEXITSTATUS(status);
  return {
      code ? static_cast<Exit>(code) : Exit::kDataLost,
      fmt::format("no service records here, and the recorder that top started has ended: {}", Said())};
}

void TopRecorder::Stop() {
  if (pid_ > 0) {
    kill(pid_, SIGINT);
    int status;
    const uint64_t until_ns = MonotonicNs() + kStopNs;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (MonotonicNs() > until_ns) kill(pid_, SIGKILL);
      Sleep(20);
    }
    pid_ = -1;
  }
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
  folder_.clear();
  lock_.Reset();
}

// Its last line says why it ended; without its name in front.
std::string TopRecorder::Said() const {
  std::string text, last;
  if (!ReadInput(folder_ + "/said", &text).ok()) return "it has said nothing";
  LineSplitter splitter;
  const auto take = [&](std::string_view line) {
    constexpr std::string_view kName = "slotscope: ";
    if (!line.empty()) last = line.starts_with(kName) ? line.substr(kName.size()) : line;
  };
  splitter.Feed(text, take);
  splitter.Finish(take);
  return last.empty() ? "it has said nothing" : last;
}

}  // namespace slotscope
