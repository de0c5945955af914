// SPDX-License-Identifier: MIT
#include "check/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/perf_counter.h"
#include "base/size_text.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

using State = CheckLine::State;

std::string Join(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

// "9 h", "40 days".
std::string Length(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.0f} h", seconds / kHour);
  return fmt::format("{:.0f} days", seconds / kDay);
}

// The sentence that begins with "NAME: ", without that.
std::string NoteOf(const Facts& facts, const std::string& name) {
  for (const std::string& note : facts.notes)
    if (note.starts_with(name + ": ")) return note.substr(name.size() + 2);
  return "";
}

}  // namespace

CheckLine CheckSource(const Trial& trial) {
  return {"source", State::kYes, fmt::format("{} ({})", trial.facts.source, trial.facts.source_reason),
          ""};
}

CheckLine CheckCounters(const Trial& trial) {
  const Facts& facts = trial.facts;
  std::vector<std::string> counted, missing;
  std::string why;
  for (size_t i = 0; i < SS_NR_COUNTERS; i++) {
    const std::string name(kPerfCounters[i].name);
    (facts.events[i].empty() ? missing : counted).push_back(name);
    if (facts.events[i].empty() && why.empty()) why = NoteOf(facts, name);
  }
  if (missing.empty()) return {"perf counters", State::kYes, Join(counted, ", "), ""};
  if (const size_t end = why.find("; the column"); end != std::string::npos) why.resize(end);
  if (counted.empty())
    return {"perf counters", State::kNo, why.empty() ? "none is counted" : why,
            "give the virtual machine a PMU (KVM: -cpu host,pmu=on)"};
  return {"perf counters", State::kPartly,
          fmt::format("{}; not {}: {}", Join(counted, ", "), Join(missing, ", "), why),
          "stop other users of counters (an NMI watchdog, perf); this CPU may also have too few"};
}

CheckLine CheckWaits(const Trial& trial) {
  const Facts& facts = trial.facts;
  if (!facts.has_waits)
    return {"waiting", State::kNo, "this kernel does not say how long processes wait for a CPU",
            "a kernel that is built with CONFIG_SCHED_INFO=y, as those of all distributions are"};
  std::vector<std::string> causes = {"who ran instead", "own threads", "wake-ups"};
  if (facts.has_quota) causes.emplace_back("quotas");
  // Where there is no hypervisor it takes nothing, which cannot be told from one that does not say it.
  if (facts.has_steal) causes.emplace_back("steal");
  const std::string told = Join(causes, ", ");
  if (facts.has_quota) return {"waiting", State::kYes, told, ""};
  return {"waiting", State::kPartly,
          fmt::format("{}; waits for a quota count as waits for whoever ran meanwhile", told),
          "boot a kernel whose functions eBPF can trace, or 6.18 or later"};
}

CheckLine CheckCuda(const Trial& trial) {
  if (!trial.facts.gpu.empty()) return {"CUDA", State::kYes, trial.facts.gpu, ""};
  std::string why;
  for (const std::string& note : trial.facts.notes)
    if (note.starts_with("GPUs are not observed: ")) why = note.substr(note.find(": ") + 2);
  return {"CUDA", State::kNo, why.empty() ? "it is not observed" : why, ""};
}

CheckLines CheckNotes(const Trial& trial) {
  CheckLines lines;
  for (const std::string& note : trial.facts.notes) {
    const std::string name = note.substr(0, note.find(": "));
    const bool is_counter = std::any_of(kPerfCounters.begin(), kPerfCounters.end(),
                                        [&](const auto& counter) { return counter.name == name; });
    if (!is_counter && name != "GPUs are not observed")
      lines.push_back({"besides", State::kPartly, note, ""});
  }
  return lines;
}

CheckLine CheckBuffers(const Trial& trial) {
  return {"buffers", State::kSize,
          fmt::format("{} for each of {} CPUs", SizeText(static_cast<double>(trial.ring_bytes)),
                      trial.facts.present_cpus.size()),
          ""};
}

CheckLine CheckLosses(const Trial& trial) {
  const RunCounts& counts = trial.counts;
  if (counts.accounting.nr_slots == 0)
    return {"complete", State::kNo, "no whole slot was recorded", "try once more"};
  const double percent = LostPercent(counts, trial.facts.present_cpus.size());
  const std::string names = LossNames(counts);
  std::string what = fmt::format("lost: {:.2g}% of CPU time", percent);
  if (!names.empty()) what += fmt::format(", {}", names);
  if (counts.slots.nr_missed_switches)
    what += fmt::format("; {} switches hidden from eBPF", counts.slots.nr_missed_switches);
  if (percent < kMuchLostPercent && names.empty()) return {"complete", State::kYes, what, ""};
  return {"complete", State::kPartly, what,
          "slotscope record -v says what each counter of a loss means"};
}

CheckLine CheckCost(const Trial& trial) {
  if (!trial.cost_percent) return {"cost", State::kSize, "not measured: no whole second passed", ""};
  return {"cost", State::kSize,
          fmt::format("{:.2g}% of {} CPUs, in a recording of {:.0f} s just now", *trial.cost_percent,
                      trial.facts.present_cpus.size(), trial.seconds),
          ""};
}

CheckLine CheckRing(const Trial& trial, uint64_t bytes, const std::string& folder) {
  if (bytes == 0 || trial.fine_bytes_per_s <= 0 || trial.coarse_bytes_per_s <= 0)
    return {"ring", State::kSize, fmt::format("how far back {} would reach is not known", folder), ""};
  // What RecordingFolder gives to tables that are kept longer, where all of them want it.
  const auto room = static_cast<double>(bytes);
  const double rate = trial.fine_bytes_per_s + trial.coarse_bytes_per_s;
  constexpr double kFineShare = (10 - kCoarseTenths) / 10.0;
  constexpr double kSecondsShare = (kCoarseTenths - kMinutesTenths) / 10.0;
  const double fine_s = kFineShare * room / trial.fine_bytes_per_s;
  const double coarse_s = kSecondsShare * room / trial.coarse_bytes_per_s;
  return {
      "ring", State::kSize,
      fmt::format("{:.1f} GiB of the service in {}: the last {} to the millisecond, the last {} to the "
                  "second, and more to the minute, at {}/s as just now (until it is full, {} to the "
                  "millisecond)",
                  room / (1 << 30), folder, Length(fine_s), Length(coarse_s), SizeText(rate),
                  Length(room / rate)),
      ""};
}

double BytesPerSecond(uint64_t bytes_on_disk, uint64_t text_bytes, uint64_t header_bytes,
                      double seconds) {
  if (text_bytes == 0 || seconds <= 0) return 0;
  return static_cast<double>(bytes_on_disk) * static_cast<double>(text_bytes - header_bytes) /
         static_cast<double>(text_bytes) / seconds;
}

}  // namespace slotscope
