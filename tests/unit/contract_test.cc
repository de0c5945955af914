// SPDX-License-Identifier: MIT
// The remediation protocol's contract, version 1. A field that is listed here as required may not be
// removed, renamed or change its type; one that is not listed may not appear. What came later is listed
// apart: without it a message is what a reader of the first days was promised.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "remediate/messages.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

enum class Type { kString, kUint32, kUint64, kInt64, kFloat, kBool, kUint32s, kRfc3339 };

struct Contract {
  const char* type;
  std::map<std::string, Type> required, optional;
  std::map<std::string, Type> later = {};  // all of them optional
};

const Contract kMemory = {"memory",
                          {{"type", Type::kString},
                           {"pid", Type::kUint32},
                           {"gpu_id", Type::kUint32},
                           {"allocated_bytes", Type::kUint64},
                           {"total_vram", Type::kUint64},
                           {"utilization_pct", Type::kFloat},
                           {"last_alloc_size", Type::kUint64},
                           {"timestamp_ns", Type::kInt64}},
                          {{"comm", Type::kString}}};
const Contract kStraggle = {"straggle",
                            {{"type", Type::kString},
                             {"pid", Type::kUint32},
                             {"throughput_drop_pct", Type::kFloat},
                             {"sched_switch_count", Type::kUint32},
                             {"preempting_pids", Type::kUint32s},
                             {"timestamp_ns", Type::kInt64},
                             {"sustained", Type::kBool}},
                            {{"comm", Type::kString}, {"event_id", Type::kString}},
                            {{"wait_ns", Type::kUint64},
                             {"wait_cause", Type::kString},
                             {"culprit_pid", Type::kUint32},
                             {"culprit_comm", Type::kString},
                             {"culprit_ns", Type::kUint64},
                             {"gpu_no_work_ns", Type::kUint64},
                             {"gpu_no_work_cause", Type::kString}}};
const Contract kState = {"straggler_state",
                         {{"type", Type::kString},
                          {"node_id", Type::kString},
                          {"cluster_id", Type::kString},
                          {"score", Type::kFloat},
                          {"threshold", Type::kFloat},
                          {"detection_mode", Type::kString},
                          {"dominant_signal", Type::kString},
                          {"timestamp", Type::kRfc3339}},
                         {}};
const Contract kResolved = {"straggler_resolved",
                            {{"type", Type::kString},
                             {"node_id", Type::kString},
                             {"cluster_id", Type::kString},
                             {"timestamp", Type::kRfc3339}},
                            {}};

bool Is(const Json& value, Type type) {
  switch (type) {
    case Type::kString:
      return value.is_string();
    case Type::kUint32:
      return value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX;
    case Type::kUint64:
      return value.is_number_unsigned();
    case Type::kInt64:
      return value.is_number_integer();
    case Type::kFloat:
      return value.is_number_float();
    case Type::kBool:
      return value.is_boolean();
    case Type::kUint32s:
      if (!value.is_array()) return false;
      for (const Json& one : value)
        if (!Is(one, Type::kUint32)) return false;
      return true;
    case Type::kRfc3339: {
      if (!value.is_string()) return false;
      const auto text = value.get<std::string>();
      const std::string pattern = "dddd-dd-ddTdd:dd:dd.dddddddddZ";
      if (text.size() != pattern.size()) return false;
      for (size_t i = 0; i < text.size(); i++)
        if (pattern[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != pattern[i]) return false;
      return true;
    }
  }
  return false;
}

// Of the first days: nothing of what came later.
Json Check(const Contract& contract, const Json& object) {
  EXPECT_EQ(object.begin().key(), "type") << "comes first";
  EXPECT_EQ(object.at("type"), contract.type);
  for (const auto& [name, type] : contract.required) {
    EXPECT_TRUE(object.contains(name)) << contract.type << " lacks " << name;
    if (object.contains(name)) {
      EXPECT_TRUE(Is(object.at(name), type)) << contract.type << "." << name << ": " << object.at(name);
    }
  }
  for (const auto& [name, value] : object.items()) {
    if (contract.required.contains(name)) continue;
    EXPECT_TRUE(contract.optional.contains(name)) << contract.type << " has a field " << name;
    if (contract.optional.contains(name)) {
      EXPECT_TRUE(Is(value, contract.optional.at(name))) << contract.type << "." << name;
    }
  }
  return object;
}
Json Check(const Contract& contract, const std::string& line) {
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  return Check(contract, Json::parse(line));
}

TEST(Contract, Memory) {
  // Round values, extreme ones, and a total that is not known.
  const MemoryMessage messages[] = {
      {12345, "trainer", 3, 8589934592, 17179869184, 268435456, 1711180800000000000},
      {UINT32_MAX, "", UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, INT64_MIN},
      {1, "x", 0, 5, 0, 5, 1},
      {}};
  for (const MemoryMessage& message : messages) {
    const Json object = Check(kMemory, ToLine(message));
    EXPECT_EQ(object.contains("comm"), !message.comm.empty()) << "left out if it is not known";
    EXPECT_EQ(object.at("pid"), message.pid);
    EXPECT_EQ(object.at("gpu_id"), message.gpu_id);
    EXPECT_EQ(object.at("allocated_bytes"), message.allocated_bytes);
    EXPECT_EQ(object.at("total_vram"), message.total_vram);
    EXPECT_EQ(object.at("last_alloc_size"), message.last_alloc_size);
    EXPECT_EQ(object.at("timestamp_ns"), message.timestamp_ns);
  }
  EXPECT_EQ(Json::parse(ToLine(messages[0])).at("utilization_pct"), 50.0);
  EXPECT_EQ(Json::parse(ToLine(messages[2])).at("utilization_pct"), 0.0)
      << "of a total that is not known";
}

TEST(Contract, Straggle) {
  const StraggleMessage message = {12345,        "t\xff\x1b\n\"",     45.2, 12,
                                   {6789, 6790}, 1711180800000000000, true, MakeUuid()};
  Json object = Check(kStraggle, ToLine(message));
  EXPECT_EQ(object.at("throughput_drop_pct"), 45.2);
  EXPECT_EQ(object.at("preempting_pids"), Json({6789, 6790}));
  EXPECT_EQ(object.at("sustained"), true);
  EXPECT_EQ(object.at("comm"), "t\xef\xbf\xbd\x1b\n\"") << "any bytes are a string";
  object = Check(kStraggle, ToLine(StraggleMessage{}));
  EXPECT_EQ(object.at("preempting_pids"), Json::array()) << "never null";
  EXPECT_EQ(object.at("sustained"), false) << "is there";
  EXPECT_FALSE(object.contains("event_id"));
  EXPECT_FALSE(object.contains("comm"));
}

TEST(Contract, WhyItStraggles) {
  StraggleMessage message = {12345, "train",   45.2, 12, {6789, 6790}, 1711180800000000000,
                             true,  MakeUuid()};
  const std::string of_first_days = ToLine(message);
  message.wait_ns = UINT64_MAX;
  message.wait_cause = "others";
  message.culprit_pid = UINT32_MAX;
  message.culprit_comm = "hog\xff";
  message.culprit_ns = 7;
  message.gpu_no_work_ns = 0;
  message.gpu_no_work_cause = "waited";
  const Json object = Json::parse(ToLine(message));
  EXPECT_EQ(object.at("wait_ns"), UINT64_MAX);
  EXPECT_EQ(object.at("wait_cause"), "others");
  EXPECT_EQ(object.at("culprit_pid"), UINT32_MAX);
  EXPECT_EQ(object.at("culprit_comm"), "hog\xef\xbf\xbd");
  EXPECT_EQ(object.at("culprit_ns"), 7);
  EXPECT_EQ(object.at("gpu_no_work_ns"), 0);
  EXPECT_EQ(object.at("gpu_no_work_cause"), "waited");
  Json without = object;
  for (const auto& [name, type] : kStraggle.later) {
    ASSERT_TRUE(object.contains(name)) << name;
    EXPECT_TRUE(Is(object.at(name), type)) << name;
    without.erase(name);
  }
  EXPECT_EQ(Check(kStraggle, without).dump() + "\n", of_first_days) << "and in its order";
}

TEST(Contract, Fleet) {
  Json object = Check(kState, ToLine(StragglerStateMessage{"node-7", "c", 0.4, 0.836, "fleet",
                                                           "throughput", 1795328898298041580}));
  EXPECT_EQ(object.at("timestamp"), "2026-11-22T06:28:18.298041580Z");
  object = Check(kState, ToLine(StragglerStateMessage{}));
  EXPECT_EQ(object.at("timestamp"), "1970-01-01T00:00:00.000000000Z");
  object = Check(kResolved, ToLine(StragglerResolvedMessage{"n", "c", -1}));
  EXPECT_EQ(object.at("timestamp"), "1969-12-31T23:59:59.999999999Z");
}

TEST(Contract, EventIdsAreUuids) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; i++) {
    const std::string uuid = MakeUuid();
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
    for (size_t at : {8u, 13u, 18u, 23u}) EXPECT_EQ(uuid[at], '-');
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

}  // namespace
}  // namespace slotscope
