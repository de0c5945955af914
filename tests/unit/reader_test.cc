// SPDX-License-Identifier: MIT
#include "ring/reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "until.h"

namespace slotscope {
namespace {

// One CPU, whose programs find no ring to write to.
class DeadRing final : public Source {
 public:
  const SourceInfo& info() const override { return info_; }
  Status Start() override { return {}; }
  Status Dump(const MessagesFn&, const std::function<void()>&) override { return {}; }
  std::vector<int> OnlineCpus() const override { return {0}; }
  Status OnlineCpu(int) override {
    nr_opened++;
    return {};
  }
  void OfflineCpu(int) override {}
  void Heal() override {}
  // To detach takes a while, in which more is written.
  void Stop() override { nr_errors++; }
  SourceLosses losses() const override {
    SourceLosses losses;
    losses.nr_output_errors = nr_errors;
    return losses;
  }
  std::vector<uint64_t> output_errors() const override { return {nr_errors}; }
  int output_errors_fd() const override { return -1; }
  uint64_t probe_ns() const override { return 0; }
  void ReadCounters(bool) override {}
  PerfRings& rings() override { return rings_; }

  std::atomic<uint64_t> nr_errors = 0, nr_opened = 0;

 private:
  SourceInfo info_;
  PerfRings rings_{-1, 1};
};

TEST(Reader, OpensADeadRingAnewButNotAtTheEnd) {
  DeadRing source;
  ItemQueue others;
  Reader reader(&source, 1, ReadClocks(), &others);
  std::jthread consumer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      while (Block* block = reader.blocks().TakeFilled()) reader.blocks().PutEmpty(block);
      usleep(1'000);
    }
  });
  ASSERT_TRUE(reader.Start().ok());
  ASSERT_TRUE(Until([&] { return source.nr_opened == 1; })) << "it is online";
  source.nr_errors++;
  ASSERT_TRUE(Until([&] { return source.nr_opened == 2; })) << "its ring is dead";
  reader.Stop();
  EXPECT_EQ(source.nr_errors, 2u);
  EXPECT_EQ(source.nr_opened, 2u);
}

TEST(Reader, DumpsTakeAtMostAFiftiethOfTheTimeAndNeverComeFasterThanOnceASecond) {
  constexpr uint64_t kMs = 1'000'000;
  EXPECT_EQ(NextDumpNs(0, 0), 1000 * kMs);
  for (uint64_t took_ns : {1ul, kMs, 20 * kMs, 21 * kMs, 400 * kMs, 10'000 * kMs}) {
    const uint64_t begin_ns = 7'000 * kMs, end_ns = begin_ns + took_ns;
    const uint64_t rest_ns = NextDumpNs(begin_ns, end_ns) - end_ns;
    EXPECT_GE(rest_ns, 1000 * kMs) << took_ns;
    EXPECT_GE(rest_ns, 50 * took_ns) << took_ns;
    EXPECT_LE(rest_ns, std::max(1000 * kMs, 50 * took_ns)) << took_ns << ": names come late";
  }
}

}  // namespace
}  // namespace slotscope
