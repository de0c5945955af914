// SPDX-License-Identifier: MIT
#include "detect/inputs/pickle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "detect/inputs/json_tree.h"
#include "pickle_writer.h"

namespace slotscope {
namespace {

using Index = ValueTree::Index;
using Kind = ValueTree::Kind;
using namespace std::string_literals;

// As JSON, a little.
std::string Show(const ValueTree& tree, Index value, int depth = 0) {
  if (depth > 8) return "...";
  std::string text;
  switch (tree.kind(value)) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return *tree.Bool(value) ? "true" : "false";
    case Kind::kInteger:
      return std::to_string(*tree.Integer(value));
    case Kind::kReal:
      return std::to_string(*tree.Number(value));
    case Kind::kText:
      return "\"" + std::string(*tree.Text(value)) + "\"";
    case Kind::kList:
      for (Index item : tree.List(value))
        text += (text.empty() ? "" : ",") + Show(tree, item, depth + 1);
      return "[" + text + "]";
    case Kind::kDict: {
      const auto items = tree.Dict(value);
      for (size_t i = 0; i + 1 < items.size(); i += 2)
        text += (text.empty() ? "" : ",") + Show(tree, items[i], depth + 1) + ":" +
                Show(tree, items[i + 1], depth + 1);
      return "{" + text + "}";
    }
  }
  return "?";
}

// What it says, or the error.
std::string Read(const std::string& bytes) {
  ValueTree tree;
  Index root = 0;
  const Status status = ParsePickle(bytes, &tree, &root);
  if (status.ok()) return Show(tree, root);
  EXPECT_EQ(status.code(), Exit::kBadInput);
  return status.message();
}

TEST(Pickle, OfAFlightRecorder) {
  PickleWriter writer;
  writer.Dict([&] {
    writer.Text("version").Text("2.9").Text("entries").List([&] {
      writer.Dict([&] {
        writer.Text("a").Int(7).Text("b").Int(-7).Text("c").Int(255).Text("d").Int(256).Text("e").Int(
            65536);
        writer.Text("f")
            .Int(1'700'000'000'000'000'000)
            .Text("g")
            .Int(-5'000'000'000)
            .Text("h")
            .Float(1.5);
      });
      writer.Dict([] {});
      writer.List([] {});
      writer.Pair("a", "version").None().Bool(true).Bool(false);
    });
  });
  EXPECT_EQ(
      Read(writer.Done()),
      R"({"version":"2.9","entries":[{"a":7,"b":-7,"c":255,"d":256,"e":65536,)"
      R"("f":1700000000000000000,"g":-5000000000,"h":1.500000},{},[],["a","version"],null,true,false]})");
}

TEST(Pickle, ManyTextsNeedLongMemoIds) {
  PickleWriter writer;
  writer.List([&] {
    for (int i = 0; i < 300; i++) writer.Text("text " + std::to_string(i));
    writer.Text("text 299").Text("text 3");
  });
  const std::string shown = Read(writer.Done());
  EXPECT_TRUE(shown.ends_with(R"("text 299","text 299","text 3"])")) << shown;
}

// What Python's own pickle module writes of {"a": [1, (2, 3), "x" * 3], "b": 2 ** 40}.
TEST(Pickle, OfPython) {
  const std::string four =
      "\x80\x04\x95\x29\0\0\0\0\0\0\0}\x94(\x8c\x01"
      "a\x94]\x94(K\x01K\x02K\x03\x86\x94\x8c\x03xxx\x94"
      "e\x8c\x01"
      "b\x94\x8a\x06\0\0\0\0\0\x01u."s;
  EXPECT_EQ(Read(four), R"({"a":[1,[2,3],"xxx"],"b":1099511627776})");
  EXPECT_EQ(Read("\x80\x05]\x94(K\x01)K\x02\x85K\x01K\x02K\x03\x87(K\x04t\x8a\0\x8a\x01\xff"
                 "e."s),
            "[1,[],[2],[1,2,3],[4],0,-1]");
  EXPECT_EQ(Read("\x80\x03]q\0K\x05"
                 "a}q\x01X\x01\0\0\0kK\x06sa."s),
            R"([5,{"k":6}])");
}

TEST(Pickle, RefusesWhatCouldCallAnything) {
  const std::string kHead = "\x80\x02"s;
  const struct {
    std::string rest;
    const char* says;
  } kCases[] = {
      {"cos\nsystem\n(X\x02\0\0\0idtR."s, "at byte 2: opcode GLOBAL is refused"},
      {"}R."s, "at byte 3: opcode REDUCE is refused"},
      {"}b."s, "at byte 3: opcode BUILD is refused"},
      {"(i"s, "opcode INST is refused"},
      {"(o"s, "opcode OBJ is refused"},
      {"Px\n"s, "opcode PERSID is refused"},
      {"}Q"s, "opcode BINPERSID is refused"},
      {"\x81"s, "opcode NEWOBJ is refused"},
      {"\x92"s, "opcode NEWOBJ_EX is refused"},
      {"\x93"s, "opcode STACK_GLOBAL is refused"},
      {"\x82\x01"s, "opcode EXT1 is refused"},
      {"\x83"s, "opcode EXT2 is refused"},
      {"\x84"s, "opcode EXT4 is refused"},
  };
  for (const auto& c : kCases)
    for (const std::string& head : {kHead, "\x80\x04"s}) {
      const std::string said = Read(head + c.rest);
      EXPECT_NE(said.find(c.says), std::string::npos) << said;
    }
  int nr_read = 0;
  for (int opcode = 0; opcode < 256; opcode++)
    nr_read += Read(kHead + static_cast<char>(opcode) + "."s).find("not a pickle") == std::string::npos;
  EXPECT_EQ(nr_read, 5) << "N, True, False, empty list and dict are values by themselves";
}

TEST(Pickle, TrustsNothing) {
  const struct {
    std::string bytes;
    const char* says;
  } kCases[] = {
      {"", "the file is empty"},
      {"}.", "at byte 0: it does not begin with its protocol"},
      {"\x80\x02", "at byte 2: it ends too early"},
      {"\x80", "it ends too early"},
      {"\x80\x01}."s, "protocol 1 is not read"},
      {"\x80\x06}."s, "protocol 6 is not read"},
      {"\x80\x02\x80\x02}."s, "its protocol twice"},
      {"\x80\x02."s, "more or less than one value"},
      {"\x80\x02}}."s, "more or less than one value"},
      {"\x80\x02(}."s, "more or less than one value"},
      {"\x80\x02}.}"s, "something follows its end"},
      {"\x80\x02h\0."s, "memo id 0 has not been set"},
      {"\x80\x02}q\x05h\x04."s, "memo id 4 has not been set"},
      {"\x80\x02q\0."s, "no value to remember"},
      {"\x80\x02}r\xff\xff\xff\xff."s, "a memo id is too large"},
      {"\x80\x02X\xff\xff\xff\xffx."s, "a text is longer than the file"},
      {"\x80\x02X\x05\0\0\0abc"s, "it ends too early"},
      {"\x80\x02J\0\0"s, "it ends too early"},
      {"\x80\x02G\0"s, "it ends too early"},
      {"\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\0."s, "an integer is too large"},
      {"\x80\x02"
       "e."s,
       "there is no mark"},
      {"\x80\x02(K\x01"
       "e."s,
       "there is no list to append to"},
      {"\x80\x02}(K\x01"
       "e."s,
       "there is no list to append to"},
      {"\x80\x02](K\x01K\x02u."s, "there is no dict to add to"},
      {"\x80\x02}(K\x01u."s, "a key has no value"},
      {"\x80\x02\x86."s, "there is no value"},
      {"\x80\x02K\x01(\x86."s, "there is no value"},
      {"\x80\x02]K\x01"
       "a."s,
       "opcode 0x61 is not one that the flight recorder writes"},
      {"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s, "a text is longer than the file"},
      {"\x80\x02\x01."s, "opcode 0x01 is not known here"},
  };
  for (const auto& c : kCases) {
    const std::string said = Read(c.bytes);
    EXPECT_NE(said.find(c.says), std::string::npos) << said << " is not: " << c.says;
  }
}

// A list that has itself: whoever reads it stops by himself.
TEST(Pickle, MayGoRoundInCircles) {
  EXPECT_TRUE(Read("\x80\x04]\x94(h\0"
                   "e."s)
                  .starts_with("[[[["))
      << "to an end";
}

TEST(JsonTree, IsTheSame) {
  ValueTree tree;
  Index root = 0;
  ASSERT_TRUE(
      ParseJson(R"( {"a":[1,-2,1.5,"x\u00e4",true,null,{}],"b":18446744073709551615} )", &tree, &root)
          .ok());
  EXPECT_EQ(Show(tree, root),
            R"({"a":[1,-2,1.500000,"xä",true,null,{}],"b":18446744073709551616.000000})");
  for (const std::string& text : {""s, "{"s, "[1,"s, "{\"a\":}"s, "nul"s, "1 2"s,
                                  std::string(100, '[') + std::string(100, ']'), "\xff"s}) {
    ValueTree other;
    EXPECT_EQ(ParseJson(text, &other, &root).code(), Exit::kBadInput) << text;
  }
}

TEST(ValueTree, ContainersMayBeFilledInTurns) {
  ValueTree tree;
  const Index one = tree.AddList(), other = tree.AddList();
  for (int64_t i = 0; i < 5; i++)
    for (Index list : {one, other}) {
      const Index item = tree.AddInteger(i);
      tree.Append(list, std::span(&item, 1));
    }
  EXPECT_EQ(Show(tree, one), "[0,1,2,3,4]");
  EXPECT_EQ(Show(tree, other), "[0,1,2,3,4]");
  EXPECT_FALSE(tree.Text(one));
  EXPECT_FALSE(tree.Find(one, "a"));
}

}  // namespace
}  // namespace slotscope
