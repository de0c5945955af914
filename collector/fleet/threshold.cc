// SPDX-License-Identifier: MIT
#include "fleet/threshold.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/escape.h"

namespace slotscope {
namespace {

using Json = nlohmann::json;

constexpr const char* kSeries = "slotscope:health:threshold";
// The two series of an answer, by this label.
constexpr const char* kLabel = "slotscope_is";
constexpr const char* kThreshold = "threshold";
constexpr const char* kTime = "time";

// Of scores between 0 and 1, three robust deviations below their median: -2.2 at the least.
constexpr double kMinThreshold = -3;
constexpr double kMaxThreshold = 1;
constexpr double kClockStepS = 1;  // that much in the future is still now
constexpr size_t kMaxText = 200;

// A field, or null.
const Json& At(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? EscapeControls(value.get<std::string>().substr(0, kMaxText)) : "";
}

// A sample is a time and a value, which is a string.
struct Sample {
  double time_s;
  double value;
};

std::optional<Sample> SampleOf(const Json& element) {
  const Json& pair = At(element, "value");
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_string()) return {};
  const auto& text = pair[1].get_ref<const std::string&>();
  Sample sample = {pair[0].get<double>(), 0};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sample.value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(sample.value) ||
      !std::isfinite(sample.time_s))
    return {};
  return sample;
}

ThresholdAnswer Malformed(std::string text) {
  return {ThresholdAnswer::Kind::kMalformed, 0, 0, std::move(text)};
}

}  // namespace

std::string ThresholdQuery(std::string_view cluster_id) {
  std::string quoted;
  for (char c : cluster_id) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  const std::string series = fmt::format("{}{{cluster_id=\"{}\"}}", kSeries, quoted);
  return fmt::format(
      R"(label_replace({}, "{}", "{}", "", "") or label_replace(timestamp({}), "{}", "{}", "", ""))",
      series, kLabel, kThreshold, series, kLabel, kTime);
}

ThresholdAnswer ParseThreshold(std::string_view body) {
  const Json answer = Json::parse(body, nullptr, false);
  if (answer.is_discarded() || !answer.is_object()) return Malformed("it is no JSON object");
  if (At(answer, "status") != "success")
    return Malformed(fmt::format("an error: {}", TextOf(At(answer, "error"))));
  const Json& data = At(answer, "data");
  const Json& result = At(data, "result");
  if (At(data, "resultType") != "vector" || !result.is_array()) return Malformed("it is no vector");
  if (result.empty()) return {ThresholdAnswer::Kind::kNoQuorum, 0, 0, ""};
  std::optional<Sample> threshold, time;
  for (const Json& element : result) {
    const std::string which = TextOf(At(At(element, "metric"), kLabel));
    std::optional<Sample>* const sample = which == kThreshold ? &threshold
                                          : which == kTime    ? &time
                                                              : nullptr;
    if (!sample) return Malformed("it has a series that was not asked for");
    if (*sample) return Malformed("the cluster has more than one threshold");
    *sample = SampleOf(element);
    if (!*sample) return Malformed("a value is no number");
  }
  if (!threshold || !time) return Malformed("it lacks the threshold, or its time");
  if (threshold->value < kMinThreshold || threshold->value > kMaxThreshold)
    return Malformed(fmt::format("the threshold {} cannot be", threshold->value));
  const double age_s = time->time_s - time->value;
  if (age_s < -kClockStepS)
    return Malformed(fmt::format("the threshold will be computed in {:.1f} s", -age_s));
  return {ThresholdAnswer::Kind::kValue, threshold->value, std::max(age_s, 0.0), ""};
}

}  // namespace slotscope
