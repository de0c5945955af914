// SPDX-License-Identifier: MIT
#include "report/overview.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cli/reader_parser.h"
#include "recording/folder.h"
#include "recording/table.h"
#include "sinks/period_sink.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

constexpr uint64_t kS = 1'000'000'000;
constexpr int64_t kUnixS = 1'795'000'020;  // a minute begins
constexpr int64_t kOffset = kUnixS * 1'000'000'000;

// A segment of a minute, in each of whose seconds a process ran for 600 ms in all, in two slots.
void Record(RecordingFolder* folder, uint64_t from_s) {
  Table slots("slots", "csv"), seconds("seconds", "csv"),
      minutes("minutes", "csv", Table::Contents::kSums);
  CsvSink csv(&slots, kOffset, 0);
  PeriodSink second(&seconds, kOffset, 0, kSecondsPeriod, nullptr);
  PeriodSink minute(&minutes, kOffset, 0, kMinutesPeriod, &second);
  Segment segment;
  segment.number = folder->TakeNumber();
  segment.slot_ns = kS / 2;
  segment.times = {from_s * kS, (from_s + 60) * kS, kOffset};
  for (Table* table : {&slots, &seconds, &minutes})
    table->Begin(folder->held_path(), segment.number, kUnixS + static_cast<int64_t>(from_s));
  csv.WriteHeader({});
  second.WriteHeader({});
  minute.WriteHeader({});
  for (Table* table : {&slots, &seconds, &minutes}) table->EndHeader();
  for (uint64_t half = 0; half < 120; half++) {
    Slot slot;
    slot.start_ns = from_s * kS + half * kS / 2;
    slot.end_ns = slot.start_ns + kS / 2;
    slot.unix_offset_ns = kOffset;
    Row row;
    row.key = {7, 1};
    row.sums[kCpuNs] = 300'000'000;
    slot.rows = {row};
    csv.OnSlot(slot);
    second.OnSlot(slot);
    minute.OnSlot(slot);
  }
  csv.Flush();
  for (SideSink* sink : {static_cast<SideSink*>(&second), static_cast<SideSink*>(&minute)}) {
    sink->EndSegment();
    sink->Flush();
  }
  std::vector<std::unique_ptr<PartFile>> files;
  for (Table* table : {&slots, &seconds, &minutes}) {
    ASSERT_TRUE(table->EndFrame(segment.times).ok());
    files.push_back(table->TakeFile());
    const std::string& path = files.back()->path();
    segment.files[table->name()] = {path.substr(path.rfind('/') + 1), files.back()->size()};
  }
  folder->Commit(segment, std::move(files));
}

TEST(Overview, WhereTheRingHasNoSecondsAnyMoreItIsOfMinutes) {
  const TempFolder temp;
  RecordingFolder folder;
  ASSERT_TRUE(folder.Open(temp.At("r"), {}).ok());
  Record(&folder, 0);
  Record(&folder, 60);
  ASSERT_TRUE(folder.Close().ok());
  const auto overview_of = [&] {
    RecordingTables tables;
    Overview overview;
    EXPECT_TRUE(tables.Open(temp.At("r")).ok());
    EXPECT_TRUE(ReadOverview(tables, &overview).ok());
    return overview;
  };
  const Overview whole = overview_of();
  RecordingFolder ring;
  ASSERT_TRUE(ring.Open(temp.At("r"), {0, 1'000'000, 0}).ok());
  for (int i = 0; i < 3; i++) ASSERT_TRUE(ring.RemoveOldest());  // both slots, the first of the seconds
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  EXPECT_EQ(reader.FilesOf("seconds").size(), 1u);
  EXPECT_EQ(reader.FilesOf("minutes").size(), 2u);
  const Overview shortened = overview_of();
  // Whoever asks for what is gone is told what is there.
  Record(&ring, 120);
  ASSERT_TRUE(ring.Close().ok());
  RecordingTables tables;
  ASSERT_TRUE(tables.Open(temp.At("r")).ok());
  const auto said = [&](int64_t from_s, int64_t to_s) {
    ReaderOptions options;
    options.since = fmt::format("@{}", kUnixS + from_s);
    options.until = fmt::format("@{}", kUnixS + to_s);
    ReaderRange range;
    return FindRange(options, tables.facts(), &range).message();
  };
  EXPECT_THAT(said(70, 80),
              testing::EndsWith("; but seconds: slotscope explain --rows seconds shows them"));
  EXPECT_THAT(said(10, 20),
              testing::EndsWith("; but minutes: slotscope explain --rows minutes shows them"));
  EXPECT_THAT(said(-20, -10), testing::Not(testing::HasSubstr("; but")));
  EXPECT_EQ(said(130, 140), "");
  for (const Overview* one : {&whole, &shortened}) {
    EXPECT_EQ(one->seconds.size(), 120u);
    for (const auto& [second, sums] : one->seconds) {
      EXPECT_TRUE(second >= kUnixS && second < kUnixS + 120) << second;
      EXPECT_NEAR(sums.cpu_ns, 600e6, 1) << second - kUnixS;
    }
  }
}

}  // namespace
}  // namespace slotscope
