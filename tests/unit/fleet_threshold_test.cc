// SPDX-License-Identifier: MIT
// What Prometheus says of the fleet, and which threshold a node is judged by.
#include "fleet/threshold.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "fleet/judgement.h"

namespace slotscope {
namespace {

using Kind = ThresholdAnswer::Kind;

// Both series as Prometheus 2.42 sends them.
std::string Answer(const std::string& threshold, const std::string& time,
                   const std::string& at = "100.5") {
  return R"({"status":"success","data":{"resultType":"vector","result":[)"
         R"({"metric":{"__name__":"slotscope:health:threshold","cluster_id":"a","slotscope_is":"threshold"},"value":[)" +
         at + "," + threshold + R"(]},{"metric":{"cluster_id":"a","slotscope_is":"time"},"value":[)" +
         at + "," + time + "]}]}}";
}

TEST(Threshold, IsReadWithItsAge) {
  const ThresholdAnswer answer = ParseThreshold(Answer(R"("0.8360440000000002")", R"("98.25")"));
  EXPECT_EQ(answer.kind, Kind::kValue) << answer.text;
  EXPECT_DOUBLE_EQ(answer.value, 0.8360440000000002);
  EXPECT_DOUBLE_EQ(answer.age_s, 2.25);
}

TEST(Threshold, TrustsNothing) {
  const std::string one = R"({"metric":{"slotscope_is":"threshold"},"value":[1,"0.5"]})";
  const std::string time = R"({"metric":{"slotscope_is":"time"},"value":[1,"1"]})";
  const auto vector = [](const std::string& elements) {
    return R"({"status":"success","data":{"resultType":"vector","result":[)" + elements + "]}}";
  };
  const struct {
    const char* what;
    std::string body;
    Kind kind;
  } kCases[] = {
      {"a threshold", vector(one + "," + time), Kind::kValue},
      {"in the other order", vector(time + "," + one), Kind::kValue},
      {"of spread scores: nobody is below", Answer("\"-2.2\"", "\"100\""), Kind::kValue},
      {"a clock that was set back a little", Answer("\"0.5\"", "\"101.4\""), Kind::kValue},
      {"no quorum", vector(""), Kind::kNoQuorum},
      {"nothing", "", Kind::kMalformed},
      {"no JSON", "<html>502 Bad Gateway</html>", Kind::kMalformed},
      {"half of it", Answer("\"0.5\"", "\"100\"").substr(0, 150), Kind::kMalformed},
      {"bytes", std::string("\xff\xfe\0\1", 4), Kind::kMalformed},
      {"an array", "[]", Kind::kMalformed},
      {"a number", "7", Kind::kMalformed},
      {"deep", std::string(30'000, '[') + std::string(30'000, ']'), Kind::kMalformed},
      {"an error", R"({"status":"error","errorType":"bad_data","error":"parse error"})",
       Kind::kMalformed},
      {"no status", R"({"data":{"resultType":"vector","result":[]}})", Kind::kMalformed},
      {"no data", R"({"status":"success"})", Kind::kMalformed},
      {"data of another kind", R"({"status":"success","data":7})", Kind::kMalformed},
      {"a matrix", R"({"status":"success","data":{"resultType":"matrix","result":[]}})",
       Kind::kMalformed},
      {"a result of another kind", R"({"status":"success","data":{"resultType":"vector","result":{}}})",
       Kind::kMalformed},
      {"without its time", vector(one), Kind::kMalformed},
      {"only its time", vector(time), Kind::kMalformed},
      {"two of them", vector(one + "," + one + "," + time), Kind::kMalformed},
      {"a stranger", vector(one + "," + time + R"(,{"metric":{},"value":[1,"1"]})"), Kind::kMalformed},
      {"elements of another kind", vector("1,2"), Kind::kMalformed},
      {"a label of another kind", vector(R"({"metric":{"slotscope_is":7},"value":[1,"1"]})"),
       Kind::kMalformed},
      {"a number, not a string", Answer("0.5", "\"100\""), Kind::kMalformed},
      {"no number", Answer("\"many\"", "\"100\""), Kind::kMalformed},
      {"a number and more", Answer("\"0.5x\"", "\"100\""), Kind::kMalformed},
      {"NaN", Answer("\"NaN\"", "\"100\""), Kind::kMalformed},
      {"infinite", Answer("\"+Inf\"", "\"100\""), Kind::kMalformed},
      {"too large", Answer("\"1e999\"", "\"100\""), Kind::kMalformed},
      {"above all scores", Answer("\"1.01\"", "\"100\""), Kind::kMalformed},
      {"below all that can be", Answer("\"-3.01\"", "\"100\""), Kind::kMalformed},
      {"of the future", Answer("\"0.5\"", "\"102\""), Kind::kMalformed},
      {"time is no number", Answer("\"0.5\"", "\"100\"", "\"now\""), Kind::kMalformed},
  };
  for (const auto& c : kCases) {
    const ThresholdAnswer answer = ParseThreshold(c.body);
    EXPECT_EQ(answer.kind, c.kind) << c.what << ": " << answer.text;
    EXPECT_EQ(answer.text.empty(), c.kind != Kind::kMalformed) << c.what;
    EXPECT_GE(answer.age_s, 0) << c.what;
  }
}

TEST(Threshold, AnErrorIsRepeatedCutAndWithoutControls) {
  const ThresholdAnswer answer =
      ParseThreshold(R"({"status":"error","error":"\u001b[31m)" + std::string(1000, 'x') + "\"}");
  EXPECT_EQ(answer.text.find('\x1b'), std::string::npos);
  EXPECT_LT(answer.text.size(), 300u);
}

TEST(Threshold, AClustersNameCannotChangeTheQuestion) {
  const std::string query = ThresholdQuery(R"(a"} or up{x="\)");
  EXPECT_NE(query.find(R"(slotscope:health:threshold{cluster_id="a\"} or up{x=\"\\"})"), query.npos)
      << query;
}

TEST(ThresholdAges, AreTwoLooksAtLeast) {
  constexpr uint64_t kS = 1'000'000'000;
  EXPECT_EQ(ThresholdAges::For(kS).fresh_ns, 20 * kS);
  EXPECT_EQ(ThresholdAges::For(10 * kS).fresh_ns, 20 * kS);
  EXPECT_EQ(ThresholdAges::For(10 * kS).cached_ns, 300 * kS);
  EXPECT_EQ(ThresholdAges::For(300 * kS).fresh_ns, 600 * kS);
  EXPECT_EQ(ThresholdAges::For(300 * kS).cached_ns, 600 * kS);
}

TEST(DetectionMode, IsTheBestThatThereIs) {
  constexpr uint64_t kS = 1'000'000'000;
  constexpr uint64_t kNow = 10'000 * kS;
  const auto view = [&](bool reachable, bool has_quorum, uint64_t age_s) {
    return ThresholdView{reachable, has_quorum, 0.8, kNow - age_s * kS};
  };
  const struct {
    const char* what;
    ThresholdView view;
    std::optional<double> usual;
    std::optional<DetectionMode> mode;
    double threshold;
  } kCases[] = {
      {"fresh", view(true, true, 0), 0.9, DetectionMode::kFleet, 0.8},
      {"20 s old", view(true, true, 20), 0.9, DetectionMode::kFleet, 0.8},
      {"20 s old, nobody answers just now", view(false, true, 20), 0.9, DetectionMode::kFleet, 0.8},
      {"21 s old, nobody answers", view(false, true, 21), 0.9, DetectionMode::kLocalCached, 0.8},
      {"5 minutes old, nobody answers", view(false, true, 300), 0.9, DetectionMode::kLocalCached, 0.8},
      {"older", view(false, true, 301), 0.9, DetectionMode::kLocalBaseline, 0.85 * 0.9},
      {"older, and nothing else is known", view(false, true, 301), {}, {}, 0},
      {"no quorum", view(true, false, 0), 0.9, DetectionMode::kFleetCached, 0.8},
      {"no quorum for 5 minutes", view(true, false, 300), 0.9, DetectionMode::kFleetCached, 0.8},
      {"for longer", view(true, false, 301), 0.9, DetectionMode::kLocalBaseline, 0.85 * 0.9},
      {"no quorum, then nobody", view(false, false, 5), 0.9, DetectionMode::kLocalCached, 0.8},
      {"the rules have stopped", view(true, true, 21), 0.9, DetectionMode::kFleetCached, 0.8},
      {"never a value", {true, false, {}, 0}, 0.9, DetectionMode::kLocalBaseline, 0.85 * 0.9},
      {"never an answer", {}, 0.5, DetectionMode::kLocalBaseline, 0.85 * 0.5},
      {"never anything", {}, {}, {}, 0},
  };
  for (const auto& c : kCases) {
    const auto judgement = ChooseThreshold(c.view, c.usual, ThresholdAges(), kNow);
    ASSERT_EQ(judgement.has_value(), c.mode.has_value()) << c.what;
    if (!judgement) continue;
    EXPECT_EQ(judgement->mode, *c.mode) << c.what;
    EXPECT_DOUBLE_EQ(judgement->threshold, c.threshold) << c.what;
  }
}

}  // namespace
}  // namespace slotscope
