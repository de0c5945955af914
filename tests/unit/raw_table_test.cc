// SPDX-License-Identifier: MIT
// The raw stream in segments: what is left of it replays as the whole of it does.
#include "run/raw_table.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "recording/reader.h"
#include "run/raw_input.h"
#include "tests/gen/generator.h"
#include "tests/unit/engine.h"
#include "tests/unit/full_disk.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kWindowNs = 20 * kMs;

GeneratorOptions Machine() {
  GeneratorOptions options;
  options.duration_ms = 3500;
  options.nr_cpus = 3;
  options.switches_per_s = 1000;
  options.births_per_s = 200;
  options.late_ppm = 1000;
  options.lost_ppm = 500;
  options.hotplugs_per_s = 2;
  options.nr_l3_domains = 2;
  options.nr_more = 2;
  return options;
}

// A generated machine, recorded as a pipeline does it, a segment a second. Returns its rows.
std::string Record(const std::string& path, const RotationOptions& options, const KeepLimits& keep = {},
                   const std::function<void(uint64_t)>& before_block = nullptr,
                   uint64_t* nr_dropped = nullptr, uint64_t* nr_blocks = nullptr) {
  Generator generator(Machine());
  const Facts& facts = generator.facts();
  CsvEngine live(facts, kMs, kWindowNs);
  RecordingFolder folder;
  EXPECT_TRUE(folder.Open(path, keep).ok());
  RawTable table(&folder, options);
  EXPECT_TRUE(table.Begin(facts, kMs, 1'000'000 * kMs).ok());
  const auto now = [&]() -> RawMoment {
    return {live.merger().clock_ns(), live.builder().unix_offset_ns()};
  };
  auto block = std::make_unique<Block>();
  while (generator.Next(block.get())) {
    if (nr_blocks) ++*nr_blocks;
    if (before_block) before_block(live.merger().clock_ns());
    const bool wants = live.builder().first_ns() && table.WantsSegment(now());
    const std::string state = wants ? live.engine->SaveState() : "";
    EXPECT_TRUE(live.merger().OnItems(block->bytes()));
    if (wants) {
      EXPECT_TRUE(table.BeginSegment(state, now()).ok());
    }
    EXPECT_TRUE(table.WriteItems(block->bytes(), now()).ok());
  }
  EXPECT_TRUE(table.Finish().ok());
  EXPECT_TRUE(folder.Close().ok());
  if (nr_dropped) *nr_dropped = table.nr_dropped();
  return live.Finish();
}

RotationOptions Seconds() {
  RotationOptions options;
  options.segment_ns = 1000 * kMs;
  return options;
}

std::vector<std::string> FilesOf(const std::string& path) {
  RecordingReader reader;
  EXPECT_TRUE(reader.Open(path).ok());
  return reader.FilesOf("raw");
}

// Its rows, or the first error.
std::string Replay(const std::string& path, RawInput* input, std::string* error,
                   uint64_t slot_ns = kMs) {
  if (Status status = input->Open(path); !status.ok()) {
    *error = status.message();
    return "";
  }
  CsvEngine replayed(input->facts(), slot_ns, kWindowNs);
  RawInputEnd end;
  const Status status = input->ReadAll(
      replayed.engine.get(), [] { return false; }, &end);
  *error = status.message() + end.error + end.cut;
  EXPECT_TRUE(!status.ok() || replayed.builder().accounting().Holds());
  replayed.csv.Flush();
  return replayed.file.text;
}
std::string Replay(const std::string& path) {
  RawInput input;
  std::string error;
  const std::string rows = Replay(path, &input, &error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(input.note(), "");
  return rows;
}

TEST(RawTable, AllSegmentsReplayAsTheWholeAndTheLastOnesAsItsEnd) {
  const TempFolder dir;
  const std::string rows = Record(dir.At("r"), Seconds());
  auto files = FilesOf(dir.At("r"));
  ASSERT_GE(files.size(), 4u);
  ASSERT_TRUE(Replay(dir.At("r")) == rows);
  for (size_t i = 0; i + 1 < files.size(); i++) {
    std::filesystem::remove(files[i]);
    const std::string rest = Replay(dir.At("r"));
    ASSERT_GT(rest.size(), 100'000u) << i;
    ASSERT_LT(rest.size(), rows.size()) << i;
    ASSERT_TRUE(rows.ends_with(rest)) << i;
  }
  // One file by itself is the same as a recording of it alone.
  EXPECT_TRUE(Replay(files.back()) == Replay(dir.At("r")));
}

TEST(RawTable, ASegmentIsARawFileThatZstdHasPacked) {
  const TempFolder dir;
  const std::string rows = Record(dir.At("r"), Seconds());
  for (const std::string& file : {FilesOf(dir.At("r")).front(), FilesOf(dir.At("r")).back()}) {
    ASSERT_EQ(std::system(fmt::format("zstd -q -dc {} > {}", file, dir.At("plain.raw")).c_str()), 0);
    EXPECT_TRUE(Replay(dir.At("plain.raw")) == Replay(file));
  }
}

TEST(RawTable, WhatFollowsAGapIsReplayedAndTheRestIsNamed) {
  const TempFolder dir;
  const std::string rows = Record(dir.At("r"), Seconds());
  const auto files = FilesOf(dir.At("r"));
  std::filesystem::remove(files[1]);
  RawInput input;
  std::string error;
  const std::string rest = Replay(dir.At("r"), &input, &error);
  EXPECT_EQ(error, "");
  EXPECT_TRUE(rows.ends_with(rest));
  EXPECT_THAT(input.note(), HasSubstr(files[2]));
  EXPECT_THAT(input.note(), HasSubstr("1 file before it"));
}

TEST(RawTable, AnEmptiedSegmentIsAnErrorAndALostOneIsNamed) {
  const TempFolder dir;
  const std::string rows = Record(dir.At("r"), Seconds());
  const auto files = FilesOf(dir.At("r"));
  ASSERT_GE(files.size(), 4u);
  RawInput input;
  std::string error;
  std::filesystem::resize_file(files.back(), 0);
  const std::string rest = Replay(dir.At("r"), &input, &error);
  EXPECT_THAT(error, HasSubstr(files.back()));
  ASSERT_GT(rest.size(), 100'000u);
  EXPECT_TRUE(rows.starts_with(rest.substr(0, rest.size() / 2)));
  std::filesystem::remove(files.back());
  RawInput without;
  EXPECT_EQ(Replay(dir.At("r"), &without, &error), rest);
  EXPECT_EQ(error, "");
  EXPECT_THAT(without.note(), HasSubstr(files.back() + " is not there"));
  for (size_t i = 0; i + 1 < files.size(); i++) std::filesystem::resize_file(files[i], 0);
  RawInput none;
  Replay(dir.At("r"), &none, &error);
  EXPECT_THAT(error, HasSubstr(files[0]));
}

TEST(RawTable, WhatWasLargerThanItsPartBeginsASegmentOfItsOwn) {
  const TempFolder dir;
  RotationOptions options;  // a minute
  options.max_bytes = 100'000;
  const std::string rows = Record(dir.At("r"), options);
  EXPECT_GE(FilesOf(dir.At("r")).size(), 3u);
  EXPECT_TRUE(Replay(dir.At("r")) == rows);
}

TEST(RawTable, WhatAFullDiskHasNoRoomForIsCountedAndThenItGoesOn) {
  const TempFolder dir;
  const FullDisk disk(dir, "size=4m");
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  RotationOptions options = Seconds();
  options.segment_ns *= 60;
  options.goes_on = true;
  uint64_t nr_dropped = 0, nr_blocks = 0, first_ns = 0;
  bool is_full = false;
  const std::string rows = Record(
      disk.At("r"), options, {.ns = 3600'000 * kMs},
      [&](uint64_t clock_ns) {
        if (clock_ns == 0) return;
        if (std::exchange(first_ns, first_ns ? first_ns : clock_ns) == 0) {
          disk.Fill();
          is_full = true;
        }
        if (is_full && clock_ns > first_ns + 1500 * kMs) disk.Free();
        is_full &= clock_ns <= first_ns + 1500 * kMs;
      },
      &nr_dropped, &nr_blocks);
  EXPECT_GT(nr_dropped, 10u);
  // Every block is in the file, or counted.
  RawFileReader reader;
  ASSERT_TRUE(reader.Open(FilesOf(disk.At("r")).at(0)).ok());
  std::span<const std::byte> items;
  uint64_t nr_written = 0;
  while (reader.Next(&items)) nr_written++;
  EXPECT_EQ(nr_written + nr_dropped, nr_blocks);
  ASSERT_EQ(FilesOf(disk.At("r")).size(), 1u);
  const std::string rest = Replay(disk.At("r"));
  EXPECT_GT(rest.size(), 10'000u);
  EXPECT_TRUE(rows.ends_with(rest));
}

TEST(RawTable, BadInputIsRefusedWithWhatToDo) {
  const TempFolder dir;
  Record(dir.At("r"), Seconds());
  const auto files = FilesOf(dir.At("r"));
  const auto error_of = [&](const std::string& path, uint64_t slot_ns = kMs) {
    RawInput input;
    std::string error;
    Replay(path, &input, &error, slot_ns);
    return error;
  };
  // Slots of another length: only from the beginning on.
  EXPECT_THAT(error_of(files[1], 2 * kMs), HasSubstr("give --slot 1"));
  EXPECT_EQ(error_of(files[0], 2 * kMs), "");
  // No raw stream at all.
  for (const std::string& file : files)
    std::filesystem::rename(file, dir.At("x" + file.substr(file.rfind('/') + 1)));
  EXPECT_THAT(error_of(dir.At("r")), HasSubstr("record --raw-table"));
  // What was known does not end where the segment does.
  ASSERT_EQ(
      std::system(fmt::format("zstd -q -dc {} | head -c 5000 > {}",
                              dir.At("x" + files[1].substr(files[1].rfind('/') + 1)), dir.At("cut.raw"))
                      .c_str()),
      0);
  EXPECT_THAT(error_of(dir.At("cut.raw")), HasSubstr("ends before it says what was known"));
  // Any byte of the state that is another one is noticed by the chunk's hash.
  ASSERT_EQ(std::system(fmt::format("zstd -q -dc {} > {}",
                                    dir.At("x" + files[1].substr(files[1].rfind('/') + 1)),
                                    dir.At("changed.raw"))
                            .c_str()),
            0);
  std::fstream changed(dir.At("changed.raw"), std::ios::in | std::ios::out | std::ios::binary);
  changed.seekp(5000);
  changed.put('\x5a').put('\xa5');
  changed.close();
  EXPECT_THAT(error_of(dir.At("changed.raw")), HasSubstr("damaged"));
}

// Every byte of a state is looked at: one that is another either changes what is known, or is refused,
// and the engine neither breaks nor makes slots without an end.
TEST(RawTable, AStateIsUntrusted) {
  GeneratorOptions options = Machine();
  options.duration_ms = 100;
  options.nr_processes = 10;
  Generator generator(options);
  CsvEngine engine(generator.facts(), kMs, kWindowNs);
  auto block = std::make_unique<Block>();
  for (int i = 0; i < 8 && generator.Next(block.get()); i++)
    ASSERT_TRUE(engine.merger().OnItems(block->bytes()));
  std::vector<std::unique_ptr<Block>> rest;
  do rest.push_back(std::make_unique<Block>());
  while (generator.Next(rest.back().get()));
  const std::string state = engine.engine->SaveState();
  ASSERT_GT(state.size(), 1000u);
  size_t nr_refused = 0;
  const size_t step = std::max<size_t>(state.size() / 3000, 1);
  for (size_t at = 0; at < state.size(); at += step) {
    std::string changed = state;
    changed[at] = static_cast<char>(changed[at] ^ (at % 2 ? 0x80 : 0x01));
    CsvEngine other(generator.facts(), kMs, kWindowNs);
    if (!other.engine->LoadState(std::as_bytes(std::span(changed))).ok()) {
      nr_refused++;
      continue;
    }
    const uint64_t nr_before = other.builder().accounting().nr_slots;
    for (const auto& one : rest)
      if (!other.merger().OnItems(one->bytes())) break;
    other.Finish();
    EXPECT_LT(other.builder().accounting().nr_slots - nr_before, 200'000u) << at;
  }
  EXPECT_GT(nr_refused, 100u);
  for (size_t size = 0; size < state.size(); size += 97) {
    CsvEngine other(generator.facts(), kMs, kWindowNs);
    EXPECT_FALSE(other.engine->LoadState(std::as_bytes(std::span(state).first(size))).ok()) << size;
  }
}

}  // namespace
}  // namespace slotscope
