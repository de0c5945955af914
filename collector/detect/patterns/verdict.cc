// SPDX-License-Identifier: MIT
#include "detect/patterns/verdict.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_line.h"
#include "base/version.h"
#include "detect/inputs/timestamp.h"

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

Json VerdictJson(const Finding& finding, const std::optional<Moment>& resolved) {
  Json verdict = {{"pattern.id", finding.pattern().id},
                  {"headline", finding.Headline()},
                  {"remediation", finding.Remediation()}};
  finding.PutFields(&verdict);
  Json trail = Json::array();
  for (Evidence& one : finding.Trail())
    trail.push_back({{"kind", one.kind},
                     {"uid", std::move(one.uid)},
                     {"timestamp", MomentText(one.when)},
                     {"description", std::move(one.description)}});
  verdict["evidence_trail"] = std::move(trail);
  if (resolved) verdict["resolved_at"] = MomentText(*resolved);
  return verdict;
}

std::string VerdictOtlpLine(const Finding& finding, const Json& verdict) {
  // All names begin with "pattern.", so that whoever reads what we write does not take it for an Xid or
  // a record of a rank, of which it is made.
  Json attributes = Json::array();
  for (const auto& [key, value] : verdict.items())
    if (value.is_primitive() && !value.is_null())
      attributes.push_back(Attribute(key == "pattern.id" ? key : "pattern." + key, ValueOf(value)));
  std::string text = JsonLine(verdict);
  text.pop_back();
  attributes.push_back(Attribute("pattern.verdict_json", {{"stringValue", std::move(text)}}));
  Json record = {{"timeUnixNano", std::to_string(finding.When().begin_ns)},
                 {"severityNumber", 13},
                 {"severityText", "WARN"},
                 {"body", {{"stringValue", finding.Headline()}}},
                 {"attributes", std::move(attributes)}};
  Json scope = {{"scope", {{"name", "slotscope.detect"}, {"version", kVersion}}},
                {"logRecords", Json::array({std::move(record)})}};
  Json service = {
      {"attributes", Json::array({Attribute("service.name", {{"stringValue", "slotscope"}})})}};
  Json resource = {{"resource", std::move(service)}, {"scopeLogs", Json::array({std::move(scope)})}};
  return JsonLine({{"resourceLogs", Json::array({std::move(resource)})}});
}

}  // namespace slotscope
