// SPDX-License-Identifier: MIT
#include "run/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace slotscope {

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

}  // namespace slotscope
