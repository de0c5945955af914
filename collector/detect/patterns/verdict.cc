// SPDX-License-Identifier: MIT
#include "detect/patterns/verdict.h"

#include <utility>

#include "base/json_line.h"
#include "base/rfc3339.h"
#include "base/version.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

Json Attribute(std::string key, Json value) {
  return {{"key", std::move(key)}, {"value", std::move(value)}};
}

// OTLP's JSON writes whole numbers of 64 bits as texts.
Json ValueOf(const Json& scalar) {
  if (scalar.is_boolean()) return {{"boolValue", scalar}};
  if (scalar.is_number_integer()) return {{"intValue", std::to_string(scalar.get<int64_t>())}};
  if (scalar.is_number()) return {{"doubleValue", scalar}};
  return {{"stringValue", scalar}};
}

}  // namespace

std::string VerdictLine(const Verdict& verdict) { return JsonLine(verdict.json); }

std::string VerdictOtlpLine(const Verdict& verdict) {
  // All names begin with "pattern.", so that whoever reads what we write does not take it for an Xid or
  // a record of a rank, of which it is made.
  Json attributes = Json::array();
  for (const auto& [key, value] : verdict.json.items())
    if (value.is_primitive() && !value.is_null())
      attributes.push_back(Attribute(key == "pattern.id" ? key : "pattern." + key, ValueOf(value)));
  std::string text = JsonLine(verdict.json);
  text.pop_back();
  attributes.push_back(Attribute("pattern.verdict_json", {{"stringValue", std::move(text)}}));
  Json record = {{"timeUnixNano", std::to_string(verdict.time_ns)},
                 {"severityNumber", 13},
                 {"severityText", "WARN"},
                 {"body", {{"stringValue", verdict.json["headline"]}}},
                 {"attributes", std::move(attributes)}};
  Json scope = {{"scope", {{"name", "slotscope.detect"}, {"version", kVersion}}},
                {"logRecords", Json::array({std::move(record)})}};
  Json service = {
      {"attributes", Json::array({Attribute("service.name", {{"stringValue", "slotscope"}})})}};
  Json resource = {{"resource", std::move(service)}, {"scopeLogs", Json::array({std::move(scope)})}};
  return JsonLine({{"resourceLogs", Json::array({std::move(resource)})}});
}

std::string MomentText(const Moment& moment) {
  std::string text = Rfc3339(moment.begin_ns);  // with nine digits and Z
  size_t nr_digits = 9;
  for (int64_t unit = 1; unit < moment.resolution_ns && nr_digits > 0; unit *= 10) nr_digits--;
  text.pop_back();
  text.resize(text.size() - 9 + nr_digits);
  if (nr_digits == 0) text.pop_back();  // the point
  return text + "Z";
}

Json Evidence(const char* kind, std::string uid, const Moment& when, std::string description) {
  return {{"kind", kind},
          {"uid", std::move(uid)},
          {"timestamp", MomentText(when)},
          {"description", std::move(description)}};
}

}  // namespace slotscope
