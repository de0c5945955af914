// SPDX-License-Identifier: MIT
#include "run/counts.h"

#include <fmt/core.h>

#include <algorithm>

#include "run/engine.h"

namespace slotscope {
namespace {

using enum Severity;
using enum CountScope;
using Counts = const RunCounts&;

constexpr Counter kCounters[] = {
    {"slots", kNone, kAll, "slots", "slots that were finished",
     [](Counts run) { return run.accounting.nr_slots; }, ""},
    {"rows", kNone, kAll, "writer", "rows that were written", [](Counts run) { return run.nr_rows; },
     ""},
    {"messages", kNone, kAll, "merge", "valid messages from the kernel",
     [](Counts run) { return run.merge.nr_messages; }, ""},
    {"lost_records", kLost, kAll, "kernel", "records that found no room in a ring",
     [](Counts run) { return run.merge.nr_lost; }, "records"},
    {"output_errors", kLost, kAll, "eBPF", "messages that a program could not put into a ring",
     [](Counts run) { return run.losses.nr_output_errors; }, ""},
    {"skipped_runs", kLost, kAll, "kernel",
     "times that the kernel did not run a program because it ran already",
     [](Counts run) { return run.losses.nr_skipped_runs; }, ""},
    {"malformed_messages", kLost, kAll, "merge",
     "invalid messages: too short, or with impossible values",
     [](Counts run) { return run.merge.nr_malformed; }, "malformed"},
    {"unknown_messages", kNote, kAll, "merge", "messages of a type that this version does not know",
     [](Counts run) { return run.merge.nr_unknown; }, "unknown"},
    {"late_messages", kNote, kAll, "merge", "messages that came later than the window (--window)",
     [](Counts run) { return run.merge.nr_late; }, "late"},
    {"late_pieces", kLost, kAll, "slots", "pieces of CPU time that came when their slot was finished",
     [](Counts run) { return run.slots.nr_late_pieces; }, ""},
    {"late_state", kNote, kAll, "processes",
     "births, ends and names that came late: rows before them may lack a name",
     [](Counts run) { return run.tracker.nr_late; }, ""},
    {"seq_gaps", kNote, kAll, "slots", "gaps in the numbers of a CPU's messages",
     [](Counts run) { return run.slots.nr_seq_gaps; }, ""},
    {"missed_switches", kNote, kAll, "slots",
     "switches that the kernel hid from eBPF (some kernels shield a process): the time around them is "
     "in rows of kind lost, and the waits that they ended have no known cause",
     [](Counts run) { return run.slots.nr_missed_switches; }, ""},
    {"foreign_measures", kLost, kAll, "slots",
     "measures of CPUs that were not present at the start: they are in no row",
     [](Counts run) { return run.slots.nr_foreign; }, ""},
    {"missed_ticks", kNote, kAll, "slots", "ticks that a CPU did not have",
     [](Counts run) { return run.slots.nr_missed_ticks; }, ""},
    {"silent_cpus", kNote, kAll, "slots", "CPUs that were online and said nothing at the start",
     [](Counts run) { return run.slots.nr_unwatched; }, ""},
    {"stalls", kNote, kAll, "merge", "times that a CPU was not waited for any longer",
     [](Counts run) { return run.merge.nr_stalls; }, ""},
    {"lost_ns", kLost, kAll, "slots", "ns of CPU time in rows of kind lost: nobody knows whose it was",
     [](Counts run) { return run.accounting.lost_ns; }, ""},
    {"offline_ns", kNone, kAll, "slots", "ns in which a CPU was offline",
     [](Counts run) { return run.accounting.offline_ns; }, ""},
    {"untracked_processes", kLost, kAll, "kernel",
     "processes that found no room in the table: their rows have no start time",
     [](Counts run) { return run.losses.nr_untracked; }, ""},
    {"births_without_rmid", kNote, kAll, "kernel", "times that no RMID was free",
     [](Counts run) { return run.losses.nr_failed_allocs; }, ""},
    {"rmids_taken_back", kNote, kAll, "processes", "RMIDs that were taken back from who slept",
     [](Counts run) { return run.tracker.nr_taken_back; }, ""},
    {"untold_renames", kNote, kAll, "kernel",
     "renames that were not recorded: some process renames itself all the time; the name at the end of "
     "each ms is known",
     [](Counts run) { return run.losses.nr_untold_renames; }, "renames"},
    {"duplicate_allocs", kNote, kAll, "processes", "RMIDs that were given out while they were in use",
     [](Counts run) { return run.tracker.nr_duplicate_allocs; }, ""},
    {"unknown_frees", kNote, kAll, "processes", "RMIDs that came back from nobody",
     [](Counts run) { return run.tracker.nr_unknown_frees; }, ""},
    {"forgotten_processes", kNote, kAll, "processes",
     "processes whose end was not heard: a look at all processes did not find them any more",
     [](Counts run) { return run.tracker.nr_forgotten; }, ""},
    {"unwritten_slots", kLost, kAll, "writer",
     "slots that are not in the file (--max-size, or an error)",
     [](Counts run) { return run.nr_unwritten_slots; }, ""},

    {"unwritten_blocks", kLost, kRaw, "raw writer",
     "blocks that are not in the recording's raw stream: nor is what follows them, up to its next "
     "segment",
     [](Counts run) { return run.nr_unwritten_blocks; }, ""},
    {"incidents", kNone, kTriggered, "writer", "incidents: what is around them is kept for longer",
     [](Counts run) { return run.nr_incidents; }, ""},
    {"uncaptured_incidents", kNote, kTriggered, "writer",
     "incidents that keep nothing, and have no row in `events`: six an hour keep what is around them",
     [](Counts run) { return run.nr_uncaptured_incidents; }, ""},

    {"waits", kNone, kWaits, "slots", "waits of a thread that ended, or pieces of one that was moved",
     [](Counts run) { return run.waits.nr_waits; }, ""},
    {"summed_waits", kNote, kWaits, "slots",
     "sums of waits, of CPUs that switch very often: why is not known (wait_unknown_ns)",
     [](Counts run) { return run.waits.nr_sums; }, ""},
    {"hidden_waits", kNote, kWaits, "slots",
     "waits that a switch ended which the kernel kept from eBPF: when is not known (wait_unknown_ns)",
     [](Counts run) { return run.waits.nr_hidden; }, ""},
    {"phantom_waits", kNote, kWaits, "slots",
     "waits of threads that slept for some of the time, and were moved meanwhile (wait_unknown_ns)",
     [](Counts run) { return run.waits.nr_phantom; }, ""},
    {"unfolded_waits", kNote, kWaits, "slots",
     "pieces of waits that are not in the table `waits`, nor count for who ran longest: a slot has too "
     "many",
     [](Counts run) { return run.waits.nr_unfolded; }, ""},
    {"unplaced_waits", kNote, kWaits, "slots",
     "waits that came long before the first slot was known, and are in no slot",
     [](Counts run) { return run.waits.nr_unplaced; }, ""},

    {"rdt_samples", kNone, kRdt, "slots", "readings of RDT counters",
     [](Counts run) { return run.rdt.nr_samples; }, ""},
    {"late_rdt_samples", kLost, kRdt, "slots", "readings whose slots were finished",
     [](Counts run) { return run.rdt.nr_late; }, ""},
    {"unowned_rdt_samples", kLost, kRdt, "slots", "readings of an RMID that nobody is known to have had",
     [](Counts run) { return run.rdt.nr_unowned; }, ""},

    {"cuda_calls", kNone, kCuda, "GPU", "CUDA calls", [](Counts run) { return run.gpu.nr_calls; }, ""},
    {"lost_cuda_calls", kLost, kCuda, "eBPF",
     "CUDA calls that were not delivered: their process's memory is unknown from then on",
     [](Counts run) { return run.losses.nr_lost_calls; }, "cuda_calls"},
    {"late_cuda_looks", kNote, kCuda, "eBPF",
     "checks of a process that were delayed because some process maps files all the time, or ones that "
     "take long to read: a new user of CUDA may have been found a second late",
     [](Counts run) { return run.losses.nr_late_looks; }, ""},
    {"bypassed_cuda_calls", kLost, kCuda, "eBPF",
     "CUDA calls and returns that were not looked at, as the recorder gave no heartbeat",
     [](Counts run) { return run.losses.nr_bypassed_calls; }, ""},
    {"cuda_bypassed_ns", kNote, kCuda, "eBPF", "ns in which it gave none",
     [](Counts run) { return run.losses.bypassed_ns; }, ""},
    {"cuda_unprobed_ns", kLost, kUnprobed, "eBPF",
     "ns in which CUDA was not probed, as the recording cost too much (--max-overhead)",
     [](Counts run) { return run.losses.unprobed_ns; }, ""},
    {"malformed_cuda_calls", kNote, kCuda, "merge", "of malformed_messages: those of CUDA calls",
     [](Counts run) { return run.merge.nr_malformed_calls; }, ""},
    {"late_cuda_calls", kLost, kCuda, "GPU",
     "CUDA calls that count from when they came, as they were late",
     [](Counts run) { return run.gpu.nr_late; }, ""},
    {"unknown_cuda_frees", kNote, kCuda, "GPU", "frees of memory that was not seen being allocated",
     [](Counts run) { return run.gpu.nr_unknown_frees; }, ""},
    {"rejected_cuda_streams", kNote, kCuda, "GPU",
     "launches into more streams than are told apart: the process's activity is not known",
     [](Counts run) { return run.gpu.nr_rejected_streams; }, ""},
    {"rejected_cuda_threads", kNote, kCuda, "GPU", "calls of more threads than are told apart",
     [](Counts run) { return run.gpu.nr_rejected_threads; }, ""},
    {"dropped_gpu_spans", kNote, kCuda, "GPU", "spans that are not in --spans: too many in a slot",
     [](Counts run) { return run.gpu.nr_dropped_spans; }, ""},
    {"forced_kernel_spans", kNote, kCuda, "GPU",
     "spans of kernels that were ended by the number of launches, as nobody waited for them",
     [](Counts run) { return run.gpu.nr_forced_spans; }, ""},
    {"inactive_cuda_streams", kNote, kCuda, "GPU",
     "streams that were forgotten, as nothing came for long",
     [](Counts run) { return run.gpu.nr_inactive_streams; }, ""},
    {"straggle_episodes", kNone, kCuda, "straggling", "times that a process began to straggle",
     [](Counts run) { return run.nr_episodes; }, ""},
    {"unwatched_launcher_slots", kNote, kCuda, "straggling",
     "slots of processes beyond those that are watched for straggling",
     [](Counts run) { return run.nr_unwatched_launchers; }, ""},

    {"joined_messages", kNone, kJoined, "join", "messages of another producer that took effect",
     [](Counts run) { return run.joined.nr_joined; }, ""},
    {"late_joined_messages", kNote, kJoined, "join", "of these: later than they say",
     [](Counts run) { return run.joined.nr_late; }, ""},
    {"rejected_joined_messages", kNote, kJoined, "join", "messages for which there was no room",
     [](Counts run) { return run.joined.nr_rejected; }, ""},
    {"remote_lines", kNone, kJoined, "client", "lines from another producer",
     [](Counts run) { return run.remote.nr_lines; }, ""},
    {"ignored_remote_lines", kNone, kJoined, "client", "of these: of a type that is not joined",
     [](Counts run) { return run.remote.nr_ignored; }, ""},
    {"malformed_remote_lines", kNote, kJoined, "client", "of these: no message",
     [](Counts run) { return run.remote.nr_malformed; }, ""},
    {"too_long_remote_lines", kNote, kJoined, "client", "of these: too long",
     [](Counts run) { return run.remote.nr_too_long; }, ""},
    {"misdated_remote_messages", kNote, kJoined, "client",
     "messages whose time cannot be: they count from when they came",
     [](Counts run) { return run.remote.nr_misdated; }, ""},
    {"remote_connections", kNone, kJoined, "client", "connections to another producer",
     [](Counts run) { return run.remote.nr_connections; }, ""},
    {"failed_remote_connections", kNote, kJoined, "client", "of these: refused, or broken",
     [](Counts run) { return run.remote.nr_failed_connections; }, ""},
};

}  // namespace

RunCounts CountsOf(const Engine& engine) {
  RunCounts run;
  run.losses = engine.router().losses();
  run.merge = engine.merger().stats();
  run.accounting = engine.builder().accounting();
  run.tracker = engine.builder().tracker().stats();
  run.slots = engine.builder().stats();
  run.rdt = engine.builder().rdt();
  run.waits = engine.builder().waits();
  run.gpu = engine.gpu().stats();
  run.remote = engine.router().remote();
  run.joined = engine.remote().stats();
  run.nr_episodes = engine.straggle().nr_episodes();
  run.nr_unwatched_launchers = engine.straggle().nr_rejected();
  return run;
}

bool IsInScope(CountScope scope, const RunCounts& run) {
  switch (scope) {
    case kAll:
      return true;
    case kWaits:
      return run.waits.nr_waits > 0 || run.waits.nr_sums > 0;
    case kRdt:
      return run.rdt.nr_samples > 0;
    case kCuda:  // some calls, or none because all of them were lost, or may not have been seen
      return run.gpu.nr_calls || run.losses.nr_lost_calls || run.losses.bypassed_ns ||
             run.losses.nr_late_looks || run.merge.nr_malformed_calls;
    case kUnprobed:
      return run.losses.unprobed_ns > 0;
    case kRaw:
      return run.nr_unwritten_blocks > 0;
    case kTriggered:
      return run.nr_incidents > 0 || run.nr_uncaptured_incidents > 0;
    case kJoined:
      return run.remote != RemoteCounts();
    case kEnd:
      break;
  }
  return false;
}

std::span<const Counter> Counters() { return kCounters; }

bool HasLosses(const RunCounts& run) {
  return std::any_of(std::begin(kCounters), std::end(kCounters),
                     [&](const Counter& one) { return one.severity == kLost && one.of(run) > 0; });
}

std::string LossNames(const RunCounts& counts) {
  constexpr size_t kMaxNames = 5;
  std::string names;
  size_t nr = 0;
  for (const Counter& counter : Counters()) {
    if (counter.severity != Severity::kLost || !IsInScope(counter.scope, counts)) continue;
    const uint64_t of = counter.of(counts);
    if (of == 0 || counter.name == "lost_ns") continue;
    if (nr++ < kMaxNames) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", counter.name, of);
  }
  if (nr > kMaxNames) names += fmt::format(" and {} more", nr - kMaxNames);
  return names;
}

double LostPercent(const RunCounts& counts, size_t nr_cpus) {
  const Accounting& accounting = counts.accounting;
  const double time_ns = static_cast<double>(accounting.slots_ns) * static_cast<double>(nr_cpus);
  return time_ns > 0 ? 100 * static_cast<double>(accounting.lost_ns) / time_ns : 0;
}

}  // namespace slotscope
