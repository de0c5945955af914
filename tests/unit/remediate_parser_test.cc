// SPDX-License-Identifier: MIT
// What is understood of another producer's lines, and what is not.
#include "remediate/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "remediate/messages.h"

namespace slotscope {
namespace {

// "memory 42 on 3: 500 @7", "straggle 42 sustained 452000 @7", "ignored", "malformed".
std::string Read(std::string_view line) {
  const RemoteMessage message = ParseRemoteLine(line);
  const std::string at = message.unix_ns ? " @" + std::to_string(*message.unix_ns) : "";
  switch (message.kind) {
    case RemoteMessage::Kind::kIgnored:
      return "ignored";
    case RemoteMessage::Kind::kMalformed:
      return "malformed";
    case RemoteMessage::Kind::kMemory:
      return "memory " + std::to_string(message.memory.tgid) + " on " +
             std::to_string(message.memory.gpu_id) + ": " + std::to_string(message.memory.bytes) + at;
    case RemoteMessage::Kind::kStraggle:
      return "straggle " + std::to_string(message.straggle.tgid) +
             (message.straggle.sustained ? " sustained " : " initial ") +
             std::to_string(message.straggle.drop_ppm) + at;
  }
  return "";
}

TEST(RemediateParser, ReadsWhatWeWrite) {
  EXPECT_EQ(Read(ToLine(MemoryMessage{42, "c", 3, 500, 1000, 5, 7})), "memory 42 on 3: 500 @7");
  EXPECT_EQ(Read(ToLine(StraggleMessage{42, "c", 45.2, 12, {1, 2}, 7, true, MakeUuid()})),
            "straggle 42 sustained 452000 @7");
  EXPECT_EQ(Read(ToLine(StragglerStateMessage{})), "ignored");
  EXPECT_EQ(Read(ToLine(StragglerResolvedMessage{})), "ignored");
}

struct Case {
  const char* line;
  const char* read;
};

TEST(RemediateParser, ToleratesWhatTheContractAllows) {
  const Case cases[] = {
      // As producers of the contract's first days write it.
      {R"({"type":"memory","pid":12345,"allocated_bytes":8589934592,"total_vram":17179869184,)"
       R"("utilization_pct":50.0,"last_alloc_size":268435456,"timestamp_ns":1711180800000000000})",
       "memory 12345 on 0: 8589934592 @1711180800000000000"},
      {R"({"type":"straggle","pid":12345,"throughput_drop_pct":45.2,"sched_switch_count":12,)"
       R"("preempting_pids":null,"timestamp_ns":1711180800000000000})",
       "straggle 12345 initial 452000 @1711180800000000000"},
      {R"({"pid":1,"allocated_bytes":0,"type":"memory"})", "memory 1 on 0: 0"},
      {R"({"type":"memory","pid":1,"allocated_bytes":5,"gpu_id":null,"timestamp_ns":null})",
       "memory 1 on 0: 5"},
      {R"({"type":"memory","pid":1,"allocated_bytes":5,"new":{"a":{"b":[[[1]]]}}})", "memory 1 on 0: 5"},
      {R"({"type":"straggle","pid":1})", "straggle 1 initial 0"},
      {R"({"type":"straggle","pid":1,"throughput_drop_pct":-3})", "straggle 1 initial 0"},
      {R"({"type":"straggle","pid":1,"throughput_drop_pct":1e300})", "straggle 1 initial 1000000"},
      {R"({"type":"of another time","pid":"x"})", "ignored"},
      {R"({"type":""})", "ignored"},
      {"  {\"type\":\"straggle\",\"pid\":1}\r", "straggle 1 initial 0"},
  };
  for (const Case& one : cases) EXPECT_EQ(Read(one.line), one.read) << one.line;
}

TEST(RemediateParser, RejectsWhatCannotBe) {
  const char* lines[] = {
      "",
      "x",
      "{",
      "[]",
      "null",
      "\"memory\"",
      "{}",
      R"({"type":5})",
      R"({"type":null})",
      R"({"type":"memory"})",
      R"({"type":"memory","pid":1})",
      R"({"type":"memory","pid":0,"allocated_bytes":1})",
      R"({"type":"memory","pid":-1,"allocated_bytes":1})",
      R"({"type":"memory","pid":4194305,"allocated_bytes":1})",
      R"({"type":"memory","pid":"1","allocated_bytes":1})",
      R"({"type":"memory","pid":1.5,"allocated_bytes":1})",
      R"({"type":"memory","pid":1,"allocated_bytes":-1})",
      R"({"type":"memory","pid":1,"allocated_bytes":1e5})",
      R"({"type":"memory","pid":1,"allocated_bytes":18446744073709551615})",
      R"({"type":"memory","pid":1,"allocated_bytes":1,"gpu_id":4294967296})",
      R"({"type":"memory","pid":1,"allocated_bytes":1,"timestamp_ns":"now"})",
      R"({"type":"memory","pid":1,"allocated_bytes":1,"timestamp_ns":18446744073709551615})",
      R"({"type":"straggle","pid":1,"throughput_drop_pct":"45"})",
      R"({"type":"straggle","pid":1,"sustained":1})",
      R"({"type":"memory","pid":1,"allocated_bytes":1} trailing)",
      "{\"type\":\"memory\",\"pid\":1,\"allocated_bytes\":1,\"comm\":\"\xff\"}",  // no UTF-8
      "{\"type\":\"memory\0\"}",
  };
  for (const char* line : lines) EXPECT_EQ(Read(line), "malformed") << line;
  // A bomb: as deep as a line can be.
  EXPECT_EQ(Read(std::string(LineCutter::kMaxLine, '[')), "malformed");
  const size_t depth = LineCutter::kMaxLine / 2 - 50;
  EXPECT_EQ(Read(R"({"type":"straggle","pid":1,"a":)" + std::string(depth, '[') +
                 std::string(depth, ']') + "}"),
            "straggle 1 initial 0");
}

std::vector<std::string> Cut(LineCutter* cutter, const std::vector<std::string>& chunks) {
  std::vector<std::string> lines;
  for (const std::string& chunk : chunks)
    cutter->Feed(chunk, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

TEST(LineCutter, CutsAtNewlinesHoweverTheyCome) {
  using Lines = std::vector<std::string>;
  LineCutter cutter;
  EXPECT_EQ(Cut(&cutter, {"ab\ncd", "e\n", "\n\n", "f", "", "g", "\nh"}), (Lines{"ab", "cde", "fg"}));
  cutter.Reset();
  EXPECT_EQ(Cut(&cutter, {"i\n"}), (Lines{"i"})) << "half a line of another stream is gone";
  EXPECT_EQ(cutter.nr_too_long(), 0u);
}

TEST(LineCutter, SkipsALineThatIsTooLong) {
  using Lines = std::vector<std::string>;
  const std::string longest(LineCutter::kMaxLine, 'x');
  LineCutter cutter;
  EXPECT_EQ(Cut(&cutter, {longest + "\na\n"}), (Lines{longest, "a"}));
  EXPECT_EQ(Cut(&cutter, {longest + "x\na\n"}), (Lines{"a"}));
  EXPECT_EQ(Cut(&cutter, {longest, "x", longest, "y\na\n"}), (Lines{"a"}));
  EXPECT_EQ(cutter.nr_too_long(), 2u);
  // 10 MB of it, in pieces.
  for (int i = 0; i < 160; i++) EXPECT_TRUE(Cut(&cutter, {longest}).empty());
  EXPECT_EQ(Cut(&cutter, {"\nb\n"}), (Lines{"b"}));
  EXPECT_EQ(cutter.nr_too_long(), 3u);
}

TEST(RemediateTime, IsOfTheSlotsClockOrOfNow) {
  constexpr int64_t kOffset = 1'700'000'000'000'000'000;
  const ClockPair now = {50'000'000'000, kOffset, 0};
  const struct {
    std::optional<int64_t> unix_ns;
    uint64_t ns;
    bool misdated;
  } cases[] = {
      {kOffset + 49'000'000'000, 49'000'000'000, false},
      {kOffset + 50'000'000'000, 50'000'000'000, false},
      {{}, 50'000'000'000, false},
      {kOffset + 50'000'000'001, 50'000'000'000, true},  // it is to come
      {kOffset + 39'999'999'999, 50'000'000'000, true},  // too long ago
      {0, 50'000'000'000, true},
      {INT64_MAX, 50'000'000'000, true},
      {INT64_MIN, 50'000'000'000, true},
  };
  for (const auto& one : cases) {
    bool misdated;
    EXPECT_EQ(MonotonicOf(one.unix_ns, now, &misdated), one.ns) << one.unix_ns.value_or(-1);
    EXPECT_EQ(misdated, one.misdated) << one.unix_ns.value_or(-1);
  }
}

}  // namespace
}  // namespace slotscope
