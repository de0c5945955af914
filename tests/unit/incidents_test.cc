// SPDX-License-Identifier: MIT
#include "run/incidents.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "recording/manifest.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kS = 1000 * kMs;
constexpr int64_t kOffset = 1'795'000'000'000'000'000;

class IncidentsTest : public testing::Test {
 protected:
  void Start(const TriggerOptions& options) {
    ASSERT_TRUE(folder_.Open(temp_.At("r"), {3600 * kS, 0, 0}).ok());
    incidents_ = std::make_unique<Incidents>(options, &folder_, &events_);
  }
  Slot SlotAt(uint64_t start_ns, uint64_t wait_ns = 0) {
    Slot slot;
    slot.start_ns = start_ns;
    slot.end_ns = slot.start_ns + kMs;
    slot.unix_offset_ns = kOffset;
    Row row;
    row.key = {7, 1};
    row.comm = {'a', ',', 'b'};
    row.named = true;
    row.sums[kWaitNs] = wait_ns;
    slot.rows = {row};
    return slot;
  }
  void Play(const Slot& slot) {
    incidents_->OnSlot(slot);
    events_.OnSlot(slot);
  }
  // The rows of the table, without their times.
  std::vector<std::string> Rows() {
    events_.Flush();
    std::vector<std::string> rows;
    std::istringstream lines(file_.text);
    for (std::string line; std::getline(lines, line);) {
      for (int i = 0; i < 2; i++) line = line.substr(line.find(',') + 1);
      rows.push_back(line);
    }
    return rows;
  }
  Intervals Protected() {
    Segments segments;
    Intervals intervals;
    EXPECT_TRUE(ReadManifest(temp_.At("r"), &segments, &intervals).ok());
    return intervals;
  }

  TempFolder temp_;
  RecordingFolder folder_;
  TextFile file_;
  LinesSink events_{&file_, ""};
  std::unique_ptr<Incidents> incidents_;
};

TEST_F(IncidentsTest, WhatIsReportedCountsAsOfTheNextSlot) {
  Start({});
  incidents_->Report("signal", "SIGUSR2 from process 5");
  EXPECT_TRUE(Protected().empty());
  Play(SlotAt(1000 * kS));
  EXPECT_THAT(Rows(), ElementsAre("signal,0,SIGUSR2 from process 5"));
  const int64_t at_ns = kOffset + static_cast<int64_t>(1000 * kS);
  EXPECT_THAT(Protected(), ElementsAre(std::pair(at_ns - 60 * static_cast<int64_t>(kS),
                                                 at_ns + 30 * static_cast<int64_t>(kS))));
  EXPECT_THAT(incidents_->TakeNews(), ElementsAre(HasSubstr("signal: SIGUSR2 from process 5")));
}

TEST_F(IncidentsTest, AWaitIsOneFromItsLengthOn) {
  TriggerOptions options;
  options.wait_ns = 20 * kMs;
  Start(options);
  Play(SlotAt(100 * kS, 20 * kMs - 1));
  EXPECT_TRUE(Rows().empty());
  Slot unmeasured = SlotAt(101 * kS, 50 * kMs);
  unmeasured.rows[0].unmeasured = 1u << kWaitNs;
  Play(unmeasured);
  EXPECT_TRUE(Rows().empty());
  Slot slot = SlotAt(102 * kS, 20 * kMs);
  slot.rows.push_back(slot.rows[0]);
  slot.rows[1].key.tgid = 8;
  slot.rows[1].sums[kWaitNs] = 30 * kMs;
  Play(slot);
  EXPECT_THAT(Rows(), ElementsAre("wait,0,process 8 (a\\x2cb) had waited 30.0 ms for a CPU"));
}

TEST_F(IncidentsTest, OnlyWhatIsATriggerIsOne) {
  Start({});
  Slot slot = SlotAt(100 * kS, 3600 * kS);
  slot.straggles.emplace_back().state = StraggleReport::State::kInitial;
  Play(slot);
  EXPECT_TRUE(Rows().empty());
}

TEST_F(IncidentsTest, AProcessThatBeginsToStraggleIsOne) {
  TriggerOptions options;
  options.straggle = true;
  Start(options);
  Slot slot = SlotAt(100 * kS);
  StraggleReport& report = slot.straggles.emplace_back();
  report.state = StraggleReport::State::kSustained;
  Play(slot);
  EXPECT_TRUE(Rows().empty()) << "it has begun before";
  slot.straggles[0].state = StraggleReport::State::kInitial;
  slot.straggles[0].process.tgid = 9;
  slot.straggles[0].drop_ppm = 345'600;
  Play(slot);
  EXPECT_THAT(Rows(), ElementsAre("straggle,0,process 9 launches 34.6% less than it used to"));
}

TEST_F(IncidentsTest, AnotherKindBehindOneHasARowToo) {
  Start({});
  uint64_t at_s = 1000;
  for (const char* event : {"signal", "xid", "xid"}) {
    incidents_->Report(event, "what");
    Play(SlotAt(at_s * kS));
    at_s += 14;
  }
  EXPECT_THAT(Rows(), ElementsAre("signal,0,what", "xid,0,what"));
  const int64_t at_ns = kOffset + static_cast<int64_t>(1000 * kS);
  EXPECT_THAT(Protected(), ElementsAre(std::pair(at_ns - 60 * static_cast<int64_t>(kS),
                                                 at_ns + 44 * static_cast<int64_t>(kS))));
  EXPECT_EQ(incidents_->nr_not_captured(), 1u);
}

// A burst is one incident, an hour has six, and what was too much is counted.
TEST_F(IncidentsTest, AreFew) {
  TriggerOptions options;
  options.wait_ns = kMs;
  Start(options);
  for (uint64_t s = 0; s < 3600; s++) Play(SlotAt(100 * kS + s * kS, 5 * kMs));
  auto rows = Rows();
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_THAT(rows[0], testing::StartsWith("wait,0,"));
  for (size_t i = 1; i < 6; i++) EXPECT_THAT(rows[i], testing::StartsWith("wait,29,")) << i;
  EXPECT_EQ(incidents_->nr_not_captured(), 3600u - 6);
  Play(SlotAt(3700 * kS, 5 * kMs));  // the first one's hour is over
  rows = Rows();
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(Protected().size(), 7u);
  // A clock that is set back does not make it wait for the time that was.
  Slot back = SlotAt(3701 * kS, 5 * kMs);
  back.unix_offset_ns -= static_cast<int64_t>(86'400 * kS);
  Play(back);
  EXPECT_EQ(Rows().size(), 8u);
}

TEST_F(IncidentsTest, WhoIsStartedAgainHasNoMoreOfThem) {
  TriggerOptions options;
  options.wait_ns = kMs;
  Start(options);
  for (uint64_t s = 0; s < 600; s++) Play(SlotAt(100 * kS + s * kS, 5 * kMs));
  ASSERT_EQ(Rows().size(), 6u);
  ASSERT_TRUE(folder_.Close().ok());
  RecordingFolder again;  // with what is in the folder
  ASSERT_TRUE(again.Open(temp_.At("r"), {3600 * kS, 0, 0}).ok());
  Incidents later(options, &again, &events_);
  for (uint64_t s = 600; s < 3700; s++) later.OnSlot(SlotAt(100 * kS + s * kS, 5 * kMs));
  EXPECT_EQ(later.nr_captured(), 4u) << "where the first ones' hour is over";
}

}  // namespace
}  // namespace slotscope
