// SPDX-License-Identifier: MIT
// What a page is made of. What a browser makes of it: tests/report/page_test.py.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "report/overview.h"
#include "report/packer.h"
#include "report/page.h"
#include "report/page_data.h"
#include "report/tracks.h"
#include "report/wait_table.h"
#include "tests/unit/slot_row.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<uint64_t>;

constexpr int64_t kUnix = kRowsUnixNs;

std::string Unpacked(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string packed;
  for (size_t i = 0; i + 3 < base64.size(); i += 4) {
    uint32_t bits = 0;
    size_t nr = 0;
    for (size_t k = 0; k < 4; k++) {
      const size_t digit = digits.find(base64[i + k]);
      bits = bits << 6 | (digit == digits.npos ? 0 : static_cast<uint32_t>(digit));
      nr += digit != digits.npos;
    }
    for (size_t k = 0; k + 1 < nr; k++) packed += static_cast<char>(bits >> (16 - 8 * k));
  }
  std::string bytes(1 << 22, '\0');
  uLongf size = bytes.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  bytes.resize(size);
  return bytes;
}

Numbers StreamOf(const std::string& bytes, const Json& where) {
  Numbers numbers;
  uint64_t number = 0, shift = 0;
  for (size_t i = where[0]; i < where[0].get<size_t>() + where[1].get<size_t>(); i++) {
    number |= uint64_t{static_cast<unsigned char>(bytes[i])} % 128 << shift;
    shift += 7;
    if (static_cast<unsigned char>(bytes[i]) >= 128) continue;
    numbers.push_back(number);
    number = shift = 0;
  }
  return numbers;
}

// Of distances.
Numbers SumsOf(Numbers numbers) {
  for (size_t i = 1; i < numbers.size(); i++) numbers[i] += numbers[i - 1];
  return numbers;
}

TEST(Packer, NumbersComeBackAsTheyWere) {
  Packer packer;
  const Numbers first = {0, 1, 127, 128, 16383, 16384, UINT32_MAX}, second = {5}, none;
  const Json a = packer.PutAll(first), b = packer.PutAll(none), c = packer.PutAll(second);
  const std::string bytes = Unpacked(packer.Text());
  EXPECT_EQ(StreamOf(bytes, a), first);
  EXPECT_EQ(StreamOf(bytes, b), none);
  EXPECT_EQ(StreamOf(bytes, c), second);
  for (size_t nr = 0; nr < 5; nr++) {  // whatever is left over of three bytes
    Packer some;
    const Json where = some.PutAll(Numbers(nr, 9));
    EXPECT_EQ(StreamOf(Unpacked(some.Text()), where), Numbers(nr, 9));
  }
}

TEST(Tracks, TheMachineIsTheSumOfItsProcesses) {
  Tracks tracks({kUnix, kUnix + 5 * kMsNs});
  tracks.OnRow(MakeSlotRow(0, 10, "a", 600'000, 200'000));
  tracks.OnRow(MakeSlotRow(0, 11, "b", 400'004, 0));
  tracks.OnRow(MakeSlotRow(0, 0, "", 900'000, 0, "idle"));
  tracks.OnRow(MakeSlotRow(0, 0, "", 100'000, 0, "lost"));
  tracks.OnRow(MakeSlotRow(2 * kMsNs, 10, "a2", 1, 0));        // little is not nothing
  tracks.OnRow(MakeSlotRow(5 * kMsNs, 10, "a2", 700'000, 0));  // behind the range
  tracks.OnRow(MakeSlotRow(-kMsNs, 10, "a2", 700'000, 0));     // and before
  const MachineTrack& machine = tracks.machine();
  EXPECT_EQ(tracks.nr_ms(), 5u);
  EXPECT_EQ(machine.cpu, (std::vector<uint32_t>{100, 0, 1, 0, 0}));
  EXPECT_EQ(machine.wait, (std::vector<uint32_t>{20, 0, 0, 0, 0}));
  EXPECT_EQ(machine.lost, (std::vector<uint32_t>{10, 0, 0, 0, 0}));
  EXPECT_EQ(machine.is_recorded, (std::vector<uint8_t>{1, 0, 1, 0, 0}));
  EXPECT_TRUE(machine.has_waits);
  EXPECT_FALSE(machine.has_gpu);
  ASSERT_EQ(tracks.processes().size(), 2u);
  EXPECT_EQ(tracks.processes()[0].comm, "a2");
  EXPECT_EQ(tracks.processes()[0].rows.size(), 2u);
  EXPECT_EQ(tracks.processes()[0].cpu, 61u);
}

TEST(Tracks, ALongSlotIsInEachOfItsMilliseconds) {
  Tracks tracks({kUnix, kUnix + 6 * kMsNs});
  SlotRow row = MakeSlotRow(kMsNs, 10, "a", 2'000'000, 4'000'000);
  row.slot_ns = 4 * kMsNs;
  tracks.OnRow(row);
  EXPECT_EQ(tracks.machine().cpu, (std::vector<uint32_t>{0, 50, 50, 50, 50, 0}));
  EXPECT_EQ(tracks.machine().wait, (std::vector<uint32_t>{0, 100, 100, 100, 100, 0}));
  EXPECT_EQ(tracks.longest_slot_ms(), 4);
}

TEST(Tracks, TwoSlotsThatBeginInOneMillisecondAreAdded) {
  Tracks tracks({kUnix, kUnix + 2 * kMsNs});
  tracks.OnRow(MakeSlotRow(100, 10, "a", 300'000));
  tracks.OnRow(MakeSlotRow(900'000, 10, "a", 400'000));
  ASSERT_EQ(tracks.processes().size(), 1u);
  ASSERT_EQ(tracks.processes()[0].rows.size(), 1u);
  EXPECT_EQ(tracks.processes()[0].rows[0].cpu, 70u);
}

// As a page has it: two seconds in which hog runs instead of web for 100 ms, and many do little.
struct PageOfHog {
  UnixRange range = {kUnix, kUnix + 2000 * kMsNs};
  Tracks tracks{range};
  std::vector<WaitTableRow> waits;  // of the table; empty: there is none
  std::vector<SlotRow> slots;
  Moments moments;
  Overview overview;
  RecordingFacts facts;
  ProcessPlaces places;
  GroupBy group_by = GroupBy::kName;

  explicit PageOfHog(int nr_others) {
    const auto on = [&](const SlotRow& row) {
      tracks.OnRow(row);
      slots.push_back(row);
    };
    for (int64_t ms = 0; ms < 2000; ms++) {
      const bool hog = ms >= 1000 && ms < 1100;
      on(MakeSlotRow(ms * kMsNs, 10, "web", hog ? 200'000 : 1'000'000, hog ? 800'000 : 0));
      if (hog) {
        on(MakeSlotRow(ms * kMsNs, 20, "hog", 800'000));
        waits.push_back({kUnix + ms * kMsNs, {10, 7}, "others", {20, 7}, "hog", 0, 800'000});
      }
      if (nr_others && ms % 3 == 0)
        on(MakeSlotRow(ms * kMsNs, static_cast<int32_t>(100 + ms / 3 % nr_others), "other", 10'000,
                       10'000));
    }
    Stall stall;
    stall.from_ns = kUnix + 1000 * kMsNs;
    stall.to_ns = kUnix + 1100 * kMsNs;
    stall.who.name = "web";
    stall.who.nr = 1;
    stall.who.tgid = 10;
    Neighbor hog;
    hog.who.name = "hog";
    hog.who.nr = 1;
    hog.who.tgid = 20;
    stall.neighbors = {hog};
    stall.why = kByOthers;
    stall.ns[kByOthers] = 80'000'000;
    moments.stalls = {stall};
    facts.nr_cpus = 2;
    facts.first_ns = range.from_ns;
    facts.last_ns = range.to_ns;
  }
  Json Data() const {
    const Cast cast(moments, tracks, places, group_by);
    const Stretches near = NearMarks(moments, overview, range, tracks.nr_ms());
    WaitTable table(range, near, [&](const ProcessKey& process) { return cast.Find(process); });
    for (const WaitTableRow& row : waits) table.OnWait(row);
    if (waits.empty())
      for (const SlotRow& row : slots) table.OnSlot(row);
    table.Finish();
    return Json::parse(
        PageData({moments, overview, facts, range, tracks, cast, near, table, places, group_by}));
  }
};

// Of a place that is told of, all that are in it.
TEST(PageData, TheTableIsByThePlacesThatWereAskedFor) {
  PageOfHog page(300);
  page.places.OnLine("slot_start_ns,tgid,start_time_ns,comm,cgroup,container_id,pod_uid,pod,unit");
  page.places.OnLine("0,10,7,web,/a/web,,,,web.service");
  page.places.OnLine("0,250,7,other,/a/hogs,,,,hogs.service");
  page.places.OnLine("0,20,7,hog,/a/hogs,,,,hogs.service");
  page.group_by = GroupBy::kCgroup;
  page.moments.stalls[0].neighbors[0].who = {"/a/hogs", 2, 20, false, true, ""};
  const Json data = page.Data();
  EXPECT_EQ(data["places"], "cgroup");
  EXPECT_EQ(data["processes"][0].value("in", ""), "/a/web");
  EXPECT_EQ(data["processes"][1].value("in", ""), "/a/hogs");
  EXPECT_EQ(data["processes"][2].value("in", ""), "/a/hogs");
  EXPECT_FALSE(data["processes"][3].contains("in"));
  page.group_by = GroupBy::kName;
  EXPECT_EQ(page.Data()["processes"][0].value("in", ""), "web.service");
}

TEST(PageData, WhoIsToldOfIsKnownToTheMillisecond) {
  const PageOfHog page(300);
  const Json data = page.Data();
  ASSERT_EQ(data["processes"].size(), kShownProcesses);
  EXPECT_EQ(data["nr_processes"], 302);
  EXPECT_EQ(data["processes"][0]["name"], "web");
  EXPECT_EQ(data["processes"][1]["name"], "hog");
  EXPECT_NE(data["moments"][0]["sentence"].get<std::string>().find("web (10) waited 80.0 of 100 ms"),
            std::string::npos);
  const std::string bytes = Unpacked(data["packed"]);
  const Json& hog = data["processes"][1]["fine"];
  const Numbers at = SumsOf(StreamOf(bytes, hog["at"]));
  ASSERT_EQ(at.size(), 100u);
  EXPECT_EQ(at.front(), 1000u);
  EXPECT_EQ(at.back(), 1099u);
  EXPECT_EQ(StreamOf(bytes, hog["cpu"]), Numbers(100, 80));
  size_t nr_fine = 0;
  for (const Json& process : data["processes"]) nr_fine += process.contains("fine");
  EXPECT_EQ(nr_fine, kFineProcesses);
}

TEST(PageData, WhatIsCoarseSaysItsLeastAndItsMost) {
  PageOfHog page(300);
  const Json data = page.Data();
  const std::string bytes = Unpacked(data["packed"]);
  const Json& last = data["processes"].back();
  ASSERT_TRUE(last.contains("coarse")) << last;
  EXPECT_EQ(StreamOf(bytes, last["coarse"]["cpu_max"]).front(), 1u);
  EXPECT_EQ(StreamOf(bytes, last["coarse"]["cpu_min"]).front(), 0u)
      << "in other milliseconds it did nothing";
  bool has_near = false;
  for (const Json& process : data["processes"]) {
    if (!process.contains("near")) continue;
    has_near = true;
    for (const uint64_t ms : SumsOf(StreamOf(bytes, process["near"]["at"]))) {
      EXPECT_GE(ms, 500u);
      EXPECT_LT(ms, 1600u);
    }
  }
  EXPECT_TRUE(has_near);
}

// Sum over the whole page, by waiter and cause.
std::map<std::pair<uint64_t, uint64_t>, uint64_t> WaitsOf(const Json& data) {
  const std::string bytes = Unpacked(data["packed"]);
  const Json& waits = data["waits"]["all"];
  const Numbers who = StreamOf(bytes, waits["who"]), cause = StreamOf(bytes, waits["cause"]);
  const Numbers amount = StreamOf(bytes, waits["amount"]);
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> sums;
  for (size_t i = 0; i < who.size(); i++) sums[{who[i], cause[i]}] += amount[i];
  return sums;
}

TEST(PageData, EachWaitHasItsCauseOnce) {
  const PageOfHog page(0);
  const Json data = page.Data();
  const uint64_t hog = data["waits"]["causes"].size() + 1;
  const auto sums = WaitsOf(data);
  EXPECT_EQ(sums, (std::map<std::pair<uint64_t, uint64_t>, uint64_t>{{{0, hog}, 80'000}}));
  // Without the table, whoever ran longest did; and without him, others did.
  PageOfHog plain(0);
  plain.waits.clear();
  EXPECT_EQ(WaitsOf(plain.Data()).begin()->first, (std::pair<uint64_t, uint64_t>{0, 0}));
  for (SlotRow& row : plain.slots)
    if (row.wait_ns[kByOthers]) {
      row.ran_instead = {20, 7};
      row.ran_instead_ns = 600'000;
    }
  EXPECT_EQ(WaitsOf(plain.Data()),
            (std::map<std::pair<uint64_t, uint64_t>, uint64_t>{{{0, 0}, 20'000}, {{0, hog}, 60'000}}));
}

TEST(WaitTable, ALongRangeIsKeptInLongerSteps) {
  const UnixRange range = {kUnix, kUnix + 100'000 * kMsNs};
  WaitTable table(range, {{5000, 5100}},
                  [](const ProcessKey& process) { return static_cast<size_t>(process.tgid); });
  // 10,000 bins of 300 waiters each.
  for (int64_t bin = 0; bin < 10'000; bin++)
    for (int32_t tgid = 0; tgid < 300; tgid++)
      table.OnWait({kUnix + bin * kBinNs, {tgid, 7}, "self", {}, "", 0, 50'000});
  table.Finish();
  EXPECT_EQ(table.bins_together(), 5u);
  EXPECT_EQ(table.all().size(), 2000u * 300);
  uint64_t steps = 0;
  for (const BinWait& wait : table.all()) steps += wait.steps;
  EXPECT_EQ(steps, 10'000u * 300 * 50) << "nothing is lost by that";
  ASSERT_EQ(table.near().size(), 10u * 300);
  EXPECT_EQ(table.near().front().bin, 500u);
  EXPECT_EQ(table.near().back().bin, 509u);
}

// 40 processes that wait for 4 us in each bin are not nobody.
TEST(WaitTable, ManyShortWaitsAreNotRoundedAway) {
  const UnixRange range = {kUnix, kUnix + 100 * kMsNs};
  WaitTable table(range, {},
                  [](const ProcessKey& process) { return static_cast<size_t>(process.tgid); });
  for (int64_t bin = 0; bin < 10; bin++)
    for (int32_t tgid = 0; tgid < 40; tgid++)
      table.OnWait({kUnix + bin * kBinNs, {tgid, 7}, "self", {}, "", 0, 4'000});
  table.Finish();
  uint64_t ns = 0;
  for (const BinWait& wait : table.all()) ns += wait.steps * kWaitStepNs;
  EXPECT_EQ(ns, 10u * 40 * 4'000);
}

// It is of the time in which it was waited, and also if its row is behind the range.
TEST(WaitTable, WhatIsToldLateIsOfWhenItWas) {
  const UnixRange range = {kUnix, kUnix + 1000 * kMsNs};
  const auto place_of = [](const ProcessKey& process) { return static_cast<size_t>(process.tgid); };
  for (const bool is_in_table : {true, false}) {
    WaitTable table(range, {}, place_of);
    const auto tell = [&](int64_t told_ms, int64_t from_ms, uint64_t ms) {
      if (is_in_table)
        return table.OnWait({kUnix + told_ms * kMsNs,
                             {3, 7},
                             "earlier",
                             {},
                             "",
                             0,
                             ms * kMsNs,
                             kUnix + from_ms * kMsNs});
      SlotRow row;
      row.start_ns = kUnix + told_ms * kMsNs;
      row.key = {3, 7};
      row.wait_earlier_ns = ms * kMsNs;
      table.OnSlot(row);
    };
    tell(140, 105, 35);
    tell(2000, 985, 1015);
    tell(2000, 1500, 500);
    table.Finish();
    std::map<uint32_t, uint32_t> steps;
    for (const BinWait& wait : table.all()) {
      EXPECT_EQ(wait.cause, kWaitEarlier);
      steps[wait.bin] += wait.steps;
    }
    EXPECT_EQ(steps,
              (std::map<uint32_t, uint32_t>{
                  {10, 5'000}, {11, 10'000}, {12, 10'000}, {13, 10'000}, {98, 5'000}, {99, 10'000}}));
  }
}

TEST(WaitTable, OfWhatIsToldLateItSaysWhoRan) {
  const UnixRange range = {kUnix, kUnix + 1000 * kMsNs};
  WaitTable table(range, {},
                  [](const ProcessKey& process) { return static_cast<size_t>(process.tgid); });
  WaitTableRow row = {kUnix + 200 * kMsNs, {3, 7}, "earlier", {9, 7}, "hog", 0, 15 * kMsNs};
  row.wait_start_ns = kUnix + 100 * kMsNs;
  row.wait_until_ns = kUnix + 120 * kMsNs;
  row.earlier_cause = "others";
  table.OnWait(row);
  row.ran = {};
  row.ns = 3 * kMsNs;
  table.OnWait(row);  // several that are not named
  row.earlier_cause = "throttled";
  row.ns = 2 * kMsNs;
  table.OnWait(row);
  table.Finish();
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> steps;  // by bin and cause
  for (const BinWait& wait : table.all()) steps[{wait.bin, wait.cause}] += wait.steps;
  constexpr uint32_t kHog = kNrWaitValues + 9;
  EXPECT_EQ(steps, (std::map<std::pair<uint32_t, uint32_t>, uint32_t>{{{10, kWaitOthers}, 1'500},
                                                                      {{10, kWaitThrottled}, 1'000},
                                                                      {{10, kHog}, 7'500},
                                                                      {{11, kWaitOthers}, 1'500},
                                                                      {{11, kWaitThrottled}, 1'000},
                                                                      {{11, kHog}, 7'500}}));
}

TEST(PageData, WhatWasNotRecordedIsAGap) {
  PageOfHog page(0);
  Tracks tracks(page.range);
  for (int64_t ms = 0; ms < 2000; ms++)
    if (ms < 100 || (ms >= 150 && ms < 1990))
      tracks.OnRow(MakeSlotRow(ms * kMsNs, 10, "web", 1'000'000));
  std::swap(page.tracks, tracks);
  const Json data = page.Data();
  EXPECT_EQ(data["quality"]["gaps"].dump(), R"([{"from_ms":100,"ms":50},{"from_ms":1990,"ms":10}])");
  EXPECT_EQ(data["quality"]["not_measured"].dump(),
            R"(["perf counters","GPU activity","memory traffic"])");
}

TEST(Page, NothingInItEndsItsScript) {
  const std::string page = MakePage("</title><script>", R"({"name":"</script><img src=x>"})");
  EXPECT_EQ(page.find("</script><img"), page.npos);
  EXPECT_NE(page.find(R"({"name":"\u003c/script>\u003cimg src=x>"})"), page.npos);
  EXPECT_NE(page.find("&lt;/title>&lt;script>"), page.npos);
  EXPECT_EQ(page.find("@DATA@"), page.npos);
  EXPECT_EQ(page.find("@SCRIPT@"), page.npos);
}

TEST(Page, NeedsNoNetwork) {
  const std::string page = MakePage("x", "{}");
  for (const char* reference :
       {"src=\"http", "href=\"http", "src=http", "@import", "url(http", "fetch(", "WebSocket"})
    EXPECT_EQ(page.find(reference), page.npos) << reference;
}

}  // namespace
}  // namespace slotscope
