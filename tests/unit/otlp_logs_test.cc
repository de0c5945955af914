// SPDX-License-Identifier: MIT
// Log records of OpenTelemetry: what detectors take from them, and what becomes of verdicts.
#include "detect/inputs/otlp_logs.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "detect/patterns/detectors.h"
#include "detect/patterns/verdict.h"

namespace slotscope {
namespace {

using testing::IsEmpty;

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kBegin = 1'700'000'000 * kS;

// key=value, separated by blanks; values of digits are whole numbers.
std::string Attributes(std::string_view text) {
  std::string json;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::string_view key = pair.substr(0, pair.find('=')), value = pair.substr(key.size() + 1);
    const bool is_number = value.find_first_not_of("0123456789") == value.npos;
    json += fmt::format(R"({}{{"key":"{}","value":{{"{}":"{}"}}}})", json.empty() ? "" : ",", key,
                        is_number ? "intValue" : "stringValue", value);
  }
  return "[" + json + "]";
}

std::string Export(std::string_view resource, std::string_view record, std::string_view body = "\"\"",
                   int64_t time_ns = kBegin) {
  return fmt::format(
      R"({{"resourceLogs":[{{"resource":{{"attributes":{}}},"scopeLogs":[{{"scope":{{}},"logRecords":[)"
      R"({{"timeUnixNano":"{}","body":{{{}}},"attributes":{}}}]}}]}}]}})",
      Attributes(resource), time_ns, body, Attributes(record));
}

struct Read {
  explicit Read(std::initializer_list<std::string> exports) {
    for (const std::string& one : exports) {
      const Status status = reader.OnText(one);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    reader.AddTo(&records.nccl);
    records.xids = reader.xids();
    records.cluster = kubernetes.Records();
  }
  KubernetesReader kubernetes;
  OtlpLogReader reader{&kubernetes};
  DetectRecords records;
};

constexpr const char* kText = R"("stringValue":"x")";

TEST(OtlpLogs, RecordsOfRanksByAllTheirNames) {
  const std::string rest =
      "nccl.fr.collective_seq_id=7 nccl.fr.pg_id=0 nccl.fr.state=started "
      "nccl.fr.profiling_name=nccl:all_reduce nccl.fr.time_discovered_started_ns=" +
      std::to_string(kBegin);
  const Read read({Export("", "gen_ai.training.rank=0 " + rest, kText, kBegin + 5),
                   Export("nccl.rank=1", rest, kText), Export("", "nccl.fr.rank=2 " + rest, kText)});
  EXPECT_EQ(read.records.nccl.ranks().size(), 3u);
  ASSERT_EQ(read.records.nccl.records().size(), 3u);
  EXPECT_EQ(read.records.nccl.records()[0].created_ns, kBegin);
  JudgeOptions options;
  options.clock = NcclClock::kAsOf;
  options.as_of_ns = kBegin + 400 * kS;
  const auto hangs = AllOf<NcclHang>(Judge(read.records, options));
  ASSERT_EQ(hangs.size(), 1u);
  EXPECT_EQ(hangs[0].hanging_ranks.size(), 3u);
}

TEST(OtlpLogs, XidsAreOfTheirResourcesNode) {
  const Read read(
      {Export("k8s.node.name=n7", "kernelevents.xid=79 gpu.id=0000:91:00", kText),
       Export("host.name=n8", "kernelevents.xid=48 k8s.node.name=ignored", kText),
       Export("", "kernelevents.xid=31 k8s.node.name=n9",
              R"("stringValue":"NVRM: Xid (PCI:0000:05:00): 31, pid=4, name=a, MMU Fault")")});
  ASSERT_EQ(read.records.xids.size(), 3u);
  EXPECT_EQ(read.records.xids[0].node, "n7");
  EXPECT_EQ(read.records.xids[0].bus, "0000:91:00");
  EXPECT_EQ(read.records.xids[0].when.begin_ns, kBegin);
  EXPECT_EQ(read.records.xids[1].node, "n8");
  EXPECT_EQ(read.records.xids[2].node, "n9");
  EXPECT_EQ(read.records.xids[2].pid, 4);
  EXPECT_EQ(read.records.xids[2].message, "MMU Fault");
}

TEST(OtlpLogs, EventsAsAttributes) {
  const Read read({Export("k8s.node.name=n7 k8s.object.kind=Pod k8s.object.name=a k8s.object.uid=p",
                          "k8s.event.reason=Evicted k8s.event.uid=1 k8s.namespace.name=train",
                          R"("stringValue":"The node was low on resource: memory. ")")});
  ASSERT_EQ(read.records.cluster.evictions.size(), 1u);
  const PodEviction& eviction = read.records.cluster.evictions[0];
  EXPECT_EQ(eviction.pod, "train/a");
  EXPECT_EQ(eviction.node, "n7");
  EXPECT_EQ(eviction.resource, "memory");
  EXPECT_EQ(eviction.when, (Moment{kBegin, kS}));
}

TEST(OtlpLogs, ObjectsAsBodies) {
  const char* as_values =
      R"("kvlistValue":{"values":[{"key":"object","value":{"kvlistValue":{"values":[)"
      R"({"key":"kind","value":{"stringValue":"Node"}},)"
      R"({"key":"metadata","value":{"kvlistValue":{"values":[{"key":"name","value":{"stringValue":"n7"}}]}}},)"
      R"({"key":"status","value":{"kvlistValue":{"values":[{"key":"conditions","value":{"arrayValue":{"values":[)"
      R"({"kvlistValue":{"values":[{"key":"type","value":{"stringValue":"DiskPressure"}},)"
      R"({"key":"status","value":{"stringValue":"True"}},)"
      R"({"key":"lastTransitionTime","value":{"stringValue":"2025-05-28T08:05:50Z"}}]}}]}}}]}}}]}}},)"
      R"({"key":"type","value":{"stringValue":"MODIFIED"}}]})";
  const char* as_text =
      R"("stringValue":"{\"kind\":\"Node\",\"metadata\":{\"name\":\"n8\"},\"status\":{\"conditions\":[)"
      R"({\"type\":\"PIDPressure\",\"status\":\"True\",\"lastTransitionTime\":\"2025-05-28T08:05:50Z\"}]}}")";
  const Read read({Export("", "", as_values), Export("", "", as_text)});
  ASSERT_EQ(read.records.cluster.pressures.size(), 2u);
  EXPECT_EQ(read.records.cluster.pressures[0].node, "n7");
  EXPECT_EQ(read.records.cluster.pressures[0].pressure, Pressure::kDisk);
  EXPECT_EQ(read.records.cluster.pressures[1].node, "n8");
}

TEST(OtlpLogs, WhatIsIncompleteIsCountedAndWhatIsOtherIsNot) {
  const Read read({Export("", "kernelevents.xid=79", kText),  // of no node
                   Export("k8s.node.name=n7", "kernelevents.xid=many", kText),
                   Export("", "nccl.rank=1 nccl.fr.collective_seq_id=7 nccl.fr.state=odd", kText),
                   Export("", "k8s.event.reason=Evicted k8s.object.name=a", kText),
                   Export("", "level=info", kText)});
  EXPECT_EQ(read.reader.stats().nr_malformed, 4u);
  EXPECT_EQ(read.reader.stats().nr_other, 1u);
  EXPECT_THAT(read.records.xids, IsEmpty());
}

TEST(OtlpLogs, WhatIsNoExportIsAnError) {
  KubernetesReader kubernetes;
  OtlpLogReader reader(&kubernetes);
  for (const char* text : {"", "{}", "[]", "{\"resourceSpans\":[]}"})
    EXPECT_EQ(reader.OnText(text).code(), Exit::kBadInput) << text;
  EXPECT_TRUE(
      reader.OnText("{\"resourceLogs\":[1,{\"scopeLogs\":{}},{\"scopeLogs\":[{\"logRecords\":3}]}]}")
          .ok());
}

// One of no detector, with scalars of all types.
struct MadeUp final : Finding {
  MadeUp() : Finding(kPattern) {}
  static constexpr Pattern kPattern = {"16", "made_up", "", "", false, 0, nullptr, 0, ""};
  Moment When() const override { return {kBegin, 1}; }
  std::string Key() const override { return "16 a"; }
  std::string Headline() const override { return "h"; }
  std::string Remediation() const override { return "r"; }
  std::vector<Evidence> Trail() const override { return {{"kernel_event", "u", {kBegin, kS}, "d"}}; }
  void PutFields(nlohmann::ordered_json* verdict) const override {
    verdict->update({{"xid_code", 79}, {"is_p2p", false}, {"age_s", 1.5}, {"node", "n7"}});
  }
};

TEST(VerdictOtlp, IsALogRecordThatIsNotTakenForItsCause) {
  const MadeUp finding;
  const auto verdict = VerdictJson(finding);
  EXPECT_EQ(verdict["evidence_trail"][0]["timestamp"], "2023-11-14T22:13:20Z");
  EXPECT_FALSE(verdict.contains("resolved_at"));
  EXPECT_EQ(VerdictJson(finding, Moment{kBegin, 1'000'000})["resolved_at"], "2023-11-14T22:13:20.000Z");
  const std::string line = VerdictOtlpLine(finding, verdict);
  const auto json = nlohmann::json::parse(line);
  const auto& record = json["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
  EXPECT_EQ(record["timeUnixNano"], std::to_string(kBegin));
  EXPECT_EQ(record["body"]["stringValue"], "h");
  std::map<std::string, nlohmann::json> attributes;
  for (const auto& one : record["attributes"]) attributes[one["key"]] = one["value"];
  EXPECT_EQ(attributes["pattern.id"]["stringValue"], "16");
  EXPECT_EQ(attributes["pattern.headline"]["stringValue"], "h");
  EXPECT_EQ(attributes["pattern.xid_code"]["intValue"], "79");
  EXPECT_EQ(attributes["pattern.is_p2p"]["boolValue"], false);
  EXPECT_EQ(attributes["pattern.age_s"]["doubleValue"], 1.5);
  EXPECT_EQ(nlohmann::json::parse(attributes["pattern.verdict_json"]["stringValue"].get<std::string>()),
            nlohmann::json(verdict));
  const Read read({line});
  EXPECT_EQ(read.reader.stats().nr_other, 1u);
  EXPECT_THAT(read.records.xids, IsEmpty());
}

TEST(MomentText, HasAsManyDigitsAsItIsGoodFor) {
  EXPECT_EQ(MomentText({kBegin, kS}), "2023-11-14T22:13:20Z");
  EXPECT_EQ(MomentText({kBegin + 120'000'000, 1'000'000}), "2023-11-14T22:13:20.120Z");
  EXPECT_EQ(MomentText({kBegin + 1, 1}), "2023-11-14T22:13:20.000000001Z");
  EXPECT_EQ(MomentText({kBegin + 1, 0}), "2023-11-14T22:13:20.000000001Z");
}

}  // namespace
}  // namespace slotscope
