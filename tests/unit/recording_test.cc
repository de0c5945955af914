// SPDX-License-Identifier: MIT
// A recording on the disk: names, frames, tables, the manifest, the folder and who reads it.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zstd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "recording/folder.h"
#include "recording/frame.h"
#include "recording/manifest.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "recording/table.h"
#include "tests/unit/disk_log.h"
#include "tests/unit/full_disk.h"
#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kS = 1'000'000'000;
constexpr int64_t kOffset = 1'795'000'000'000'000'000;  // of Unix time, a multiple of a minute

FrameTimes Seconds(uint64_t from, uint64_t to) { return {from * kS, to * kS, kOffset}; }

int64_t UnixAt(uint64_t seconds) { return static_cast<int64_t>(seconds * kS) + kOffset; }

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string BytesOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Writes segments as a recorder does.
class Recorder {
 public:
  explicit Recorder(const std::string& path, const KeepLimits& keep = {}, bool stays = true) {
    status = folder.Open(path, keep);
    if (stays) folder.Stay();
  }

  // Frames of a second each, "FROM\n".."TO-1\n".
  void Begin(uint64_t from, uint64_t to) {
    segment_ = {};
    segment_.number = folder.TakeNumber();
    segment_.times = Seconds(from, to);
    table_.Begin(folder.held_path(), segment_.number, UnixAt(from) / static_cast<int64_t>(kS));
    EXPECT_TRUE(table_.Write("# host: h\n# slot_ns: 1000000\n# boot_id: b\ncolumns\n").ok());
    table_.EndHeader();
    for (uint64_t s = from; s < to; s++) {
      EXPECT_TRUE(table_.Write(fmt::format("{}\n", s)).ok());
      EXPECT_TRUE(table_.EndFrame(Seconds(s, s + 1)).ok());
    }
  }
  void Commit() {
    std::vector<std::unique_ptr<PartFile>> files;
    files.push_back(table_.TakeFile());
    const std::string& path = files[0]->path();
    segment_.files["slots"] = {path.substr(path.rfind('/') + 1), files[0]->size()};
    folder.Commit(segment_, std::move(files));
  }
  void Record(uint64_t from, uint64_t to) {
    Begin(from, to);
    Commit();
  }

  Status status;
  RecordingFolder folder;

 private:
  Table table_{"slots", "csv"};
  Segment segment_;
};

std::vector<FrameAt> FramesOf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  std::vector<FrameAt> frames;
  uint64_t whole_bytes;
  EXPECT_TRUE(FindFrames(fd.get(), &frames, &whole_bytes).ok());
  return frames;
}

// Its lines without headers, joined.
std::string RowsIn(const std::string& path, const UnixRange& range = {}, Status* status = nullptr) {
  RecordingReader reader;
  Status end = reader.Open(path);
  std::string all, rows;
  if (end.ok()) end = reader.Read("slots", range, [&](std::string_view text) { all += text; });
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);)
    if (line[0] != '#' && line != "columns") rows += line + " ";
  if (status)
    *status = end;
  else
    EXPECT_TRUE(end.ok()) << end.message();
  return rows;
}

TEST(SegmentNameTest, IsReadAsItIsWritten) {
  const SegmentName name = {"slots", 42, 1'795'613'277, "csv"};
  EXPECT_EQ(FormatSegmentName(name), "slots-000042-20261125T132757Z.csv.zst");
  const auto parsed = ParseSegmentName("slots-000042-20261125T132757Z.csv.zst");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->table, "slots");
  EXPECT_EQ(parsed->number, 42u);
  EXPECT_EQ(parsed->unix_s, 1'795'613'277);
  EXPECT_EQ(parsed->extension, "csv");
  EXPECT_EQ(ParseSegmentName("slots-1234567-20261125T132757Z.csv.zst")->number, 1'234'567u);
}

TEST(SegmentNameTest, AnyOtherNameIsNone) {
  for (const char* name :
       {"", "slots", "slots.csv", "slots-1-20261125T132757Z.csv.zst",
        "slots-000042-20261125T132757Z.csv", "Slots-000042-20261125T132757Z.csv.zst",
        "-000042-20261125T132757Z.csv.zst", "slots-000042-20261325T132757Z.csv.zst",
        "slots-000042-20261125T132757Zx.csv.zst", "../ts-000042-20261125T132757Z.csv.zst",
        "slots-000042-20261125T132757Z..zst", "slots-000042-20261125T132757Z.zst",
        "slots-99999999999999999999-20261125T132757Z.csv.zst",
        "slots-18446744073709551615-20261125T132757Z.csv.zst", "slots-0x0042-20261125T132757Z.csv.zst",
        "slots-000042-20261125T132757Z.c/v.zst", "manifest.ndjson"})
    EXPECT_FALSE(ParseSegmentName(name)) << name;
}

TEST(TableTest, EachFrameIsReadableByItself) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"));
  ASSERT_TRUE(recorder.status.ok()) << recorder.status.message();
  recorder.Record(10, 13);
  ASSERT_TRUE(recorder.folder.Close().ok());
  const std::string name = NamesIn(temp.At("r"))[1];
  UniqueFd fd(open(temp.At("r/" + name).c_str(), O_RDONLY));
  std::vector<FrameAt> frames;
  uint64_t whole_bytes;
  ASSERT_TRUE(FindFrames(fd.get(), &frames, &whole_bytes).ok());
  EXPECT_EQ(whole_bytes, fs::file_size(temp.At("r/" + name)));
  ASSERT_EQ(frames.size(), 4u);  // the header is one
  EXPECT_EQ(frames[0].index.kind, FrameKind::kHeader);
  EXPECT_EQ(frames[2].index.times, Seconds(11, 12));
  EXPECT_EQ(TimesOf(frames), Seconds(10, 13));
  std::string text;
  ASSERT_TRUE(UnpackFrame(fd.get(), frames[2], &text).ok());
  EXPECT_EQ(text, "11\n");
  ASSERT_TRUE(UnpackFrame(fd.get(), frames[0], &text).ok());
  EXPECT_EQ(HeaderValue(text, "boot_id"), "b");
  EXPECT_EQ(HeaderValue(text, "boot"), "");
}

TEST(TableTest, ZstdReadsItAsOneText) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"));
  recorder.Record(10, 12);
  ASSERT_TRUE(recorder.folder.Close().ok());
  const std::string command = "zstd -dcq " + temp.At("r") + "/slots-*.zst > " + temp.At("out");
  ASSERT_EQ(system(command.c_str()), 0);
  EXPECT_EQ(BytesOf(temp.At("out")), "# host: h\n# slot_ns: 1000000\n# boot_id: b\ncolumns\n10\n11\n");
}

TEST(TableTest, ALongTextIsCutIntoFramesAtLineEnds) {
  const TempFolder temp;
  Table table("slots", "csv");
  table.Begin(temp.path(), 1, 0);
  ASSERT_TRUE(table.Write("columns\n").ok());
  table.EndHeader();
  std::string text;
  for (int i = 0; text.size() < 11u << 20; i++) text += fmt::format("{} of a long text\n", i);
  ASSERT_TRUE(table.Write(text).ok());
  EXPECT_EQ(table.size(), text.size());
  ASSERT_TRUE(table.EndFrame(Seconds(1, 2)).ok());
  const auto file = table.TakeFile();
  ASSERT_TRUE(file && file->Commit().ok());
  EXPECT_EQ(file->size(), fs::file_size(file->path()));
  std::string read;
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(file->path()).ok());
  size_t nr_pieces = 0;
  ASSERT_TRUE(reader
                  .Read("slots", {},
                        [&](std::string_view piece) {
                          EXPECT_EQ(piece.back(), '\n');
                          read += piece;
                          nr_pieces++;
                        })
                  .ok());
  EXPECT_EQ(nr_pieces, 4u);
  EXPECT_TRUE(read == "columns\n" + text);
}

TEST(TableTest, HasNoFileIfThereIsNothingBehindItsHeader) {
  const TempFolder temp;
  Table table("gpu", "csv");
  table.Begin(temp.path(), 1, 0);
  ASSERT_TRUE(table.Write("columns\n").ok());
  table.EndHeader();
  EXPECT_TRUE(table.EndFrame(Seconds(1, 2)).ok());
  EXPECT_EQ(table.TakeFile(), nullptr);
  EXPECT_TRUE(NamesIn(temp.path()).empty());
}

TEST(TableTest, WhatCouldNotBeWrittenIsWrittenByTheNextTry) {
  const TempFolder temp;
  const std::string gone = temp.At("later");
  Table table("slots", "csv");
  table.Begin(gone, 1, 0);
  ASSERT_TRUE(table.Write("columns\n").ok());
  table.EndHeader();
  ASSERT_TRUE(table.Write("1\n").ok());
  EXPECT_EQ(table.EndFrame(Seconds(1, 2)).code(), Exit::kOutput);
  fs::create_directory(gone);
  EXPECT_TRUE(table.EndFrame(Seconds(1, 2)).ok());
  const auto file = table.TakeFile();
  ASSERT_TRUE(file && file->Commit().ok());
  EXPECT_EQ(RowsIn(file->path()), "1 ");
}

TEST(ManifestTest, SaysWhatIsThere) {
  const TempFolder temp;
  Segments segments;
  for (uint64_t i = 1; i <= 3; i++) {
    Segment& one = segments[i];
    one.number = i;
    one.times = Seconds(10 * i, 10 * i + 10);
    one.host = "a \"host\"";
    one.boot_id = "b";
    one.slot_ns = 1'000'000;
    one.files["slots"] = {FormatSegmentName({"slots", i, 1'795'000'000, "csv"}), 100 * i};
  }
  segments[2].cut = true;
  ManifestWriter writer;
  ASSERT_TRUE(writer.Open(temp.path(), {}).ok());
  for (const auto& [number, one] : segments) ASSERT_TRUE(writer.Add(one).ok());
  Segments read;
  ASSERT_TRUE(ReadManifest(temp.path(), &read).ok());
  EXPECT_EQ(read, segments);
  segments.erase(1);
  ASSERT_TRUE(writer.Remove(1, {"slots"}, segments).ok());
  ASSERT_TRUE(ReadManifest(temp.path(), &read).ok());
  EXPECT_EQ(read, segments);
}

// It takes the place of the old one when there is room again: until then it is as one that was removed.
TEST(ManifestTest, WhatCouldNotBeWrittenAnewIsToBeWrittenAnew) {
  const TempFolder temp;
  const FullDisk disk(temp);
  if (!disk.mounted) GTEST_SKIP() << "needs root";
  Segments segments;
  for (uint64_t i = 1; i <= 300; i++) {
    segments[i].number = i;
    segments[i].files["slots"] = {FormatSegmentName({"slots", i, 1'795'000'000, "csv"}), 1};
  }
  const std::string folder = disk.At("r");
  fs::create_directory(folder);
  ManifestWriter writer;
  ASSERT_TRUE(writer.Open(folder, {}).ok());
  EXPECT_FALSE(writer.IsRemoved());
  disk.Fill();
  EXPECT_TRUE(writer.Open(folder, segments).lacks_room());
  EXPECT_TRUE(writer.IsRemoved());
  disk.Free();
  ASSERT_TRUE(writer.Open(folder, segments).ok());
  EXPECT_FALSE(writer.IsRemoved());
  Segments read;
  ASSERT_TRUE(ReadManifest(folder, &read).ok());
  EXPECT_EQ(read, segments);
}

TEST(ManifestTest, DoesNotGrowForEver) {
  const TempFolder temp;
  Segments segments;
  ManifestWriter writer;
  ASSERT_TRUE(writer.Open(temp.path(), segments).ok());
  for (uint64_t i = 1; i <= 300; i++) {
    segments[i].number = i;
    segments[i].files["slots"] = {FormatSegmentName({"slots", i, 1'795'000'000, "csv"}), 1};
    ASSERT_TRUE(writer.Add(segments[i]).ok());
    if (i <= 5) continue;
    segments.erase(i - 5);
    ASSERT_TRUE(writer.Remove(i - 5, {"slots"}, segments).ok());
  }
  EXPECT_LT(fs::file_size(temp.At(kManifestName)), 30'000u);
  Segments read;
  ASSERT_TRUE(ReadManifest(temp.path(), &read).ok());
  EXPECT_EQ(read, segments);
}

TEST(ManifestTest, ALineThatIsCutIsNone) {
  const TempFolder temp;
  Segments segments;
  segments[7].number = 7;
  segments[7].files["slots"] = {FormatSegmentName({"slots", 7, 0, "csv"}), 1};
  ManifestWriter writer;
  ASSERT_TRUE(writer.Open(temp.path(), segments).ok());
  temp.Append(kManifestName, "{\"segment\":8,\"start_ns\":1,\"end_n");
  Segments read;
  ASSERT_TRUE(ReadManifest(temp.path(), &read).ok());
  EXPECT_EQ(read, segments);
}

TEST(ManifestTest, IsUntrusted) {
  const TempFolder temp;
  const std::string first = "{\"slotscope\":\"recording\",\"version\":1}\n";
  const auto line = [](const std::string& tables) {
    return "{\"segment\":1,\"start_ns\":1,\"end_ns\":2,\"unix_offset_ns\":3,\"host\":\"h\",\"boot_id\":"
           "\"b\",\"slot_ns\":1,\"tables\":" +
           tables + "}\n";
  };
  const std::string good = "slots-000001-20261125T132757Z.csv.zst";
  Segments read;
  temp.Write(kManifestName, first + line("{\"slots\":{\"file\":\"" + good + "\",\"bytes\":1}}"));
  ASSERT_TRUE(ReadManifest(temp.path(), &read).ok());
  EXPECT_EQ(read.size(), 1u);
  for (const std::string& tables :
       {std::string("3"), std::string("{\"slots\":{\"file\":\"../../etc/passwd\",\"bytes\":1}}"),
        "{\"gpu\":{\"file\":\"" + good + "\",\"bytes\":1}}",
        std::string("{\"slots\":{\"file\":\"slots-000002-20261125T132757Z.csv.zst\",\"bytes\":1}}"),
        "{\"slots\":{\"file\":\"" + good + "\",\"bytes\":\"x\"}}"}) {
    temp.Write(kManifestName, first + line(tables));
    EXPECT_TRUE(ReadManifest(temp.path(), &read).ok()) << tables;
    EXPECT_TRUE(read.empty()) << tables;
  }
  for (const char* bad : {"no JSON\n", "[]\n", "{\"slotscope\":\"other\",\"version\":1}\n",
                          "{\"slotscope\":\"recording\",\"version\":\"1\"}\n", "{\"version\":1}\n"}) {
    temp.Write(kManifestName, bad);
    EXPECT_EQ(ReadManifest(temp.path(), &read).code(), Exit::kBadInput) << bad;
  }
  temp.Write(kManifestName, "{\"slotscope\":\"recording\",\"version\":2}\n");
  EXPECT_THAT(ReadManifest(temp.path(), &read).message(), HasSubstr("version 2"));
}

TEST(RecordingFolderTest, AnOlderRecordingBecomesOld) {
  const TempFolder temp;
  for (uint64_t i = 1; i <= 3; i++) {
    ASSERT_TRUE(RecordingFolder::Check(temp.At("r"), {}).ok());
    Recorder recorder(temp.At("r"));
    ASSERT_TRUE(recorder.status.ok()) << recorder.status.message();
    recorder.Record(10 * i, 10 * i + 2);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  EXPECT_EQ(RowsIn(temp.At("r")), "30 31 ");
  EXPECT_EQ(RowsIn(temp.At("r.old")), "20 21 ");
  EXPECT_THAT(NamesIn(temp.path()), ElementsAre("r", "r.old"));
}

TEST(RecordingFolderTest, IsFollowedWhereSomebodyMovesIt) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"), {0, 0, 0});
  recorder.Record(0, 2);
  recorder.Begin(2, 4);
  fs::rename(temp.At("r"), temp.At("moved"));
  fs::create_directory(temp.At("r"));
  recorder.Commit();
  recorder.Record(4, 6);
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_EQ(recorder.folder.path(), temp.At("moved"));
  EXPECT_EQ(RowsIn(temp.At("moved")), "0 1 2 3 4 5 ");
  EXPECT_TRUE(fs::is_empty(temp.At("r")));
}

TEST(RecordingFolderTest, AManifestThatIsRemovedIsThereAgain) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"));
  recorder.Record(0, 2);
  recorder.Record(2, 4);
  while (NamesIn(temp.At("r")).size() < 3) std::this_thread::yield();
  fs::remove(temp.At("r/manifest.ndjson"));
  recorder.Record(4, 6);
  ASSERT_TRUE(recorder.folder.Close().ok());
  Segments segments;
  ASSERT_TRUE(ReadManifest(temp.At("r"), &segments).ok());
  EXPECT_EQ(segments.size(), 3u);
}

TEST(RecordingFolderTest, TouchesNothingThatIsNoRecording) {
  const TempFolder temp;
  fs::create_directory(temp.At("d"));
  temp.Write("d/letter", "dear");
  temp.Write("f", "dear");
  fs::create_symlink("d", temp.At("l"));
  for (const char* name : {"d", "f", "l"}) {
    EXPECT_EQ(RecordingFolder::Check(temp.At(name), {}).code(), Exit::kOutput) << name;
    RecordingFolder folder;
    EXPECT_EQ(folder.Open(temp.At(name), {}).code(), Exit::kOutput) << name;
  }
  EXPECT_EQ(BytesOf(temp.At("d/letter")), "dear");

  // Nor is one a recording because it has a file of that name.
  fs::create_directory(temp.At("m"));
  temp.Write("m/manifest.ndjson", "{\"name\":\"my web app\"}\n");
  RecordingFolder other;
  EXPECT_EQ(RecordingFolder::Check(temp.At("m"), {}).code(), Exit::kOutput);
  EXPECT_EQ(other.Open(temp.At("m"), {}).code(), Exit::kOutput);
  EXPECT_TRUE(fs::exists(temp.At("m/manifest.ndjson")));

  // What somebody put into a recording that would be removed: nothing of it is.
  for (int i = 0; i < 2; i++) {
    Recorder recorder(temp.At("r"));
    ASSERT_TRUE(recorder.status.ok());
    recorder.Record(1, 2);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  temp.Write("r.old/letter", "dear");
  EXPECT_EQ(RecordingFolder::Check(temp.At("r"), {}).code(), Exit::kOutput);
  RecordingFolder folder;
  const Status status = folder.Open(temp.At("r"), {});
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_THAT(status.message(), HasSubstr("letter"));
  EXPECT_EQ(BytesOf(temp.At("r.old/letter")), "dear");
  EXPECT_EQ(RowsIn(temp.At("r.old")), "1 ");
  EXPECT_EQ(RowsIn(temp.At("r")), "1 ");
}

TEST(RecordingFolderTest, SaysWhichFolderIsMissing) {
  const TempFolder temp;
  const Status status = RecordingFolder::Check(temp.At("no/such/r"), {});
  EXPECT_EQ(status.code(), Exit::kOutput);
  EXPECT_THAT(status.message(), HasSubstr("there is no folder " + temp.At("no/such") + ": make it"));
}

TEST(RecordingFolderTest, WhatAnotherOneWritesIsNotRemoved) {
  const TempFolder temp;
  for (const char* name : {"a", "a.old"}) {
    Recorder recorder(temp.At(name));
    recorder.Record(1, 2);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  Recorder busy(temp.At("a.old"), {3600 * kS, 0, 0});
  ASSERT_TRUE(busy.status.ok());
  RecordingFolder folder;
  EXPECT_EQ(folder.Open(temp.At("a"), {}).code(), Exit::kBusy);
  EXPECT_EQ(RowsIn(temp.At("a")), "1 ");
  EXPECT_EQ(RowsIn(temp.At("a.old")), "1 ");
}

// A start that fails afterwards leaves all as it was, also if it took so long that a segment is there.
TEST(RecordingFolderTest, WhatWasReplacedIsBackIfNothingCameOfIt) {
  const TempFolder temp;
  for (uint64_t i = 1; i <= 2; i++) {
    Recorder recorder(temp.At("r"));
    recorder.Record(i, i + 1);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  {
    RecordingFolder folder;
    ASSERT_TRUE(folder.Open(temp.At("r"), {}).ok());
    EXPECT_TRUE(folder.has_old());
    EXPECT_EQ(RowsIn(temp.At("r.old")), "2 ");
    folder.Discard();
  }
  {
    Recorder recorder(temp.At("r"), {}, false);
    recorder.Record(3, 4);
    recorder.folder.Discard();
  }
  EXPECT_EQ(RowsIn(temp.At("r")), "2 ");
  EXPECT_EQ(RowsIn(temp.At("r.old")), "1 ");
  EXPECT_THAT(NamesIn(temp.path()), ElementsAre("r", "r.old"));
}

TEST(RecordingFolderTest, ASecondRecorderIsToldThatItIsBusy) {
  const TempFolder temp;
  Recorder first(temp.At("r"));
  ASSERT_TRUE(first.status.ok());
  for (const KeepLimits& keep : {KeepLimits{}, KeepLimits{0, 1u << 30}}) {
    EXPECT_EQ(RecordingFolder::Check(temp.At("r"), keep).code(), Exit::kBusy);
    RecordingFolder second;
    EXPECT_EQ(second.Open(temp.At("r"), keep).code(), Exit::kBusy);
  }
}

TEST(RecordingFolderTest, AReaderSeesWhetherItIsHeld) {
  const TempFolder temp;
  EXPECT_FALSE(IsHeld(temp.At("r")));
  {
    Recorder recorder(temp.At("r"));
    ASSERT_TRUE(recorder.status.ok());
    EXPECT_TRUE(IsHeld(temp.At("r")));
    recorder.Record(1, 3);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  EXPECT_FALSE(IsHeld(temp.At("r")));
}

TEST(RecordingFolderTest, WhatSomebodyHasDeletedIsMissing) {
  const TempFolder temp;
  {
    Recorder recorder(temp.At("r"));
    ASSERT_TRUE(recorder.status.ok());
    for (uint64_t s = 10; s <= 40; s += 10) recorder.Record(s, s + 1);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  const std::vector<std::string> files = reader.FilesOf("slots");
  ASSERT_EQ(files.size(), 4u);
  std::string rows;
  const auto why = [&] {
    Status status;
    rows = RowsIn(temp.At("r"), {}, &status);
    return status.message();
  };
  EXPECT_EQ(why(), "");
  std::filesystem::remove(files[2]);
  EXPECT_THAT(why(), testing::HasSubstr(files[2] + " is missing"));
  EXPECT_EQ(rows, "10 20 40 ") << "what is left is read";
  {
    // Who records removes what is oldest, and writes that down a moment later.
    const UniqueFd held(open(temp.At("r").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
    EXPECT_EQ(why(), "");
  }
  std::filesystem::resize_file(files[1], 0);
  EXPECT_THAT(why(), testing::HasSubstr(files[1] + ": it is damaged at byte 0")) << "it is empty";
  // As a ring does that could not write it down: the oldest are not there, and have not been for long.
  std::filesystem::remove(files[1]);
  std::filesystem::remove(files[0]);
  EXPECT_THAT(why(), testing::HasSubstr(files[0] + " is missing")) << "no ring has ever removed one";
  Segments segments;
  ASSERT_TRUE(ReadManifest(temp.At("r"), &segments).ok());
  segments.erase(1);
  ManifestWriter manifest;
  ASSERT_TRUE(manifest.Open(temp.At("r"), segments, {}).ok());
  EXPECT_EQ(why(), "");
}

TEST(RecordingFolderTest, GoesOnWhereItsPredecessorEnded) {
  const TempFolder temp;
  const KeepLimits keep = {3600 * kS, 0};
  for (uint64_t i = 1; i <= 2; i++) {
    Recorder recorder(temp.At("r"), keep);
    ASSERT_TRUE(recorder.status.ok());
    recorder.Record(10 * i, 10 * i + 2);
    ASSERT_TRUE(recorder.folder.Close().ok());
    EXPECT_EQ(recorder.folder.nr_recovered(), 0u);
  }
  EXPECT_EQ(RowsIn(temp.At("r")), "10 11 20 21 ");
  EXPECT_THAT(NamesIn(temp.path()), ElementsAre("r"));
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  EXPECT_EQ(reader.segments().begin()->first, 1u);
  EXPECT_EQ(reader.segments().rbegin()->first, 2u);
}

TEST(RecordingFolderTest, WhatAKilledRecorderLeftIsKeptUpToItsLastFrame) {
  const TempFolder temp;
  const KeepLimits keep = {3600 * kS, 0};
  if (const pid_t pid = fork(); pid == 0) {
    Recorder recorder(temp.At("r"), keep);
    recorder.Record(10, 12);
    for (Segments complete; complete.empty();)
      if (!ReadManifest(temp.At("r"), &complete).ok()) _exit(1);
    recorder.Begin(12, 15);
    _exit(0);  // no destructor
  } else {
    int status;
    waitpid(pid, &status, 0);
  }
  const std::string part = NamesIn(temp.At("r")).back();
  ASSERT_TRUE(part.ends_with(".part")) << part;
  EXPECT_EQ(RowsIn(temp.At("r")), "10 11 12 13 14 ");  // while it was there
  fs::resize_file(temp.At("r/" + part), fs::file_size(temp.At("r/" + part)) - 3);
  EXPECT_EQ(RowsIn(temp.At("r")), "10 11 12 13 ");
  temp.Write("r/slots-000009-20261125T132757Z.csv.zst.part", "");  // nothing was in it
  temp.Write("r/slots-000008-20261125T132757Z.csv.zst", "no frame");

  Recorder recorder(temp.At("r"), keep);
  ASSERT_TRUE(recorder.status.ok()) << recorder.status.message();
  EXPECT_EQ(recorder.folder.nr_recovered(), 1u);
  recorder.Record(20, 21);
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_EQ(RowsIn(temp.At("r")), "10 11 12 13 20 ");
  Segments segments;
  ASSERT_TRUE(ReadManifest(temp.At("r"), &segments).ok());
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_TRUE(segments.at(2).cut);
  EXPECT_EQ(segments.at(2).times, Seconds(12, 14));
  EXPECT_EQ(segments.at(2).host, "h");
  EXPECT_EQ(segments.at(2).boot_id, "b");
  EXPECT_EQ(segments.at(2).slot_ns, 1'000'000u);
  EXPECT_TRUE(segments.contains(10));  // no number is used twice
}

// Each file is on the disk before it has its name, and each name before the manifest says so; also of
// what a killed recorder has left. Whoever leaves out any of it is found out.
TEST(RecordingFolderTest, WhatIsCompleteSurvivesALossOfPower) {
  const TempFolder temp;
  const KeepLimits keep = {3600 * kS, 0};
  DiskLog log(temp.path());
  if (const pid_t pid = fork(); pid == 0) {
    Recorder recorder(temp.At("r"), keep);
    recorder.Begin(10, 12);
    _exit(0);
  } else {
    waitpid(pid, nullptr, 0);
  }
  {
    Recorder recorder(temp.At("r"), keep);
    EXPECT_EQ(recorder.folder.nr_recovered(), 1u);
    recorder.Record(20, 21);
    recorder.Record(21, 22);
    recorder.folder.Protect(UnixAt(20), UnixAt(21));
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  const auto entries = log.Take();
  EXPECT_EQ(FindUnsafe(entries), "");
  std::map<DiskLog::Entry::What, size_t> nr;
  for (size_t i = 0; i < entries.size(); i++) {
    nr[entries[i].what]++;
    if (entries[i].what != DiskLog::Entry::What::kSync) continue;
    auto mutant = entries;
    mutant.erase(mutant.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_NE(FindUnsafe(mutant), "") << "without that of " << entries[i].path;
  }
  EXPECT_GE(nr[DiskLog::Entry::What::kRename], 4u);  // three segments, and a manifest
  EXPECT_GE(nr[DiskLog::Entry::What::kSync], 9u);
}

TEST(RecordingFolderTest, TheNameOfANewOneSurvivesALossOfPower) {
  const TempFolder temp;
  DiskLog log(temp.path());
  Recorder recorder(temp.At("r"), {});
  const auto entries = log.Take();
  EXPECT_TRUE(std::ranges::any_of(entries, [&](const DiskLog::Entry& entry) {
    return entry.what == DiskLog::Entry::What::kSync && fs::path(entry.path) == fs::path(temp.path());
  }));
}

TEST(RecordingFolderTest, KeepsWhatIsNewest) {
  const TempFolder temp;
  {
    Recorder recorder(temp.At("time"), {25 * kS, 0});
    for (uint64_t i = 0; i < 6; i++) recorder.Record(10 * i, 10 * i + 10);
    ASSERT_TRUE(recorder.folder.Close().ok());
    EXPECT_EQ(recorder.folder.nr_removed(), 3u);
  }
  EXPECT_THAT(RowsIn(temp.At("time")), testing::StartsWith("30 31 "));
  EXPECT_EQ(NamesIn(temp.At("time")).size(), 4u);

  constexpr uint64_t kMax = 2'000;
  Recorder recorder(temp.At("size"), {0, kMax});
  uint64_t largest = 0;
  for (uint64_t i = 0; i < 30; i++) {
    recorder.Record(i, i + 1);
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(temp.At("size")))
      if (std::error_code error; entry.path().extension() == ".zst") bytes += entry.file_size(error);
    largest = std::max(largest, bytes);
  }
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_LE(recorder.folder.bytes(), kMax);
  EXPECT_GT(recorder.folder.bytes(), kMax / 2);
  EXPECT_LE(largest, kMax + kMax / 4);  // those that are on their way
  EXPECT_THAT(RowsIn(temp.At("size")), testing::EndsWith("28 29 "));
  const uint64_t nr_before = recorder.folder.nr_segments();
  RecordingFolder next;
  ASSERT_TRUE(next.Open(temp.At("size"), {0, kMax, 0}).ok());
  next.SetOpenBytes(RecordingFolder::Writes::kTables, kMax / 2);  // what is being written has its part
  ASSERT_TRUE(next.Close().ok());
  EXPECT_LT(next.nr_segments(), nr_before);
  EXPECT_GT(next.nr_segments(), 0u);
  RecordingFolder last;
  ASSERT_TRUE(last.Open(temp.At("size"), {0, kMax, 0}).ok());
  last.SetOpenBytes(RecordingFolder::Writes::kTables, 2 * kMax);
  ASSERT_TRUE(last.Close().ok());
  EXPECT_EQ(last.nr_segments(), 0u);
  EXPECT_FALSE(last.RemoveOldest());
}

// However little room there is on the disk.
TEST(RecordingFolderTest, AFullDiskTakesNothingThatIsProtected) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"), {3600 * kS, 0});
  for (uint64_t i = 0; i < 4; i++) recorder.Record(i, i + 1);
  recorder.folder.Protect(UnixAt(1), UnixAt(2));
  int nr_removed = 0;
  while (nr_removed < 100 && recorder.folder.RemoveOldest()) nr_removed++;
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_LT(nr_removed, 100);
  EXPECT_THAT(RowsIn(temp.At("r")), testing::MatchesRegex("1 .*"));
}

TEST(RecordingFolderTest, WhatIsProtectedIsTheLastToGo) {
  const TempFolder temp;
  const KeepLimits keep = {0, 4'000, 0};
  {
    Recorder recorder(temp.At("r"), keep);
    recorder.Record(0, 1);
    recorder.Record(1, 2);
    recorder.folder.Protect(UnixAt(1), UnixAt(2));
    for (uint64_t i = 2; i < 40; i++) recorder.Record(i, i + 1);
    ASSERT_TRUE(recorder.folder.Close().ok());
    EXPECT_LE(recorder.folder.bytes(), keep.bytes);
  }
  EXPECT_THAT(RowsIn(temp.At("r")), testing::MatchesRegex("1 (1|2)[0-9] .*"));
  {
    // Also by who goes on; and what is protected later than what has half of the room by itself.
    Recorder recorder(temp.At("r"), keep);
    for (uint64_t i = 40; i < 60; i++) recorder.Record(i, i + 1);
    ASSERT_TRUE(recorder.folder.Close().ok());
    EXPECT_THAT(RowsIn(temp.At("r")), testing::MatchesRegex("1 (3|4)[0-9] .*"));
    EXPECT_THAT(recorder.folder.TakeNews(), testing::IsEmpty());
    recorder.folder.Protect(UnixAt(42), UnixAt(60));
    recorder.folder.SetOpenBytes(RecordingFolder::Writes::kTables, 0);
  }
  Recorder recorder(temp.At("r"), keep);
  for (uint64_t i = 60; i < 62; i++) recorder.Record(i, i + 1);
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_THAT(recorder.folder.TakeNews(),
              testing::Contains(testing::HasSubstr("takes more than half of the room")));
  EXPECT_THAT(RowsIn(temp.At("r")), testing::Not(testing::StartsWith("1 ")));
  EXPECT_THAT(RowsIn(temp.At("r")), testing::EndsWith("60 61 "));
}

// Whoever writes a ring for months does not end for good because of a page of its manifest.
TEST(RecordingFolderTest, AManifestThatIsDamagedIsMadeAnew) {
  for (const char* const manifest : {"", "garbage\nmore\n", "{}\n"}) {
    const TempFolder temp;
    const std::string path = temp.At("r");
    {
      Recorder recorder(path, {0, 100'000, 0});
      for (uint64_t i = 0; i < 3; i++) recorder.Record(i, i + 1);
      ASSERT_TRUE(recorder.folder.Close().ok());
    }
    std::ofstream(path + "/" + kManifestName) << manifest;
    EXPECT_EQ(RowsIn(path), "0 1 2 ") << "it is read without";
    EXPECT_EQ(RecordingFolder::Check(path, {}).code(), Exit::kOutput) << "without a ring one decides";
    ASSERT_TRUE(RecordingFolder::Check(path, {0, 100'000, 0}).ok());
    Recorder recorder(path, {0, 100'000, 0});
    recorder.Record(3, 4);
    ASSERT_TRUE(recorder.folder.Close().ok());
    EXPECT_THAT(recorder.folder.TakeNews(),
                testing::ElementsAre(testing::HasSubstr(
                    "missing or damaged and is made anew. Its segments are kept (3)")));
    EXPECT_EQ(RowsIn(path), "0 1 2 3 ");
    RecordingReader reader;
    ASSERT_TRUE(reader.Open(path).ok());
    EXPECT_EQ(reader.segments().size(), 4u);
    // What somebody else has put there is not touched.
    std::ofstream(path + "/" + kManifestName) << manifest;
    std::ofstream(path + "/letter") << "dear";
    EXPECT_EQ(RecordingFolder::Check(path, {0, 100'000, 0}).code(), Exit::kOutput);
  }
}

// Also where its first line begins as it should.
TEST(RecordingFolderTest, AManifestIsMadeAnewOfWhichTheFirstLineIsCut) {
  const TempFolder temp;
  const std::string path = temp.At("r");
  {
    Recorder recorder(path, {0, 100'000, 0});
    recorder.Record(0, 1);
    ASSERT_TRUE(recorder.folder.Close().ok());
  }
  std::ofstream(path + "/" + kManifestName) << "{\"slotscope\":\"recording\",\"vers\n";
  Recorder recorder(path, {0, 100'000, 0});
  recorder.Record(1, 2);
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_THAT(recorder.folder.TakeNews(),
              testing::ElementsAre(testing::HasSubstr("is made anew. Its segments are kept (1)")));
  EXPECT_EQ(RowsIn(path), "0 1 ");
}

TEST(RecordingFolderTest, AProtectedMomentOutlivesTheTimeThatIsKept) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"), {10 * kS, 0, 0});
  for (uint64_t i = 0; i < 5; i++) recorder.Record(i, i + 1);
  recorder.folder.Protect(UnixAt(2), UnixAt(3));
  for (uint64_t i = 5; i < 60; i++) recorder.Record(i, i + 1);
  recorder.folder.Commit({}, {});  // waits for room: what is before it is on the disk
  const std::string rows = RowsIn(temp.At("r"));
  EXPECT_THAT(rows, testing::StartsWith("2 4"));
  for (uint64_t i = 60; i < 150; i++) recorder.Record(i, i + 1);
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_THAT(RowsIn(temp.At("r")), testing::StartsWith("139 ")) << "ten times as long";
}

struct SomeTable {
  const char* name;
  size_t bytes;  // of each segment
};

// So many segments of these tables, of bytes that cannot be packed.
void Commit(RecordingFolder* folder, const std::vector<SomeTable>& some, uint64_t nr_segments) {
  std::deque<Table> tables;
  for (const SomeTable& one : some) tables.emplace_back(one.name, "csv");
  std::string noise;
  for (uint32_t i = 0; noise.size() < 1500; i++)
    noise += static_cast<char>('0' + i * i * 2654435761u % 61);
  for (uint64_t i = 1; i <= nr_segments; i++) {
    Segment segment;
    segment.number = folder->TakeNumber();
    segment.times = Seconds(i, i + 1);
    std::vector<std::unique_ptr<PartFile>> files;
    for (size_t k = 0; k < some.size(); k++) {
      Table& table = tables[k];
      table.Begin(folder->held_path(), segment.number, 0);
      EXPECT_TRUE(table.Write("columns\n").ok());
      table.EndHeader();
      EXPECT_TRUE(table.Write(noise.substr(0, some[k].bytes) + "\n").ok());
      EXPECT_TRUE(table.EndFrame(segment.times).ok());
      files.push_back(table.TakeFile());
      const std::string& path = files.back()->path();
      segment.files[table.name()] = {path.substr(path.rfind('/') + 1), files.back()->size()};
    }
    folder->Commit(segment, std::move(files));
  }
}

TEST(RecordingFolderTest, MillisecondsGoFirstThenSecondsThenMinutes) {
  const TempFolder temp;
  RecordingFolder folder;
  constexpr uint64_t kMax = 40'000;
  ASSERT_TRUE(folder.Open(temp.At("r"), {0, kMax, 0}).ok());
  Commit(&folder, {{"slots", 1500}, {"seconds", 400}, {"minutes", 50}}, 200);
  ASSERT_TRUE(folder.Close().ok());
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  std::map<std::string, uint64_t> bytes, from;
  for (const auto& [number, segment] : reader.segments())
    for (const auto& [table, file] : segment.files) {
      bytes[table] += file.bytes;
      from.try_emplace(table, number);
    }
  EXPECT_LE(folder.bytes(), kMax);
  EXPECT_NEAR(static_cast<double>(bytes["minutes"]), kMax * 0.3, 700);
  EXPECT_NEAR(static_cast<double>(bytes["seconds"]), kMax * 0.5, 1400);
  EXPECT_NEAR(static_cast<double>(bytes["slots"]), kMax * 0.2, 3500);
  EXPECT_LT(from["minutes"] + 10, from["seconds"]);
  EXPECT_LT(from["seconds"] + 10, from["slots"]);
}

// What is fine goes first; what is coarser may take so many tenths of the room.
struct Share {
  const char* table;
  uint64_t tenths;
};
class KeptLonger : public testing::TestWithParam<Share> {};

TEST_P(KeptLonger, ThanMilliseconds) {
  const std::string name = GetParam().table;
  const TempFolder temp;
  RecordingFolder folder;
  constexpr uint64_t kMax = 20'000;
  const uint64_t share = kMax / 10 * GetParam().tenths;
  ASSERT_TRUE(folder.Open(temp.At("r"), {0, kMax, 0}).ok());
  Commit(&folder, {{"slots", 1500}, {GetParam().table, 100}}, 100);
  ASSERT_TRUE(folder.Close().ok());
  EXPECT_LE(folder.bytes(), kMax);
  EXPECT_GT(folder.bytes(), kMax * 3 / 4);
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  uint64_t nr_slots = 0, nr_seconds = 0, long_bytes = 0;
  for (const auto& [number, segment] : reader.segments()) {
    nr_slots += segment.files.contains("slots");
    if (!segment.files.contains(name)) continue;
    nr_seconds++;
    long_bytes += segment.files.at(name).bytes;
    EXPECT_TRUE(fs::exists(temp.At("r/" + segment.files.at(name).name)));
  }
  EXPECT_GT(nr_seconds, 2 * nr_slots);
  EXPECT_GT(nr_slots, 1u);
  EXPECT_GT(long_bytes, share * 5 / 8);
  EXPECT_LE(long_bytes, share + 1000);
  EXPECT_TRUE(reader.segments().rbegin()->second.files.contains("slots")) << "the newest";
  EXPECT_EQ(reader.segments().rbegin()->first, 100u);
  EXPECT_EQ(NamesIn(temp.At("r")).size(), nr_slots + nr_seconds + 1);
  // The same, read again by who goes on.
  RecordingFolder again;
  ASSERT_TRUE(again.Open(temp.At("r"), {0, kMax, 0}).ok());
  EXPECT_EQ(again.bytes(), folder.bytes());
  EXPECT_TRUE(again.RemoveOldest());
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  uint64_t nr_left = 0;
  for (const auto& [number, segment] : reader.segments()) nr_left += segment.files.contains("slots");
  EXPECT_EQ(nr_left, nr_slots - 1);
}

INSTANTIATE_TEST_SUITE_P(WhatIsSmall, KeptLonger,
                         testing::Values(Share{"seconds", 8}, Share{"minutes", 3}, Share{"processes", 3},
                                         Share{"straggle", 3}, Share{"events", 3},
                                         Share{"verdicts", 3}));

TEST(RecordingFolderTest, AShareOfTheDiskIsALimitToo) {
  const TempFolder temp;
  const auto space = fs::space(temp.path());
  const uint64_t tenth = BytesToKeep({0, 0, 10}, temp.At("r"));
  EXPECT_NEAR(static_cast<double>(tenth), static_cast<double>(space.capacity) / 10,
              static_cast<double>(space.capacity) / 1000);
  EXPECT_EQ(BytesToKeep({0, tenth - 1, 10}, temp.At("r")), tenth - 1);
  EXPECT_EQ(BytesToKeep({0, tenth + 1, 10}, temp.At("r")), tenth);
  EXPECT_EQ(BytesToKeep({1, 7, 0}, temp.At("r")), 7u);
  EXPECT_EQ(BytesToKeep({1, 0, 0}, temp.At("r")), 0u);
}

TEST(RecordingReaderTest, FindsAMoment) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"));
  for (uint64_t i = 0; i < 3; i++) recorder.Record(10 * i, 10 * i + 10);
  recorder.Begin(30, 33);
  const auto from_to = [](uint64_t from, uint64_t to) { return UnixRange{UnixAt(from), UnixAt(to)}; };
  EXPECT_EQ(RowsIn(temp.At("r"), from_to(8, 12)), "8 9 10 11 ");
  EXPECT_EQ(RowsIn(temp.At("r"), from_to(15, 16)), "15 ");
  EXPECT_EQ(RowsIn(temp.At("r"), from_to(29, 31)), "29 30 ");  // of what is being written, too
  EXPECT_EQ(RowsIn(temp.At("r"), from_to(50, 60)), "");
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  EXPECT_EQ(reader.segments().rbegin()->second.times, Seconds(30, 33));
  // Its file gets its name, and others go, before they are read.
  recorder.Commit();
  ASSERT_TRUE(recorder.folder.Close().ok());
  EXPECT_TRUE(recorder.folder.RemoveOldest());
  std::string read;
  ASSERT_TRUE(reader.Read("slots", from_to(9, 31), [&](std::string_view text) { read += text; }).ok());
  EXPECT_THAT(read, HasSubstr("columns\n10\n"));
  EXPECT_THAT(read, testing::EndsWith("columns\n30\n"));
  EXPECT_FALSE(reader.Open(temp.At("none")).ok() && reader.Read("slots", {}, [](auto) {}).ok());
}

// A minute's row comes when it is over: whoever asks for a moment in it is given it.
TEST(RecordingReaderTest, FindsSumsByTheTimeThatTheyAreOf) {
  const TempFolder temp;
  RecordingFolder folder;
  ASSERT_TRUE(folder.Open(temp.At("r"), {}).ok());
  Segment segment;
  segment.number = folder.TakeNumber();
  segment.times = Seconds(0, 9);
  std::vector<std::unique_ptr<PartFile>> files;
  for (const auto contents : {Table::Contents::kSums, Table::Contents::kLines}) {
    Table table(contents == Table::Contents::kSums ? "sums" : "lines", "csv", contents);
    table.Begin(folder.held_path(), segment.number, 0);
    EXPECT_TRUE(table.Write("columns\n").ok());
    table.EndHeader();
    for (uint64_t second = 0; second < 9; second++) {
      if (second % 3 == 2) {
        EXPECT_TRUE(table.Write(fmt::format("{}\n", second)).ok());
      }
      EXPECT_TRUE(table.EndFrame(Seconds(second, second + 1)).ok());
    }
    files.push_back(table.TakeFile());
    const std::string& path = files.back()->path();
    segment.files[table.name()] = {path.substr(path.rfind('/') + 1), files.back()->size()};
  }
  folder.Commit(segment, std::move(files));
  ASSERT_TRUE(folder.Close().ok());
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(temp.At("r")).ok());
  const auto read = [&](const char* table, uint64_t from, uint64_t to) {
    std::string text;
    EXPECT_TRUE(reader.Read(table, {UnixAt(from), UnixAt(to)}, [&](auto one) { text += one; }).ok());
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(read("sums", 0, 1), "2\n");
  EXPECT_EQ(read("sums", 4, 5), "5\n");
  EXPECT_EQ(read("sums", 2, 3), "2\n5\n") << "and one that began in the same frame";
  EXPECT_EQ(read("sums", 7, 8), "8\n");
  EXPECT_EQ(read("lines", 4, 5), "");
}

TEST(RecordingReaderTest, ReadsWhatZstdMade) {
  const TempFolder temp;
  temp.Write("slots.csv", "columns\n1\n2\n");
  ASSERT_EQ(system(("zstd -q " + temp.At("slots.csv")).c_str()), 0);
  EXPECT_TRUE(RecordingReader::Reads(temp.At("slots.csv.zst")));
  EXPECT_FALSE(RecordingReader::Reads(temp.At("slots.csv")));
  EXPECT_EQ(RowsIn(temp.At("slots.csv.zst")), "1 2 ");
  fs::resize_file(temp.At("slots.csv.zst"), 12);
  Status status;
  RowsIn(temp.At("slots.csv.zst"), {}, &status);
  EXPECT_EQ(status.code(), Exit::kBadInput);
}

TEST(RecordingReaderTest, DamageHidesItsFrameAloneAndIsSaid) {
  const TempFolder temp;
  Recorder recorder(temp.At("r"));
  recorder.Record(0, 5);
  recorder.Record(5, 8);
  ASSERT_TRUE(recorder.folder.Close().ok());
  const std::string path = temp.At("r/" + NamesIn(temp.At("r"))[1]);
  const std::string bytes = BytesOf(path);
  const size_t header_end = FramesOf(path)[1].offset;
  size_t nr_noticed = 0;
  for (size_t i = 0; i < bytes.size(); i++) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    std::ofstream(path, std::ios::binary) << bad;
    Status status;
    const std::string rows = RowsIn(temp.At("r"), {}, &status);
    EXPECT_THAT(rows, HasSubstr("5 6 7 ")) << i;
    nr_noticed += !status.ok();
    if (i >= header_end) {  // without the header nobody knows what is in a row
      EXPECT_GE(std::count(rows.begin(), rows.end(), ' '), 7) << i << ": " << rows;
    }
    if (status.ok()) {
      EXPECT_THAT(rows, HasSubstr("4 5 6 7 ")) << i;  // of the index's times
    }
  }
  EXPECT_GT(nr_noticed, bytes.size() / 2);
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  Status status;
  EXPECT_EQ(RowsIn(temp.At("r"), {}, &status), "0 1 2 3 5 6 7 ");
  EXPECT_THAT(status.message(), HasSubstr("damaged"));
}

TEST(RecordingReaderTest, WhatIsFarBehindDamageIsFound) {
  const TempFolder temp;
  Table table("slots", "csv");
  table.Begin(temp.path(), 1, 0);
  ASSERT_TRUE(table.Write("columns\n").ok());
  table.EndHeader();
  std::mt19937_64 random(1);
  for (uint64_t s = 0; s < 3; s++) {
    ASSERT_TRUE(table.Write(fmt::format("{}\n", s)).ok());
    for (int i = 0; s == 1 && i < 150'000; i++)
      ASSERT_TRUE(table.Write(fmt::format("# {:x}\n", random())).ok());
    ASSERT_TRUE(table.EndFrame(Seconds(s, s + 1)).ok());
  }
  table.TakeFile();
  const std::string path = temp.At(NamesIn(temp.path())[0]);
  const std::vector<FrameAt> frames = FramesOf(path);
  ASSERT_EQ(frames.size(), 4u);
  ASSERT_GT(frames[2].index.frame_bytes, 1u << 20) << "more than is looked at in one piece";
  const std::string bytes = BytesOf(path);
  // Also where the next one begins at the border of two pieces.
  for (const uint64_t behind :
       {uint64_t{1}, uint64_t{7}, frames[3].offset - frames[2].offset - (1 << 20)}) {
    std::string bad = bytes;
    bad[frames[2].offset] ^= 1;
    bad.erase(frames[2].offset + sizeof(FrameIndex), behind - 1);
    std::ofstream(path, std::ios::binary) << bad;
    Status status;
    EXPECT_EQ(RowsIn(path, {}, &status), "0 2 ") << behind;
    EXPECT_THAT(status.message(),
                testing::EndsWith(fmt::format("it is damaged at byte {}", frames[2].offset)));
  }
}

TEST(RecordingReaderTest, AnIndexThatLiesTakesNoMemory) {
  const TempFolder temp;
  const std::string bomb(64u << 20, '\0');
  std::string packed(ZSTD_compressBound(bomb.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bomb.data(), bomb.size(), 1));
  FrameIndex index = MakeFrameIndex(FrameKind::kRows, packed.size(), 10, Seconds(1, 2));
  const std::string columns = "columns\n";
  std::string header(ZSTD_compressBound(columns.size()), '\0');
  header.resize(ZSTD_compress(header.data(), header.size(), columns.data(), columns.size(), 1));
  FrameIndex of_header = MakeFrameIndex(FrameKind::kHeader, header.size(), columns.size(), {});
  const auto bytes_of = [](const FrameIndex& of) {
    return std::string(reinterpret_cast<const char*>(&of), sizeof(of));
  };
  const auto write = [&] {
    temp.Write("slots-000001-20261125T132757Z.csv.zst",
               bytes_of(of_header) + header + bytes_of(index) + packed);
    Status status;
    RowsIn(temp.At("slots-000001-20261125T132757Z.csv.zst"), {}, &status);
    return status;
  };
  EXPECT_THAT(write().message(),
              testing::EndsWith(fmt::format("byte {}", sizeof(index) + header.size())));
  index.text_bytes = kMaxFrameText + 1;
  EXPECT_FALSE(IsFrameIndex(index));
  index = MakeFrameIndex(FrameKind::kRows, UINT32_MAX, 10, Seconds(1, 2));
  EXPECT_FALSE(IsFrameIndex(index));
}

// If each of them made a reader look at all that follow once more, this would take hours.
TEST(RecordingReaderTest, ManyIndicesThatLieAreReadInOnePass) {
  const TempFolder temp;
  const FrameIndex index = MakeFrameIndex(FrameKind::kRows, 0, 10, Seconds(1, 2));
  const std::string_view one(reinterpret_cast<const char*>(&index), sizeof(index));
  std::string bytes;
  for (int i = 0; i < 200'000; i++) bytes.append(one).append(i % 2, 'x');
  temp.Write("slots-000001-20261125T132757Z.csv.zst", bytes);
  Status status;
  EXPECT_EQ(RowsIn(temp.At("slots-000001-20261125T132757Z.csv.zst"), {}, &status), "");
  EXPECT_THAT(status.message(), testing::EndsWith("it is damaged at byte 0"));
}

TEST(RecordingReaderTest, WhatIsNoRecordingIsBadInput) {
  const TempFolder temp;
  fs::create_directory(temp.At("d"));
  RecordingReader reader;
  EXPECT_EQ(reader.Open(temp.At("d")).code(), Exit::kBadInput);
  Status status;
  RowsIn(temp.At("none.zst"), {}, &status);
  EXPECT_EQ(status.code(), Exit::kBadInput);
}

// Which recording is read where none is named: on a machine of the test's own.
void FindIt() {
  const TempFolder temp;
  if (unshare(CLONE_FS | CLONE_NEWNS) || mount("none", "/", "", MS_REC | MS_PRIVATE, nullptr) ||
      mount("none", "/var/lib", "tmpfs", 0, "size=16m") || chdir(temp.path().c_str()))
    GTEST_SKIP() << "needs root, for a /var/lib of its own";
  const auto find = [](const char* table) {
    std::string path;
    const Status status = FindRecording(&path, table);
    return status.ok() ? path : status.message();
  };
  EXPECT_THAT(find("slots"), testing::AllOf(HasSubstr("there is no recording in this folder"),
                                            HasSubstr("/var/lib/slotscope/slotscope.rec")));
  std::filesystem::create_directory("/var/lib/slotscope");
  Recorder(kServiceRecording).Record(0, 1);
  EXPECT_EQ(find("slots"), kServiceRecording);
  // What is here comes first, but if only the other one has what is asked for.
  const Recorder empty(temp.At("empty"));
  EXPECT_EQ(find("slots"), kServiceRecording);
  EXPECT_EQ(find("spans"), "empty") << "neither has that";
  Recorder(temp.At("older")).Record(0, 1);
  EXPECT_EQ(find("slots"), "older");
  Recorder(temp.At("newer")).Record(0, 1);
  const auto now = std::filesystem::last_write_time(temp.At("newer/manifest.ndjson"));
  std::filesystem::last_write_time(temp.At("older/manifest.ndjson"), now - std::chrono::hours(1));
  EXPECT_EQ(find("slots"), "newer");
  std::filesystem::last_write_time(temp.At("older/manifest.ndjson"), now + std::chrono::hours(1));
  EXPECT_EQ(find("slots"), "older");
}

TEST(FindRecordingTest, TheNewestHereElseTheServices) { std::thread(FindIt).join(); }

}  // namespace
}  // namespace slotscope
