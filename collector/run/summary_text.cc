// SPDX-License-Identifier: MIT
#include "run/summary_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/party_text.h"
#include "slots/column.h"

namespace slotscope {
namespace {

constexpr size_t kMinGroups = 3;
constexpr size_t kMaxGroups = 12;
constexpr uint64_t kLeastShownNs = 50'000;  // 0.1 ms on the screen

// Processes of one name, or a kind that is none.
struct Group {
  std::string name;
  size_t nr = 0;
  int32_t tgid = 0;  // of one of them
  Total total;
};

// "[idle]", "[lost]".
std::string NameOfKind(RowKind kind) {
  return fmt::format("[{}]", kRowKindNames[static_cast<size_t>(kind)]);
}

std::string NameOf(const Comm& comm) {
  const std::string name = EscapeName(CommText(comm));
  return name.empty() ? "?" : name;
}

std::string GroupName(const Total& total) {
  const std::string name = NameOf(total.comm);
  return total.kind == RowKind::kKernel ? std::string(NameOfKernelThreads(name)) : name;
}

// The one with the most CPU time first, and of equal ones by name.
std::vector<Group> GroupsOf(const std::vector<Total>& totals) {
  std::map<std::pair<bool, std::string>, Group> groups;
  for (const Total& total : totals) {
    const bool is_process = IsProcess(total.kind);
    const std::string name = is_process ? GroupName(total) : NameOfKind(total.kind);
    Group& group = groups[{is_process, name}];
    if (group.nr++ == 0) {
      group.name = name;
      group.tgid = total.key.tgid;
      group.total = total;
      continue;
    }
    group.total.unmeasured |= total.unmeasured;
    Add(&group.total.sums, total.sums);
  }
  std::vector<Group> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Group& a, const Group& b) {
    return a.total.sums[kCpuNs] > b.total.sums[kCpuNs];
  });
  return sorted;
}

// "-" for what was not measured.
std::string Millis(const Total& total, Additive id) {
  if (total.unmeasured >> id & 1) return "-";
  return fmt::format("{:.1f}", static_cast<double>(total.sums[id]) / 1e6);
}

std::string Count(const Total& total, Additive id) {
  if (total.unmeasured >> id & 1) return "-";
  return fmt::format("{}", total.sums[id]);
}

std::string Ipc(const Total& total) {
  constexpr uint32_t kNeeded = 1u << kCycles | 1u << kInstructions;
  if ((total.unmeasured & kNeeded) || total.sums[kCycles] == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(total.sums[kInstructions]) /
                                   static_cast<double>(total.sums[kCycles]));
}

double CpuTimeNs(const RunSummary& run) {
  return static_cast<double>(run.counts.accounting.slots_ns) * static_cast<double>(run.nr_cpus);
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string Label(const Group& group) {
  if (!IsProcess(group.total.kind)) return group.name;
  return PartyText(group.name, group.nr, group.tgid);
}

std::string GroupLine(const Group& group, double whole_ns) {
  const Total& total = group.total;
  return fmt::format("{:<26} {:>10} {:>5.1f} {:>10} {:>9} {:>8} {:>5}\n", Label(group),
                     Millis(total, kCpuNs), Percent(static_cast<double>(total.sums[kCpuNs]), whole_ns),
                     Millis(total, kWaitNs), Count(total, kSwitches), Count(total, kPreemptions),
                     Ipc(total));
}

// Those with the most time, and all that are no processes: in all at most `room` lines, if that is
// enough for some.
std::string GroupLines(const RunSummary& run, size_t room) {
  const std::vector<Group> groups = GroupsOf(run.totals);
  const auto is_process = [](const Group& group) { return IsProcess(group.total.kind); };
  const auto nr = static_cast<size_t>(std::count_if(groups.begin(), groups.end(), is_process));
  const size_t others = groups.size() - nr + 2;  // the header, and how many more there are
  const size_t shown = std::clamp(room - std::min(room, others), kMinGroups, kMaxGroups);
  std::string text = fmt::format("{:<26} {:>10} {:>5} {:>10} {:>9} {:>8} {:>5}\n", "NAME (PID)",
                                 "CPU ms", "CPU%", "WAIT ms", "SWITCHES", "PREEMPT", "IPC");
  size_t nr_shown = 0, nr_hidden = 0;
  for (const Group& group : groups) {
    if (is_process(group) && nr_shown == shown) {
      nr_hidden += group.nr;
      continue;
    }
    nr_shown += is_process(group);
    text += GroupLine(group, CpuTimeNs(run));
  }
  if (nr_hidden) text += fmt::format("and {} more process{}\n", nr_hidden, nr_hidden == 1 ? "" : "es");
  return text;
}

std::string NameOf(const ProcessKey& key, const Comm& comm) {
  const std::string name = EscapeName(CommText(comm));
  return name.empty() ? fmt::format("process {}", key.tgid) : fmt::format("{} ({})", name, key.tgid);
}

std::string PairLines(const std::vector<PairTotal>& pairs) {
  if (pairs.empty() || pairs.front().ns < kLeastShownNs) return "";
  std::string text = "Who kept whom waiting for a CPU, the longest:\n";
  for (const PairTotal& pair : pairs)
    if (pair.ns >= kLeastShownNs)
      text += fmt::format("{:>10.1f} ms  {} waited while {} ran\n", static_cast<double>(pair.ns) / 1e6,
                          NameOf(pair.waiter, pair.waiter_comm),
                          pair.ran.tgid > 0         ? NameOf(pair.ran, pair.ran_comm)
                          : pair.ran_comm != Comm{} ? "several " + NameOf(pair.ran_comm)
                                                    : "several others");
  return text + "\n";
}

// "1234 rows in 3017 slots of 1 ms, 9151 messages (3046/s)".
std::string SizeLine(const RunSummary& run) {
  const RunCounts& counts = run.counts;
  std::string text = fmt::format("{} rows in {} slots", counts.nr_rows, counts.accounting.nr_slots);
  if (const uint64_t nr_slots = counts.accounting.nr_slots) {
    const double ms =
        static_cast<double>(counts.accounting.slots_ns) / static_cast<double>(nr_slots) / 1e6;
    constexpr uint64_t kRoundNs = 100'000;
    text += counts.accounting.slots_ns % (nr_slots * kRoundNs)  // --max-overhead has made some longer
                ? fmt::format(" (on average {:.1f} ms long)", ms)
                : fmt::format(" of {:g} ms", ms);
  }
  text += fmt::format(", {} messages", counts.merge.nr_messages);
  if (run.elapsed_s > 0)
    text += fmt::format(" ({:.0f}/s)", static_cast<double>(counts.merge.nr_messages) / run.elapsed_s);
  if (IsInScope(CountScope::kCuda, counts)) text += fmt::format(", {} CUDA calls", counts.gpu.nr_calls);
  return text + "\n";
}

std::string LossLine(const RunSummary& run) {
  const double percent = LostPercent(run.counts, run.nr_cpus);
  const std::string names = LossNames(run.counts);
  if (run.counts.accounting.lost_ns == 0 && names.empty()) return "lost: nothing\n";
  std::string text = percent >= kMuchLostPercent ? "WARNING: much was lost: " : "lost: ";
  text += fmt::format("{:.2g}% of CPU time", percent);
  if (!names.empty()) text += fmt::format("; {}", names);
  return text + " (-v: what that means)\n";
}

// Columns by what they are of.
std::string NotMeasuredLine(const std::string& columns) {
  if (columns.empty() || columns == "nothing") return "";
  const auto has = [&](std::string_view column) {
    return (" " + columns + " ").find(fmt::format(" {} ", column)) != std::string::npos;
  };
  std::string rest = " " + columns + " ", text;
  const auto take = [&](std::initializer_list<std::string_view> names, std::string_view as) {
    if (!std::all_of(names.begin(), names.end(), has)) return;
    for (std::string_view name : names)
      if (const size_t at = rest.find(fmt::format(" {} ", name)); at != std::string::npos)
        rest.erase(at, name.size() + 1);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", as);
  };
  take({"cycles", "instructions", "llc_misses"}, "perf counters");
  take({"mbm_total_bytes", "mbm_local_bytes"}, "memory traffic");
  take({"llc_occupancy_bytes"}, "cache");
  take({"gpu_mem_bytes", "gpu_active_ns", "gpu_launches"}, "GPUs");
  take({"straggle", "throughput_drop_pct"}, "straggling");
  for (size_t at = 1; at < rest.size();) {
    const size_t end = rest.find(' ', at);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rest.substr(at, end - at));
    at = end + 1;
  }
  return fmt::format("not measured: {} (slotscope check: why)\n", text);
}

std::string AccountLine(const RunSummary& run) {
  const std::string text = IdentityText(run);
  return fmt::format("accounting: {}\n", text.starts_with("holds") ? "complete" : text);
}

std::string Details(const RunSummary& run) {
  std::string text;
  for (const Severity severity : {Severity::kLost, Severity::kNote})
    for (const Counter& counter : Counters()) {
      if (counter.severity != severity || !IsInScope(counter.scope, run.counts)) continue;
      if (const uint64_t nr = counter.of(run.counts))
        text += fmt::format("{}: {} {}: {}\n", severity == Severity::kLost ? "lost" : "note",
                            counter.name, nr, counter.meaning);
    }
  if (IsInScope(CountScope::kJoined, run.counts))
    text += fmt::format("joined: lines {}, messages {}, connections {}\n", run.counts.remote.nr_lines,
                        run.counts.joined.nr_joined, run.counts.remote.nr_connections);
  return text + fmt::format("identity {}\n", IdentityText(run));
}

// Of this run alone.
std::string Sentences(const RunSummary& run) {
  std::string text;
  const auto is_process = [](const Total& total) { return IsProcess(total.kind); };
  if (run.has_selection && std::none_of(run.totals.begin(), run.totals.end(), is_process))
    text +=
        "WARNING: no selected process ran (by pid, name, cgroup, pod, unit, or the\n"
        "command): everything is in one row 'other'\n";
  if (run.counts.nr_episodes)
    text += fmt::format("straggling: {} episodes (the table straggle says who ran instead)\n",
                        run.counts.nr_episodes);
  if (!run.input_cut.empty()) text += fmt::format("note: {}\n", run.input_cut);
  for (const std::string& note : run.notes) text += fmt::format("note: {}\n", note);
  return text;
}

}  // namespace

std::string SummaryText(const RunSummary& run, bool details) {
  const std::string pairs = PairLines(run.pairs);
  const std::string below = "\n" + SizeLine(run) + LossLine(run) + NotMeasuredLine(run.not_measured) +
                            Sentences(run) + AccountLine(run);
  const auto nr_lines = static_cast<size_t>(std::count(pairs.begin(), pairs.end(), '\n') +
                                            std::count(below.begin(), below.end(), '\n'));
  const size_t room = kSummaryLines - std::min(kSummaryLines, nr_lines);
  return pairs + GroupLines(run, room) + below + (details ? Details(run) : "");
}

}  // namespace slotscope
