// SPDX-License-Identifier: MIT
#include "raw/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escape.h"

namespace slotscope {
namespace {

using nlohmann::json;

constexpr size_t kMaxStreams = 8192;  // CPUs; Linux on x86 has at most as many

// The library converts numbers as C does; here one that does not fit is an error.
template <typename T>
T Number(const json& value) {
  if (!value.is_number_integer())
    throw json::type_error::create(302, "a number must be an integer", &value);
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                               : std::in_range<T>(value.get<int64_t>());
  if (!fits) throw json::out_of_range::create(406, "a number is out of range: " + value.dump(), &value);
  return value.get<T>();
}

// Not there: no RDT.
json RdtToJson(const RdtShape& rdt) {
  json domains = json::array();
  for (const L3Domain& domain : rdt.domains)
    domains.push_back({{"id", domain.id}, {"cpus", domain.cpus}});
  return {{"llc_occupancy", rdt.has_occupancy},
          {"mbm_total", rdt.has_mbm_total},
          {"mbm_local", rdt.has_mbm_local},
          {"domains", domains}};
}

RdtShape ParseRdt(const json& object) {
  RdtShape rdt;
  object.at("llc_occupancy").get_to(rdt.has_occupancy);
  object.at("mbm_total").get_to(rdt.has_mbm_total);
  object.at("mbm_local").get_to(rdt.has_mbm_local);
  for (const json& domain : object.at("domains")) {
    rdt.domains.push_back({Number<uint32_t>(domain.at("id")), {}});
    for (const json& cpu : domain.at("cpus")) rdt.domains.back().cpus.push_back(Number<int>(cpu));
  }
  return rdt;
}

json GpusToJson(const std::vector<GpuDevice>& gpus) {
  json array = json::array();
  for (const GpuDevice& gpu : gpus)
    array.push_back({{"index", gpu.index},
                     {"instance", gpu.instance},
                     {"divided", gpu.divided},
                     {"uuid", gpu.uuid},
                     {"pci", gpu.pci},
                     {"name", gpu.name},
                     {"total_bytes", gpu.total_bytes},
                     {"minor", gpu.minor}});
  return array;
}

std::vector<GpuDevice> ParseGpus(const json& array) {
  if (!array.is_array()) throw json::type_error::create(302, "gpus must be an array", &array);
  std::vector<GpuDevice> gpus;
  for (const json& object : array) {
    GpuDevice gpu;
    gpu.index = Number<uint32_t>(object.at("index"));
    gpu.instance = Number<int32_t>(object.at("instance"));
    object.at("divided").get_to(gpu.divided);
    object.at("uuid").get_to(gpu.uuid);
    object.at("pci").get_to(gpu.pci);
    object.at("name").get_to(gpu.name);
    gpu.total_bytes = Number<uint64_t>(object.at("total_bytes"));
    gpu.minor = Number<int32_t>(object.at("minor"));
    // They are fields of a CSV file.
    for (std::string* member : {&gpu.uuid, &gpu.pci, &gpu.name})
      *member =
          EscapeUnless([](unsigned char c) { return IsPrintable(c) && c != ',' && c != '"'; }, *member);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// Ids ascend, no CPU is in two, and all of them are present.
bool IsPossible(const RdtShape& rdt, const std::vector<int>& present_cpus) {
  std::vector<int> cpus;
  for (size_t i = 0; i < rdt.domains.size(); i++) {
    if (i > 0 && rdt.domains[i].id <= rdt.domains[i - 1].id) return false;
    cpus.insert(cpus.end(), rdt.domains[i].cpus.begin(), rdt.domains[i].cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return std::adjacent_find(cpus.begin(), cpus.end()) == cpus.end() &&
         std::includes(present_cpus.begin(), present_cpus.end(), cpus.begin(), cpus.end()) &&
         rdt.domains.size() <= present_cpus.size() && rdt.any() == !rdt.domains.empty();
}

}  // namespace

std::string FactsToJson(const Facts& facts) {
  json object = {
      {"host", facts.host},
      {"boot_id", facts.boot_id},
      {"kernel", facts.kernel},
      {"source", facts.source},
      {"source_reason", facts.source_reason},
      {"backend", facts.backend},
      {"backend_reason", facts.backend_reason},
      {"tick", facts.tick},
      {"events", facts.events},
      {"notes", facts.notes},
      {"present_cpus", facts.present_cpus},
      {"nr_streams", facts.nr_streams},
      {"unix_offset_ns", facts.unix_offset_ns},
      {"command_tgid", facts.command_tgid},
  };
  if (facts.raw_begin_ns || facts.raw_segment)
    object["raw"] = {{"segment", facts.raw_segment}, {"begin_ns", facts.raw_begin_ns}};
  if (!facts.time_zone.empty()) object["time_zone"] = facts.time_zone;
  if (!facts.gpu.empty()) object["gpu"] = facts.gpu;
  if (!facts.joined.empty()) object["joined"] = facts.joined;
  if (!facts.gpus.empty()) object["gpus"] = GpusToJson(facts.gpus);
  if (facts.has_waits) object["waits"] = true;
  if (facts.has_quota) object["quota"] = true;
  if (facts.has_steal) object["steal"] = true;
  if (facts.has_states) object["states"] = true;
  if (facts.has_turns) object["turns"] = true;
  if (facts.rdt.any()) object["rdt"] = RdtToJson(facts.rdt);
  // A name that is no UTF-8 must not end the recording.
  return object.dump(1, ' ', false, json::error_handler_t::replace);
}

Status ParseFacts(std::string_view text, Facts* facts) {
  *facts = {};
  try {
    json object = json::parse(text);
    object.at("host").get_to(facts->host);
    object.at("boot_id").get_to(facts->boot_id);
    object.at("kernel").get_to(facts->kernel);
    object.at("source").get_to(facts->source);
    object.at("source_reason").get_to(facts->source_reason);
    object.at("backend").get_to(facts->backend);
    object.at("backend_reason").get_to(facts->backend_reason);
    object.at("tick").get_to(facts->tick);
    object.at("events").get_to(facts->events);
    object.at("notes").get_to(facts->notes);
    if (!object.at("present_cpus").is_array())
      throw json::type_error::create(302, "present_cpus must be an array", &object);
    for (const json& cpu : object.at("present_cpus")) facts->present_cpus.push_back(Number<int>(cpu));
    facts->nr_streams = Number<size_t>(object.at("nr_streams"));
    facts->unix_offset_ns = Number<int64_t>(object.at("unix_offset_ns"));
    facts->command_tgid = Number<int32_t>(object.at("command_tgid"));
    if (object.contains("raw")) {
      facts->raw_segment = Number<uint64_t>(object.at("raw").at("segment"));
      facts->raw_begin_ns = Number<uint64_t>(object.at("raw").at("begin_ns"));
    }
    if (object.contains("time_zone")) object.at("time_zone").get_to(facts->time_zone);
    if (object.contains("gpu")) object.at("gpu").get_to(facts->gpu);
    if (object.contains("joined")) object.at("joined").get_to(facts->joined);
    if (object.contains("gpus")) facts->gpus = ParseGpus(object.at("gpus"));
    if (object.contains("waits")) object.at("waits").get_to(facts->has_waits);
    if (object.contains("quota")) object.at("quota").get_to(facts->has_quota);
    if (object.contains("steal")) object.at("steal").get_to(facts->has_steal);
    if (object.contains("states")) object.at("states").get_to(facts->has_states);
    if (object.contains("turns")) object.at("turns").get_to(facts->has_turns);
    if (object.contains("rdt")) facts->rdt = ParseRdt(object.at("rdt"));
  } catch (const json::exception& error) {
    return {Exit::kBadInput, fmt::format("what it says of its run cannot be read: {}", error.what())};
  }
  // They go to screens and files.
  for (std::string* member : {&facts->host, &facts->boot_id, &facts->kernel, &facts->source,
                              &facts->source_reason, &facts->backend, &facts->backend_reason,
                              &facts->tick, &facts->time_zone, &facts->gpu, &facts->joined})
    *member = EscapeControls(*member);
  for (std::string& event : facts->events) event = EscapeControls(event);
  for (std::string& note : facts->notes) note = EscapeControls(note);
  if (facts->events.size() < SS_NR_COUNTERS || facts->events.size() > SS_MAX_COUNTERS)
    return {Exit::kBadInput, fmt::format("it has {} perf counters; {} to {} can be",
                                         facts->events.size(), SS_NR_COUNTERS, SS_MAX_COUNTERS)};
  if (facts->nr_streams == 0 || facts->nr_streams > kMaxStreams)
    return {Exit::kBadInput,
            fmt::format("it has {} streams; 1 to {} can be", facts->nr_streams, kMaxStreams)};
  bool sorted = std::adjacent_find(facts->present_cpus.begin(), facts->present_cpus.end(),
                                   std::greater_equal<>()) == facts->present_cpus.end();
  if (facts->present_cpus.empty() || !sorted || facts->present_cpus.front() < 0 ||
      static_cast<size_t>(facts->present_cpus.back()) >= facts->nr_streams)
    return {Exit::kBadInput, "its list of present CPUs is impossible"};
  if (!IsPossible(facts->rdt, facts->present_cpus))
    return {Exit::kBadInput, "its L3 domains are impossible"};
  return {};
}

}  // namespace slotscope
