// SPDX-License-Identifier: MIT
// The last second of a recording: what is in it, and how it is shown. In a terminal:
// tests/live/top_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "slots/wait_row.h"
#include "tests/unit/slot_row.h"
#include "top/board.h"
#include "top/columns.h"
#include "top/control.h"
#include "top/second.h"
#include "top/second_json.h"
#include "top/strip.h"
#include "top/view.h"

namespace slotscope {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

// One that has read everything.
struct Machine {
  Board board;
  History history;
  std::vector<SlotRow> rows;

  void Take(const SlotRow& row) {
    rows.push_back(row);
    board.OnSlot(row);
  }
  // As the follower does it.
  TopSecond Second(TopGroupBy by = {}, const Selection& selection = {}) {
    const UnixRange range = LastSecondOf(board);
    history = History();
    history.SetCpus(2);
    for (const SlotRow& row : rows)
      if (row.start_ns >= range.from_ns && row.start_ns < range.to_ns) {
        history.OnSlot(row);
        if (row.ran_instead.tgid > 0)
          history.OnWait(row.start_ns, row.key, row.ran_instead, "", 0, row.ran_instead_ns);
      }
    history.Finish();
    return MakeSecond(board, history, by, selection);
  }
  TopView View(const TopSecond& second) const { return {board, second, "node-7", "a test", Zone(), ""}; }
};

const TopRow* Find(const TopSecond& second, const std::string& name) {
  for (const TopRow& row : second.rows)
    if (row.who.name == name) return &row;
  return nullptr;
}

// A hog and whoever waits for it, two seconds of them.
Machine HogAndVictim() {
  Machine machine;
  for (int64_t ms = 0; ms < 2000; ms++) {
    machine.Take(MakeSlotRow(ms * kMs, 0, "", 1'000'000, 0, "idle"));
    machine.Take(MakeSlotRow(ms * kMs, 10, "hog", 700'000, 300'000));
    SlotRow victim = MakeSlotRow(ms * kMs, 11, "victim", 300'000, ms == 1431 ? 950'000 : 700'000);
    victim.state = "waiting";
    victim.state_since_ns = victim.start_ns;
    victim.ran_instead = {10, 7};
    victim.ran_instead_ns = 700'000;
    machine.Take(victim);
  }
  return machine;
}

TEST(Top, TheLastSecondIsTheSumOfItsSlots) {
  std::mt19937_64 random(7);
  Machine machine;
  for (int64_t ms = 0; ms < 2500; ms++)
    for (int32_t tgid = 1; tgid <= 5; tgid++)
      if (random() % 3)
        machine.Take(MakeSlotRow(ms * kMs, tgid, ("p" + std::to_string(tgid)).c_str(),
                                 random() % 1'000'000, random() % 900'000));
  const TopSecond second = machine.Second();
  EXPECT_EQ(second.to_ns, kRowsUnixNs + 2500 * kMs);
  EXPECT_EQ(second.from_ns, second.to_ns - kSecondNs);
  struct Sums {
    uint64_t cpu_ns = 0, wait_ns = 0, worst_ns = 0;
    bool operator==(const Sums&) const = default;
  };
  const auto truth_of = [&](const std::function<SlotRow(SlotRow)>& changed) {
    std::map<int32_t, Sums> sums;
    for (const SlotRow& original : machine.rows) {
      const SlotRow row = changed(original);
      if (row.start_ns < second.from_ns || row.start_ns >= second.to_ns) continue;
      Sums& its = sums[row.key.tgid];
      its.cpu_ns += row.cpu_ns;
      its.wait_ns += row.wait_ns[kByOthers];
      its.worst_ns = std::max(its.worst_ns, row.wait_ns[kByOthers]);
    }
    return sums;
  };
  std::map<int32_t, Sums> shown;
  for (const TopRow& row : second.rows)
    shown[row.who.tgid] = {row.did.cpu_ns, row.did.wait_ns, row.worst_wait_ns};
  EXPECT_EQ(shown, truth_of([](SlotRow row) { return row; }));
  // What this must not take for right.
  EXPECT_NE(shown, truth_of([](SlotRow row) {
              row.start_ns += kMs;
              return row;
            }));
  EXPECT_NE(shown, truth_of([](SlotRow row) {
              row.cpu_ns *= 2;
              return row;
            }));
  EXPECT_NE(shown, truth_of([](SlotRow row) {
              row.key.tgid = row.key.tgid == 1 ? 2 : row.key.tgid == 2 ? 1 : row.key.tgid;
              return row;
            }));
}

TEST(Top, SaysWhoRanInsteadAndWhenItWasWorst) {
  Machine machine = HogAndVictim();
  const TopSecond second = machine.Second();
  const TopRow* victim = Find(second, "victim");
  ASSERT_TRUE(victim);
  EXPECT_EQ(victim->did.wait_ns, 999u * 700'000 + 950'000);
  EXPECT_EQ(victim->worst_wait_ns, 950'000u);
  EXPECT_EQ(victim->worst_start_ns, kRowsUnixNs + 1431 * kMs);
  ASSERT_EQ(victim->ran_instead.size(), 1u);
  EXPECT_EQ(victim->ran_instead[0], std::pair(std::string("hog (10)"), uint64_t{700'000'000}));
  EXPECT_EQ(second.worst_start_ns, kRowsUnixNs + 1431 * kMs);
  EXPECT_EQ(second.worst_who, "victim (11)");
  EXPECT_EQ(second.cpu_ns, 1000u * 1'000'000);
}

// One that was preempted before the second began has no row in it.
TEST(Top, WhoWaitsAllTheTimeIsThere) {
  Machine machine;
  SlotRow row = MakeSlotRow(0, 12, "starved", 100'000, 0);
  row.state = "waiting";
  row.state_since_ns = row.start_ns + 100'000;
  machine.Take(row);
  row.key = {13, 7};
  row.comm = "stopped";
  row.state = "stopped";
  machine.Take(row);
  row.key = {14, 7};
  row.comm = "sleeper";
  row.state = "asleep";
  machine.Take(row);
  for (int64_t ms = 1; ms < 30'000; ms++) machine.Take(MakeSlotRow(ms * kMs, 10, "hog", 1'000'000));
  const TopSecond second = machine.Second();
  const TopRow* starved = Find(second, "starved");
  ASSERT_TRUE(starved);
  EXPECT_EQ(starved->did.wait_ns, static_cast<uint64_t>(kSecondNs));
  EXPECT_EQ(starved->did.cpu_ns, 0u);
  EXPECT_FALSE(starved->has_worst());  // in which of its slots, no row says
  EXPECT_EQ(starved->state.name, "waiting");
  ASSERT_TRUE(Find(second, "stopped"));
  EXPECT_EQ(Find(second, "stopped")->did.wait_ns, 0u);
  EXPECT_FALSE(Find(second, "sleeper"));
  // Whoever has ended without a word is not among those who are there.
  ProcessPlaces places;
  places.OnLine("slot_start_ns,tgid,start_time_ns,cgroup,container_id,pod_uid,pod,unit");
  places.OnLine("5,13,7,/,,,,");
  machine.board.SetPlaces(places, Board::Known::kSome);
  EXPECT_TRUE(Find(machine.Second(), "starved"));
  machine.board.SetPlaces(places, Board::Known::kAll);
  EXPECT_FALSE(Find(machine.Second(), "starved"));
  EXPECT_TRUE(Find(machine.Second(), "stopped"));
}

TEST(Top, ProcessesOfAMomentAreOneRowForTheirName) {
  Machine machine;
  for (int64_t ms = 0; ms < 3000; ms++) {
    machine.Take(MakeSlotRow(ms * kMs, 20, "make", 100'000));
    machine.Take(MakeSlotRow(ms * kMs, 21, "make", 100'000));
    if (ms % 10 == 0)
      machine.Take(MakeSlotRow(ms * kMs, 1000 + static_cast<int32_t>(ms), "cc1", 500'000));
  }
  TopSecond second = machine.Second();
  ASSERT_EQ(second.rows.size(), 3u);
  EXPECT_EQ(Find(second, "cc1")->who.Text(), "cc1 x 100");
  EXPECT_EQ(Find(second, "cc1")->did.cpu_ns, 100u * 500'000);
  second = machine.Second(GroupBy::kName);
  ASSERT_EQ(second.rows.size(), 2u);
  EXPECT_EQ(Find(second, "make")->who.Text(), "make x 2");
  EXPECT_EQ(Find(second, "make")->did.cpu_ns, 2'000u * 100'000);
}

TEST(Top, TakesThoseThatAreSelectedAndGroupsThemByPod) {
  Machine machine = HogAndVictim();
  ProcessPlaces places;
  places.OnLine("slot_start_ns,tgid,start_time_ns,cgroup,container_id,pod_uid,pod,unit");
  places.OnLine("5,11,7,/kubepods/pod1/c,abc,uid1,ml/train-0,");
  machine.board.SetPlaces(places, Board::Known::kAll);
  Selection selection;
  selection.comms = {"victim"};
  TopSecond second = machine.Second({}, selection);
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_EQ(second.rows[0].who.name, "victim");
  EXPECT_EQ(second.cpu_ns, 1000u * 1'000'000);  // of the machine, all the same
  const UnixRange range = LastSecondOf(machine.board);
  History history;
  for (const SlotRow& row : machine.rows)
    if (row.start_ns >= range.from_ns) history.OnSlot(row);
  history.Finish();
  history.SetPlaces(places);
  second = MakeSecond(machine.board, history, GroupBy::kPod, {});
  ASSERT_TRUE(Find(second, "pod ml/train-0"));
  EXPECT_TRUE(Find(second, "hog"));  // it is in none
  selection = {};
  selection.groups.pods = {"ml/train-0"};
  second = MakeSecond(machine.board, history, {}, selection);
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_EQ(second.rows[0].who.name, "victim");
}

TEST(Top, AStripShowsTheWorstSlotOfEachStep) {
  Machine machine;
  const auto take = [&](int64_t ms, uint64_t cpu_ns, uint64_t wait_ns) {
    machine.Take(MakeSlotRow(ms * kMs, 0, "", 0, 0, "idle"));
    if (cpu_ns + wait_ns) machine.Take(MakeSlotRow(ms * kMs, 11, "it", cpu_ns, wait_ns));
  };
  take(0, 1000, 0);
  take(1, 1000, 50'000);
  take(2, 1000, 400'000);
  take(3, 1000, 900'000);
  take(4, 0, 0);
  // 5 was not recorded
  take(6, 1000, 0);
  const auto text = [&](int64_t step_ms, size_t nr) {
    return PlainText({StripLine(machine.board.Strip({{11, 7}}, kRowsUnixNs, step_ms * kMs, nr), 0, nr)});
  };
  EXPECT_EQ(text(1, 7), ".-=# /.\n");
  EXPECT_EQ(text(2, 4), "-# .\n");
  // What is told late was there all the same, as far as slots were.
  WaitTableRow earlier;
  earlier.waiter = {11, 7};
  earlier.wait_start_ns = kRowsUnixNs + 4 * kMs;
  earlier.ns = 2'000'000;
  machine.board.OnEarlierWait(earlier);
  EXPECT_EQ(text(1, 7), ".-=##/.\n");
  // Of the same wait, for another reason: a part of the same time.
  earlier.wait_until_ns = kRowsUnixNs + 6 * kMs;
  earlier.ns = 500'000;
  const uint64_t before_ns = machine.board.machine().at(4).wait_ns;
  machine.board.OnEarlierWait(earlier);
  EXPECT_EQ(machine.board.machine().at(4).wait_ns, before_ns + 250'000);
  earlier.wait_until_ns = 0;
  // Numbers that cannot be change nothing.
  earlier.ns = UINT64_MAX;
  machine.board.OnEarlierWait(earlier);
  earlier.ns = 1'000'000;
  earlier.wait_until_ns = INT64_MAX;
  machine.board.OnEarlierWait(earlier);
  earlier.wait_until_ns = 0;
  earlier.waiter = {999, 7};
  machine.board.OnEarlierWait(earlier);
  EXPECT_EQ(text(1, 7), ".-=##/.\n");
}

TEST(Top, OneUnknownMillisecondDoesNotHideALongerStep) {
  Machine machine;
  for (int64_t ms = 0; ms < 20; ms++) {
    machine.Take(MakeSlotRow(ms * kMs, 0, "", 0, 0, "idle"));
    machine.Take(MakeSlotRow(ms * kMs, 11, "it", 1000, 0));
    if (ms == 3 || ms >= 18) machine.Take(MakeSlotRow(ms * kMs, 0, "", 700'000, 0, "lost"));
  }
  const auto text = [&](int64_t step_ms, size_t nr) {
    return PlainText({StripLine(machine.board.Strip({{11, 7}}, kRowsUnixNs, step_ms * kMs, nr), 0, nr)});
  };
  EXPECT_EQ(text(1, 20), "...?..............??\n");
  EXPECT_EQ(text(10, 2), ".?\n");
}

// Those of a name were a row; one of them is left, and has his own.
TEST(Top, WhoIsLeftOfAGroupIsLookedAt) {
  Machine machine = HogAndVictim();
  const TopSecond second = machine.Second();
  TopControl control;
  control.page = TopControl::Page::kDetail;
  control.selected_id = "a row that is gone";
  control.detail_name = "victim x 2";
  control.detail_members = {{11, 7}, {12, 7}};
  TopControl::Shown shown;
  const auto text = [&] {
    return PlainText(MakeScreen(machine.View(second), 24, 80, &control, &shown));
  };
  EXPECT_THAT(text(), HasSubstr("victim (11): waited 700 ms"));
  control.detail_members = {{12, 7}};
  EXPECT_THAT(text(), HasSubstr("victim x 2: did nothing in this second"));
}

TEST(Top, NoPageIsWiderOrHigherThanTheScreen) {
  Machine machine = HogAndVictim();
  for (int32_t i = 0; i < 40; i++)
    machine.Take(
        MakeSlotRow(1999 * kMs, 100 + i, "a-name-of-15-by", 1000 + static_cast<uint64_t>(i), 3));
  const TopSecond second = machine.Second();
  for (const auto page : {TopControl::Page::kList, TopControl::Page::kDetail, TopControl::Page::kHelp})
    for (size_t width = 1; width < 220; width += 3)
      for (size_t height : {1, 17, 18, 24, 60}) {
        TopControl control;
        control.page = page;
        control.selected_id = second.rows[0].id;
        TopControl::Shown shown;
        const ScreenText lines = MakeScreen(machine.View(second), height, width, &control, &shown);
        if (width < kMinWidth || height < kMinHeight) {
          ASSERT_EQ(lines.size(), 1u);
          continue;
        }
        ASSERT_LE(lines.size(), height) << width;
        for (const ScreenLine& line : lines) {
          size_t length = 0;
          for (const Piece& piece : line) length += piece.text.size();
          ASSERT_LE(length, width) << PlainText(lines);
        }
      }
}

TEST(Top, AScreenOf80By24ShowsWhatMatters) {
  Machine machine = HogAndVictim();
  const TopSecond second = machine.Second();
  TopControl control;
  TopControl::Shown shown;
  std::string text = PlainText(MakeScreen(machine.View(second), 24, 80, &control, &shown));
  EXPECT_THAT(text, HasSubstr("node-7"));
  EXPECT_THAT(text, HasSubstr("    PID NAME"));
  EXPECT_THAT(text, HasSubstr("     11 victim            30.0   70.0  0.95 .431 700 hog (10)"));
  EXPECT_THAT(text, HasSubstr("lost 0.0%  node-7\n"));
  EXPECT_THAT(text, Not(HasSubstr("GPU%")));  // nobody uses one
  control.OnKey({Key::kEnter, 0}, shown);
  text = PlainText(MakeScreen(machine.View(second), 24, 80, &control, &shown));
  EXPECT_THAT(text, HasSubstr("victim (11): waited 700 ms: others 700"));
  EXPECT_THAT(text, HasSubstr("ran instead (ms): 700 hog (10)"));
  // The worst step of all is chosen, and told by the millisecond.
  EXPECT_THAT(text, HasSubstr("at worst 0.95 in "));
}

// A slot is of all the steps that it lasts, and its numbers are of all of it.
TEST(Top, LongSlotsHaveNoHolesAndNoMoreThanTheyLast) {
  Machine machine;
  for (int64_t ms = 0; ms < 2000; ms += 10) {
    SlotRow row = MakeSlotRow(ms * kMs, 11, "victim", 3'000'000, 6'000'000);
    row.slot_ns = 10 * kMs;
    machine.Take(row);
  }
  const ProcessKey victim = machine.rows[0].key;
  for (const int64_t from_ms : {1000, 1003, 1012}) {
    const auto steps = machine.board.Strip({victim}, kRowsUnixNs + from_ms * kMs, kMs, 12);
    for (const StripStep& step : steps) EXPECT_TRUE(step.is_recorded) << from_ms;
  }
  EXPECT_FALSE(machine.board.Strip({victim}, kRowsUnixNs + 2000 * kMs, kMs, 1)[0].is_recorded);
  const TopSecond second = machine.Second();
  TopControl control;
  TopControl::Shown shown;
  MakeScreen(machine.View(second), 24, 80, &control, &shown);
  control.OnKey({Key::kEnter, 0}, shown);
  const std::string text = PlainText(MakeScreen(machine.View(second), 24, 80, &control, &shown));
  EXPECT_THAT(text, HasSubstr("by slots of 10 ms"));
  EXPECT_THAT(text, HasSubstr("of 20 ms it ran 6.00, waited 12.0"));
}

TEST(Top, WhatIsCutSaysSoAndPathsKeepTheirEnd) {
  EXPECT_EQ(Field("ld-linux-x86-64 (17912)", 20, true), "ld-linux-x86-64 (17+");
  EXPECT_EQ(Field("web", 5, true), "web  ");
  EXPECT_EQ(Field("/kubepods/burstable/web", 12, true), "+rstable/web");
  EXPECT_EQ(Field("12.5 /system.slice/cron.service", 20, true), "12.5 +e/cron.service");
  const std::string id(64, 'c');
  EXPECT_EQ(Field("/docker/" + id, 20, true), "/docker/cccccccccccc");
  EXPECT_EQ(Field("/ (30 processes): waited", 20, true), "/ (30 processes): w+");
}

TEST(Top, KeysMoveSortFilterAndEnd) {
  Machine machine = HogAndVictim();
  const TopSecond second = machine.Second();
  TopControl control;
  TopControl::Shown shown;
  const auto press = [&](const std::string& keys) {
    for (const char key : keys) {
      MakeScreen(machine.View(second), 24, 80, &control, &shown);
      control.OnKey(key == '\n'  ? KeyPress{Key::kEnter, 0}
                    : key == 'V' ? KeyPress{Key::kDown, 0}
                    : key == 'A' ? KeyPress{Key::kUp, 0}
                    : key == 'E' ? KeyPress{Key::kEscape, 0}
                                 : KeyPress{Key::kLetter, key},
                    shown);
    }
    MakeScreen(machine.View(second), 24, 80, &control, &shown);
  };
  const auto first = [&] { return shown.rows.empty() ? "nobody" : shown.rows[0]->who.name; };
  press("");
  EXPECT_EQ(first(), "victim");
  press("c");
  EXPECT_EQ(first(), "hog");
  press("c");
  EXPECT_EQ(first(), "victim");  // the other way round
  press("w/ho");
  EXPECT_EQ(first(), "hog");
  press("zz");
  EXPECT_EQ(first(), "nobody");
  press("\nV\n");  // there is nobody to be looked at
  EXPECT_EQ(control.page, TopControl::Page::kList);
  press("E");
  EXPECT_EQ(shown.rows.size(), 2u);
  press("VVV");
  EXPECT_EQ(control.selected_id, Find(second, "hog")->id);
  press("A");
  EXPECT_EQ(control.selected_id, Find(second, "victim")->id);
  press("\nV");
  EXPECT_EQ(control.page, TopControl::Page::kDetail);
  EXPECT_TRUE(control.is_paused);
  press(" q");
  EXPECT_FALSE(control.is_paused);
  EXPECT_EQ(control.page, TopControl::Page::kList);
  EXPECT_FALSE(control.wants_end);
  std::vector<TopGroupBy> seen;
  for (int i = 0; i < 5; i++) {
    press("g");
    seen.push_back(control.by);
  }
  EXPECT_EQ(seen, (std::vector<TopGroupBy>{GroupBy::kName, GroupBy::kPod, GroupBy::kUnit,
                                           GroupBy::kCgroup, std::nullopt}));
  press("q");
  EXPECT_TRUE(control.wants_end);
}

TEST(Top, JsonHasNoNumberForWhatWasNotMeasured) {
  Machine machine;
  for (int64_t ms = 0; ms < 1500; ms++) {
    SlotRow row = MakeSlotRow(ms * kMs, 10, "one", 500'000);
    row.has_waits = false;
    machine.Take(row);
  }
  const TopSecond second = machine.Second();
  const auto json = nlohmann::json::parse(SecondJson(machine.View(second), 10, TopControl()));
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_EQ(json["rows"][0]["cpu_ns"], 500'000'000);
  EXPECT_FALSE(json.contains("wait_ns"));
  for (const char* name : {"wait_ns", "wait_causes_ns", "gpu_active_ns", "mbm_total_bytes"})
    EXPECT_FALSE(json["rows"][0].contains(name)) << name;
  EXPECT_THAT(PlainText(MakeTable(machine.View(second), 5, TopControl())),
              HasSubstr("waiting was not measured"));
  // Nor of a cause of waiting that the kernel does not show.
  Machine partly;
  for (int64_t ms = 0; ms < 1500; ms++) {
    SlotRow row = MakeSlotRow(ms * kMs, 10, "one", 500'000, 100'000);
    row.measured_waits &= static_cast<uint8_t>(~(1u << kByQuota));
    partly.Take(row);
  }
  const TopSecond its = partly.Second();
  const auto causes =
      nlohmann::json::parse(SecondJson(partly.View(its), 10, TopControl()))["rows"][0]["wait_causes_ns"];
  EXPECT_EQ(causes["others"], 100'000'000);
  EXPECT_FALSE(causes.contains("throttled"));
  EXPECT_THAT(PlainText(MakeTable(partly.View(its), 5, TopControl())),
              HasSubstr(" 10.0  0.10 .500     -     -       -"));
  // Nothing at all is no second of zeros.
  const Machine none;
  EXPECT_THAT(PlainText(MakeTable(none.View({}), 5, TopControl())),
              HasSubstr("nothing was recorded yet"));
}

}  // namespace
}  // namespace slotscope
