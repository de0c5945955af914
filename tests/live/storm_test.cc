// SPDX-License-Identifier: MIT
// The allocator under fork storms, judged from the emitted events alone.
#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <sstream>

#include "harness.h"

namespace slotscope {
namespace {

using Life = std::pair<int32_t, uint64_t>;  // tgid, start_time_ns

struct StormCase {
  const char* name;
  uint32_t nr_rmids;  // eBPF source; the module has the number it was loaded with
  int nr_forks;
};
void PrintTo(const StormCase& c, std::ostream* out) { *out << c.name; }

// What these write into a ring fits into it, unless its reader is very slow.
int ForksAtOnce() {
  constexpr int kUsually = 1000;
  const char* number = getenv("SLOTSCOPE_TEST_FORKS_AT_ONCE");
  return number ? std::clamp(atoi(number), 1, kUsually) : kUsually;
}

class StormTest : public testing::TestWithParam<StormCase> {};

// In guests a fork takes many times as long.
int Scaled(int nr_forks) {
  const char* scale = getenv("SLOTSCOPE_TEST_SCALE");
  return scale ? nr_forks / std::max(1, atoi(scale)) : nr_forks;
}

// For a failure: what was heard of a process that has an RMID and is gone.
std::string LifeOf(const Recorder& recorder, uint32_t rmid, const Life& owner) {
  std::ostringstream text;
  text << "\nrmid " << rmid << " tgid " << owner.first << " start_time_ns " << owner.second << ":";
  for (const ss_any_message& message : recorder.messages()) {
    if (message.hdr.type == SS_TASK_META && message.task_meta.tgid == owner.first)
      text << "\n  " << message.hdr.ts_ns << " meta " << message.task_meta.comm << " ppid "
           << message.task_meta.ppid << " flags " << message.task_meta.flags;
    if (message.hdr.type == SS_MEASURE && message.measure.tgid == owner.first)
      text << "\n  " << message.hdr.ts_ns << " measure on " << message.hdr.cpu << " next "
           << message.measure.next_tgid << " flags " << message.measure.flags;
    if ((message.hdr.type == SS_RMID_ALLOC || message.hdr.type == SS_RMID_FREE ||
         message.hdr.type == SS_RMID_EXISTING) &&
        message.rmid_event.tgid == owner.first)
      text << "\n  " << message.hdr.ts_ns << " rmid event " << message.hdr.type << " rmid "
           << message.rmid_event.rmid;
  }
  return text.str();
}

TEST_P(StormTest, NeverTwoOwnersNoReuseInLimboFifoOrderNoneLost) {
  Recorder recorder(GetParam().nr_rmids);
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  const int nr_forks = Scaled(GetParam().nr_forks);
  std::vector<int32_t> parents;
  for (int done = 0; done < nr_forks; done += ForksAtOnce()) {
    const int nr_now = std::min(ForksAtOnce(), nr_forks - done);
    const WorkloadResult result = RunWorkload({"storm", std::to_string(nr_now)});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    for (int32_t tgid : result.TgidsOf("proc")) parents.push_back(tgid);
    recorder.WaitUntilDrained();
  }
  // The last of them may be reaped some microseconds before its last switch: let others live after it.
  RunWorkload({"many-short", "30"});
  recorder.Stop();
  ASSERT_EQ(recorder.nr_lost(), 0u) << "messages were lost: nothing can be judged";
  EXPECT_EQ(recorder.source().losses().nr_output_errors, 0u);

  std::vector<ss_rmid_event> events = recorder.RmidEvents();
  uint64_t first_seq = 0, last_seq = 0, last_ns = 0, min_reuse_ns = std::numeric_limits<uint64_t>::max();
  size_t nr_allocs = 0, nr_frees = 0, nr_gaps = 0, nr_back = 0, nr_two_owners = 0, nr_not_live = 0,
         nr_unordered = 0;
  std::map<uint32_t, Life> live;
  std::set<uint32_t> changed;  // RMIDs of which a transition was seen
  std::map<uint32_t, uint64_t> freed_ns;
  std::deque<uint32_t> freed;  // those we saw freed, oldest first
  for (const ss_rmid_event& event : events) {
    Life owner = {event.tgid, event.start_time_ns};
    if (event.hdr.type == SS_RMID_EXISTING) {
      // As it is after transition `seq`. Who had one before we came is known from the first dump, which
      // comes some transitions later.
      if (!changed.contains(event.rmid)) live.try_emplace(event.rmid, owner);
      continue;
    }
    if (!first_seq) first_seq = event.seq;
    if (last_seq && event.seq != last_seq + 1) nr_gaps++;
    if (event.hdr.ts_ns < last_ns) nr_back++;
    last_seq = event.seq;
    last_ns = event.hdr.ts_ns;
    changed.insert(event.rmid);
    if (event.hdr.type == SS_RMID_ALLOC) {
      nr_allocs++;
      nr_two_owners += live.contains(event.rmid);
      live[event.rmid] = owner;
      if (auto at = freed_ns.find(event.rmid); at != freed_ns.end()) {
        min_reuse_ns = std::min<uint64_t>(min_reuse_ns, event.hdr.ts_ns - at->second);
        // FIFO: of those we saw freed, the oldest is the first to come back.
        nr_unordered += freed.empty() || freed.front() != event.rmid;
        freed.pop_front();
      }
    } else {
      nr_frees++;
      auto owned = live.find(event.rmid);
      if (owned == live.end() || owned->second != owner)
        nr_not_live++;
      else
        live.erase(owned);
      freed_ns[event.rmid] = event.hdr.ts_ns;
      freed.push_back(event.rmid);
    }
  }
  EXPECT_EQ(nr_gaps, 0u) << "transitions that were not emitted";
  EXPECT_EQ(nr_back, 0u);
  EXPECT_EQ(nr_two_owners, 0u);
  EXPECT_EQ(nr_not_live, 0u);
  EXPECT_EQ(nr_unordered, 0u);
  EXPECT_GE(min_reuse_ns, 2'000'000u);
  EXPECT_LT(min_reuse_ns, std::numeric_limits<uint64_t>::max()) << "no RMID was used twice";
  // Births that found no RMID are told; those that got one later were retried. Each fork is one or
  // the other, plus whatever else the machine did meanwhile.
  std::set<Life> without;
  for (const ss_any_message& message : recorder.messages())
    if (message.hdr.type == SS_RMID_ALLOC_FAILED) {
      EXPECT_TRUE(message.rmid_event.reason == -1 || message.rmid_event.reason == -2);
      without.insert({message.rmid_event.tgid, message.rmid_event.start_time_ns});
    }
  EXPECT_GE(nr_allocs + without.size(), static_cast<size_t>(nr_forks));
  // None leaked: of the storm's own processes none has an RMID at the end.
  std::set<Life> storm;
  for (const ss_any_message& message : recorder.messages())
    if (message.hdr.type == SS_TASK_META &&
        std::find(parents.begin(), parents.end(), message.task_meta.ppid) != parents.end())
      storm.insert({message.task_meta.tgid, message.task_meta.start_time_ns});
  EXPECT_GE(storm.size(), static_cast<size_t>(nr_forks) - parents.size());
  std::string leaked;
  for (const auto& [rmid, owner] : live)
    if (storm.contains(owner)) leaked += LifeOf(recorder, rmid, owner);
  EXPECT_EQ(leaked, "");
  std::printf("  %zu allocs, %zu frees, %zu births without, shortest reuse %.6f ms, seq %lu..%lu\n",
              nr_allocs, nr_frees, without.size(), static_cast<double>(min_reuse_ns) / 1e6, first_seq,
              last_seq);
}

INSTANTIATE_TEST_SUITE_P(Storms, StormTest,
                         testing::Values(StormCase{"Forks20000With512Rmids", 512, 20000},
                                         StormCase{"Forks20000With96Rmids", 96, 20000}),
                         [](const auto& c) { return c.param.name; });

// More processes at once than RMIDs: each still has its measures, and those without say so.
TEST(Exhaustion, NoProcessDisappears) {
  const int nr_crowd = std::min(700, ForksAtOnce());
  Recorder recorder;
  ASSERT_NO_FATAL_FAILURE(recorder.Start());
  WorkloadResult result = RunWorkload({"crowd", std::to_string(nr_crowd)});
  recorder.Stop();
  ASSERT_EQ(result.exit_code, 0) << result.output;
  ASSERT_EQ(recorder.nr_lost(), 0u);
  std::set<int32_t> measured, failed, without, got_one;
  for (const ss_any_message& message : recorder.messages()) {
    if (message.hdr.type == SS_RMID_ALLOC_FAILED) failed.insert(message.rmid_event.tgid);
    if (message.hdr.type == SS_RMID_ALLOC) got_one.insert(message.rmid_event.tgid);
    if (message.hdr.type != SS_MEASURE) continue;
    measured.insert(message.measure.tgid);
    if (message.measure.rmid == 0) without.insert(message.measure.tgid);
  }
  size_t nr_missing = 0;
  for (int32_t tgid : result.TgidsOf("proc")) nr_missing += !measured.contains(tgid);
  EXPECT_EQ(nr_missing, 0u);
  EXPECT_GT(failed.size(), 0u) << "the RMIDs were not exhausted: the test shows nothing";
  // Whoever had none at birth ran without one, or one was free when it was switched in.
  for (int32_t tgid : failed)
    if (measured.contains(tgid)) {
      EXPECT_TRUE(without.contains(tgid) || got_one.contains(tgid)) << tgid;
    }
}

}  // namespace
}  // namespace slotscope
