// SPDX-License-Identifier: MIT
#include "track/tracker.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace slotscope {
namespace {

constexpr uint64_t kKeepNs = 1000;

ss_task_meta Meta(ProcessKey key, uint32_t flags, const char* comm, int32_t ppid = 0) {
  ss_task_meta meta = {};
  meta.tgid = key.tgid;
  meta.start_time_ns = key.start_time_ns;
  meta.flags = flags;
  meta.ppid = ppid;
  strncpy(meta.comm, comm, sizeof(meta.comm) - 1);
  return meta;
}

// A measure of it at ts_ns; the process.
const Process* OwnerOf(const Tracker& tracker, uint32_t rmid, uint32_t generation) {
  const uint32_t id = tracker.Owner(rmid, generation);
  return id == Tracker::kNoProcess ? nullptr : &tracker.process(id);
}

uint32_t See(Tracker* tracker, ProcessKey key, uint64_t ts_ns) {
  uint32_t id = tracker->Resolve(key, 0, ts_ns);
  tracker->Seen(id, ts_ns, 0, 0);
  return id;
}

std::string NameOf(const Tracker& tracker, uint32_t id) { return tracker.process(id).comm.data(); }

// What to queue, in a line of a table.
struct Change {
  enum Kind { kAlloc, kFree, kExisting } kind;
  uint32_t generation;
  int32_t tgid;  // 0 for kFree
  uint64_t ts_ns;
};
constexpr auto kAlloc = Change::kAlloc;
constexpr auto kFree = Change::kFree;
constexpr auto kExisting = Change::kExisting;

void Queue(Tracker* tracker, uint32_t rmid, const Change& change) {
  ProcessKey owner = {change.tgid, 1};
  switch (change.kind) {
    case kAlloc:
      tracker->Alloc(rmid, change.generation, owner, change.ts_ns);
      break;
    case kFree:
      tracker->Free(rmid, change.generation, true, change.ts_ns);
      break;
    case kExisting:
      tracker->Existing(rmid, change.generation, owner, change.ts_ns);
      break;
  }
}

TEST(Tracker, OwnerIsAsOfTheTimeAdvancedTo) {
  constexpr uint64_t kNear = UINT64_MAX - 50;  // the clock wraps between 50 and 51 later
  const struct {
    const char* what;
    std::vector<Change> changes;
    uint64_t advance_ns;
    uint32_t generation;
    int32_t owner;  // 0: nobody
  } cases[] = {
      {"nothing is known", {}, 100, 1, 0},
      {"before its time", {{kAlloc, 1, 7, 50}}, 49, 1, 0},
      {"at its time", {{kAlloc, 1, 7, 50}}, 50, 1, 7},
      {"after its time", {{kAlloc, 1, 7, 50}}, 51, 1, 7},
      {"another generation", {{kAlloc, 1, 7, 50}}, 60, 2, 0},
      {"dead, but kept for its slot", {{kAlloc, 1, 7, 50}, {kFree, 1, 0, 60}}, 70, 1, 7},
      {"kept as long as promised", {{kAlloc, 1, 7, 50}, {kFree, 1, 0, 60}}, 60 + kKeepNs - 1, 1, 7},
      {"and no longer", {{kAlloc, 1, 7, 50}, {kFree, 1, 0, 60}}, 60 + kKeepNs, 1, 0},
      {"alive is kept for ever", {{kAlloc, 1, 7, 50}}, 1'000'000, 1, 7},
      {"next owner", {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kAlloc, 2, 8, 30}}, 30, 2, 8},
      {"not yet", {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kAlloc, 2, 8, 30}}, 29, 2, 0},
      {"as long as it is remembered",
       {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kAlloc, 2, 8, 30}},
       19 + kKeepNs,
       1,
       7},
      {"not any more", {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kAlloc, 2, 8, 30}}, 20 + kKeepNs, 1, 0},
      {"arrival is not time", {{kFree, 1, 0, 20}, {kAlloc, 2, 8, 30}, {kAlloc, 1, 7, 10}}, 25, 1, 7},
      {"free was lost", {{kAlloc, 1, 7, 10}, {kAlloc, 2, 8, 30}}, 30, 2, 8},
      {"duplicate changes nothing", {{kAlloc, 1, 7, 10}, {kAlloc, 1, 9, 20}}, 30, 1, 7},
      {"older alloc changes nothing", {{kAlloc, 5, 7, 10}, {kAlloc, 4, 9, 20}}, 30, 5, 7},
      {"free of nobody's", {{kFree, 1, 0, 10}}, 20, 1, 0},
      {"free of an old generation", {{kAlloc, 2, 7, 10}, {kFree, 1, 0, 20}}, 5000, 2, 7},
      {"existing, first news", {{kExisting, 9, 7, 10}}, 20, 9, 7},
      {"existing, newer", {{kAlloc, 1, 7, 10}, {kExisting, 2, 8, 20}}, 20, 2, 8},
      {"existing, same", {{kAlloc, 1, 7, 10}, {kExisting, 1, 9, 20}}, 20, 1, 7},
      {"existing, older", {{kAlloc, 3, 7, 10}, {kExisting, 2, 9, 20}}, 20, 3, 7},
      {"existing after its free",
       {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kExisting, 1, 7, 30}},
       30,
       1,
       7},
      {"and it stays dead",
       {{kAlloc, 1, 7, 10}, {kFree, 1, 0, 20}, {kExisting, 1, 7, 30}},
       50 + kKeepNs,
       1,
       0},
      {"generation wraps", {{kAlloc, UINT32_MAX, 7, 10}, {kAlloc, 0, 8, 20}}, 20, 0, 8},
      {"older across the wrap", {{kAlloc, 0, 8, 10}, {kAlloc, UINT32_MAX, 7, 20}}, 20, 0, 8},
      {"clock wraps, before", {{kAlloc, 1, 7, kNear}, {kAlloc, 2, 8, kNear + 60}}, kNear + 50, 1, 7},
      {"clock wraps, after", {{kAlloc, 1, 7, kNear}, {kAlloc, 2, 8, kNear + 60}}, kNear + 60, 2, 8},
      {"wraps, queued in disorder",
       {{kAlloc, 2, 8, kNear + 60}, {kAlloc, 1, 7, kNear}},
       kNear + 55,
       1,
       7},
      {"wraps, kept", {{kAlloc, 1, 7, kNear}, {kFree, 1, 0, kNear + 40}}, kNear + 39 + kKeepNs, 1, 7},
      {"wraps, forgotten",
       {{kAlloc, 1, 7, kNear}, {kFree, 1, 0, kNear + 40}},
       kNear + 40 + kKeepNs,
       1,
       0},
  };
  for (const auto& c : cases) {
    Tracker tracker(kKeepNs);
    for (const Change& change : c.changes) Queue(&tracker, 3, change);
    tracker.Advance(c.advance_ns);
    const Process* owner = OwnerOf(tracker, 3, c.generation);
    EXPECT_EQ(owner ? owner->key.tgid : 0, c.owner) << c.what;
  }
}

TEST(Tracker, CountsWhatItDid) {
  const struct {
    const char* what;
    std::vector<Change> changes;
    uint64_t nr_allocs, nr_frees, nr_duplicates, nr_unknown;
  } cases[] = {
      {"a life", {{kAlloc, 1, 7, 1}, {kFree, 1, 0, 2}}, 1, 1, 0, 0},
      {"two lives",
       {{kAlloc, 1, 7, 1}, {kFree, 1, 0, 2}, {kAlloc, 2, 8, 3}, {kFree, 2, 0, 4}},
       2,
       2,
       0,
       0},
      {"duplicate", {{kAlloc, 1, 7, 1}, {kAlloc, 1, 7, 2}}, 1, 0, 1, 0},
      {"alloc of the past", {{kAlloc, 2, 7, 1}, {kAlloc, 1, 7, 2}}, 1, 0, 1, 0},
      {"double free", {{kAlloc, 1, 7, 1}, {kFree, 1, 0, 2}, {kFree, 1, 0, 3}}, 1, 1, 0, 1},
      {"free of nobody's", {{kFree, 1, 0, 2}}, 0, 0, 0, 1},
      {"free of an old generation", {{kAlloc, 2, 7, 1}, {kFree, 1, 0, 2}}, 1, 0, 0, 1},
      {"free of a coming generation", {{kAlloc, 2, 7, 1}, {kFree, 3, 0, 2}}, 1, 0, 0, 1},
      {"existing is no alloc", {{kExisting, 1, 7, 1}, {kExisting, 1, 7, 2}}, 0, 0, 0, 0},
  };
  for (const auto& c : cases) {
    Tracker tracker(kKeepNs);
    for (const Change& change : c.changes) Queue(&tracker, 3, change);
    tracker.Advance(100);
    EXPECT_EQ(tracker.stats().nr_allocs, c.nr_allocs) << c.what;
    EXPECT_EQ(tracker.stats().nr_frees, c.nr_frees) << c.what;
    EXPECT_EQ(tracker.stats().nr_duplicate_allocs, c.nr_duplicates) << c.what;
    EXPECT_EQ(tracker.stats().nr_unknown_frees, c.nr_unknown) << c.what;
  }
}

TEST(Tracker, IgnoresRmidsThatCannotBe) {
  for (uint32_t rmid : {0u, 65536u, UINT32_MAX}) {
    Tracker tracker(kKeepNs);
    tracker.Alloc(rmid, 1, {7, 1}, 10);
    tracker.Free(rmid, 1, true, 20);
    tracker.Advance(30);
    EXPECT_EQ(OwnerOf(tracker, rmid, 1), nullptr) << rmid;
    EXPECT_EQ(tracker.nr_processes(), 0u) << rmid;
    EXPECT_EQ(tracker.stats().nr_unknown_frees, 1u) << rmid;
  }
}

TEST(Tracker, NameIsTheOneThatHeldAtTheTimeAdvancedTo) {
  Tracker tracker(kKeepNs);
  ProcessKey key = {7, 1};
  tracker.Meta(Meta(key, SS_TASK_BIRTH, "bash"), 10);
  tracker.Meta(Meta(key, SS_TASK_EXEC, "make"), 20);
  tracker.Meta(Meta(key, SS_TASK_RENAME, "make-worker"), 30);
  uint32_t id = See(&tracker, key, 5);
  const struct {
    uint64_t advance_ns;
    const char* name;
  } cases[] = {{9, ""}, {10, "bash"}, {19, "bash"}, {20, "make"}, {29, "make"}, {30, "make-worker"}};
  for (const auto& c : cases) {
    tracker.Advance(c.advance_ns);
    EXPECT_EQ(NameOf(tracker, id), c.name) << c.advance_ns;
    EXPECT_EQ(tracker.process(id).named, c.advance_ns >= 10) << c.advance_ns;
  }
}

TEST(Tracker, KeepsWhatMetaSays) {
  Tracker tracker(kKeepNs);
  ss_task_meta meta = Meta({7, 1}, SS_TASK_EXISTING | SS_TASK_KTHREAD, "kworker/0:1", 2);
  meta.cgroup_id = 99;
  tracker.Meta(meta, 10);
  tracker.Advance(10);
  const Process& process = tracker.process(See(&tracker, {7, 1}, 10));
  EXPECT_TRUE(process.kernel);
  EXPECT_EQ(process.cgroup_id, 99u);
  EXPECT_EQ(process.ppid, 2);
  EXPECT_FALSE(process.dead);
}

TEST(Tracker, ResolveMakesANamelessProcessOnce) {
  Tracker tracker(kKeepNs);
  uint32_t id = See(&tracker, {7, 1}, 10);
  EXPECT_EQ(See(&tracker, {7, 1}, 20), id);
  EXPECT_NE(See(&tracker, {8, 1}, 20), id);
  EXPECT_EQ(tracker.nr_processes(), 2u);
  EXPECT_FALSE(tracker.process(id).named);
}

TEST(Tracker, RebornTgidIsAnotherProcess) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 100}, 100);
  tracker.Meta(Meta({7, 100}, SS_TASK_BIRTH, "first"), 100);
  tracker.Free(3, 1, true, 200);
  tracker.Alloc(4, 1, {7, 201}, 201);
  tracker.Meta(Meta({7, 201}, SS_TASK_BIRTH, "second"), 201);
  tracker.Advance(300);
  uint32_t first = See(&tracker, {7, 100}, 190);
  uint32_t second = See(&tracker, {7, 201}, 250);
  ASSERT_NE(first, second);
  EXPECT_EQ(NameOf(tracker, first), "first");
  EXPECT_EQ(NameOf(tracker, second), "second");
  EXPECT_TRUE(tracker.process(first).dead);
  EXPECT_FALSE(tracker.process(second).dead);
  EXPECT_EQ(OwnerOf(tracker, 3, 1), &tracker.process(first));
  EXPECT_EQ(OwnerOf(tracker, 4, 1), &tracker.process(second));
}

TEST(Tracker, RmidKnowsItsOwnersApartByGeneration) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 100}, 100);
  tracker.Free(3, 1, true, 200);
  tracker.Alloc(3, 2, {8, 250}, 250);
  tracker.Advance(300);
  ASSERT_NE(OwnerOf(tracker, 3, 1), nullptr);
  EXPECT_EQ(OwnerOf(tracker, 3, 1)->key.tgid, 7);
  ASSERT_NE(OwnerOf(tracker, 3, 2), nullptr);
  EXPECT_EQ(OwnerOf(tracker, 3, 2)->key.tgid, 8);
  tracker.Advance(200 + kKeepNs);  // forgets 7; the RMID is 8's all the same
  EXPECT_EQ(OwnerOf(tracker, 3, 1), nullptr);
  ASSERT_NE(OwnerOf(tracker, 3, 2), nullptr);
  EXPECT_EQ(OwnerOf(tracker, 3, 2)->key.tgid, 8);
}

TEST(Tracker, AProcessLivesOnWhenItsRmidIsTakenBack) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Meta(Meta({7, 1}, SS_TASK_BIRTH, "sleeper"), 10);
  tracker.Free(3, 1, false, 200);
  tracker.Alloc(3, 2, {8, 250}, 250);
  tracker.Advance(260);
  const uint32_t sleeper = tracker.Lookup({7, 1});
  EXPECT_FALSE(tracker.process(sleeper).dead);
  EXPECT_EQ(tracker.process(sleeper).rmid, 0u);
  EXPECT_EQ(NameOf(tracker, sleeper), "sleeper");
  EXPECT_EQ(OwnerOf(tracker, 3, 1), &tracker.process(sleeper));
  EXPECT_EQ(OwnerOf(tracker, 3, 2)->key.tgid, 8);
  EXPECT_EQ(tracker.stats().nr_frees, 1u);
  EXPECT_EQ(tracker.stats().nr_taken_back, 1u);

  // It runs again, and gets another one: what the first one counted is still its own, for a while.
  tracker.Alloc(5, 1, {7, 1}, 300);
  tracker.Advance(310);
  EXPECT_EQ(tracker.process(sleeper).rmid, 5u);
  EXPECT_EQ(OwnerOf(tracker, 3, 1), &tracker.process(sleeper));
  EXPECT_EQ(OwnerOf(tracker, 5, 1), &tracker.process(sleeper));
  tracker.Advance(200 + kKeepNs);
  EXPECT_EQ(OwnerOf(tracker, 3, 1), nullptr);
  EXPECT_EQ(OwnerOf(tracker, 5, 1), &tracker.process(sleeper));
  tracker.Free(5, 1, true, 400 + kKeepNs);
  tracker.Advance(400 + 3 * kKeepNs);
  EXPECT_EQ(tracker.Lookup({7, 1}), Tracker::kNoProcess);
  EXPECT_EQ(tracker.stats().nr_taken_back, 1u) << "not this one: its process ended";
}

TEST(Tracker, AMeasureUnderANewRmidDoesNotHideWhatTheOldOneCounted) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Advance(20);
  const uint32_t id = tracker.Lookup({7, 1});
  tracker.Seen(id, 500, 9, 4);  // ahead of the messages that say so
  EXPECT_EQ(OwnerOf(tracker, 3, 1), &tracker.process(id));
  tracker.Free(3, 1, false, 400);
  tracker.Advance(600);
  EXPECT_EQ(tracker.process(id).rmid, 9u);
  EXPECT_EQ(OwnerOf(tracker, 3, 1), &tracker.process(id));
  EXPECT_EQ(OwnerOf(tracker, 9, 4), &tracker.process(id));
}

TEST(Tracker, WhoLostItsRmidUnheardIsAliveOnceItIsSeen) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Alloc(3, 2, {8, 1}, 100);  // the message that took it from 7 was lost
  tracker.Advance(110);
  const uint32_t id = tracker.Lookup({7, 1});
  EXPECT_TRUE(tracker.process(id).dead);
  tracker.Seen(id, 200, 0, 0);
  EXPECT_FALSE(tracker.process(id).dead);
}

TEST(Tracker, ALastMeasureProlongsTheMemoryOfTheDead) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Meta(Meta({7, 1}, SS_TASK_BIRTH, "late"), 10);
  tracker.Free(3, 1, true, 20);
  tracker.Advance(30);
  uint32_t id = See(&tracker, {7, 1}, 500);
  tracker.Advance(20 + kKeepNs);
  EXPECT_EQ(NameOf(tracker, id), "late");
  tracker.Advance(500 + kKeepNs);
  EXPECT_EQ(tracker.nr_processes(), 0u);
}

TEST(Tracker, ProcessWithoutRmidEndsByItsExit) {
  Tracker tracker(kKeepNs);
  tracker.Meta(Meta({7, 1}, SS_TASK_BIRTH, "poor"), 10);
  tracker.Meta(Meta({7, 1}, SS_TASK_EXIT, ""), 20);
  tracker.Advance(20);
  const Process& process = tracker.process(See(&tracker, {7, 1}, 15));
  EXPECT_TRUE(process.dead);
  EXPECT_STREQ(process.comm.data(), "poor") << "the exit brings no name";
  tracker.Advance(20 + kKeepNs);
  EXPECT_EQ(tracker.nr_processes(), 0u);
}

TEST(Tracker, ExitOfAnUnknownProcessMakesNone) {
  Tracker tracker(kKeepNs);
  tracker.Meta(Meta({7, 1}, SS_TASK_EXIT, ""), 20);
  tracker.Advance(30);
  EXPECT_EQ(tracker.nr_processes(), 0u);
}

TEST(Tracker, DumpEndForgetsWhomTheDumpDidNotName) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);                         // gone, its free was lost
  tracker.Alloc(4, 1, {8, 1}, 10);                         // named by its RMID
  tracker.Meta(Meta({9, 1}, SS_TASK_BIRTH, "named"), 10);  // named by its metadata
  See(&tracker, {10, 1}, 10);                              // seen to run since
  See(&tracker, {11, 1}, 10);                              // gone, had no RMID
  tracker.Existing(4, 1, {8, 1}, 110);
  tracker.Meta(Meta({9, 1}, SS_TASK_EXISTING, "named"), 110);
  See(&tracker, {10, 1}, 120);
  tracker.Alloc(5, 1, {12, 105}, 105);  // born meanwhile
  tracker.Meta(Meta({13, 1}, SS_TASK_BIRTH, "gone"), 10);
  tracker.DumpEnd(100, 130);
  tracker.Advance(130);
  EXPECT_EQ(tracker.stats().nr_forgotten, 3u);
  EXPECT_EQ(tracker.TakeMissing(), (std::vector<ProcessKey>{{13, 1}})) << "those with a name";
  EXPECT_TRUE(tracker.TakeMissing().empty());
  tracker.Advance(130 + kKeepNs);
  EXPECT_EQ(tracker.nr_processes(), 4u);
  EXPECT_EQ(OwnerOf(tracker, 3, 1), nullptr);
  EXPECT_NE(OwnerOf(tracker, 4, 1), nullptr);
  EXPECT_NE(OwnerOf(tracker, 5, 1), nullptr);
}

TEST(Tracker, DumpEndTakesEffectAtItsTime) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.DumpEnd(100, 130);
  tracker.Advance(129);
  EXPECT_EQ(tracker.stats().nr_forgotten, 0u);
  tracker.Advance(130);
  EXPECT_EQ(tracker.stats().nr_forgotten, 1u);
}

TEST(Tracker, MemoryIsBackAtItsSizeAfterManyLives) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(1, 1, {1, 1}, 1);
  uint32_t largest_id = 0;
  uint64_t now_ns = 10;
  for (int32_t i = 0; i < 100'000; i++, now_ns += 10) {
    ProcessKey key = {2 + i % 30'000, now_ns};
    uint32_t rmid = 2 + static_cast<uint32_t>(i) % 500;
    auto generation = 1 + static_cast<uint32_t>(i) / 500;
    tracker.Alloc(rmid, generation, key, now_ns);
    tracker.Meta(Meta(key, SS_TASK_BIRTH, "short"), now_ns);
    largest_id = std::max(largest_id, See(&tracker, key, now_ns + 2));
    tracker.Free(rmid, generation, true, now_ns + 5);
    tracker.Advance(now_ns);
  }
  tracker.Advance(now_ns + kKeepNs);
  EXPECT_EQ(tracker.nr_processes(), 1u) << "who still lives";
  EXPECT_EQ(tracker.stats().nr_frees, 100'000u);
  EXPECT_LT(largest_id, 4 * kKeepNs / 10) << "ids are used again";
}

// Bursts of 10,000, of which some have RMIDs: what they took goes back, and every id is what it would be
// else.
TEST(Tracker, WhatABurstTookGoesBack) {
  Tracker tracker(kKeepNs);
  std::mt19937 random(7);
  std::map<uint32_t, ProcessKey> used;
  uint64_t now_ns = 10 * kKeepNs;
  int32_t tgid = 0;
  uint32_t generation = 0;
  for (int round = 0; round < 4; round++) {
    const size_t nr_stay = used.size() + random() % 20;
    uint32_t id = 0;
    for (uint32_t i = 0; i < 10'000; i++) {
      const ProcessKey key = {++tgid, 1};
      while (used.contains(id)) id++;
      if (i >= 200 && i % 50 == 0) {  // none of those that stay
        tracker.Alloc(1 + i / 50, ++generation, key, now_ns);
        tracker.Advance(now_ns);
      }
      ASSERT_EQ(See(&tracker, key, now_ns), id);
      tracker.Meta(Meta(key, 0, "one"), now_ns);
      used[id] = key;
    }
    tracker.Advance(++now_ns);
    tracker.Ranks();
    EXPECT_GE(tracker.nr_ids(), 10'000u);
    while (used.size() > nr_stay) {
      auto last = std::prev(used.end());
      tracker.Meta(Meta(last->second, SS_TASK_EXIT, ""), now_ns);
      used.erase(last);
    }
    for (int i = 0; i < 6; i++) tracker.Advance(now_ns += kKeepNs);
    // Leases name whoever had an RMID last, until it is somebody else's.
    for (int32_t rmid = 1; rmid <= 200; rmid++)
      tracker.Alloc(static_cast<uint32_t>(rmid), ++generation, {1'000'000 + rmid, generation}, now_ns);
    tracker.Advance(++now_ns);
    for (int32_t rmid = 1; rmid <= 200; rmid++)
      tracker.Free(static_cast<uint32_t>(rmid), generation - 200 + static_cast<uint32_t>(rmid), true,
                   now_ns);
    for (int i = 0; i < 6; i++) tracker.Advance(now_ns += kKeepNs);
    EXPECT_LE(tracker.nr_ids(), 400u) << round;
    for (const auto& [known, key] : used) EXPECT_EQ(tracker.Lookup(key), known);
    EXPECT_GE(tracker.Ranks().size(), used.size());
  }
}

TEST(Tracker, ANewProcessGetsTheLowestIdThatIsFree) {
  Tracker tracker(kKeepNs);
  for (int32_t tgid = 1; tgid <= 5; tgid++) EXPECT_EQ(See(&tracker, {tgid, 1}, 10), tgid - 1u);
  for (const int32_t tgid : {2, 4, 1}) tracker.Meta(Meta({tgid, 1}, SS_TASK_EXIT, ""), 20 + tgid);
  tracker.Advance(30 + 2 * kKeepNs);
  for (const uint32_t id : {0u, 1u, 3u, 5u})
    EXPECT_EQ(See(&tracker, {static_cast<int32_t>(100 + id), 1}, 5000), id);
}

// A process that a dump failed to name (its message was dropped) runs on. It must not keep all that
// die after it in memory.
TEST(Tracker, OneThatWasTakenForDeadAndRunsOnKeepsNobodyElse) {
  Tracker tracker(kKeepNs);
  See(&tracker, {1, 1}, 10);
  tracker.DumpEnd(100, 120);
  tracker.Advance(120);
  ASSERT_EQ(tracker.stats().nr_forgotten, 1u);
  uint64_t now_ns = 200;
  for (int32_t i = 0; i < 10'000; i++, now_ns += 10) {
    ProcessKey key = {2 + i, now_ns};
    See(&tracker, {1, 1}, now_ns);
    tracker.Alloc(3, 1 + static_cast<uint32_t>(i), key, now_ns);
    tracker.Free(3, 1 + static_cast<uint32_t>(i), true, now_ns + 5);
    tracker.Advance(now_ns);
  }
  EXPECT_LT(tracker.nr_processes(), 4 * kKeepNs / 10);
}

TEST(Tracker, OneThatWasTakenForDeadAndIsNamedAgainKeepsItsName) {
  Tracker tracker(kKeepNs);
  tracker.Meta(Meta({7, 1}, SS_TASK_BIRTH, "alive"), 10);
  tracker.DumpEnd(100, 120);                                   // did not name it
  tracker.Meta(Meta({7, 1}, SS_TASK_EXISTING, "alive"), 210);  // the next one does
  tracker.DumpEnd(200, 220);
  tracker.Advance(230);
  tracker.Advance(230 + 2 * kKeepNs);
  EXPECT_EQ(NameOf(tracker, See(&tracker, {7, 1}, 230 + 2 * kKeepNs)), "alive");
}

// An exit for a process that has an RMID cannot be, but what comes out of a ring can say anything.
TEST(Tracker, AnRmidNeverNamesAProcessThatDidNotOwnIt) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Meta(Meta({7, 1}, SS_TASK_EXIT, ""), 20);
  tracker.Advance(20 + kKeepNs);
  uint32_t id = See(&tracker, {8, 5000}, 5000);  // may get the id that 7 had
  const Process* owner = OwnerOf(tracker, 3, 1);
  EXPECT_NE(owner ? owner->key.tgid : 0, 8);
  tracker.Free(3, 1, true, 5010);
  tracker.Advance(5010);
  EXPECT_FALSE(tracker.process(id).dead) << "the free was not about this process";
}

TEST(Tracker, FollowsDescendantsOnly) {
  Tracker tracker(kKeepNs);
  tracker.Follow(10);
  tracker.Meta(Meta({9, 1}, SS_TASK_EXISTING, "shell"), 10);
  tracker.Meta(Meta({10, 20}, SS_TASK_BIRTH, "make", 9), 20);
  tracker.Meta(Meta({11, 30}, SS_TASK_BIRTH, "cc", 10), 30);
  tracker.Meta(Meta({12, 40}, SS_TASK_BIRTH, "as", 11), 40);
  tracker.Meta(Meta({13, 50}, SS_TASK_BIRTH, "other", 9), 50);
  tracker.Advance(60);
  const struct {
    ProcessKey key;
    bool followed;
  } cases[] = {{{9, 1}, false}, {{10, 20}, true}, {{11, 30}, true}, {{12, 40}, true}, {{13, 50}, false}};
  for (const auto& c : cases)
    EXPECT_EQ(tracker.process(See(&tracker, c.key, 60)).followed, c.followed) << c.key.tgid;
}

TEST(Tracker, FollowsOnWhenTheParentIsGone) {
  Tracker tracker(kKeepNs);
  tracker.Follow(10);
  tracker.Meta(Meta({10, 1}, SS_TASK_BIRTH, "parent"), 10);
  tracker.Meta(Meta({11, 1}, SS_TASK_BIRTH, "child", 10), 20);
  tracker.Meta(Meta({10, 1}, SS_TASK_EXIT, ""), 30);
  tracker.Advance(30 + kKeepNs);
  EXPECT_EQ(tracker.nr_processes(), 1u);
  tracker.Meta(Meta({12, 2000}, SS_TASK_BIRTH, "grandchild", 11), 2000);
  tracker.Advance(2000);
  EXPECT_TRUE(tracker.process(See(&tracker, {12, 2000}, 2000)).followed);
}

TEST(Tracker, DoesNotFollowARebornTgid) {
  Tracker tracker(kKeepNs);
  tracker.Follow(10);
  tracker.Meta(Meta({10, 1}, SS_TASK_BIRTH, "followed"), 10);
  tracker.Meta(Meta({10, 1}, SS_TASK_EXIT, ""), 20);
  tracker.Advance(20 + kKeepNs);
  tracker.Meta(Meta({10, 3000}, SS_TASK_BIRTH, "stranger", 1), 3000);
  tracker.Meta(Meta({11, 3010}, SS_TASK_BIRTH, "its child", 10), 3010);
  tracker.Advance(3010);
  EXPECT_FALSE(tracker.process(See(&tracker, {10, 3000}, 3010)).followed);
  EXPECT_FALSE(tracker.process(See(&tracker, {11, 3010}, 3010)).followed);
}

TEST(Tracker, FollowsOneThatIsKnownAlready) {
  Tracker tracker(kKeepNs);
  uint32_t id = See(&tracker, {10, 1}, 10);
  tracker.Follow(10);
  EXPECT_TRUE(tracker.process(id).followed);
}

TEST(Tracker, AHintIsVerified) {
  Tracker tracker(kKeepNs);
  // The same RMID, or tgids that share a hint, or none at all: everybody is found, and only as himself.
  std::vector<ProcessKey> keys = {{7, 1}, {7, 2}, {7 + 1024, 1},
                                  {8, 1}, {0, 0}, {INT32_MAX, UINT64_MAX}};
  std::vector<uint32_t> ids;
  for (const ProcessKey& key : keys) ids.push_back(tracker.Resolve(key, 3, 10));
  for (uint32_t rmid : {0u, 3u, 4u, 1023u, 1024u, 65535u, UINT32_MAX})
    for (size_t i = 0; i < keys.size(); i++) EXPECT_EQ(tracker.Resolve(keys[i], rmid, 20), ids[i]);
  EXPECT_EQ(tracker.nr_processes(), keys.size());
}

TEST(Tracker, AHeldProcessKeepsItsIdHoweverLongItIsDead) {
  Tracker tracker(kKeepNs);
  tracker.Alloc(3, 1, {7, 1}, 10);
  tracker.Meta(Meta({7, 1}, SS_TASK_BIRTH, "held"), 10);
  tracker.Free(3, 1, true, 20);
  tracker.Advance(30);
  uint32_t id = tracker.Resolve({7, 1}, 3, 15);
  tracker.Hold(id, 20 * kKeepNs);
  for (uint64_t now_ns = 1000; now_ns < 20 * kKeepNs; now_ns += 1000) {
    tracker.Advance(now_ns);
    EXPECT_NE(tracker.Resolve({8, now_ns}, 0, now_ns), id);
  }
  EXPECT_EQ(NameOf(tracker, id), "held");
  tracker.Advance(22 * kKeepNs);
  EXPECT_NE(NameOf(tracker, id), "held") << "it is forgotten in the end";
}

TEST(Tracker, RanksAreTheOrderOfTgidAndStart) {
  Tracker tracker(kKeepNs);
  std::map<ProcessKey, uint32_t> alive;
  std::mt19937_64 random(7);
  uint64_t now_ns = 10;
  for (int step = 0; step < 300; step++, now_ns += 2 * kKeepNs) {
    for (uint64_t births = random() % 5; births > 0; births--) {
      ProcessKey key = {static_cast<int32_t>(random() % 50),
                        static_cast<uint64_t>(100'000 - step) * 8 + births};
      alive[key] = tracker.Resolve(key, 0, now_ns);
    }
    for (uint64_t deaths = random() % 5; deaths > 0 && !alive.empty(); deaths--) {
      auto victim = std::next(alive.begin(), static_cast<ptrdiff_t>(random() % alive.size()));
      tracker.Meta(Meta(victim->first, SS_TASK_EXIT, ""), now_ns);
      alive.erase(victim);
    }
    tracker.Advance(now_ns);
    if (random() % 2) continue;  // several changes between two looks
    tracker.Advance(now_ns + kKeepNs);
    const std::vector<uint32_t>& ranks = tracker.Ranks();
    size_t free_from = 0;
    for (const auto& [key, id] : alive) {
      ASSERT_GE(ranks[id], free_from) << key.tgid;
      ASSERT_LT(ranks[id], tracker.nr_ranks()) << key.tgid;
      free_from = ranks[id] + 1;
    }
    ASSERT_EQ(alive.size(), tracker.nr_processes());
    ASSERT_LE(tracker.nr_ranks(), 2 * alive.size() + 128) << "places of those that have gone";
  }
}

TEST(IsBefore, IsRightAcrossTheWrap) {
  const struct {
    uint64_t a, b;
    bool before;
  } cases[] = {
      {1, 2, true},          {2, 1, false},          {1, 1, false},
      {UINT64_MAX, 0, true}, {0, UINT64_MAX, false}, {UINT64_MAX - 5, 100, true},
  };
  for (const auto& c : cases) EXPECT_EQ(IsBefore(c.a, c.b), c.before) << c.a << " " << c.b;
}

}  // namespace
}  // namespace slotscope
