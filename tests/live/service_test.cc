// SPDX-License-Identifier: MIT
// A recorder's life as its service manager and its user see it: it says when it is ready and that it is
// alive, and it ends though one of its helpers does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/live/harness.h"
#include "tests/unit/notify_listener.h"
#include "tests/unit/until.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

// A recorder in a folder of its own.
class Service {
 public:
  Service(const std::string& name, const std::string& options) : folder_(TempDir() + "/" + name) {
    fs::create_directories(folder_ + "/fr");
    ExportForShell();
    pid_ = fork();
    if (pid_ == 0) {
      const std::string line =
          "cd " + folder_ + " && exec $S record --source $SRC " + options + " >out 2>err";
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Service() {
    if (!has_ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Service(const Service&) = delete;

  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  void Send(int signal) const { EXPECT_EQ(kill(pid_, signal), 0); }
  std::string Said() const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/err").rdbuf() << std::ifstream(folder_ + "/out").rdbuf();
    return text.str();
  }
  bool Says(const std::string& text) const { return Said().find(text) != std::string::npos; }
  // 0: there is none of that name.
  pid_t ThreadOf(const std::string& name) const {
    std::error_code error;
    for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/task", error)) {
      std::string comm;
      std::getline(std::ifstream(task.path() / "comm"), comm);
      if (comm == name) return std::stoi(task.path().filename().string());
    }
    return 0;
  }
  // Waits for its end; -1: it was a signal.
  int ExitCode() {
    int status;
    has_ended_ = waitpid(pid_, &status, 0) == pid_;
    return has_ended_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const std::string folder_;
  pid_t pid_ = 0;
  bool has_ended_ = false;
};

// What systemd listens to, and how often it wants to hear that we are alive.
class Listener : public NotifyListener {
 public:
  Listener() { setenv("WATCHDOG_USEC", "2000000", 1); }
  ~Listener() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  // The next that is not a line for `systemctl status`; empty: none came.
  std::string Next() const {
    pollfd fd = {this->fd(), POLLIN, 0};
    while (poll(&fd, 1, 60'000) == 1)
      if (const std::string one = TakeOne(); !one.starts_with("STATUS=")) return one;
    return {};
  }
};

TEST(ServiceLife, ItSaysThatItIsReadyAndAlive) {
  const Listener listener;
  Service service("told", "");
  EXPECT_EQ(listener.Next(), "READY=1");
  EXPECT_TRUE(fs::exists(service.folder() + "/slotscope.rec/manifest.ndjson"))
      << "it was ready too early";
  for (int i = 0; i < 2; i++) EXPECT_EQ(listener.Next(), "WATCHDOG=1");
  service.Send(SIGTERM);
  std::string last;
  while ((last = listener.Next()) == "WATCHDOG=1") {
  }
  EXPECT_EQ(last, "STOPPING=1");
  EXPECT_EQ(service.ExitCode(), 0);
}

// One of its threads, as if it waited for something that never comes.
class Hung {
 public:
  explicit Hung(pid_t tid) : tid_(tid) {
    EXPECT_EQ(ptrace(PTRACE_SEIZE, tid, nullptr, nullptr), 0);
    EXPECT_EQ(ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr), 0);
    EXPECT_EQ(waitpid(tid, nullptr, __WALL), tid);
  }
  // When its process ends, we have to hear of it.
  ~Hung() { waitpid(tid_, nullptr, __WALL); }
  Hung(const Hung&) = delete;

 private:
  const pid_t tid_;
};

void ExpectComplete(const Service& service) {
  const CsvFile csv = ReadCsv(service.folder() + "/slotscope.rec");
  EXPECT_GT(csv.rows.size(), 100u);
  CheckIdentity(csv);
}

TEST(ServiceLife, AHelperThatDoesNotEndIsLeftBehind) {
  Service patient("patient", "--detect --fr-dir fr"), asked_again("asked_again", "--detect --fr-dir fr");
  {
    std::vector<std::unique_ptr<Hung>> hung;
    for (Service* service : {&patient, &asked_again}) {
      ASSERT_TRUE(Until([&] { return service->ThreadOf("ss-detect") != 0; }, 60)) << service->Said();
      sleep(1);  // of slots
      hung.push_back(std::make_unique<Hung>(service->ThreadOf("ss-detect")));
      service->Send(SIGINT);
    }
    // Its files are complete while it still waits.
    ASSERT_TRUE(Until(
        [&] { return patient.Says("wrote slotscope.rec") && asked_again.Says("wrote slotscope.rec"); },
        60))
        << patient.Said();
    ExpectComplete(patient);
    EXPECT_FALSE(patient.Says("left behind"));
    asked_again.Send(SIGINT);
  }
  EXPECT_EQ(patient.ExitCode(), 0);
  EXPECT_THAT(patient.Said(),
              testing::HasSubstr("a detector did not end within 30 s and was left behind; "
                                 "the files are complete"));
  asked_again.ExitCode();
  EXPECT_FALSE(asked_again.Says("left behind")) << "it ended at once";
  ExpectComplete(asked_again);
}

}  // namespace
}  // namespace slotscope
