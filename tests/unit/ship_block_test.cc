// SPDX-License-Identifier: MIT
// Rows as blocks of ClickHouse's format Native: types, days, and that the same segment makes the same
// ones.
#include "ship/block.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ship/packed_bytes.h"
#include "ship/schema.h"
#include "sinks/csv_sink.h"
#include "slots/column.h"

namespace slotscope {
namespace {

using testing::ElementsAre;

ServerType TypeOf(const std::string& name) {
  const auto type = ParseServerType(name);
  EXPECT_TRUE(type) << name;
  return type.value_or(ServerType());
}

ServerTable SomeTable() {
  return {"slots",
          {{"host", TypeOf("String")},
           {"boot_id", TypeOf("LowCardinality(String)")},
           {"batch", TypeOf("UInt64")},
           {"row", TypeOf("UInt32")},
           {"time", TypeOf("DateTime('UTC')")},
           {"slot_start_unix_ns", TypeOf("Nullable(Int64)")},
           {"comm", TypeOf("String")},
           {"cycles", TypeOf("Nullable(UInt64)")},
           {"small", TypeOf("Nullable(UInt8)")},
           {"json", TypeOf("String")},
           {"rank", TypeOf("Nullable(Int32)")},
           {"culprit_comm", TypeOf("String")}}};
}

// What pieces were made of; each has 16 bytes in front of it that would be its checksum. sizes: of each.
std::string Unpacked(const std::string& packed, std::vector<size_t>* sizes = nullptr) {
  std::string bytes;
  for (size_t at = 0; at < packed.size();) {
    EXPECT_EQ(packed.substr(at, 16), std::string(16, '\0')) << "no checksum";
    at += 16;
    EXPECT_EQ(packed[at], static_cast<char>(0x82));
    uint32_t both[2];
    std::copy_n(packed.data() + at + 1, sizeof(both), reinterpret_cast<char*>(both));
    std::string piece(both[1], '\0');
    EXPECT_EQ(LZ4_decompress_safe(packed.data() + at + 9, piece.data(), static_cast<int>(both[0] - 9),
                                  static_cast<int>(piece.size())),
              static_cast<int>(piece.size()));
    if (sizes) sizes->push_back(piece.size());
    bytes += piece;
    at += both[0];
  }
  return bytes;
}

std::string Unpacked(const PackedBytes& bytes) {
  PackedBytes copy;
  copy.Add(bytes);
  return Unpacked(copy.Take());
}

struct Made {
  std::vector<size_t> nr_rows;
  std::vector<uint32_t> first_s, last_s;
  std::vector<uint64_t> first_row;
  std::vector<std::vector<std::string>> columns;
  std::vector<std::string> bytes;
  std::vector<std::string> lacking;
  uint64_t nr_malformed = 0;
  Status status;
};

Made MakeBlocks(const std::string& text, bool is_json = false, const std::string& each = "") {
  Made made;
  const ServerTable table = SomeTable();
  BlockMaker maker(table, {"node7", "boot", 86'400'000'000'000, 5, 42, is_json, each},
                   [&](const BlockMaker::Block& block) -> Status {
                     made.nr_rows.push_back(block.nr_rows);
                     made.first_s.push_back(block.first_s);
                     made.last_s.push_back(block.last_s);
                     made.first_row.push_back(block.first_row);
                     made.columns.emplace_back();
                     for (const ShipColumn* column : block.columns)
                       made.columns.back().push_back(column->name());
                     PackedBytes body;
                     PutBlock(block, &body);
                     made.bytes.push_back(Unpacked(body.Take()));
                     return {};
                   });
  made.status = maker.Take(text);
  if (made.status.ok()) made.status = maker.Finish();
  made.lacking = maker.lacking();
  made.nr_malformed = maker.nr_malformed();
  return made;
}

std::string Little(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; i++) text += static_cast<char>(number >> (8 * i));
  return text;
}

TEST(ShipColumn, KnowsTheTypesThatItWrites) {
  EXPECT_EQ(TypeOf("Nullable(Float64)").kind, ServerType::Kind::kFloat);
  EXPECT_TRUE(TypeOf("Nullable(Float64)").nullable);
  EXPECT_EQ(TypeOf("DateTime").bytes, 4);
  EXPECT_EQ(TypeOf("LowCardinality(String)").kind, ServerType::Kind::kWord);
  for (const char* name : {"", "Nullable", "Nullable()", "Array(UInt8)", "Enum8('a' = 1)", "UInt128",
                           "LowCardinality(Nullable(String))", "Nullable(UInt64", "FixedString(3)"})
    EXPECT_FALSE(ParseServerType(name)) << name;
}

TEST(ShipColumn, WhatWasNotMeasuredIsNullAndNeverZero) {
  ShipColumn column("cycles", TypeOf("Nullable(UInt64)"));
  EXPECT_TRUE(column.Add(""));
  EXPECT_TRUE(column.is_empty());
  EXPECT_TRUE(column.Add("18446744073709551615"));
  EXPECT_TRUE(column.Add(""));
  EXPECT_EQ(column.nr_rows(), 3u);
  column.Finish();
  EXPECT_EQ(Unpacked(column.nulls()), std::string("\1\0\1", 3));
  EXPECT_EQ(Unpacked(column.values()), Little(0, 8) + Little(UINT64_MAX, 8) + Little(0, 8));
  ShipColumn needed("cpu_ns", TypeOf("UInt64"));
  EXPECT_FALSE(needed.Add("")) << "it would be a 0";
  EXPECT_EQ(needed.nr_rows(), 0u);
}

TEST(ShipColumn, RefusesWhatIsNoValueOfItsType) {
  ShipColumn small("small", TypeOf("UInt8"));
  for (const char* field : {"256", "-1", "1.5", "x", " 1", "1 ", "0x1"})
    EXPECT_FALSE(small.Add(field)) << field;
  EXPECT_TRUE(small.Add("255"));
  ShipColumn negative("n", TypeOf("Int64"));
  EXPECT_TRUE(negative.Add("-9223372036854775808"));
  EXPECT_FALSE(negative.Add("9223372036854775808"));
  EXPECT_EQ(Unpacked(negative.values()), Little(uint64_t{1} << 63, 8));
}

// Version, flags (32 bits, of this block), how many words, they, how many rows; then numbers.
TEST(ShipColumn, WordsAreSaidOnce) {
  ShipColumn column("comm", TypeOf("LowCardinality(String)"));
  for (const char* word : {"", "ls", "ls", "cc1", "ls"}) EXPECT_TRUE(column.Add(word));
  EXPECT_EQ(column.Head(), Little(1, 8) + Little(2 | 1 << 9 | 1 << 10, 8) + Little(3, 8) +
                               std::string("\0\2ls\3cc1", 8) + Little(5, 8));
  EXPECT_EQ(Unpacked(column.values()),
            Little(0, 4) + Little(1, 4) + Little(1, 4) + Little(2, 4) + Little(1, 4));
  column.Clear();
  EXPECT_TRUE(column.Add("gcc"));
  EXPECT_EQ(Unpacked(column.values()), Little(1, 4));
}

TEST(ShipBlock, IsWhatNativeSays) {
  const Made made = MakeBlocks(
      "# host: x\nslot_start_unix_ns,comm,cycles,unknown\n7000000001,ls,,1\n9000000000,,5,2\n");
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  EXPECT_THAT(made.lacking, ElementsAre("unknown"));
  EXPECT_THAT(made.nr_rows, ElementsAre(2));
  EXPECT_THAT(made.first_s, ElementsAre(7));
  EXPECT_THAT(made.last_s, ElementsAre(9));
  EXPECT_THAT(made.columns[0], ElementsAre("host", "boot_id", "batch", "row", "time",
                                           "slot_start_unix_ns", "comm", "cycles"))
      << "what nobody has said is left out";
  const std::string& bytes = made.bytes[0];
  EXPECT_TRUE(bytes.starts_with(std::string("\x8\2\4host\6String\5node7\5node7", 26))) << bytes;
  EXPECT_NE(bytes.find("\3row\6UInt32" + Little(0, 4) + Little(1, 4)), bytes.npos);
  EXPECT_NE(bytes.find("\4time\x0f"
                       "DateTime('UTC')" +
                       Little(7, 4) + Little(9, 4)),
            bytes.npos);
  EXPECT_TRUE(bytes.ends_with("\6cycles\x10Nullable(UInt64)" + std::string("\1\0", 2) + Little(0, 8) +
                              Little(5, 8)));
}

TEST(ShipBlock, EndsWithADayAndWhenItIsFull) {
  std::string text = "slot_start_unix_ns,comm\n";
  const auto row = [&](int64_t s) { text += fmt::format("{}000000000,x\n", s); };
  row(86'399);
  row(86'400);
  row(86'399);  // the clock was set back
  for (size_t i = 0; i <= BlockMaker::kMaxRows; i++) row(86'400 * 3);
  const Made made = MakeBlocks(text);
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(1, 1, 1, BlockMaker::kMaxRows, 1));
  EXPECT_THAT(made.first_row, ElementsAre(0, 1, 2, 3, 3 + BlockMaker::kMaxRows));
  EXPECT_EQ(MakeBlocks(text).bytes, made.bytes) << "whoever reads it again makes the same";
}

TEST(ShipBlock, LinesThatAreNoRowsAreCounted) {
  const Made made = MakeBlocks("slot_start_unix_ns,comm\n1,a\n2\nx,b\n3,c,d\n4,e\n");
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(2));
  EXPECT_EQ(made.nr_malformed, 3u);
  const Made wrong = MakeBlocks("slot_start_unix_ns,small\n1,300\n");
  EXPECT_EQ(wrong.status.code(), Exit::kBadInput);
  EXPECT_NE(wrong.status.message().find("'300' of a row of slots is no Nullable(UInt8)"),
            std::string::npos);
  EXPECT_EQ(MakeBlocks("comm\nx\n").status.code(), Exit::kBadInput) << "nobody knows of when";
  EXPECT_EQ(MakeBlocks("slot_start_unix_ns\n-1\n").status.code(), Exit::kBadInput);
}

TEST(ShipBlock, NobodySaysWhereRowsComeFromButUs) {
  const Made made = MakeBlocks("slot_start_unix_ns,host,comm,comm,row\n1,evil,a,b,7\n");
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.lacking, ElementsAre("host", "comm", "row"));
  EXPECT_EQ(made.bytes[0].find("evil"), std::string::npos);
  EXPECT_NE(made.bytes[0].find("\4comm\6String\1a"), std::string::npos);
}

TEST(ShipBlock, ObjectsInObjectsEnd) {
  std::string deep = R"({"comm":"x")";
  for (int i = 0; i < 100'000; i++) deep += R"(,"a":{"b":1)";
  const Made made = MakeBlocks(deep + std::string(100'001, '}') + '\n', true);
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(1));
}

// Spans say CLOCK_MONOTONIC: the segment knows what that was.
TEST(ShipBlock, OfSpansTheEndIsTheTime) {
  const Made made = MakeBlocks("comm,end_ns\nx,1999999996\n");
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.first_s, ElementsAre(2));
}

TEST(ShipBlock, OfJsonItsValuesAndAllOfIt) {
  const std::string line =
      R"({"comm":"x","rank":3,"culprit":{"comm":"tar"},"list":[1],"until_unix_ns":5000000000})";
  const Made made = MakeBlocks(R"({"state":"header"})"
                               "\n" +
                                   line + "\nno json\n",
                               true);
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(1));
  EXPECT_EQ(made.nr_malformed, 1u);
  EXPECT_THAT(made.first_s, ElementsAre(5));
  EXPECT_NE(made.bytes[0].find(line), std::string::npos);
  EXPECT_NE(made.bytes[0].find("\3tar"), std::string::npos);
}

TEST(ShipBlock, OfAListEachElementIsARow) {
  const Made made = MakeBlocks(R"({"comm":"x","rank":9,"of":[{"rank":3},{"rank":4,"comm":"y"}]})"
                               "\n"
                               R"({"comm":"z"})"
                               "\n",
                               true, "of");
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(2)) << "and what has none has no row";
  EXPECT_NE(made.bytes[0].find(std::string("\4comm\6String\1x\1y", 16)), std::string::npos);
  EXPECT_NE(made.bytes[0].find(Little(3, 4) + Little(4, 4)), std::string::npos);
}

TEST(ShipSchema, StatementsEndWithALine) {
  const auto parts = PartsOf(
      "-- a; b\nCREATE x (\n  a; b\n);\n\n-- where Codecs: P 1; P 2\nALTER y;\n"
      "-- everywhere\nDROP z;\n");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(parts[0].statements, ElementsAre("CREATE x (\n  a; b\n)\n"));
  EXPECT_EQ(parts[1].needs, "Codecs");
  EXPECT_THAT(parts[1].probes, ElementsAre("P 1", "P 2"));
  EXPECT_THAT(parts[1].statements, ElementsAre("ALTER y\n"));
  EXPECT_TRUE(parts[2].probes.empty());
}

TEST(ShipSchema, FilesAreNumbered) {
  const auto files = SchemaFiles();
  ASSERT_GE(files.size(), 2u);
  for (size_t i = 0; i < files.size(); i++) {
    EXPECT_EQ(files[i].version, i + 1) << files[i].name;
    const auto parts = PartsOf(files[i].sql);  // those that every server gets may be none
    EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [](const SchemaPart& part) {
      return !part.statements.empty();
    })) << files[i].name;
  }
}

// What a recorder writes has a place there: a new column of slots needs a new file.
TEST(ShipSchema, HasEveryColumnOfSlots) {
  std::string slots, seconds;
  for (const SchemaFile& file : SchemaFiles())
    for (const SchemaPart& part : PartsOf(file.sql))
      for (const std::string& sql : part.statements)
        if (sql.find(" slots (") != sql.npos || sql.find("ALTER TABLE slots") != sql.npos)
          slots += sql;
        else if (sql.find(" seconds (") != sql.npos || sql.find("ALTER TABLE seconds") != sql.npos)
          seconds += sql;
  const auto check = [&](std::string_view name) {
    EXPECT_NE(slots.find(fmt::format(" {} ", name)), slots.npos) << name;
    EXPECT_NE(seconds.find(fmt::format(" {} ", name)), seconds.npos) << name;
  };
  for (const Column& column : kSlotColumns) check(column.name);
  for (const Column& column : kMoreColumns) check(column.name);
}

// Runs of both kinds, longer than a piece, and each row is still where it was.
TEST(ShipColumn, WhatIsLongerThanAPieceIsWhole) {
  ShipColumn column("cycles", TypeOf("Nullable(UInt16)"));
  std::string nulls, values;
  for (size_t i = 0; i < 300'000; i++) {
    const bool is_filled = i / 70'000 % 2 || i % 3 == 0;
    EXPECT_TRUE(column.Add(is_filled ? fmt::format("{}", i % 65536) : ""));
    nulls += is_filled ? '\0' : '\1';
    values += Little(is_filled ? i % 65536 : 0, 2);
  }
  column.Finish();
  EXPECT_TRUE(Unpacked(column.nulls()) == nulls);
  EXPECT_TRUE(Unpacked(column.values()) == values);
}

TEST(PackedBytes, ArePiecesWithTheirSizes) {
  PackedBytes bytes, more;
  std::string expected(150'000, 'x');
  bytes.Add(expected);
  more.AddTimes(70'000, 'y');
  more.AddNumber(0x0403020100, 5);
  bytes.Add(more);
  expected += std::string(70'000, 'y') + std::string("\0\1\2\3\4", 5);
  EXPECT_EQ(bytes.nr_bytes(), expected.size());
  const std::string packed = bytes.Take();
  EXPECT_LT(packed.size(), expected.size() / 50);
  std::vector<size_t> sizes;
  EXPECT_TRUE(Unpacked(packed, &sizes) == expected);
  EXPECT_THAT(sizes, ElementsAre(65536, 65536, 150'000 - 2 * 65536, 65536, 70'005 - 65536));
  EXPECT_EQ(bytes.nr_bytes(), 0u);
  EXPECT_EQ(bytes.Take(), "");
}

TEST(PackedBytes, WhatCannotBeCompressedIsWhole) {
  std::string noise;
  for (uint64_t i = 0, seed = 1; i < 20'000; i++)
    noise += Little(seed = seed * 6364136223846793005 + 1442695040888963407, 8);
  PackedBytes bytes;
  bytes.Add(noise);
  EXPECT_TRUE(Unpacked(bytes) == noise);
}

// A field ends where its comma is, wherever in the line: also where that is its last byte.
TEST(ShipBlock, FieldsOfEveryLength) {
  std::string text = "comm,json,culprit_comm,slot_start_unix_ns,cycles\n", expected[3];
  const auto put = [](size_t nr, char byte, std::string* text_of) {
    AppendText(std::string(nr, byte), text_of);
  };
  for (size_t i = 0; i < 200; i++) {
    text +=
        std::string(i, 'a') + ',' + std::string(200 - i, 'b') + ',' + std::string(i % 67, '-') + ",1,\n";
    put(i, 'a', &expected[0]);
    put(200 - i, 'b', &expected[1]);
    put(i % 67, '-', &expected[2]);
  }
  const Made made = MakeBlocks(text);
  ASSERT_TRUE(made.status.ok());
  EXPECT_THAT(made.nr_rows, ElementsAre(200));
  EXPECT_EQ(made.nr_malformed, 0u);
  for (const std::string& values : expected) EXPECT_NE(made.bytes[0].find(values), std::string::npos);
}

TEST(ClickHouse, UrlsThatCanBeMeant) {
  for (const char* url : {"http://db:8123", "https://rack7@db/mine", "http://[::1]:8123/"})
    EXPECT_TRUE(CheckServerUrl(url).ok()) << url;
  for (const char* url :
       {"", "db:8123", "ftp://db", "http://u:p@db", "http://db/a/b", "http://db/?x=1", "http://db/a-b"})
    EXPECT_EQ(CheckServerUrl(url).code(), Exit::kUsage) << url;
  EXPECT_EQ(SqlText("it's \\"), "'it\\'s \\\\'");
}

}  // namespace
}  // namespace slotscope
