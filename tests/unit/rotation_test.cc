// SPDX-License-Identifier: MIT
#include "run/rotation.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "recording/reader.h"
#include "recording/segment_name.h"
#include "sinks/straggle_sink.h"
#include "tests/unit/full_disk.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kS = 1000 * kMs;
constexpr int64_t kOffset = 1'795'000'000'000'000'000;

// A recording of slots that a test makes up.
class Recorded {
 public:
  explicit Recorded(const std::string& path, const RotationOptions& options = {},
                    const KeepLimits& keep = {}, const std::string& boot_id = "b")
      : path_(path),
        rotation_(&folder_, options),
        csv_(rotation_.slots_file(), kOffset, 0),
        straggle_(rotation_.AddSide("straggle", "ndjson")) {
    EXPECT_TRUE(folder_.Open(path, keep).ok());
    rotation_.SetSinks(&csv_, {&straggle_});
    Facts facts;
    facts.host = "h";
    facts.boot_id = boot_id;
    facts.unix_offset_ns = kOffset;
    const HeaderLines header = {
        {"host", "h"}, {"boot_id", boot_id}, {"slot_ns", "1000000"}, {"unix_offset_ns", "0"}};
    rotation_.Begin(facts, header, kMs, [] {
      RunCounts counts;
      counts.merge.nr_lost = 77;
      return counts;
    });
  }

  Status Play(uint64_t start_ns, int64_t unix_offset_ns = kOffset, const std::string& note = "") {
    Slot slot;
    slot.start_ns = start_ns;
    slot.end_ns = slot.start_ns + kMs;
    slot.unix_offset_ns = unix_offset_ns;
    Row row;
    row.key = {7, 1};
    row.sums[kCpuNs] = 5;
    slot.rows = {row};
    if (!note.empty()) slot.notes.push_back(note);
    Status status = rotation_.Before(slot);
    csv_.OnSlot(slot);
    straggle_.OnSlot(slot);
    return status;
  }
  // Seconds [from, to), a slot each 100 ms.
  void PlaySeconds(uint64_t from, uint64_t to) {
    for (uint64_t ns = from * kS; ns < to * kS; ns += 100 * kMs) EXPECT_TRUE(Play(ns).ok());
  }
  Status Finish() {
    rotation_.BeforeLastLines();
    EXPECT_TRUE(csv_.Finish({{"identity", "holds"}}).ok());
    Status status = rotation_.Finish();
    const Status closed = folder_.Close();
    return status.ok() ? closed : status;
  }

  // Of each segment: its number, and the text of its rows.
  std::vector<std::string> Segments() const {
    std::vector<std::string> texts;
    RecordingReader reader;
    EXPECT_TRUE(reader.Open(path_).ok());
    for (const auto& [number, segment] : reader.segments()) {
      texts.emplace_back();
      RecordingReader one;
      EXPECT_TRUE(one.Open(path_ + "/" + segment.files.at("slots").name).ok());
      EXPECT_TRUE(one.Read("slots", {}, [&](std::string_view text) { texts.back() += text; }).ok());
    }
    return texts;
  }
  CsvSink& csv() { return csv_; }
  RecordingFolder& folder() { return folder_; }
  Rotation& rotation() { return rotation_; }

 private:
  std::string path_;
  RecordingFolder folder_;
  Rotation rotation_;
  CsvSink csv_;
  StraggleSink straggle_;
};

// The seconds since kOffset of the rows of a text.
std::vector<std::string> SlotsOf(const std::string& text) {
  std::vector<std::string> slots;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line[0] >= '0' && line[0] <= '9') slots.push_back(line.substr(0, line.find(',')));
  return slots;
}

TEST(RotationTest, SegmentsEndAtMultiplesOfUnixTime) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {10 * kS, 0, false});
  recorded.PlaySeconds(7, 33);
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  ASSERT_EQ(texts.size(), 4u);
  const char* first[] = {"7000000000", "10000000000", "20000000000", "30000000000"};
  size_t nr_slots = 0;
  for (size_t i = 0; i < 4; i++) {
    const auto slots = SlotsOf(texts[i]);
    EXPECT_EQ(slots.front(), first[i]);
    EXPECT_THAT(texts[i], testing::StartsWith("# host: h\n"));
    EXPECT_THAT(texts[i], HasSubstr(fmt::format("# segment: {}\nslot_start_ns,", i + 1)));
    EXPECT_THAT(texts[i], HasSubstr(fmt::format("# unix_offset_ns: {}\n", kOffset)));
    nr_slots += slots.size();
  }
  EXPECT_EQ(nr_slots, 260u);
  // What was counted so far, with what is written; the last one has the whole summary.
  EXPECT_THAT(texts[1], HasSubstr("# lost_records: 77\n"));
  EXPECT_THAT(texts[1], HasSubstr("# rows: 130\n"));
  EXPECT_THAT(texts[1], Not(HasSubstr("identity")));
  EXPECT_THAT(texts[3], testing::EndsWith("# identity: holds\n"));
  EXPECT_THAT(texts[3], Not(HasSubstr("lost_records")));
}

TEST(RotationTest, AClockThatIsSetBackBeginsASegment) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {60 * kS, 0, false});
  EXPECT_TRUE(recorded.Play(100 * kS).ok());
  EXPECT_TRUE(recorded.Play(101 * kS, kOffset - 3600 * static_cast<int64_t>(kS)).ok());
  EXPECT_TRUE(recorded.Play(102 * kS, kOffset - 3600 * static_cast<int64_t>(kS)).ok());
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_THAT(SlotsOf(texts[0]), ElementsAre("100000000000"));
  EXPECT_THAT(SlotsOf(texts[1]), ElementsAre("101000000000", "102000000000"));
  EXPECT_THAT(texts[1], HasSubstr(fmt::format("# unix_offset_ns: {}\n", kOffset - 3'600'000'000'000)));
}

TEST(RotationTest, ASegmentThatIsLargeEndsEarly) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {3600 * kS, 1000, false});
  recorded.PlaySeconds(0, 20);
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  EXPECT_GT(texts.size(), 3u);
  size_t nr_slots = 0;
  for (const std::string& text : texts) nr_slots += SlotsOf(text).size();
  EXPECT_EQ(nr_slots, 200u);
}

TEST(RotationTest, WhatIsARankIsSaidInEachSegment) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {10 * kS, 0, false});
  EXPECT_TRUE(recorded.Play(1 * kS, kOffset, "rank 3 is process 4711 (python3)").ok());
  EXPECT_TRUE(recorded.Play(2 * kS, kOffset, "something that happened").ok());
  EXPECT_TRUE(recorded.Play(12 * kS, kOffset, "rank 4 is process 4711 (python3)").ok());
  EXPECT_TRUE(recorded.Play(22 * kS).ok());
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts[1], HasSubstr("# note: rank 3 is process 4711 (python3)\nslot_start_ns"));
  EXPECT_THAT(texts[2], HasSubstr("# note: rank 4 is process 4711 (python3)\nslot_start_ns"));
  EXPECT_THAT(texts[2], Not(HasSubstr("rank 3")));
  EXPECT_THAT(texts[1], Not(HasSubstr("something")));
}

// An hour after its end nobody asks for it any more.
TEST(RotationTest, ARankThatHasEndedIsForgotten) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {10 * kS, 0, false});
  EXPECT_TRUE(recorded.Play(1 * kS, kOffset, "rank 3 is process 4711 (python3)").ok());
  EXPECT_TRUE(recorded.Play(2 * kS, kOffset, "rank 4 is process 4712 (python3)").ok());
  EXPECT_TRUE(recorded.Play(3 * kS, kOffset, "rank 3 was process 4711 (python3), which has ended").ok());
  EXPECT_TRUE(recorded.Play(3600 * kS).ok());
  EXPECT_TRUE(recorded.Play(3620 * kS).ok());
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts[1], HasSubstr("# note: rank 3 is process 4711 (python3)\n"));
  EXPECT_THAT(texts[2], Not(HasSubstr("rank 3")));
  EXPECT_THAT(texts[2], HasSubstr("# note: rank 4 is process 4712 (python3)\n"));
}

// A service goes on after a boot, and its clock begins anew.
TEST(RotationTest, AFolderSpansBoots) {
  const TempFolder temp;
  const KeepLimits keep = {0, 1u << 30};
  constexpr int64_t kLaterOffset = kOffset + 200 * static_cast<int64_t>(kS);
  {
    Recorded recorded(temp.At("r"), {10 * kS, 0, true}, keep, "first");
    EXPECT_TRUE(recorded.Play(100 * kS, kOffset, "rank 3 is process 4711 (python3)").ok());
    EXPECT_TRUE(recorded.Play(101 * kS).ok());
    ASSERT_TRUE(recorded.Finish().ok());
  }
  Recorded recorded(temp.At("r"), {10 * kS, 0, true}, keep, "second");
  for (const uint64_t s : {5, 6}) EXPECT_TRUE(recorded.Play(s * kS, kLaterOffset).ok());
  ASSERT_TRUE(recorded.Finish().ok());

  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  std::vector<std::string> boots;
  for (const auto& [number, segment] : reader.segments()) boots.push_back(segment.boot_id);
  EXPECT_THAT(boots, ElementsAre("first", "second"));
  const auto read = [&](const UnixRange& range) {
    std::string text;
    EXPECT_TRUE(reader.Read("slots", range, [&](std::string_view piece) { text += piece; }).ok());
    return text;
  };
  EXPECT_THAT(SlotsOf(read({})),
              ElementsAre("100000000000", "101000000000", "5000000000", "6000000000"));
  // By Unix time, though the second's own clock is behind the first's.
  const std::string text = read({kLaterOffset, kLaterOffset + 100 * static_cast<int64_t>(kS)});
  EXPECT_THAT(SlotsOf(text), ElementsAre("5000000000", "6000000000"));
  EXPECT_THAT(text, HasSubstr("# boot_id: second\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 3"))) << "that process is gone";
}

TEST(RotationTest, ATableWithoutContentHasNoFile) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"));
  recorded.PlaySeconds(0, 2);
  ASSERT_TRUE(recorded.Finish().ok());
  for (const auto& entry : std::filesystem::directory_iterator(temp.At("r")))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("straggle")));
}

TEST(RotationTest, ARecordingWithoutASlotHasItsLastLines) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"));
  ASSERT_TRUE(recorded.Finish().ok());
  const auto texts = recorded.Segments();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], testing::StartsWith("# host: h\n"));
  EXPECT_THAT(texts[0], testing::EndsWith("# identity: holds\n"));
}

// All rows of all segments that are left.
std::string AllOf(const std::string& path) {
  std::string all;
  RecordingReader reader;
  Status status = reader.Open(path);
  if (status.ok()) status = reader.Read("slots", {}, [&](std::string_view text) { all += text; });
  EXPECT_TRUE(status.ok()) << status.message();
  return all;
}

TEST(RotationTest, AFullDiskIsAGapThatIsReported) {
  const TempFolder temp;
  const FullDisk disk(temp);
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  Recorded recorded(disk.At("r"), {60 * kS, 0, true}, {3600 * kS, 0});
  disk.Fill();
  // The page that is open has some room yet; whole frames are in the file, or none of them.
  recorded.PlaySeconds(0, 400);
  EXPECT_GT(recorded.csv().nr_unwritten_slots(), 500u);
  disk.Free();
  recorded.PlaySeconds(400, 405);
  EXPECT_TRUE(recorded.Finish().ok());
  EXPECT_EQ(recorded.csv().nr_rows() + recorded.csv().nr_unwritten_slots(), 4050u);
  const std::string all = AllOf(disk.At("r"));
  EXPECT_TRUE(all.find("# note: gap: from ") != all.npos);
  EXPECT_TRUE(all.find("No space left on device") != all.npos);
  EXPECT_EQ(SlotsOf(all).back(), "404900000000");
  const auto news = recorded.rotation().TakeNews();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_THAT(news[0], HasSubstr("the recording goes on when there is room"));
  EXPECT_THAT(news[1], HasSubstr("recording again; gap: from "));
}

TEST(RotationTest, OnAFullDiskTheOldestGoes) {
  const TempFolder temp;
  const FullDisk disk(temp);
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  Recorded recorded(disk.At("r"), {10 * kS, 0, true}, {24 * 3600 * kS, 0});
  recorded.PlaySeconds(0, 2000);
  EXPECT_TRUE(recorded.Finish().ok());
  EXPECT_GT(recorded.folder().nr_removed(), 10u);
  EXPECT_EQ(recorded.csv().nr_unwritten_slots(), 0u);
  const auto slots = SlotsOf(AllOf(disk.At("r")));
  EXPECT_EQ(slots.back(), "1999900000000");
  EXPECT_EQ(slots.size(), (2'000 * kS - std::stoull(slots.front())) / (100 * kMs));
}

// The service is started again on such a disk, and what it has fills it.
TEST(RotationTest, ARingBeginsOnAFullDisk) {
  const TempFolder temp;
  const FullDisk disk(temp);
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  const KeepLimits keep = {24 * 3600 * kS, 0};
  {
    Recorded first(disk.At("r"), {10 * kS, 0, true}, keep);
    first.PlaySeconds(0, 400);
    EXPECT_TRUE(first.Finish().ok());
  }
  disk.Fill();
  Recorded recorded(disk.At("r"), {10 * kS, 0, true}, keep);
  recorded.PlaySeconds(400, 420);
  EXPECT_TRUE(recorded.Finish().ok());
  EXPECT_GT(recorded.folder().nr_removed(), 0u);
  const auto slots = SlotsOf(AllOf(disk.At("r")));
  EXPECT_EQ(slots.back(), "419900000000");
  EXPECT_GT(slots.size(), 1000u) << "no more went than had to";
}

// To remove what is there would not help.
TEST(RotationTest, WhatIsNoLackOfRoomTakesNothingAway) {
  const TempFolder temp;
  Recorded recorded(temp.At("r"), {10 * kS, 0, true}, {24 * 3600 * kS, 0});
  recorded.PlaySeconds(0, 30);
  rlimit usual, none;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  none = {3, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  recorded.PlaySeconds(30, 60);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  recorded.PlaySeconds(60, 70);
  EXPECT_TRUE(recorded.Finish().ok());
  EXPECT_EQ(recorded.folder().nr_removed(), 0u);
  EXPECT_GT(recorded.csv().nr_unwritten_slots(), 100u);
  const auto slots = SlotsOf(AllOf(temp.At("r")));
  EXPECT_EQ(slots.front(), "0");
  EXPECT_EQ(slots.back(), "69900000000");
  const auto news = recorded.rotation().TakeNews();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_THAT(news[0], HasSubstr("Too many open files; the recording goes on when it can be written"));
  EXPECT_THAT(news[1], HasSubstr("recording again; gap: from "));
}

// A ring that has lost its folder would drop all that comes, and say that there is no room.
TEST(RotationTest, AFolderThatIsRemovedEndsEvenARing) {
  const TempFolder temp;
  RotationOptions options;
  options.goes_on = true;
  Recorded recorded(temp.At("r"), options, {3600 * kS, 0, 0});
  ASSERT_TRUE(recorded.Play(0).ok());
  std::filesystem::remove_all(temp.At("r"));
  const Status status = recorded.Play(2 * kS);
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_EQ(status.message(), temp.At("r") + " was removed while it was being recorded to");
}

TEST(RotationTest, WithoutARingAFullDiskEndsTheRecording) {
  const TempFolder temp;
  const FullDisk disk(temp);
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  Recorded recorded(disk.At("r"), {60 * kS, 0, false});
  recorded.PlaySeconds(0, 5);
  disk.Fill();
  Status status;
  for (uint64_t ns = 5 * kS; status.ok() && ns < 4000 * kS; ns += 100 * kMs) status = recorded.Play(ns);
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_THAT(status.message(), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace slotscope
