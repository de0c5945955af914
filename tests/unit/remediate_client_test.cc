// SPDX-License-Identifier: MIT
// The consumer, with producers that behave and others.
#include "remediate/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "remediate/messages.h"
#include "remediate/server.h"
#include "tests/unit/until.h"

namespace slotscope {
namespace {

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    mkdtemp(dir_.data());
    path_ = dir_ + "/s";
  }
  ~ClientTest() override {
    client_.Stop();
    std::filesystem::remove_all(dir_);
  }
  // Takes what came; true if there is a message of that process.
  bool Has(int32_t tgid) {
    bool has = false;
    for (const ItemQueue::Entry& entry : items_.Take()) {
      nr_gone_ += entry.kind == ItemKind::kRemoteGone;
      if (entry.kind == ItemKind::kRemoteCounts)
        std::memcpy(&counts_, entry.payload.data(), sizeof(counts_));
      if (entry.kind != ItemKind::kRemoteMemory) continue;
      RemoteMemory memory;
      std::memcpy(&memory, entry.payload.data(), sizeof(memory));
      EXPECT_LE(memory.ts_ns, entry.begin_ns);
      EXPECT_GE(memory.ts_ns, latest_ns_) << "time does not go back";
      latest_ns_ = memory.ts_ns;
      has |= memory.tgid == tgid;
    }
    return has;
  }
  static std::string LineOf(uint32_t pid, int64_t unix_ns = 1) {
    return ToLine(MemoryMessage{pid, "", 0, 5, 10, 5, unix_ns});
  }

  std::string dir_ = testing::TempDir() + "slotscope-client-XXXXXX", path_;
  News news_;
  ItemQueue items_;
  RemediateClient client_;
  RemoteCounts counts_;
  uint64_t nr_gone_ = 0;
  uint64_t latest_ns_ = 0;
};

TEST_F(ClientTest, ConnectsAndConnectsAgain) {
  ASSERT_TRUE(client_.Start(path_, &items_, &news_).ok());
  for (uint32_t round = 1; round <= 2; round++) {
    RemediateServer server;
    ASSERT_TRUE(server.Start(path_, {}, &news_).ok());
    ASSERT_TRUE(Until([&] {
      server.Send(LineOf(round));
      return Has(static_cast<int32_t>(round));
    }));
    server.Stop();
    latest_ns_ = 0;
  }
  client_.Stop();
  (void)Has(0);
  EXPECT_EQ(nr_gone_, 2u);
  EXPECT_EQ(counts_.nr_connections, 2u);
}

// A socket of ours, which the client has connected to.
class Producer {
 public:
  explicit Producer(const std::string& path) { EXPECT_TRUE(file_.Listen(path, {}).ok()); }
  bool Accept() {
    return Until([&] {
      client_.Reset(accept4(file_.fd(), &address_, &size_, SOCK_CLOEXEC));
      return client_.valid();
    });
  }
  void Write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t done = send(client_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (done <= 0) return;
      text.remove_prefix(static_cast<size_t>(done));
    }
  }
  void Close() { client_.Reset(); }

 private:
  SocketFile file_;
  UniqueFd client_;
  sockaddr address_ = {};
  socklen_t size_ = sizeof(address_);
};

TEST_F(ClientTest, WhateverIsSaidIsCountedAndTheRestIsHeard) {
  Producer producer(path_);
  ASSERT_TRUE(client_.Start(path_, &items_, &news_).ok());
  ASSERT_TRUE(producer.Accept());
  producer.Write(std::string(10 << 20, 'x') + "\n");                // 10 MB in a line
  producer.Write("{\"type\":\"memory\",\"comm\":\"\xff\xfe\"}\n");  // no UTF-8
  producer.Write(std::string(60'000, '[') + "\n");                  // a bomb
  producer.Write("{\"type\":\"of another time\"}\n\n\n");
  const auto now_ns = static_cast<int64_t>(ClockNs(CLOCK_REALTIME));
  producer.Write(LineOf(1, now_ns) + LineOf(2, now_ns - 1'000'000'000) +
                 LineOf(3, now_ns + 3'600'000'000'000));
  for (char c : LineOf(4)) producer.Write({&c, 1});
  ASSERT_TRUE(Until([&] { return Has(4); }));
  producer.Write("{\"type\":\"memory\",\"pid\":1,");  // half a line
  producer.Close();
  client_.Stop();
  (void)Has(0);
  EXPECT_EQ(counts_.nr_lines, 7u);
  EXPECT_EQ(counts_.nr_too_long, 1u);
  EXPECT_EQ(counts_.nr_malformed, 2u);
  EXPECT_EQ(counts_.nr_ignored, 1u);
  EXPECT_EQ(counts_.nr_misdated, 3u) << "one goes back, one is to come, one is of 1970";
}

TEST_F(ClientTest, AFloodIsReadNoFasterThanItMayBe) {
  Producer producer(path_);
  ASSERT_TRUE(client_.Start(path_, &items_, &news_).ok());
  ASSERT_TRUE(producer.Accept());
  const uint64_t begin_ns = MonotonicNs();
  std::string lines;
  for (int i = 0; i < 1000; i++) lines += "{}\n";
  for (int i = 0; i < 50; i++) producer.Write(lines);
  producer.Write(LineOf(7));
  ASSERT_TRUE(Until([&] { return Has(7); }));
  const uint64_t elapsed_ms = (MonotonicNs() - begin_ns) / 1'000'000;
  // The last 64 KiB may come at once.
  EXPECT_GE((elapsed_ms + 1) * RemediateClient::kMaxLinesPerMs + (64u << 10) / 3, 50'000u) << elapsed_ms;
}

TEST_F(ClientTest, StopsAtAnyTime) {
  ASSERT_TRUE(client_.Start(path_, &items_, &news_).ok());  // nobody is there
  client_.Stop();
  RemediateClient other;
  EXPECT_EQ(other.Start(std::string(200, 'x'), &items_, &news_).code(), Exit::kUsage);
  EXPECT_EQ(other.Start("", &items_, &news_).code(), Exit::kUsage);
}

}  // namespace
}  // namespace slotscope
