// SPDX-License-Identifier: MIT
#include "track/identity.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/state.h"

namespace slotscope {
namespace {

constexpr uint64_t kKeepNs = 1000;
const std::string kUid = "0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60";

ss_text Text(uint16_t type, ProcessKey key, uint64_t cgroup_id, const std::string& words,
             uint16_t flags = 0) {
  ss_text text = {};
  text.hdr.type = type;
  text.tgid = key.tgid;
  text.start_time_ns = key.start_time_ns;
  text.cgroup_id = cgroup_id;
  text.flags = flags;
  text.text_len = static_cast<uint16_t>(words.copy(text.text, sizeof(text.text)));
  return text;
}

// A tracker and what it knows in words, as the builder of slots has them.
struct Machine {
  Tracker tracker{kKeepNs};
  Identities identities;

  void Meta(ProcessKey key, uint32_t flags, const char* comm, uint64_t ts_ns, int32_t ppid = 0,
            uint64_t cgroup_id = 0) {
    ss_task_meta meta = {};
    meta.tgid = key.tgid;
    meta.start_time_ns = key.start_time_ns;
    meta.flags = flags;
    meta.ppid = ppid;
    meta.cgroup_id = cgroup_id;
    strncpy(meta.comm, comm, sizeof(meta.comm) - 1);
    tracker.Meta(meta, ts_ns);
    if (flags & SS_TASK_BIRTH) identities.OnBirth(key, ppid, ts_ns);
  }
  void Say(uint16_t type, ProcessKey key, uint64_t ts_ns, const std::string& words) {
    identities.OnText(Text(type, key, 0, words), ts_ns);
  }
  void Cgroup(uint64_t id, uint64_t ts_ns, const std::string& path, uint16_t type = SS_CGROUP) {
    identities.OnText(Text(type, {}, id, path), ts_ns);
  }
  // "10 sh /bin/sh /docker" of each that is told: tgid, comm, executable, cgroup; "-10": it is gone.
  std::vector<std::string> Advance(uint64_t ts_ns) {
    tracker.Advance(ts_ns);
    std::vector<std::string> texts;
    last = identities.Advance(ts_ns, &tracker);
    for (const ProcessIdentity& one : last)
      texts.push_back(one.gone ? "-" + std::to_string(one.key.tgid)
                               : std::to_string(one.key.tgid) + " " + std::string(CommText(one.comm)) +
                                     " " + (one.executable ? *one.executable : "?") + " " +
                                     (one.cgroup ? one.cgroup->path : "?"));
    return texts;
  }
  std::vector<ProcessIdentity> last;
};

using Told = std::vector<std::string>;

TEST(Identities, AProcessIsToldWhenItIsNamedRenamedExecutesOrMoves) {
  Machine m;
  m.Cgroup(7, 90, "/system.slice/cron.service");
  m.Meta({10, 1}, SS_TASK_EXISTING, "sh", 100, 1, 7);
  m.Say(SS_EXEC, {10, 0}, 101, "/bin/sh");  // by its tgid alone
  EXPECT_EQ(m.Advance(100), Told{"10 sh ? /system.slice/cron.service"});
  EXPECT_EQ(m.Advance(200), Told{"10 sh /bin/sh /system.slice/cron.service"});
  EXPECT_EQ(m.last[0].ppid, 1);
  EXPECT_EQ(m.last[0].cgroup->unit, "cron.service");
  EXPECT_EQ(m.Advance(300), Told{});
  m.Meta({10, 1}, SS_TASK_EXISTING, "sh", 310, 1, 7);  // another dump says the same
  m.Say(SS_EXEC, {10, 0}, 311, "/bin/sh");
  EXPECT_EQ(m.Advance(400), Told{});
  m.Meta({10, 1}, SS_TASK_RENAME, "other", 410, 1, 7);
  EXPECT_EQ(m.Advance(500), Told{"10 other /bin/sh /system.slice/cron.service"});
  m.Meta({10, 1}, SS_TASK_RENAME, "other", 510, 1, 7);
  EXPECT_EQ(m.Advance(510), Told{}) << "it had that name";
  m.tracker.MoveToCgroup({10, 1}, 8, 510);
  EXPECT_EQ(m.Advance(600), Told{"10 other /bin/sh ?"});
  m.Cgroup(8, 610, "/docker");
  EXPECT_EQ(m.Advance(700), Told{"10 other /bin/sh /docker"});
  m.Cgroup(8, 710, "/docker", SS_CGROUP_GONE);
  m.Meta({10, 1}, SS_TASK_EXIT, "", 720);
  EXPECT_EQ(m.Advance(800), Told{}) << "it is still named";
  EXPECT_EQ(m.Advance(800 + 2 * kKeepNs), Told{"-10"});
}

TEST(Identities, AChildExecutesWhatItsParentDidThen) {
  Machine m;
  m.Meta({1, 1}, SS_TASK_EXISTING, "make", 10);
  m.Say(SS_EXEC, {1, 0}, 11, "/usr/bin/make");
  m.Meta({2, 1}, SS_TASK_BIRTH, "make", 20, 1);
  m.Say(SS_EXEC, {1, 1}, 30, "/usr/bin/later");  // the parent, within the same slot
  m.Meta({3, 1}, SS_TASK_BIRTH, "make", 40, 1);
  m.Meta({4, 1}, SS_TASK_BIRTH, "sh", 50, 2);  // of one that was born just now
  m.Meta({5, 1}, SS_TASK_BIRTH, "x", 60, 99);  // of nobody
  EXPECT_EQ(m.Advance(100), (Told{"1 make /usr/bin/later ?", "2 make /usr/bin/make ?",
                                  "3 make /usr/bin/later ?", "4 sh /usr/bin/make ?", "5 x ? ?"}));
}

TEST(Identities, ALifeWithinASlotIsToldOnceWithAllOfIt) {
  Machine m;
  m.Meta({1, 1}, SS_TASK_EXISTING, "sh", 10);
  m.Advance(20);
  m.Meta({2, 1}, SS_TASK_BIRTH, "sh", 30, 1);
  m.Say(SS_EXEC, {2, 1}, 31, "/bin/true");
  m.Say(SS_ARGUMENTS, {2, 1}, 31, std::string("/bin/true\0--x\0", 14));
  m.Meta({2, 1}, SS_TASK_EXEC, "true", 32, 1);
  m.Meta({2, 1}, SS_TASK_EXIT, "", 33);
  EXPECT_EQ(m.Advance(40), Told{"2 true /bin/true ?"});
  ASSERT_TRUE(m.last[0].arguments);
  EXPECT_EQ(*m.last[0].arguments, "/bin/true --x");
}

TEST(Identities, ArgumentsAreThoseOfTheLastExec) {
  Machine m;
  m.Meta({2, 1}, SS_TASK_EXISTING, "sh", 10);
  m.Say(SS_EXEC, {2, 0}, 11, "/bin/sh");
  m.Say(SS_ARGUMENTS, {2, 0}, 12, "sh");
  m.Advance(20);
  ASSERT_TRUE(m.last.at(0).arguments);
  m.Say(SS_EXEC, {2, 1}, 21, "/bin/sh");  // the same file; what it was given is not told
  m.Meta({2, 1}, SS_TASK_EXEC, "sh", 21);
  m.Advance(30);
  EXPECT_FALSE(m.last.at(0).arguments);
  m.identities.OnText(Text(SS_ARGUMENTS, {2, 1}, 0, std::string(SS_TEXT_LEN, 'a'), SS_TEXT_CUT), 40);
  m.Advance(50);
  EXPECT_EQ(*m.last.at(0).arguments, std::string(SS_TEXT_LEN, 'a') + "...");
}

TEST(Identities, PodsGetTheirNamesWheneverTheseAreKnown) {
  Machine m;
  m.Cgroup(7, 10, "/kubepods/pod" + kUid + "/x");
  m.Meta({2, 1}, SS_TASK_EXISTING, "python", 11, 0, 7);
  m.Advance(20);
  EXPECT_EQ(m.last.at(0).cgroup->pod, "");
  m.identities.OnPods("nonsense\n " + kUid + "\n" + kUid + " ml/train-0\nother db/pg\n", 30);
  m.Advance(40);
  ASSERT_EQ(m.last.size(), 1u);
  EXPECT_EQ(m.last[0].cgroup->pod, "ml/train-0");
  m.identities.OnPods("", 50);  // its log went first
  EXPECT_EQ(m.Advance(60), Told{});
  m.identities.OnPods(kUid + " ml/train-0\n", 70);
  m.Cgroup(8, 80, "/kubepods/pod" + kUid + "/y");
  m.tracker.MoveToCgroup({2, 1}, 8, 81);
  m.Advance(90);
  EXPECT_EQ(m.last.at(0).cgroup->pod, "ml/train-0");
}

TEST(Identities, WhatComesOutOfOrderTakesEffectInItsOrder) {
  Machine m;
  m.Meta({2, 1}, SS_TASK_EXISTING, "sh", 10);
  m.Say(SS_EXEC, {2, 1}, 40, "/second");
  m.Say(SS_EXEC, {2, 1}, 30, "/first");
  EXPECT_EQ(m.Advance(30), Told{"2 sh /first ?"});
  EXPECT_EQ(m.Advance(50), Told{"2 sh /second ?"});
}

TEST(Identities, WhoIsUnknownIsNotTold) {
  Machine m;
  m.Say(SS_EXEC, {2, 1}, 10, "/bin/sh");  // its birth was lost
  m.tracker.MoveToCgroup({3, 1}, 8, 10);
  m.Cgroup(8, 10, "/x");
  EXPECT_EQ(m.Advance(20), Told{});
  m.tracker.Resolve({2, 1}, 0, 25);  // a measure
  m.Say(SS_EXEC, {2, 1}, 26, "/bin/sh");
  EXPECT_EQ(m.Advance(30), Told{}) << "nobody has named it";
  m.Meta({2, 1}, SS_TASK_EXISTING, "sh", 35);
  EXPECT_EQ(m.Advance(40), Told{"2 sh /bin/sh ?"});
}

TEST(Identities, WhoReadsAStateIsToldOfAllThatAreThere) {
  Machine m;
  m.Cgroup(7, 10, "/kubepods/pod" + kUid + "/x");
  m.Cgroup(8, 10, "/gone");
  m.identities.OnPods(kUid + " ml/train-0\n", 11);
  m.Meta({2, 1}, SS_TASK_EXISTING, "python", 12, 1, 7);
  m.Meta({3, 1}, SS_TASK_EXISTING, "left", 12, 1, 8);
  m.Say(SS_EXEC, {2, 1}, 13, "/usr/bin/python3");
  m.Say(SS_ARGUMENTS, {2, 1}, 13, "python3");
  const Told all = m.Advance(20);
  m.Cgroup(8, 25, "/gone", SS_CGROUP_GONE);
  EXPECT_EQ(m.Advance(30), Told{});
  m.Say(SS_EXEC, {3, 1}, 45, "/to/come");

  StateWriter writer;
  writer(m.tracker, m.identities);
  const std::string bytes = std::move(writer).text();
  Machine again;
  StateReader reader(std::as_bytes(std::span(bytes)));
  reader(again.tracker, again.identities);
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(again.Advance(40), all);
  EXPECT_EQ(again.last.at(0).cgroup->pod, "ml/train-0");
  EXPECT_EQ(again.Advance(50), m.Advance(50));
  EXPECT_EQ(again.last.size(), 1u);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    Machine damaged;
    StateReader cut(std::as_bytes(std::span(bytes)).first(size));
    cut(damaged.tracker, damaged.identities);
    EXPECT_FALSE(cut.done());
  }
}

TEST(Identities, OfCgroupsOnlySoManyAreKept) {
  Machine m;
  for (uint64_t id = 1; id <= 70'000; id++) m.Cgroup(id, id, "/x");
  m.Meta({2, 1}, SS_TASK_EXISTING, "in", 70'001, 1, 65'536);
  m.Meta({3, 1}, SS_TASK_EXISTING, "beyond", 70'001, 1, 65'537);
  EXPECT_EQ(m.Advance(80'000), (Told{"2 in ? /x", "3 beyond ? ?"}));
}

}  // namespace
}  // namespace slotscope
