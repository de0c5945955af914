// SPDX-License-Identifier: MIT
#include "report/page_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/json_line.h"
#include "explain/groups.h"
#include "report/packer.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kCoarseMs = 20;
constexpr size_t kMostNearRows = 1'000'000;

double UnixMs(int64_t unix_ns) { return static_cast<double>(unix_ns) / 1e6; }

Json FineJson(const std::vector<TrackRow>& rows, bool has_gpu, Packer* packer) {
  Json object;
  uint32_t before = 0;
  packer->Begin();
  for (const TrackRow& row : rows) packer->Put(row.ms - std::exchange(before, row.ms));
  object["at"] = packer->End();
  const auto put = [&](const char* name, uint32_t TrackRow::*value) {
    packer->Begin();
    for (const TrackRow& row : rows) packer->Put(row.*value);
    object[name] = packer->End();
  };
  put("cpu", &TrackRow::cpu);
  put("wait", &TrackRow::wait);
  if (has_gpu) put("gpu", &TrackRow::gpu);
  return object;
}

// The least and the most of a millisecond, of 20; where it has no row it did nothing.
Json CoarseJson(const std::vector<TrackRow>& rows, Packer* packer) {
  struct Bin {
    uint32_t index = 0, nr = 0;
    std::array<uint32_t, 2> cpu = {UINT32_MAX, 0}, wait = {UINT32_MAX, 0};
  };
  std::vector<Bin> bins;
  const auto take = [](uint32_t value, std::array<uint32_t, 2>* to) {
    *to = {std::min((*to)[0], value), std::max((*to)[1], value)};
  };
  for (const TrackRow& row : rows) {
    if (bins.empty() || bins.back().index != row.ms / kCoarseMs)
      bins.emplace_back().index = row.ms / kCoarseMs;
    bins.back().nr++;
    take(row.cpu, &bins.back().cpu);
    take(row.wait, &bins.back().wait);
  }
  Json object;
  uint32_t before = 0;
  packer->Begin();
  for (const Bin& bin : bins) packer->Put(bin.index - std::exchange(before, bin.index));
  object["at"] = packer->End();
  const auto put = [&](const char* name, std::array<uint32_t, 2> Bin::*value, size_t which) {
    packer->Begin();
    for (const Bin& bin : bins) packer->Put(which == 0 && bin.nr < kCoarseMs ? 0 : (bin.*value)[which]);
    object[name] = packer->End();
  };
  put("cpu_min", &Bin::cpu, 0);
  put("cpu_max", &Bin::cpu, 1);
  put("wait_min", &Bin::wait, 0);
  put("wait_max", &Bin::wait, 1);
  return object;
}

Json ProcessesJson(const PageInput& input, Packer* packer) {
  const Cast& cast = input.cast;
  size_t nr_near = 0;
  Json processes = Json::array();
  std::vector<TrackRow> rows;
  for (size_t i = 0; i < cast.size(); i++) {
    const Track& track = cast.At(i);
    Json object = {{"pid", track.key.tgid}, {"name", track.comm}};
    if (std::string place = PlaceOf(input.places, track.key, input.group_by); !place.empty())
      object["in"] = std::move(place);
    if (track.is_kernel) object["kernel"] = true;
    object["cpu_ms"] = static_cast<double>(track.cpu) * kStepNs / 1e6;
    object["wait_ms"] = static_cast<double>(track.wait) * kStepNs / 1e6;
    if (cast.IsFine(i)) {
      object["fine"] = FineJson(track.rows, track.has_gpu, packer);
    } else {
      rows.clear();
      std::copy_if(track.rows.begin(), track.rows.end(), std::back_inserter(rows),
                   [&](const TrackRow& row) { return IsIn(input.near, row.ms); });
      object["coarse"] = CoarseJson(track.rows, packer);
      nr_near += rows.size();
      if (!rows.empty() && nr_near <= kMostNearRows)
        object["near"] = FineJson(rows, track.has_gpu, packer);
    }
    processes.push_back(std::move(object));
  }
  return processes;
}

Json PackedWaits(const std::vector<BinWait>& waits, uint32_t bins_together, Packer* packer) {
  uint32_t before = 0;
  Json object = {{"bin_ms", bins_together * kBinNs / kMsNs}};
  packer->Begin();
  for (const BinWait& wait : waits) packer->Put(wait.bin - std::exchange(before, wait.bin));
  object["at"] = packer->End();
  const auto put = [&](const char* name, auto BinWait::*value) {
    packer->Begin();
    for (const BinWait& wait : waits) packer->Put(wait.*value);
    object[name] = packer->End();
  };
  put("who", &BinWait::waiter);
  put("cause", &BinWait::cause);
  put("amount", &BinWait::steps);
  return object;
}

Json WaitsJson(const WaitTable& waits, Packer* packer) {
  Json object = {{"causes", kWaitCauseNames}};
  // The first bin may begin before the range does. Whole milliseconds, see PageData().
  object["first_ms"] = waits.first_bin() * (kBinNs / kMsNs);
  object["all"] = PackedWaits(waits.all(), waits.bins_together(), packer);
  if (!waits.near().empty()) object["near"] = PackedWaits(waits.near(), 1, packer);
  return object;
}

Json MachineJson(const MachineTrack& machine, Packer* packer) {
  Json object;
  object["recorded"] = packer->PutAll(machine.is_recorded);
  object["cpu"] = packer->PutAll(machine.cpu);
  object["lost"] = packer->PutAll(machine.lost);
  if (machine.has_waits) object["wait"] = packer->PutAll(machine.wait);
  if (machine.has_gpu) object["gpu"] = packer->PutAll(machine.gpu);
  if (machine.has_no_work) object["nowork"] = packer->PutAll(machine.no_work);
  if (machine.has_traffic) object["traffic"] = packer->PutAll(machine.traffic);
  return object;
}

Json OverviewJson(const Overview& overview, Packer* packer) {
  Json object;
  std::vector<uint64_t> at, cpu, wait, lost;
  int64_t before = overview.seconds.empty() ? 0 : overview.seconds.begin()->first;
  object["first_s"] = before;
  for (const auto& [second, sums] : overview.seconds) {
    at.push_back(static_cast<uint64_t>(second - std::exchange(before, second)));
    cpu.push_back(static_cast<uint64_t>(sums.cpu_ns / 1e6));
    wait.push_back(static_cast<uint64_t>(sums.wait_ns / 1e6));
    lost.push_back(static_cast<uint64_t>(sums.lost_ns / 1e6));
  }
  object["at"] = packer->PutAll(at);
  object["cpu_ms"] = packer->PutAll(cpu);
  object["wait_ms"] = packer->PutAll(wait);
  object["lost_ms"] = packer->PutAll(lost);
  object["marks"] = Json::array();
  for (const Mark& mark : overview.marks)
    object["marks"].push_back({{"at_ms", UnixMs(mark.at_ns)}, {"kind", mark.kind}, {"text", mark.text}});
  return object;
}

Json MomentsJson(const Moments& moments) {
  Json all = Json::array();
  for (const Stall& stall : moments.stalls) {
    Json object = StallJson(stall, moments.context);
    object["from_ms"] = UnixMs(stall.from_ns);
    object["to_ms"] = UnixMs(stall.to_ns);
    object["lines"] = DetailLines(stall, moments.context);
    all.push_back(std::move(object));
  }
  return all;
}

// What of the range was recorded, and how well.
Json QualityJson(const PageInput& input) {
  const MachineTrack& machine = input.tracks.machine();
  uint64_t lost = 0;
  size_t nr_recorded = 0;
  Json gaps = Json::array();
  for (size_t ms = 0; ms < machine.is_recorded.size(); ms++) {
    lost += machine.lost[ms];
    nr_recorded += machine.is_recorded[ms];
    if (machine.is_recorded[ms]) continue;
    const bool goes_on = ms > 0 && !machine.is_recorded[ms - 1];
    if (goes_on)
      gaps.back()["ms"] = gaps.back()["ms"].get<size_t>() + 1;
    else
      gaps.push_back({{"from_ms", ms}, {"ms", 1}});
  }
  const double cpu_ns =
      static_cast<double>(nr_recorded) * kMsNs * static_cast<double>(input.facts.nr_cpus);
  Json object;
  object["lost_share"] = cpu_ns > 0 ? static_cast<double>(lost) * kStepNs / cpu_ns : 0;
  object["gaps"] = std::move(gaps);
  object["rows"] = input.tracks.nr_rows();
  object["slot_ms"] = input.tracks.longest_slot_ms();
  object["not_measured"] = Json::array();
  const auto add = [&](bool is_measured, const char* name) {
    if (!is_measured) object["not_measured"].push_back(name);
  };
  add(machine.has_waits, "waiting");
  add(machine.has_counters, "perf counters");
  add(machine.has_gpu, "GPU activity");
  add(machine.has_traffic, "memory traffic");
  return object;
}

}  // namespace

std::string PageData(const PageInput& input) {
  Packer packer;
  const StoryContext& context = input.moments.context;
  Json data;
  data["version"] = 1;
  data["recording"] = context.path;
  data["host"] = context.host;
  data["zone"] = input.facts.time_zone;
  data["cpus"] = input.facts.nr_cpus;
  data["recorded"] = {{"from_ms", UnixMs(input.facts.first_ns)}, {"to_ms", UnixMs(input.facts.last_ns)}};
  // Whole, as the places of everything in the page are counted from it: a double of nanoseconds would
  // put what lies on a border of bins on its other side.
  data["from_ms"] = input.range.from_ns / kMsNs;
  data["ms"] = input.tracks.nr_ms();
  data["is_selection"] = context.has_selection;
  data["damaged"] = context.is_damaged;
  data["usual"] = UsualSentence(context);
  constexpr std::array kPlaces = {"pod or unit", "pod", "unit", "cgroup"};
  data["places"] = kPlaces[static_cast<size_t>(input.group_by)];
  data["quiet"] = input.moments.stalls.empty() || context.told == StoryContext::Told::kWhatWas;
  data["step_us"] = kStepNs / 1000;
  data["wait_step_us"] = kWaitStepNs / 1000;
  data["step_bytes"] = kStepBytes;
  data["coarse_ms"] = kCoarseMs;
  data["quality"] = QualityJson(input);
  data["moments"] = MomentsJson(input.moments);
  data["moments_found"] = context.nr_found;
  data["overview"] = OverviewJson(input.overview, &packer);
  data["machine"] = MachineJson(input.tracks.machine(), &packer);
  data["near"] = input.near;
  data["processes"] = ProcessesJson(input, &packer);
  data["nr_processes"] = input.tracks.processes().size();
  data["waits"] = WaitsJson(input.waits, &packer);
  data["packed"] = packer.Text();
  std::string text = JsonLine(data);
  text.pop_back();
  return text;
}

}  // namespace slotscope
