// SPDX-License-Identifier: MIT
#include "cli/summary.h"

#include <fmt/format.h>

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

std::string Ipc(const Total& total) {
  uint32_t need = 1u << kCycles | 1u << kInstructions;
  if ((total.unmeasured & need) || total.sums[kCycles] == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(total.sums[kInstructions]) /
                                   static_cast<double>(total.sums[kCycles]));
}

double CpuTimeNs(const RunSummary& run) {
  return static_cast<double>(run.accounting.nr_slots) * static_cast<double>(run.slot_ns) *
         static_cast<double>(run.nr_cpus);
}

}  // namespace

RunSummary Summarize(const Engine& engine) {
  const Merger& merger = engine.merger();
  const SlotBuilder& builder = engine.builder();
  RunSummary run;
  run.losses = merger.losses();
  run.merge = merger.stats();
  run.accounting = builder.accounting();
  run.tracker = builder.tracker().stats();
  run.rdt = builder.rdt();
  run.gpu = engine.gpu().stats();
  run.remote = merger.remote();
  run.joined = engine.remote().stats();
  run.nr_episodes = engine.straggle().nr_episodes();
  run.nr_unwatched_launchers = engine.straggle().nr_rejected();
  run.nr_late_pieces = builder.nr_late_pieces();
  run.nr_seq_gaps = builder.nr_seq_gaps();
  run.nr_foreign = builder.nr_foreign();
  run.nr_unknown = builder.nr_unknown();
  run.nr_missed_ticks = builder.nr_missed_ticks();
  run.nr_unwatched = builder.nr_unwatched();
  run.late_notes = builder.late_notes();
  run.slot_ns = builder.slot_ns();
  run.nr_cpus = builder.nr_cpus();
  return run;
}

bool HasLosses(const RunSummary& run) {
  return run.merge.nr_lost || run.merge.nr_malformed || run.losses.nr_output_errors ||
         run.losses.nr_skipped_runs || run.losses.nr_untracked || run.losses.nr_lost_calls ||
         run.losses.nr_bypassed_calls || run.gpu.nr_late || run.accounting.lost_ns ||
         run.nr_late_pieces || run.rdt.nr_late || run.rdt.nr_unowned || run.nr_unwritten_slots ||
         run.nr_foreign || !run.input_cut.empty();
}

namespace {

// Some, or none because all of them were lost.
bool HasCalls(const RunSummary& run) {
  return run.gpu.nr_calls || run.losses.nr_lost_calls || run.losses.bypassed_ns ||
         run.merge.nr_malformed_calls;
}

std::string MbmText(const MbmAccounting& mbm, size_t i) {
  return fmt::format("received {} {} written {} + late {} + before {} + after {} + unowned {}",
                     mbm.received[i], mbm.Holds(i) ? "=" : "!=", mbm.written[i], mbm.late[i],
                     mbm.before[i], mbm.after[i], mbm.unowned[i]);
}

}  // namespace

std::string IdentityText(const RunSummary& run) {
  const Accounting& a = run.accounting;
  if (a.nr_slots == 0) return "nothing to check: no full slot was recorded";
  if (a.nr_broken_slots)
    return fmt::format("BROKEN: in {} of {} slots the rows' cpu_ns do not add up to {} ns x {} CPUs",
                       a.nr_broken_slots, a.nr_slots, run.slot_ns, run.nr_cpus);
  for (size_t i = 0; i < kNrAdditive; i++)
    if (a.received[i] != a.written[i] + a.late[i] + a.before[i] + a.after[i])
      return fmt::format("BROKEN: {} received {} != written {} + late {} + before {} + after {}",
                         kAdditiveNames[i], a.received[i], a.written[i], a.late[i], a.before[i],
                         a.after[i]);
  for (size_t i = 0; i < kNrMbm; i++)
    if (!a.mbm.Holds(i)) return fmt::format("BROKEN: {} {}", kRdtValueNames[i], MbmText(a.mbm, i));
  return fmt::format(
      "holds: {} slots x {} ns x {} CPUs = cpu_ns of all rows; cpu_ns received {} = written {} + late "
      "{} + before {} + "
      "after {}, and so for switches, waits{} and counters",
      a.nr_slots, run.slot_ns, run.nr_cpus, a.received[kCpuNs], a.written[kCpuNs], a.late[kCpuNs],
      a.before[kCpuNs], a.after[kCpuNs], run.rdt.nr_samples ? ", memory traffic" : "");
}

HeaderLines SummaryLines(const RunSummary& run) {
  const Accounting& a = run.accounting;
  HeaderLines lines;
  auto number = [&](const char* key, uint64_t value) { lines.emplace_back(key, std::to_string(value)); };
  number("slots", a.nr_slots);
  number("rows", run.nr_rows);
  number("messages", run.merge.nr_messages);
  number("lost_records", run.merge.nr_lost);
  number("output_errors", run.losses.nr_output_errors);
  number("skipped_runs", run.losses.nr_skipped_runs);
  number("malformed_messages", run.merge.nr_malformed);
  number("unknown_messages", run.merge.nr_unknown);
  number("late_messages", run.merge.nr_late);
  number("late_pieces", run.nr_late_pieces);
  number("late_state", run.tracker.nr_late);
  number("seq_gaps", run.nr_seq_gaps);
  number("missed_switches", run.nr_unknown);
  number("foreign_measures", run.nr_foreign);
  number("missed_ticks", run.nr_missed_ticks);
  number("silent_cpus", run.nr_unwatched);
  number("stalls", run.merge.nr_stalls);
  number("lost_ns", a.lost_ns);
  number("offline_ns", a.offline_ns);
  number("untracked_processes", run.losses.nr_untracked);
  number("births_without_rmid", run.losses.nr_failed_allocs);
  number("rmids_taken_back", run.tracker.nr_taken_back);
  number("untold_renames", run.losses.nr_untold_renames);
  number("duplicate_allocs", run.tracker.nr_duplicate_allocs);
  number("unknown_frees", run.tracker.nr_unknown_frees);
  number("forgotten_processes", run.tracker.nr_forgotten);
  number("unwritten_slots", run.nr_unwritten_slots);
  for (size_t i = 0; i < kNrAdditive; i++)
    lines.emplace_back(fmt::format("account {}", kAdditiveNames[i]),
                       fmt::format("received {} = written {} + late {} + before {} + after {}",
                                   a.received[i], a.written[i], a.late[i], a.before[i], a.after[i]));
  if (run.rdt.nr_samples > 0) {
    number("rdt_samples", run.rdt.nr_samples);
    number("late_rdt_samples", run.rdt.nr_late);
    number("unowned_rdt_samples", run.rdt.nr_unowned);
    for (size_t i = 0; i < kNrMbm; i++)
      lines.emplace_back(fmt::format("account {}", kRdtValueNames[i]), MbmText(a.mbm, i));
  }
  if (HasCalls(run)) {
    number("cuda_calls", run.gpu.nr_calls);
    number("lost_cuda_calls", run.losses.nr_lost_calls);
    number("late_cuda_looks", run.losses.nr_late_looks);
    number("bypassed_cuda_calls", run.losses.nr_bypassed_calls);
    number("cuda_bypassed_ns", run.losses.bypassed_ns);
    number("malformed_cuda_calls", run.merge.nr_malformed_calls);
    number("late_cuda_calls", run.gpu.nr_late);
    number("unknown_cuda_frees", run.gpu.nr_unknown_frees);
    number("rejected_cuda_streams", run.gpu.nr_rejected_streams);
    number("rejected_cuda_threads", run.gpu.nr_rejected_threads);
    number("dropped_gpu_spans", run.gpu.nr_dropped_spans);
    number("forced_kernel_spans", run.gpu.nr_forced_spans);
    number("inactive_cuda_streams", run.gpu.nr_inactive_streams);
    number("straggle_episodes", run.nr_episodes);
    number("unwatched_launcher_slots", run.nr_unwatched_launchers);
  }
  if (run.remote != RemoteCounts()) {
    number("joined_messages", run.joined.nr_joined);
    number("late_joined_messages", run.joined.nr_late);
    number("rejected_joined_messages", run.joined.nr_rejected);
    number("remote_lines", run.remote.nr_lines);
    number("ignored_remote_lines", run.remote.nr_ignored);
    number("malformed_remote_lines", run.remote.nr_malformed);
    number("too_long_remote_lines", run.remote.nr_too_long);
    number("misdated_remote_messages", run.remote.nr_misdated);
    number("remote_connections", run.remote.nr_connections);
    number("failed_remote_connections", run.remote.nr_failed_connections);
  }
  for (const std::string& note : run.late_notes) lines.emplace_back("note", note);
  for (const std::string& text : {run.input_error, run.input_cut})
    if (!text.empty()) lines.emplace_back("note", text);
  lines.emplace_back("identity", IdentityText(run));
  return lines;
}

std::string SummaryTable(const RunSummary& run) {
  std::string text;
  auto out = std::back_inserter(text);
  double whole_ns = CpuTimeNs(run);
  fmt::format_to(out, "{:>8} {:<17} {:<10} {:>10} {:>6} {:>9} {:>9} {:>10} {:>6}\n", "TGID", "COMM",
                 "KIND", "CPU ms", "CPU%", "SWITCHES", "PREEMPTED", "WAIT ms", "IPC");
  size_t shown = 0, hidden = 0;
  for (const Total& total : run.totals) {
    bool process = IsProcess(total.kind);
    if (process && shown >= kShownProcesses) {
      hidden++;
      continue;
    }
    shown += process;
    double percent = whole_ns > 0 ? 100.0 * static_cast<double>(total.sums[kCpuNs]) / whole_ns : 0;
    fmt::format_to(out, "{:>8} {:<17} {:<10} {:>10} {:>6.1f} {:>9} {:>9} {:>10} {:>6}\n",
                   process ? std::to_string(total.key.tgid) : "-", NameOf(total),
                   kRowKindNames[static_cast<size_t>(total.kind)], Millis(total, kCpuNs), percent,
                   Count(total, kSwitches), Count(total, kPreemptions), Millis(total, kWaitNs),
                   Ipc(total));
  }
  if (hidden) fmt::format_to(out, "{:>8} and {} more processes\n", "", hidden);
  const MergeStats& merge = run.merge;
  std::string rate;
  if (run.elapsed_s > 0)
    rate = fmt::format(" ({:.0f}/s)", static_cast<double>(merge.nr_messages) / run.elapsed_s);
  fmt::format_to(out, "\nslots {}, rows {}, messages {}{}, missed ticks {}\n", run.accounting.nr_slots,
                 run.nr_rows, merge.nr_messages, rate, run.nr_missed_ticks);
  fmt::format_to(out,
                 "lost: records {}, output errors {}, skipped runs {}, missed switches {}, "
                 "malformed {}, unknown {}; "
                 "time {:.3f} ms of {:.0f} ms\n",
                 merge.nr_lost, run.losses.nr_output_errors, run.losses.nr_skipped_runs, run.nr_unknown,
                 merge.nr_malformed, merge.nr_unknown, static_cast<double>(run.accounting.lost_ns) / 1e6,
                 whole_ns / 1e6);
  fmt::format_to(out, "late: messages {}, pieces {}, state {}\n", merge.nr_late, run.nr_late_pieces,
                 run.tracker.nr_late);
  if (HasCalls(run))
    fmt::format_to(out,
                   "GPU: CUDA calls {}, lost {}, malformed {}, late {}, frees of unknown memory {}\n",
                   run.gpu.nr_calls, run.losses.nr_lost_calls, run.merge.nr_malformed_calls,
                   run.gpu.nr_late, run.gpu.nr_unknown_frees);
  if (run.losses.nr_late_looks)
    fmt::format_to(
        out,
        "note: some process maps files all the time: processes that began to use CUDA may have "
        "been found a second late ({} looks were put off)\n",
        run.losses.nr_late_looks);
  if (run.nr_episodes)
    fmt::format_to(out, "straggling: episodes {} (--straggle FILE says who took the CPU)\n",
                   run.nr_episodes);
  if (run.remote != RemoteCounts())
    fmt::format_to(
        out,
        "joined: lines {}, messages {}, late {}, rejected {}; ignored {}, malformed {}, too long {}, "
        "misdated {}; connections {}\n",
        run.remote.nr_lines, run.joined.nr_joined, run.joined.nr_late, run.joined.nr_rejected,
        run.remote.nr_ignored, run.remote.nr_malformed, run.remote.nr_too_long, run.remote.nr_misdated,
        run.remote.nr_connections);
  if (run.losses.bypassed_ns)
    fmt::format_to(out, "watchdog: no heartbeat for {:.3f} s, CUDA calls and returns not observed {}\n",
                   static_cast<double>(run.losses.bypassed_ns) / 1e9, run.losses.nr_bypassed_calls);
  if (run.losses.nr_failed_allocs || run.losses.nr_untracked || run.tracker.nr_taken_back)
    fmt::format_to(
        out,
        "RMIDs: {} times none was free, {} were taken back from who slept, {} processes found "
        "no room in the table\n",
        run.losses.nr_failed_allocs, run.tracker.nr_taken_back, run.losses.nr_untracked);
  if (run.losses.nr_untold_renames)
    fmt::format_to(
        out,
        "note: {} renames were not recorded: some process renames itself all the time; its name is "
        "brought up to date now and then\n",
        run.losses.nr_untold_renames);
  if (run.nr_unknown)
    fmt::format_to(
        out,
        "note: the kernel kept {} switches from eBPF (some kernels shield a process); the time around "
        "them is in rows of kind lost\n",
        run.nr_unknown);
  if (!run.input_cut.empty()) fmt::format_to(out, "note: {}\n", run.input_cut);
  if (run.nr_foreign)
    fmt::format_to(
        out, "note: {} measures are of CPUs that were not present at the start; they are in no row\n",
        run.nr_foreign);
  for (const std::string& note : run.notes) fmt::format_to(out, "note: {}\n", note);
  fmt::format_to(out, "identity {}\n", IdentityText(run));
  return text;
}

}  // namespace slotscope
