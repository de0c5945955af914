// SPDX-License-Identifier: MIT
// Raw files: what was written comes back, and no damage passes for data.
#include "raw/raw_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "items.h"
#include "raw/raw_writer.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

Facts SomeFacts() {
  Facts facts;
  facts.host = "machine";
  facts.source = "gen";
  facts.present_cpus = {0, 1};
  facts.nr_streams = 2;
  return facts;
}

Bytes SomeBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// What a reader makes of a file.
struct Outcome {
  Status opened;
  Status status;
  std::vector<Bytes> chunks;  // of items
  bool ended = false;
  uint64_t nr_good_bytes = 0;
};

class RawFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path() const { return dir_ + "/recording.raw"; }

  std::string ReadAll() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteAll(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  // Writes a whole file. borders_: where its chunks begin; the last one is its end.
  std::string MakeFile(const std::vector<Bytes>& chunks) {
    RawFileWriter writer;
    EXPECT_TRUE(writer.Open(path()).ok());
    EXPECT_TRUE(writer.WriteFacts(SomeFacts()).ok());
    borders_ = {sizeof(RawFileHeader), writer.size()};
    for (const Bytes& chunk : chunks) {
      EXPECT_TRUE(writer.WriteItems(chunk).ok());
      borders_.push_back(writer.size());
    }
    EXPECT_TRUE(writer.Finish().ok());
    borders_.push_back(writer.size());
    return ReadAll();
  }

  // What comes out when what `body` does has been written, chunks as they come.
  std::string MakeOtherFile(const std::function<void(RawFileWriter*)>& body) {
    RawFileWriter writer;
    EXPECT_TRUE(writer.Open(path()).ok());
    body(&writer);
    EXPECT_TRUE(writer.Finish().ok());
    return ReadAll();
  }

  Outcome Read() {
    Outcome outcome;
    RawFileReader reader;
    outcome.opened = reader.Open(path());
    if (!outcome.opened.ok()) return outcome;
    Facts expected = SomeFacts();
    expected.abi = abi_;
    EXPECT_EQ(reader.facts(), expected);
    std::span<const std::byte> items;
    while (reader.Next(&items)) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(items.data()) % kItemAlign, 4u);
      outcome.chunks.emplace_back(items.begin(), items.end());
    }
    EXPECT_FALSE(reader.Next(&items)) << "what is over stays over";
    outcome.ended = reader.ended();
    outcome.status = reader.status();
    outcome.nr_good_bytes = reader.nr_good_bytes();
    return outcome;
  }
  Outcome Read(const std::string& bytes) {
    WriteAll(bytes);
    return Read();
  }

  // The file's text of chunk `number`.
  std::string ChunkOf(const std::string& file, size_t number) const {
    return file.substr(borders_[number], borders_[number + 1] - borders_[number]);
  }
  // Of these chunks of `file`, in this order.
  std::string Arrange(const std::string& file, const std::vector<size_t>& numbers) const {
    std::string arranged = file.substr(0, sizeof(RawFileHeader));
    for (size_t number : numbers) arranged += ChunkOf(file, number);
    return arranged;
  }

  // It is the damage of chunk `number`, and what is before is there.
  void ExpectDamage(const Outcome& outcome, size_t number, const std::vector<Bytes>& chunks) {
    const Status& status = outcome.opened.ok() ? outcome.status : outcome.opened;
    EXPECT_EQ(status.code(), Exit::kBadInput);
    EXPECT_NE(status.message().find(Place(number)), std::string::npos)
        << status.message() << ", expected " << Place(number);
    EXPECT_NE(status.message().find(path()), std::string::npos) << status.message();
    EXPECT_FALSE(outcome.ended);
    if (!outcome.opened.ok()) return;
    EXPECT_EQ(outcome.nr_good_bytes, borders_[number]);
    EXPECT_EQ(outcome.chunks,
              std::vector<Bytes>(chunks.begin(), chunks.begin() + static_cast<ptrdiff_t>(number - 1)));
  }
  std::string Place(size_t number) const {
    return "chunk " + std::to_string(number) + " at byte " + std::to_string(borders_[number]) + " ";
  }

  // Runs `body` in a child, for what would change this process. Returns its exit code.
  static int InChild(const std::function<int()>& body) {
    pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::vector<uint64_t> borders_;
  uint32_t abi_ = SS_ABI_VERSION;  // of the file that is read

 private:
  std::string dir_ = testing::TempDir() + "slotscope-raw-XXXXXX";
};

const std::vector<Bytes> kChunks = {SomeBytes(40, 1), SomeBytes(0, 2), SomeBytes(96, 3),
                                    SomeBytes(8, 4)};
const size_t kNrChunks = kChunks.size() + 2;  // with facts and end

TEST_F(RawFileTest, WhatWasWrittenComesBack) {
  for (std::vector<Bytes> chunks :
       {std::vector<Bytes>{}, kChunks, {SomeBytes(Block::kCapacity, 5), SomeBytes(8, 6)}}) {
    const std::string file = MakeFile(chunks);
    EXPECT_EQ(file.size(), borders_.back());
    Outcome outcome = Read();
    ASSERT_TRUE(outcome.opened.ok()) << outcome.opened.message();
    EXPECT_EQ(outcome.chunks, chunks);
    EXPECT_TRUE(outcome.ended);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.nr_good_bytes, file.size());
  }
}

TEST_F(RawFileTest, TheSameRecordingGivesTheSameBytes) {
  const std::string first = MakeFile(kChunks);
  EXPECT_EQ(MakeFile(kChunks), first);
}

TEST_F(RawFileTest, HasItsNameOnlyWhenItIsComplete) {
  RawFileWriter writer;
  ASSERT_TRUE(writer.Open(path()).ok());
  ASSERT_TRUE(writer.WriteFacts(SomeFacts()).ok());
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(path() + ".part"));
}

TEST_F(RawFileTest, ADiscardedOneLeavesNothing) {
  RawFileWriter writer;
  ASSERT_TRUE(writer.Open(path()).ok());
  ASSERT_TRUE(writer.WriteFacts(SomeFacts()).ok());
  writer.Discard();
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(path() + ".part"));
}

// A recorder that was killed, at any moment.
TEST_F(RawFileTest, CutAnywhereItKeepsTheWholeChunksAndIsNoErrorButNotEnded) {
  const std::string file = MakeFile(kChunks);
  for (size_t size = 0; size < file.size(); size++) {
    SCOPED_TRACE(testing::Message() << "cut to " << size << " of " << file.size());
    Outcome outcome = Read(file.substr(0, size));
    if (size < borders_[1]) {
      ASSERT_EQ(outcome.opened.code(), Exit::kBadInput) << "without facts it is of no use";
      ASSERT_NE(outcome.opened.message().find(path()), std::string::npos) << outcome.opened.message();
      continue;
    }
    size_t nr_whole = 0;  // with the facts
    while (borders_[nr_whole + 1] <= size) nr_whole++;
    ASSERT_TRUE(outcome.opened.ok()) << outcome.opened.message();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    ASSERT_FALSE(outcome.ended);
    ASSERT_EQ(outcome.nr_good_bytes, borders_[nr_whole]);
    ASSERT_EQ(
        outcome.chunks,
        std::vector<Bytes>(kChunks.begin(), kChunks.begin() + static_cast<ptrdiff_t>(nr_whole - 1)));
  }
}

// One that makes a chunk reach behind the file's end looks as if the recorder
// had been killed: the chunk is not handed out, and the file has not ended.
TEST_F(RawFileTest, AFlippedBitAnywhereInAChunkIsNoticed) {
  const std::string file = MakeFile(kChunks);
  size_t nr_like_a_cut = 0;
  for (size_t number = 0; number < kNrChunks; number++)
    for (size_t at = borders_[number]; at < borders_[number + 1]; at++)
      for (uint64_t bit = 0; bit < 8; bit++) {
        // Of the many bytes of the facts one bit each: opening a file is what takes the time here.
        if (number == 0 && at >= borders_[0] + sizeof(RawChunkHeader) && bit != at % 8) continue;
        SCOPED_TRACE(testing::Message()
                     << "chunk " << number << ", byte " << at - borders_[number] << ", bit " << bit);
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
        Outcome outcome = Read(damaged);
        RawChunkHeader header;
        std::memcpy(&header, damaged.data() + borders_[number], sizeof(header));
        const size_t room = number == 0 ? 1u << 20 : Block::kCapacity;
        if (header.size <= room && borders_[number] + sizeof(header) + header.size > file.size()) {
          nr_like_a_cut++;
          ASSERT_FALSE(outcome.ended);
          ASSERT_EQ(outcome.opened.ok(), number > 0);
          ASSERT_EQ(outcome.chunks.size(), number == 0 ? 0 : number - 1);
          continue;
        }
        ExpectDamage(outcome, number, kChunks);
        ASSERT_FALSE(HasFailure());
      }
  EXPECT_LT(nr_like_a_cut, kNrChunks * 20) << "only bits of the sizes can do that";
}

// Not only small ones: a damaged size is found if the file goes on.
TEST_F(RawFileTest, ADamagedSizeInTheMiddleIsNoticed) {
  std::vector<Bytes> chunks = {SomeBytes(64, 1), SomeBytes(Block::kCapacity, 2),
                               SomeBytes(Block::kCapacity, 3)};
  const std::string file = MakeFile(chunks);
  for (int bit = 0; bit < 32; bit++) {
    SCOPED_TRACE(bit);
    std::string damaged = file;
    char& byte = damaged[borders_[1] + offsetof(RawChunkHeader, size) + static_cast<size_t>(bit / 8)];
    byte = static_cast<char>(byte ^ 1 << bit % 8);
    ExpectDamage(Read(damaged), 1, chunks);
  }
}

TEST_F(RawFileTest, ChunksMustBeWhereTheyWereWritten) {
  const std::string file = MakeFile(kChunks);
  const struct {
    const char* what;
    std::vector<size_t> chunks;
    size_t damaged;
  } cases[] = {
      {"the first items are missing", {0, 2, 3, 4, 5}, 1},
      {"others are missing", {0, 1, 2, 4, 5}, 3},
      {"the last items are missing", {0, 1, 2, 3, 5}, 4},
      {"the first items twice", {0, 1, 1, 2, 3, 4, 5}, 2},
      {"empty items twice", {0, 1, 2, 2, 3, 4, 5}, 3},
      {"the last items twice", {0, 1, 2, 3, 4, 4, 5}, 5},
      {"the facts twice", {0, 0, 1, 2, 3, 4, 5}, 1},
      {"swapped", {0, 2, 1, 3, 4, 5}, 1},
      {"swapped with the end", {0, 1, 2, 3, 5, 4}, 4},
      {"the end comes first", {0, 5, 1, 2, 3, 4}, 1},
      {"no facts", {1, 2, 3, 4, 5}, 0},
      {"facts behind items", {1, 0, 2, 3, 4, 5}, 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    // The damaged chunk begins where the bytes before it end, and those may have moved.
    Outcome outcome = Read(Arrange(file, c.chunks));
    const Status& status = outcome.opened.ok() ? outcome.status : outcome.opened;
    EXPECT_EQ(status.code(), Exit::kBadInput);
    uint64_t offset = sizeof(RawFileHeader);
    for (size_t i = 0; i < c.damaged; i++) offset += ChunkOf(file, c.chunks[i]).size();
    const std::string place =
        "chunk " + std::to_string(c.damaged) + " at byte " + std::to_string(offset) + " ";
    EXPECT_NE(status.message().find(place), std::string::npos)
        << status.message() << ", expected " << place;
    EXPECT_FALSE(outcome.ended);
    EXPECT_EQ(outcome.chunks.size(), c.damaged == 0 ? 0 : c.damaged - 1);
  }
}

TEST_F(RawFileTest, WithoutItsEndItHasNotEnded) {
  const std::string file = MakeFile(kChunks);
  Outcome outcome = Read(Arrange(file, {0, 1, 2, 3, 4}));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_FALSE(outcome.ended);
  EXPECT_EQ(outcome.chunks, kChunks);
}

TEST_F(RawFileTest, AFileOfTheFirstAbiIsRead) {
  std::string file = MakeFile(kChunks);
  file[12] = 1;
  abi_ = 1;
  Outcome outcome = Read(file);
  EXPECT_TRUE(outcome.opened.ok()) << outcome.opened.message();
}

TEST_F(RawFileTest, OthersFilesAreRefusedByName) {
  const std::string file = MakeFile(kChunks);
  auto with_byte = [&](size_t at, char value) {
    std::string other = file;
    other[at] = value;
    return other;
  };
  const struct {
    const char* what;
    std::string bytes;
    std::string message;
  } cases[] = {
      {"empty", "", "is no raw file"},
      {"a text", "host,pid\n1,2\n", "is no raw file"},
      {"a long text", std::string(10'000, 'x'), "is no raw file"},
      {"half a magic", file.substr(0, 4), "is no raw file"},
      {"half a header", file.substr(0, 12), "is no raw file"},
      {"another magic", with_byte(7, '\r'), "is no raw file"},
      {"a newer version", with_byte(8, 2),
       "has version 2 and messages of version " + std::to_string(SS_ABI_VERSION)},
      {"version 0", with_byte(8, 0), "has version 0"},
      {"ABI 0", with_byte(12, 0), "has version 1 and messages of version 0"},
      {"a newer ABI", with_byte(12, 7), "has version 1 and messages of version 7"},
      {"a far ABI", with_byte(15, 1),
       "messages of version " + std::to_string((1 << 24) + SS_ABI_VERSION)},
      {"only a header", file.substr(0, 16), "ends before it says what it is of"},
  };
  for (const auto& c : cases) {
    Outcome outcome = Read(c.bytes);
    EXPECT_EQ(outcome.opened.code(), Exit::kBadInput) << c.what;
    EXPECT_NE(outcome.opened.message().find(path()), std::string::npos) << outcome.opened.message();
    EXPECT_NE(outcome.opened.message().find(c.message), std::string::npos)
        << c.what << ": " << outcome.opened.message();
  }
}

TEST_F(RawFileTest, WhatIsNoFileIsRefused) {
  RawFileReader missing;
  Status status = missing.Open(path());
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find("No such file"), std::string::npos) << status.message();

  fs::create_directory(path());
  RawFileReader directory;
  status = directory.Open(path());
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find(path()), std::string::npos) << status.message();

  RawFileWriter writer;
  EXPECT_EQ(writer.Open(path()).code(), Exit::kOutput);
}

TEST_F(RawFileTest, FactsThatCannotBeAreRefused) {
  MakeOtherFile([](RawFileWriter* writer) {
    Facts facts = SomeFacts();
    facts.nr_streams = 0;
    EXPECT_TRUE(writer->WriteFacts(facts).ok());
  });
  RawFileReader reader;
  Status status = reader.Open(path());
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find(path()), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("0 streams"), std::string::npos) << status.message();
}

TEST_F(RawFileTest, TooManyFactsAreRefused) {
  MakeOtherFile([](RawFileWriter* writer) {
    Facts facts = SomeFacts();
    facts.host.assign(1u << 20, 'x');
    EXPECT_TRUE(writer->WriteFacts(facts).ok());
  });
  RawFileReader reader;
  Status status = reader.Open(path());
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find("chunk 0 at byte 16 says that it is "), std::string::npos)
      << status.message();
}

// In good order but for its length.
TEST_F(RawFileTest, ItemsThatFitNoBlockAreRefused) {
  const std::vector<Bytes> chunks = {SomeBytes(16, 1), SomeBytes(Block::kCapacity + 8, 2),
                                     SomeBytes(16, 3)};
  MakeFile(chunks);
  Outcome outcome = Read();
  ASSERT_TRUE(outcome.opened.ok()) << outcome.opened.message();
  ExpectDamage(outcome, 2, chunks);
  EXPECT_NE(outcome.status.message().find(std::to_string(Block::kCapacity + 8)), std::string::npos)
      << outcome.status.message();
}

// With the right number and the right hash: made by a recorder with a bug.
TEST_F(RawFileTest, ASecondChunkOfFactsIsRefused) {
  const std::vector<Bytes> chunks = {SomeBytes(40, 1)};
  const std::string good = MakeFile(chunks);
  // A writer that is asked for facts as its chunk 2 writes a second file header before them.
  uint64_t before = 0;
  std::string file = MakeOtherFile([&](RawFileWriter* writer) {
    EXPECT_TRUE(writer->WriteFacts(SomeFacts()).ok());
    EXPECT_TRUE(writer->WriteItems(chunks[0]).ok());
    before = writer->size();
    EXPECT_TRUE(writer->WriteFacts(SomeFacts()).ok());
  });
  ASSERT_EQ(before, borders_[2]);
  file.erase(before, sizeof(RawFileHeader));
  Outcome outcome = Read(file);
  ASSERT_TRUE(outcome.opened.ok()) << outcome.opened.message();
  ExpectDamage(outcome, 2, chunks);
}

// Even if they would do as facts.
TEST_F(RawFileTest, ItemsInPlaceOfFactsAreRefused) {
  const std::string header = MakeFile({}).substr(0, sizeof(RawFileHeader));
  const std::string json = FactsToJson(SomeFacts());
  std::string chunks = MakeOtherFile([&](RawFileWriter* writer) {
    EXPECT_TRUE(writer->WriteItems(std::as_bytes(std::span(json))).ok());
  });
  Outcome outcome = Read(header + chunks);
  EXPECT_EQ(outcome.opened.code(), Exit::kBadInput);
  EXPECT_NE(outcome.opened.message().find(path()), std::string::npos) << outcome.opened.message();
}

TEST_F(RawFileTest, RandomDamageIsNeverTakenForData) {
  const std::string file = MakeFile(kChunks);
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; i++) {
    SCOPED_TRACE(i);
    std::string damaged = file;
    size_t from = sizeof(RawFileHeader) + random() % (file.size() - sizeof(RawFileHeader));
    for (size_t at = from; at < std::min(file.size(), from + 1 + random() % 64); at++)
      damaged[at] = static_cast<char>(random());
    if (damaged == file) continue;
    Outcome outcome = Read(damaged);
    ASSERT_FALSE(outcome.ended);
    ASSERT_LE(outcome.chunks.size(), kChunks.size());
    for (size_t chunk = 0; chunk < outcome.chunks.size(); chunk++)
      ASSERT_EQ(outcome.chunks[chunk], kChunks[chunk]);
  }
}

TEST_F(RawFileTest, AFullDiskEndsTheFileAtAChunk) {
  const std::string whole = MakeFile(kChunks);
  fs::remove(path());
  EXPECT_EQ(InChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit = {borders_[3] + 30, 100'000};
              if (setrlimit(RLIMIT_FSIZE, &limit)) return 100;
              RawFileWriter writer;
              if (!writer.Open(path()).ok() || !writer.WriteFacts(SomeFacts()).ok()) return 101;
              if (!writer.WriteItems(kChunks[0]).ok() || !writer.WriteItems(kChunks[1]).ok()) return 102;
              if (writer.WriteItems(kChunks[2]).code() != Exit::kOutput) return 103;
              if (writer.WriteItems({}).ok()) return 104;  // there would be room for a header
              if (writer.Finish().ok()) return 105;
              return writer.size() == borders_[3] ? 0 : 106;
            }),
            0);
  EXPECT_FALSE(fs::exists(path()));
  fs::rename(path() + ".part", path());
  EXPECT_EQ(ReadAll(), whole.substr(0, borders_[3]));
}

using RawWriterTest = RawFileTest;

// Blocks from a reader, merged, written and back, with fewer blocks than there are to write.
TEST_F(RawWriterTest, WritesBlocksInOrderAndGivesThemBack) {
  constexpr uint64_t kBlocks = 200;
  RawFileWriter file;
  ASSERT_TRUE(file.Open(path()).ok());
  ASSERT_TRUE(file.WriteFacts(SomeFacts()).ok());
  BlockQueue blocks(3);
  RawWriter writer(&file, &blocks);
  std::vector<Bytes> expected;
  for (uint64_t i = 0; i < kBlocks; i++) {
    Block* block;
    while (!(block = blocks.TakeEmpty())) std::this_thread::yield();
    for (uint64_t item = 0; item <= i % 5; item++)
      block->Append({ItemKind::kNote, 0, 0, 0, 0, i, 0}, SomeBytes(16, i));
    expected.emplace_back(block->bytes().begin(), block->bytes().end());
    writer.Put(block, {});
  }
  writer.Stop();
  writer.Stop();  // once more does nothing
  EXPECT_FALSE(writer.failed());
  EXPECT_TRUE(writer.status().ok());
  for (size_t i = 0; i < blocks.nr_blocks(); i++)
    EXPECT_NE(blocks.TakeEmpty(), nullptr) << "a block is missing";
  ASSERT_TRUE(file.Finish().ok());
  Outcome outcome = Read();
  ASSERT_TRUE(outcome.opened.ok()) << outcome.opened.message();
  EXPECT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.chunks, expected);
}

TEST_F(RawWriterTest, CanStopWithoutWork) {
  RawFileWriter file;
  ASSERT_TRUE(file.Open(path()).ok());
  BlockQueue blocks(1);
  { RawWriter writer(&file, &blocks); }
  EXPECT_EQ(file.size(), 0u);
}

// The recording goes on to a good end without its raw file.
TEST_F(RawWriterTest, AfterAnErrorItStillGivesTheBlocksBack) {
  EXPECT_EQ(InChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit = {2000, 100'000};
              if (setrlimit(RLIMIT_FSIZE, &limit)) return 100;
              RawFileWriter file;
              if (!file.Open(path()).ok() || !file.WriteFacts(SomeFacts()).ok()) return 101;
              BlockQueue blocks(2);
              RawWriter writer(&file, &blocks);
              for (int i = 0; i < 20; i++) {
                Block* block;
                while (!(block = blocks.TakeEmpty())) std::this_thread::yield();
                block->Append({ItemKind::kNote, 0, 0, 0, 0, 0, 0}, SomeBytes(800, 1));
                writer.Put(block, {});
              }
              writer.Stop();
              if (!writer.failed()) return 102;
              if (!blocks.TakeEmpty() || !blocks.TakeEmpty()) return 103;
              return static_cast<int>(writer.status().code());
            }),
            static_cast<int>(Exit::kOutput));
  fs::rename(path() + ".part", path());
  Outcome outcome = Read();
  EXPECT_TRUE(outcome.opened.ok()) << outcome.opened.message();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_FALSE(outcome.ended);
  EXPECT_EQ(outcome.chunks.size(), 1u) << "what was whole";
}

}  // namespace
}  // namespace slotscope
