// SPDX-License-Identifier: MIT
// A machine of many CPUs: whatever its rings took is read, and whatever they refused is known.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "harness.h"
#include "wide_machine.h"

namespace slotscope {
namespace {

struct NoFile final : OutFile {
  Status Write(std::initializer_list<std::span<const std::byte>>) override { return {}; }
  uint64_t size() const override { return 0; }
};

// How far what was read is from what was written: messages, and nanoseconds of measures.
struct Difference {
  int64_t messages = 0, ns = 0;
};

Difference RecordFor(std::chrono::milliseconds time, uint32_t nr_mute) {
  const WideShape shape = {IsEmulated() ? 8u : 64u, 1000, 4, nr_mute};
  NoFile file;
  WideRecording recording(shape, 10, &file);
  const Status started = recording.Start();
  EXPECT_TRUE(started.ok()) << started.message();
  if (!started.ok()) return {};
  std::this_thread::sleep_for(time);
  recording.Stop();
  EXPECT_FALSE(recording.machine().failed());
  const RunCounts counts = recording.counts();
  const WideMachine::Truth truth = recording.machine().truth();
  EXPECT_GT(truth.nr_written, 0u);
  EXPECT_TRUE(counts.accounting.Holds());
  // What was refused last of all is told with the next message, which there is none of.
  EXPECT_LE(counts.merge.nr_lost, truth.nr_refused);
  EXPECT_EQ(counts.merge.nr_malformed + counts.merge.nr_unknown, 0u);
  const uint64_t nr_named = shape.nr_cpus * shape.nr_processes * recording.machine().nr_dumps();
  return {static_cast<int64_t>(counts.merge.nr_messages - truth.nr_written - nr_named),
          static_cast<int64_t>(counts.accounting.received[kCpuNs] - truth.measured_ns)};
}

TEST(Wide, WhatTheRingsOfManyCpusTookIsRead) {
  const Difference difference = RecordFor(std::chrono::milliseconds(300), 0);
  EXPECT_EQ(difference.messages, 0);
  EXPECT_EQ(difference.ns, 0);
}

TEST(Wide, OneRingThatIsNotReadIsMissed) {
  const Difference difference = RecordFor(std::chrono::milliseconds(300), 1);
  EXPECT_LT(difference.messages, 0);
  EXPECT_LT(difference.ns, 0);
}

// As with PREEMPT_RT: a recording ends when nobody measures any more, not when all is detached.
TEST(Wide, WhatItTakesToDetachIsNoLoss) {
  NoFile file;
  WideRecording recording({8, 1000, 4, 0, 2000}, 10, &file);
  const Status started = recording.Start();
  ASSERT_TRUE(started.ok()) << started.message();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  recording.Stop();
  // Else all eight CPUs lost two seconds. (What the host takes from those that play them is lost, too.)
  EXPECT_LT(recording.counts().accounting.lost_ns, 8'000'000'000u);
}

}  // namespace
}  // namespace slotscope
