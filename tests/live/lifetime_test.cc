// SPDX-License-Identifier: MIT
// Births and deaths as the scheduler makes them: one RMID per process, given back once, last.
#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "harness.h"

namespace slotscope {
namespace {

struct Lifetime {
  std::string name;
  std::vector<std::string> args;
};
void PrintTo(const Lifetime& c, std::ostream* out) { *out << c.name; }

class LifetimeTest : public testing::TestWithParam<Lifetime> {};

using Life = std::pair<int32_t, uint64_t>;  // tgid, start_time_ns

// For a failure: what ran where while the process lived.
std::string MeasuresBetween(const Recorder& recorder, uint64_t from_ns, uint64_t to_ns) {
  std::ostringstream text;
  for (const ss_any_message& message : recorder.messages()) {
    const ss_measure& measure = message.measure;
    if (message.hdr.type != SS_MEASURE || measure.hdr.ts_ns < from_ns || measure.start_ns > to_ns)
      continue;
    text << "\n  cpu " << measure.hdr.cpu << " seq " << measure.seq << " [" << measure.start_ns << ", "
         << measure.hdr.ts_ns << ") tgid " << measure.tgid << " start_time_ns " << measure.start_time_ns
         << " rmid " << measure.rmid << " flags " << measure.flags << " next " << measure.next_tgid;
  }
  text << "\n  lived [" << from_ns << ", " << to_ns << ")";
  return text.str();
}

// The times of measures that were sent as sums are right to the slot (see slotscope/batch.h).
uint64_t SlotEnd(uint64_t ts_ns) { return ts_ns - ts_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS; }

TEST_P(LifetimeTest, OneAllocAndOneFreeEachAndTheFreeLast) {
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  WorkloadResult result = RunWorkload(GetParam().args);
  recorder.Stop();
  ASSERT_EQ(result.exit_code, 0) << result.output;
  ASSERT_EQ(recorder.nr_lost(), 0u);

  std::multiset<int32_t> expected;
  for (int32_t tgid : result.TgidsOf("proc")) expected.insert(tgid);
  ASSERT_FALSE(expected.empty()) << result.output;

  // Per life: its alloc, its free, and the end of the last measure.
  struct Seen {
    int nr_allocs = 0, nr_frees = 0;
    uint32_t rmid = 0, generation = 0;
    uint64_t alloc_ns = 0, free_ns = 0, last_measure_ns = 0;
    int nr_births = 0;
  };
  std::map<Life, Seen> lives;
  std::vector<ss_measure> unknown;  // times when the kernel hid a switch from us: nobody can say who ran
  for (const ss_any_message& message : recorder.messages()) {
    switch (message.hdr.type) {
      case SS_RMID_ALLOC: {
        const ss_rmid_event& event = message.rmid_event;
        if (!expected.contains(event.tgid)) break;
        Seen& seen = lives[{event.tgid, event.start_time_ns}];
        seen.nr_allocs++;
        seen.rmid = event.rmid;
        seen.generation = event.generation;
        seen.alloc_ns = event.hdr.ts_ns;
        break;
      }
      case SS_RMID_FREE: {
        const ss_rmid_event& event = message.rmid_event;
        if (!expected.contains(event.tgid)) break;
        Seen& seen = lives[{event.tgid, event.start_time_ns}];
        seen.nr_frees++;
        seen.free_ns = event.hdr.ts_ns;
        EXPECT_EQ(event.rmid, seen.rmid);
        EXPECT_EQ(event.generation, seen.generation);
        break;
      }
      case SS_MEASURE:
        if (message.measure.flags & SS_MEASURE_UNKNOWN) unknown.push_back(message.measure);
        break;
      case SS_TASK_META: {
        auto life = lives.find({message.task_meta.tgid, message.task_meta.start_time_ns});
        if (life != lives.end() && (message.task_meta.flags & SS_TASK_BIRTH)) life->second.nr_births++;
        break;
      }
      default:
        break;
    }
  }
  // Once all lives are known: of a short one, a sum may lie in front of its birth, in the same slot.
  int nr_before_birth = 0;
  for (const ss_any_message& message : recorder.messages()) {
    const ss_measure& measure = message.measure;
    if (message.hdr.type != SS_MEASURE) continue;
    auto life = lives.find({measure.tgid, measure.start_time_ns});
    if (life == lives.end()) continue;
    nr_before_birth += measure.hdr.ts_ns < life->second.alloc_ns;
    life->second.last_measure_ns = std::max<uint64_t>(life->second.last_measure_ns, measure.hdr.ts_ns);
    EXPECT_EQ(measure.rmid, life->second.rmid) << "tgid " << measure.tgid;
    EXPECT_EQ(measure.generation, life->second.generation) << "tgid " << measure.tgid;
  }
  if (nr_before_birth > 0)
    std::printf("%d measures, sums of a slot, lie in front of the birth that they are of\n",
                nr_before_birth);
  EXPECT_EQ(lives.size(), expected.size());
  for (const auto& [life, seen] : lives) {
    EXPECT_EQ(seen.nr_allocs, 1) << "tgid " << life.first;
    EXPECT_EQ(seen.nr_births, 1) << "tgid " << life.first;
    EXPECT_EQ(seen.nr_frees, 1) << "tgid " << life.first;
    EXPECT_LE(seen.alloc_ns, seen.free_ns) << "tgid " << life.first;
    bool hidden = std::any_of(unknown.begin(), unknown.end(), [&](const ss_measure& measure) {
      return measure.start_ns <= seen.free_ns && measure.hdr.ts_ns >= seen.alloc_ns;
    });
    if (!hidden) {
      EXPECT_GT(SlotEnd(seen.last_measure_ns), seen.alloc_ns)
          << "tgid " << life.first << MeasuresBetween(recorder, seen.alloc_ns, seen.free_ns);
    }
    EXPECT_LE(seen.last_measure_ns, SlotEnd(seen.free_ns)) << "tgid " << life.first;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lifetimes, LifetimeTest,
    testing::Values(Lifetime{"Simple", {"simple"}}, Lifetime{"LeaderExitsFirst", {"leader-exits-first"}},
                    Lifetime{"ExecByNonLeaderThread", {"exec-by-thread"}},
                    Lifetime{"ExecByLeaderWithThreads", {"exec-by-leader"}},
                    Lifetime{"ExecByThreadFailsLate", {"exec-fails", "10"}},
                    Lifetime{"UnreapedZombie", {"zombie"}}, Lifetime{"Traced", {"traced"}},
                    Lifetime{"KillOf100SleepingThreads", {"kill-threads", "0"}},
                    Lifetime{"KillOf100SpinningThreads", {"kill-threads", "1"}},
                    Lifetime{"Vfork", {"vfork"}}, Lifetime{"GroupExit", {"group-exit"}},
                    Lifetime{"SameTgidReborn", {"reborn", "300"}},
                    Lifetime{"Many500ShortLived", {"many-short", "500"}}),
    [](const auto& c) { return c.param.name; });

TEST(Lifetime, IoUringPollerBelongsToItsProcess) {
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  WorkloadResult result = RunWorkload({"io-uring"});
  recorder.Stop();
  ASSERT_EQ(result.exit_code, 0) << result.output;
  if (result.TgidsOf("sqpoll").empty()) GTEST_SKIP() << "this kernel gives no io_uring";
  int32_t tgid = result.TgidsOf("proc").at(0);
  int nr_allocs = 0, nr_frees = 0;
  uint64_t free_ns = 0, last_ns = 0;
  for (const ss_any_message& message : recorder.messages()) {
    if (message.hdr.type == SS_RMID_ALLOC && message.rmid_event.tgid == tgid) nr_allocs++;
    if (message.hdr.type == SS_RMID_FREE && message.rmid_event.tgid == tgid) {
      nr_frees++;
      free_ns = message.hdr.ts_ns;
    }
    if (message.hdr.type == SS_MEASURE && message.measure.tgid == tgid) last_ns = message.hdr.ts_ns;
  }
  EXPECT_EQ(nr_allocs, 1);
  EXPECT_EQ(nr_frees, 1);
  EXPECT_LE(last_ns, free_ns);
}

TEST(Lifetime, BirthAndDeathWithinATickAreBothSeen) {
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  WorkloadResult result = RunWorkload({"many-shortest", "200"});
  recorder.Stop();
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::map<int32_t, uint64_t> born, died;
  for (const ss_rmid_event& event : recorder.RmidEvents()) {
    if (event.hdr.type == SS_RMID_ALLOC) born[event.tgid] = event.hdr.ts_ns;
    if (event.hdr.type == SS_RMID_FREE) died[event.tgid] = event.hdr.ts_ns;
  }
  int nr_both = 0;
  uint64_t shortest_ns = UINT64_MAX;
  for (int32_t tgid : result.TgidsOf("proc")) {
    if (!born.contains(tgid) || !died.contains(tgid)) continue;
    nr_both++;
    shortest_ns = std::min(shortest_ns, died[tgid] - born[tgid]);
  }
  EXPECT_EQ(nr_both, 200);
  // A debug kernel on an emulated machine takes its time.
  if (shortest_ns >= SS_TICK_PERIOD_NS && IsEmulated())
    GTEST_SKIP() << "no process lives for less than a millisecond here, but " << shortest_ns << " ns";
  EXPECT_LT(shortest_ns, SS_TICK_PERIOD_NS) << "the test shows nothing";
}

}  // namespace
}  // namespace slotscope
