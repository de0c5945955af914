// SPDX-License-Identifier: MIT
#include "base/part_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

namespace slotscope {
namespace {

namespace fs = std::filesystem;

class PartFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir_); }

  std::string dir() const { return dir_; }
  std::string path() const { return dir_ + "/slots.csv"; }
  std::string part() const { return path() + ".part"; }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const char* text) { std::ofstream(path) << text; }

  // Runs `body` in a child, for what would change this process. Returns its exit code.
  static int InChild(const std::function<int()>& body) {
    pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::string dir_ = testing::TempDir() + "slotscope-part-XXXXXX";
};

TEST_F(PartFileTest, HasItsNameOnlyWhenItIsComplete) {
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  EXPECT_EQ(file.part_path(), part());
  ASSERT_TRUE(file.Write("one\n").ok());
  ASSERT_TRUE(file.Write("two\n").ok());
  EXPECT_EQ(file.size(), 8u);
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(Read(part()), "one\ntwo\n") << "what is written can be read at once";
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_FALSE(fs::exists(part()));
  EXPECT_EQ(Read(path()), "one\ntwo\n");
}

TEST_F(PartFileTest, ReplacesAnOlderFileOnlyAtTheEnd) {
  Write(path(), "old");
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  ASSERT_TRUE(file.Write("new").ok());
  EXPECT_EQ(Read(path()), "old");
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Read(path()), "new");
}

TEST_F(PartFileTest, ModeIs0640UnderAnyUmask) {
  const struct { mode_t umask, mode; } cases[] = {{0, 0640}, {022, 0640}, {027, 0640}, {077, 0600}};
  for (const auto& c : cases) {
    mode_t before = umask(c.umask);
    {
      PartFile file;
      EXPECT_TRUE(file.Open(path()).ok());
      EXPECT_TRUE(file.Write("x").ok());
      EXPECT_TRUE(file.Commit().ok());
    }
    umask(before);
    struct stat info;
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, c.mode) << std::oct << c.umask;
  }
}

TEST_F(PartFileTest, DoesNotFollowALinkInPlaceOfTheTarget) {
  Write(dir() + "/victim", "precious");
  fs::create_symlink(dir() + "/victim", path());
  PartFile file;
  Status status = file.Open(path());
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_NE(status.message().find(path()), std::string::npos) << status.message();
  EXPECT_EQ(Read(dir() + "/victim"), "precious");
  EXPECT_FALSE(fs::exists(part()));
}

TEST_F(PartFileTest, DoesNotFollowALinkInPlaceOfThePart) {
  Write(dir() + "/victim", "precious");
  const std::string targets[] = {dir() + "/victim", dir() + "/nothing"};
  for (const std::string& target : targets) {
    fs::create_symlink(target, part());
    PartFile file;
    Status status = file.Open(path());
    EXPECT_EQ(status.code(), Exit::kOutput) << target;
    EXPECT_NE(status.message().find(part()), std::string::npos) << status.message();
    EXPECT_TRUE(fs::is_symlink(part()));
    fs::remove(part());
  }
  EXPECT_EQ(Read(dir() + "/victim"), "precious");
  EXPECT_FALSE(fs::exists(dir() + "/nothing"));
}

TEST_F(PartFileTest, RefusesWhatIsNoPlainFile) {
  const struct {
    const char* what;
    std::function<void(const std::string&)> make;
  } cases[] = {
      {"directory", [](const std::string& name) { fs::create_directory(name); }},
      {"fifo", [](const std::string& name) { ASSERT_EQ(mkfifo(name.c_str(), 0600), 0); }},
  };
  for (const auto& c : cases)
    for (const std::string& name : {path(), part()}) {
      c.make(name);
      PartFile file;
      EXPECT_EQ(file.Open(path()).code(), Exit::kOutput) << c.what << " " << name;
      fs::remove(name);
    }
}

TEST_F(PartFileTest, MovesALeftoverAwayAndOverwritesNone) {
  Write(part(), "of a killed run");
  Write(part() + ".1", "of an earlier one");
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  EXPECT_EQ(file.leftover_path(), part() + ".2");
  EXPECT_EQ(Read(part() + ".1"), "of an earlier one");
  EXPECT_EQ(Read(part() + ".2"), "of a killed run");
  ASSERT_TRUE(file.Write("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Read(path()), "new");
}

TEST_F(PartFileTest, SaysThatThereWasNoLeftover) {
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  EXPECT_EQ(file.leftover_path(), "");
}

TEST_F(PartFileTest, ASecondWriterIsToldThatItIsBusy) {
  PartFile first;
  ASSERT_TRUE(first.Open(path()).ok());
  ASSERT_TRUE(first.Write("mine").ok());
  PartFile second;
  Status status = second.Open(path());
  EXPECT_EQ(status.code(), Exit::kBusy);
  EXPECT_NE(status.message().find(part()), std::string::npos) << status.message();
  ASSERT_TRUE(first.Write(" still").ok());
  ASSERT_TRUE(first.Commit().ok());
  EXPECT_EQ(Read(path()), "mine still");
}

TEST_F(PartFileTest, IsNotBusyAfterItsWriterHasGone) {
  EXPECT_EQ(InChild([&] {
              PartFile file;
              if (!file.Open(path()).ok() || !file.Write("killed").ok()) return 1;
              kill(getpid(), SIGKILL);
              return 2;
            }),
            -1);
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  EXPECT_EQ(Read(file.leftover_path()), "killed");
}

TEST_F(PartFileTest, AnUncommittedFileStaysIfItHasData) {
  for (bool has_data : {false, true}) {
    {
      PartFile file;
      ASSERT_TRUE(file.Open(path()).ok());
      if (has_data) {
        ASSERT_TRUE(file.Write("data").ok());
      }
    }
    EXPECT_EQ(fs::exists(part()), has_data);
    EXPECT_FALSE(fs::exists(path()));
  }
}

TEST_F(PartFileTest, ADirectoryThatIsNotThereIsAnOutputError) {
  PartFile file;
  Status status = file.Open(dir() + "/no/such/slots.csv");
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_NE(status.message().find("/no/such/slots.csv"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("there is no folder " + dir() + "/no/such: make it"),
            std::string::npos)
      << status.message();
}

TEST_F(PartFileTest, AnUnwritableDirectoryIsAnOutputError) {
  fs::permissions(dir(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  EXPECT_EQ(InChild([&] {
              constexpr uid_t kNobody = 65534;
              if (geteuid() == 0 && setuid(kNobody)) return 100;
              PartFile file;
              return static_cast<int>(file.Open(path()).code());
            }),
            static_cast<int>(Exit::kOutput));
  fs::permissions(dir(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(dir()));
}

TEST_F(PartFileTest, AFailedWriteLeavesWhatWasWrittenBefore) {
  EXPECT_EQ(InChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit = {10, 1000};
              if (setrlimit(RLIMIT_FSIZE, &limit)) return 100;
              PartFile file;
              if (!file.Open(path()).ok() || !file.Write("whole\n").ok()) return 101;
              Status status = file.Write("does not fit\n");  // four bytes would
              if (file.size() != 6) return 102;
              return static_cast<int>(status.code());
            }),
            static_cast<int>(Exit::kOutput));
  EXPECT_EQ(Read(part()), "whole\n");
}

TEST_F(PartFileTest, AfterAnErrorNothingMoreIsWritten) {
  EXPECT_EQ(InChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit = {10, 1000};
              if (setrlimit(RLIMIT_FSIZE, &limit)) return 100;
              PartFile file;
              if (!file.Open(path()).ok() || !file.Write("whole\n").ok()) return 101;
              if (file.Write("does not fit\n").ok()) return 102;
              limit.rlim_cur = 1000;  // there is room again
              if (setrlimit(RLIMIT_FSIZE, &limit)) return 103;
              return file.Write("later\n").ok() ? 1 : 0;
            }),
            0);
  EXPECT_EQ(Read(part()), "whole\n");
}

}  // namespace
}  // namespace slotscope
