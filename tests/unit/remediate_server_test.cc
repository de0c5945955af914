// SPDX-License-Identifier: MIT
// The socket, with consumers that behave and others.
#include "remediate/server.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/until.h"

namespace slotscope {
namespace {

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address))) fd.Reset();
  return fd;
}

// What comes until `size` bytes are there, or the end.
std::string Read(int fd, size_t size) {
  std::string text;
  char chunk[4096];
  while (text.size() < size) {
    const ssize_t got = read(fd, chunk, std::min(sizeof(chunk), size - text.size()));
    if (got <= 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    mkdtemp(dir_.data());
    path_ = dir_ + "/s";
  }
  ~ServerTest() override { std::filesystem::remove_all(dir_); }
  bool HasConsumers(uint64_t nr) {
    return Until([&] { return server_.stats().nr_consumers == nr; });
  }
  size_t nr_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir_), {}));
  }

  std::string dir_ = testing::TempDir() + "slotscope-server-XXXXXX", path_;
  News news_;
  RemediateServer server_;
};

TEST_F(ServerTest, LinesComeInOrderAndOnlyToWhoIsThere) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  server_.Send("nobody\n");
  const UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(consumer.valid() && HasConsumers(1));
  for (int i = 0; i < 1000; i++) server_.Send(std::to_string(1000 + i) + "\n");
  const std::string text = Read(consumer.get(), 5000);
  ASSERT_EQ(text.size(), 5000u);
  for (size_t i = 0; i < 1000; i++) EXPECT_EQ(text.substr(i * 5, 5), std::to_string(1000 + i) + "\n");
  server_.Stop();
  EXPECT_EQ(Read(consumer.get(), 1), "") << "the end";
  EXPECT_EQ(server_.stats().nr_sent, 1000u);
  EXPECT_EQ(server_.stats().nr_no_client, 1u);
  const auto news = news_.Take();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(news[0].find("process " + std::to_string(getpid())), std::string::npos) << news[0];
}

TEST_F(ServerTest, ANewConsumerReplacesTheOld) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  const UniqueFd first = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  server_.Send("a\n");
  EXPECT_EQ(Read(first.get(), 2), "a\n");
  const UniqueFd second = Connect(path_);
  EXPECT_EQ(Read(first.get(), 1), "") << "closed";
  ASSERT_TRUE(HasConsumers(2));
  server_.Send("b\n");
  EXPECT_EQ(Read(second.get(), 2), "b\n");
  EXPECT_EQ(server_.stats().nr_replaced, 1u);
}

TEST_F(ServerTest, OneThatGoesAwayIsNoticedAndOneThatOnlyStopsTalkingIsServed) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  shutdown(consumer.get(), SHUT_WR);
  server_.Send("a\n");
  EXPECT_EQ(Read(consumer.get(), 2), "a\n");
  consumer.Reset();
  EXPECT_TRUE(Until([&] {
    server_.Send("b\n");
    return server_.stats().nr_no_client > 0;
  }));
}

TEST_F(ServerTest, WhoNeverReadsLosesLinesAndStallsNobody) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  const UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  const std::string line(1000, 'x');
  // More than its buffer and the queue hold.
  for (size_t i = 0; i < RemediateServer::kMaxQueued + 2000; i++) server_.Send(line + "\n");
  ASSERT_TRUE(Until([&] { return server_.stats().nr_write_error > 0; }));
  const ServerStats stats = server_.stats();
  EXPECT_GT(stats.nr_queue_full, 0u);
  EXPECT_GT(stats.nr_sent, 0u);
  // The next one hears of now, from the beginning of a line.
  const UniqueFd other = Connect(path_);
  ASSERT_TRUE(HasConsumers(2));
  server_.Send("now\n");
  EXPECT_EQ(Read(other.get(), 4), "now\n");
}

TEST_F(ServerTest, WhoNeverReadsIsNotWaitedForAtTheEnd) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  const UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  for (size_t i = 0; i < RemediateServer::kMaxQueued; i++) server_.Send(std::string(1000, 'x') + "\n");
  ASSERT_TRUE(Until([&] { return server_.stats().nr_write_error > 0; }));
  server_.Stop();
  const ServerStats stats = server_.stats();
  EXPECT_EQ(stats.nr_sent + stats.nr_write_error + stats.nr_queue_full, RemediateServer::kMaxQueued);
  // It has tried once or twice, not with each of them.
  EXPECT_GT(stats.nr_write_error, RemediateServer::kMaxQueued / 2);
}

TEST_F(ServerTest, ALineThatDoesNotBeginIsDroppedAndHalfOneIsTheLast) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  // Larger than any buffer: some of it is written, then nothing.
  server_.Send(std::string(32 << 20, 'x') + "\n");
  ASSERT_TRUE(Until([&] { return server_.stats().nr_write_error == 1; }));
  const std::string half = Read(consumer.get(), SIZE_MAX);
  EXPECT_GT(half.size(), 0u);
  EXPECT_EQ(half.find('\n'), std::string::npos) << "and then the end, in place of the next line";

  consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(2));
  // Small ones fill its buffer; then none of the next one fits.
  size_t nr = 0;
  while (server_.stats().nr_write_error == 1) {
    server_.Send("y\n");
    nr++;
    ASSERT_TRUE(
        Until([&] { return server_.stats().nr_sent == nr || server_.stats().nr_write_error == 2; }));
  }
  EXPECT_EQ(Read(consumer.get(), 2 * (nr - 1)).size(), 2 * (nr - 1)) << "it keeps what it has";
  server_.Send("z\n");
  EXPECT_EQ(Read(consumer.get(), 2), "z\n") << "and goes on";
  EXPECT_EQ(server_.stats().nr_consumers, 2u);
}

TEST_F(ServerTest, AThousandConnectionsAreCountedAndTheLastIsServed) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  UniqueFd last;
  for (int i = 0; i < 1000; i++) last = Connect(path_);
  ASSERT_TRUE(last.valid() && HasConsumers(1000));
  server_.Send("a\n");
  EXPECT_EQ(Read(last.get(), 2), "a\n");
  EXPECT_LE(news_.Take().size(), News::kMaxSentences);
}

TEST_F(ServerTest, TheFileIsItsOwnersAndGoesWithTheServer) {
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  struct stat info;
  ASSERT_EQ(lstat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFSOCK | 0700));
  EXPECT_EQ(nr_files(), 1u) << "no temporary one is left";
  server_.Stop();
  EXPECT_EQ(nr_files(), 0u);
  RemediateServer grouped;
  ASSERT_TRUE(grouped.Start(path_, getgid(), &news_).ok());
  ASSERT_EQ(lstat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFSOCK | 0770));
  EXPECT_EQ(info.st_gid, getgid());
  // What somebody put in its place is not ours to remove.
  std::filesystem::remove(path_);
  std::ofstream(path_) << "x";
  grouped.Stop();
  EXPECT_EQ(nr_files(), 1u);
}

TEST_F(ServerTest, OnlyAStaleSocketIsReplaced) {
  // A killed server's.
  ASSERT_EQ(fflush(nullptr), 0);
  const pid_t child = fork();
  if (child == 0) {
    SocketFile file;
    _exit(file.Listen(path_, {}).ok() ? 0 : 1);  // without Close()
  }
  int result;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_EQ(result, 0);
  ASSERT_EQ(nr_files(), 1u);
  ASSERT_TRUE(server_.Start(path_, {}, &news_).ok());
  EXPECT_EQ(nr_files(), 1u);

  const UniqueFd consumer = Connect(path_);
  ASSERT_TRUE(HasConsumers(1));
  RemediateServer second;
  EXPECT_EQ(second.Start(path_, {}, &news_).code(), Exit::kBusy) << "one that lives is left alone";
  server_.Send("a\n");
  EXPECT_EQ(Read(consumer.get(), 2), "a\n") << "and its consumer, too";
  server_.Stop();

  std::ofstream(path_) << "precious";
  EXPECT_EQ(second.Start(path_, {}, &news_).code(), Exit::kOutput) << "a file is not";
  std::filesystem::rename(path_, dir_ + "/other");
  std::filesystem::create_symlink(dir_ + "/other", path_);
  EXPECT_EQ(second.Start(path_, {}, &news_).code(), Exit::kOutput) << "nor a link";
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(dir_ + "/nowhere", path_);
  EXPECT_EQ(second.Start(path_, {}, &news_).code(), Exit::kOutput) << "also if it leads nowhere";
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/nowhere"));
  EXPECT_EQ(nr_files(), 2u) << "and no temporary one is left";

  EXPECT_EQ(second.Start("", {}, &news_).code(), Exit::kUsage);
  EXPECT_EQ(second.Start(std::string(200, 'x'), {}, &news_).code(), Exit::kUsage);
  EXPECT_EQ(second.Start(dir_ + "/no/such", {}, &news_).code(), Exit::kOutput);
}

// Connects as user and groups of its own. 0: it was let in; 1: it was closed; 2: it could not.
int ConnectAs(const std::string& path, uid_t user, gid_t group, const std::vector<gid_t>& more) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(more.size(), more.data()) || setresgid(group, group, group) ||
        setresuid(user, user, user))
      _exit(3);
    const UniqueFd fd = Connect(path);
    if (!fd.valid()) _exit(2);
    _exit(Read(fd.get(), 2) == "a\n" ? 0 : 1);
  }
  int result = 0;
  while (waitpid(child, &result, WNOHANG) == 0) usleep(500);
  return WEXITSTATUS(result);
}

TEST_F(ServerTest, LetsInRootItsUserAndItsGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kUser = 65534;
  constexpr gid_t kGroup = 12345, kOther = 23456;
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) {
      server_.Send("a\n");
      usleep(500);
    }
  });
  ASSERT_TRUE(server_.Start(path_, kGroup, &news_).ok());
  EXPECT_EQ(ConnectAs(path_, 0, 0, {}), 0);
  EXPECT_EQ(ConnectAs(path_, kUser, kGroup, {}), 0);
  EXPECT_EQ(ConnectAs(path_, kUser, kOther, {kGroup}), 0) << "as a further group";
  EXPECT_EQ(ConnectAs(path_, kUser, kOther, {}), 2) << "by the file's mode";
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  EXPECT_EQ(ConnectAs(path_, kUser, kOther, {}), 1) << "and by who it is";
  EXPECT_EQ(server_.stats().nr_refused, 1u);
  EXPECT_EQ(server_.stats().nr_consumers, 3u);
  done = true;
  sender.join();
}

// A service has few capabilities: CAP_CHOWN is not among them.
TEST_F(ServerTest, LetsItsGroupInWhereItMayNotGiveTheFileAway) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kUser = 65534;
  constexpr gid_t kGroup = 12345, kOther = 23456;
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct all[2], few[2];
  ASSERT_EQ(syscall(SYS_capget, &header, all), 0);
  std::copy(std::begin(all), std::end(all), few);
  few[0].effective &= ~(1u << CAP_CHOWN);
  ASSERT_EQ(syscall(SYS_capset, &header, few), 0);
  const Status status = server_.Start(path_, kGroup, &news_);
  ASSERT_EQ(syscall(SYS_capset, &header, all), 0);
  ASSERT_TRUE(status.ok()) << status.message();
  struct stat info;
  ASSERT_EQ(lstat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, getgid());
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) {
      server_.Send("a\n");
      usleep(500);
    }
  });
  EXPECT_EQ(ConnectAs(path_, 0, 0, {}), 0);
  EXPECT_EQ(ConnectAs(path_, kUser, kGroup, {}), 0);
  EXPECT_EQ(ConnectAs(path_, kUser, kOther, {}), 2);
  done = true;
  sender.join();
}

}  // namespace
}  // namespace slotscope
