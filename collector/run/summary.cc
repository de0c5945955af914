// SPDX-License-Identifier: MIT
#include "run/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/escape.h"

namespace slotscope {
namespace {

constexpr size_t kShownProcesses = 12;

std::string NameOf(const Total& total) {
  switch (total.kind) {
    case RowKind::kIdle:
      return "[idle]";
    case RowKind::kLost:
      return "[lost]";
    case RowKind::kOffline:
      return "[offline]";
    case RowKind::kOther:
      return "[other]";
    default:
      break;
  }
  std::string name = EscapeName(CommText(total.comm));
  return name.empty() ? "?" : name;
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

// "share0 (4711)".
std::string NameOf(const ProcessKey& key, const Comm& comm) {
  const std::string name = EscapeName(CommText(comm));
  return name.empty() ? fmt::format("process {}", key.tgid) : fmt::format("{} ({})", name, key.tgid);
}

std::string Ipc(const Total& total) {
  uint32_t need = 1u << kCycles | 1u << kInstructions;
  if ((total.unmeasured & need) || total.sums[kCycles] == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(total.sums[kInstructions]) /
                                   static_cast<double>(total.sums[kCycles]));
}

double CpuTimeNs(const RunSummary& run) {
  return static_cast<double>(run.counts.accounting.slots_ns) * static_cast<double>(run.nr_cpus);
}

}  // namespace

RunSummary Summarize(const Engine& engine) {
  RunSummary run;
  run.counts = CountsOf(engine);
  run.late_notes = engine.builder().late_notes();
  run.slot_ns = engine.builder().slot_ns();
  run.nr_cpus = engine.builder().nr_cpus();
  run.nr_more = engine.builder().nr_more();
  return run;
}

namespace {

std::string AccountText(const Accounting& a, size_t i) {
  const uint64_t sum = a.written[i] + a.earlier(i) + a.late[i] + a.before[i] + a.after[i];
  return fmt::format("{}received {} {} written {}{} + late {} + before {} + after {}",
                     a.received[i] == sum ? "" : fmt::format("{} ", kAdditiveNames[i]), a.received[i],
                     a.received[i] == sum ? "=" : "!=", a.written[i],
                     a.earlier(i) ? fmt::format(" + earlier {}", a.earlier(i)) : "", a.late[i],
                     a.before[i], a.after[i]);
}

std::string MbmText(const MbmAccounting& mbm, size_t i) {
  return fmt::format("received {} {} written {} + late {} + before {} + after {} + unowned {}",
                     mbm.received[i], mbm.Holds(i) ? "=" : "!=", mbm.written[i], mbm.late[i],
                     mbm.before[i], mbm.after[i], mbm.unowned[i]);
}

std::string MoreText(const MoreAccounting& more, size_t i) {
  return fmt::format("received {} {} written {} + late {} + before {} + after {}",
                     more.received[i].delta, more.Holds(i) ? "=" : "!=", more.written[i].delta,
                     more.late[i].delta, more.before[i].delta, more.after[i].delta);
}

std::string PairLines(const std::vector<PairTotal>& pairs) {
  if (pairs.empty()) return "";
  std::string text = "Who kept whom waiting for a CPU, the longest:\n";
  for (const PairTotal& pair : pairs)
    text += fmt::format("{:>10.1f} ms  {} waited while {} ran\n", static_cast<double>(pair.ns) / 1e6,
                        NameOf(pair.waiter, pair.waiter_comm), NameOf(pair.ran, pair.ran_comm));
  return text + "\n";
}

// Of a slot.
std::string LengthText(const RunSummary& run) {
  const Accounting& a = run.counts.accounting;
  if (a.slots_ns == a.nr_slots * run.slot_ns) return fmt::format("{} ns", run.slot_ns);
  return fmt::format("their lengths (in sum {} ns)", a.slots_ns);
}

}  // namespace

std::string IdentityText(const RunSummary& run) {
  const Accounting& a = run.counts.accounting;
  if (a.nr_slots == 0) return "nothing to check: no full slot was recorded";
  if (a.nr_broken_slots)
    return fmt::format("BROKEN: in {} of {} slots the rows' cpu_ns do not add up to {} x {} CPUs",
                       a.nr_broken_slots, a.nr_slots, LengthText(run), run.nr_cpus);
  if (a.nr_broken_waits)
    return fmt::format("BROKEN: in {} rows the causes of waiting do not add up to wait_ns",
                       a.nr_broken_waits);
  for (size_t i = 0; i < kNrAdditive; i++)
    if (a.received[i] != a.written[i] + a.earlier(i) + a.late[i] + a.before[i] + a.after[i])
      return fmt::format("BROKEN: {}", AccountText(a, i));
  for (size_t i = 0; i < kNrMbm; i++)
    if (!a.mbm.Holds(i))
      return fmt::format("BROKEN: {} {}", ColumnName(RowPart::kRdt, i), MbmText(a.mbm, i));
  for (size_t i = 0; i < SS_MAX_MORE; i++)
    if (!a.more.Holds(i))
      return fmt::format("BROKEN: {} {}", ColumnName(RowPart::kMore, i), MoreText(a.more, i));
  return fmt::format(
      "holds: {} slots x {} x {} CPUs = cpu_ns of all rows; cpu_ns received {} = written {} + late "
      "{} + before {} + "
      "after {}, and so for switches, waits{} and counters",
      a.nr_slots, LengthText(run), run.nr_cpus, a.received[kCpuNs], a.written[kCpuNs], a.late[kCpuNs],
      a.before[kCpuNs], a.after[kCpuNs], run.counts.rdt.nr_samples ? ", memory traffic" : "");
}

HeaderLines SummaryLines(const RunSummary& run) {
  const Accounting& a = run.counts.accounting;
  HeaderLines lines;
  // Behind the counters of each scope its accounts.
  for (auto scope = CountScope::kAll; scope != CountScope::kEnd;
       scope = static_cast<CountScope>(static_cast<uint8_t>(scope) + 1)) {
    if (!IsInScope(scope, run.counts)) continue;
    for (const Counter& counter : Counters())
      if (counter.scope == scope)
        lines.emplace_back(counter.name, std::to_string(counter.of(run.counts)));
    for (size_t i = 0; scope == CountScope::kAll && i < kNrAdditive; i++)
      lines.emplace_back(fmt::format("account {}", kAdditiveNames[i]), AccountText(a, i));
    for (size_t i = 0; scope == CountScope::kAll && i < run.nr_more; i++)
      lines.emplace_back(fmt::format("account {}", ColumnName(RowPart::kMore, i)), MoreText(a.more, i));
    for (size_t i = 0; scope == CountScope::kRdt && i < kNrMbm; i++)
      lines.emplace_back(fmt::format("account {}", ColumnName(RowPart::kRdt, i)), MbmText(a.mbm, i));
  }
  for (const std::string& note : run.late_notes) lines.emplace_back("note", note);
  for (const std::string& text : {run.input_error, run.input_cut})
    if (!text.empty()) lines.emplace_back("note", text);
  lines.emplace_back("identity", IdentityText(run));
  return lines;
}

HeaderLines CountsSoFar(const RunCounts& counts) {
  HeaderLines lines = {{"counted", "since the recording began; it goes on in the next segment"}};
  for (const Counter& counter : Counters())
    if (IsInScope(counter.scope, counts))
      lines.emplace_back(counter.name, std::to_string(counter.of(counts)));
  return lines;
}

std::string SummaryTable(const RunSummary& run) {
  std::string text = PairLines(run.pairs);
  auto out = std::back_inserter(text);
  double whole_ns = CpuTimeNs(run);
  fmt::format_to(out, "{:>7} {:<15} {:<10} {:>8} {:>5} {:>8} {:>7} {:>8} {:>4}\n", "TGID", "COMM",
                 "KIND", "CPU ms", "CPU%", "SWITCHES", "PREEMPT", "WAIT ms", "IPC");
  size_t shown = 0, hidden = 0;
  for (const Total& total : run.totals) {
    bool process = IsProcess(total.kind);
    if (process && shown >= kShownProcesses) {
      hidden++;
      continue;
    }
    shown += process;
    double percent = whole_ns > 0 ? 100.0 * static_cast<double>(total.sums[kCpuNs]) / whole_ns : 0;
    fmt::format_to(out, "{:>7} {:<15} {:<10} {:>8} {:>5.1f} {:>8} {:>7} {:>8} {:>4}\n",
                   process ? std::to_string(total.key.tgid) : "-", NameOf(total),
                   kRowKindNames[static_cast<size_t>(total.kind)], Millis(total, kCpuNs), percent,
                   Count(total, kSwitches), Count(total, kPreemptions), Millis(total, kWaitNs),
                   Ipc(total));
  }
  if (hidden) fmt::format_to(out, "{:>7} and {} more processes\n", "", hidden);
  const RunCounts& counts = run.counts;
  std::string rate;
  if (run.elapsed_s > 0)
    rate = fmt::format(" ({:.0f}/s)", static_cast<double>(counts.merge.nr_messages) / run.elapsed_s);
  fmt::format_to(out, "\nslots {}, rows {}, messages {}{}, CPU time {:.0f} ms, of it lost {:.3f} ms\n",
                 counts.accounting.nr_slots, counts.nr_rows, counts.merge.nr_messages, rate,
                 whole_ns / 1e6, static_cast<double>(counts.accounting.lost_ns) / 1e6);
  for (const Severity severity : {Severity::kLost, Severity::kNote}) {
    bool any = false;
    for (const Counter& counter : Counters()) {
      if (counter.severity != severity || !IsInScope(counter.scope, counts)) continue;
      if (const uint64_t nr = counter.of(counts)) {
        fmt::format_to(out, "{}: {} {}: {}\n", severity == Severity::kLost ? "lost" : "note",
                       counter.name, nr, counter.meaning);
        any = true;
      }
    }
    if (severity == Severity::kLost && !any) text += "lost: nothing\n";
  }
  if (IsInScope(CountScope::kCuda, counts))
    fmt::format_to(out, "GPU: CUDA calls {}\n", counts.gpu.nr_calls);
  if (counts.nr_episodes)
    fmt::format_to(
        out, "straggling: episodes {} (the table straggle, or --straggle FILE, says who ran instead)\n",
        counts.nr_episodes);
  if (IsInScope(CountScope::kJoined, counts))
    fmt::format_to(out, "joined: lines {}, messages {}, connections {}\n", counts.remote.nr_lines,
                   counts.joined.nr_joined, counts.remote.nr_connections);
  if (!run.input_cut.empty()) fmt::format_to(out, "note: {}\n", run.input_cut);
  for (const std::string& note : run.notes) fmt::format_to(out, "note: {}\n", note);
  if (!run.not_measured.empty() && run.not_measured != "nothing")
    fmt::format_to(out, "not measured: {} (slotscope check says why)\n", run.not_measured);
  fmt::format_to(out, "identity {}\n", IdentityText(run));
  return text;
}

}  // namespace slotscope
