// SPDX-License-Identifier: MIT
#include "cli/record_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/escape.h"
#include "cli/option_text.h"
#include "fleet/threshold_reader.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

constexpr uint64_t kMaxDurationS = 10 * 365 * 86400ull;

Status ParseSeconds(const std::string& text, uint64_t* ns) {
  double seconds = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (err != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) ||
      seconds < 0.001 || seconds > static_cast<double>(kMaxDurationS))
    return Usage(fmt::format("--duration {}: give a number of seconds, at least 0.001", text));
  *ns = static_cast<uint64_t>(seconds * 1e9);
  return {};
}

Status ParseFleet(const RecordTexts& texts, RecordOptions* record) {
  uint64_t number;
  if (!ParseNumber(texts.health_interval, 1, 300, &number))
    return Usage(
        fmt::format("--health-interval {}: give a number of seconds, 1 to 300", texts.health_interval));
  record->health_interval_ns = number * 1'000'000'000;
  if (!record->node_id.empty())
    if (Status status = CheckId("--node-id", record->node_id); !status.ok()) return status;
  if (Status status = CheckId("--cluster-id", record->cluster_id); !status.ok()) return status;
  if (record->fleet.empty()) return {};
  if (record->metrics.empty())
    return Usage("--fleet needs --metrics: Prometheus compares what it gets from there");
  if (record->gpu == GpuChoice::kOff)
    return Usage("--fleet requires CUDA tracing, which --gpu off turns off; leave one of them out");
  return CheckFleetUrl(record->fleet);
}

// Each detector that is asked for by name has its inputs.
Status ParseRecordDetect(const RecordTexts& texts, RecordOptions* record) {
  record->detect = !texts.detect.empty();
  const bool has_input = !record->fr_dir.empty() || !record->kmsg.empty() || !record->k8s_events.empty();
  if (!record->detect) {
    if (has_input || !record->verdicts.empty() || !texts.judge.empty())
      return Usage(
          "--fr-dir, --kmsg, --k8s-events, --verdicts, --config and thresholds require --detect");
    return {};
  }
  if (!has_input) {
    std::string needs;
    for (const Detector& detector : Detectors())
      needs += fmt::format("{}{} for {}", needs.empty() ? "" : "; ", NeededInputs(*detector.pattern),
                           detector.pattern->name);
    return Usage("--detect has nothing to follow: give " + needs);
  }
  if (Status status = ParseDetectors(texts.detect, &record->judge); !status.ok()) return status;
  const uint32_t given = (record->fr_dir.empty() ? 0 : kNeedsDumps) |
                         (record->kmsg.empty() ? 0 : kNeedsKernelLog) |
                         (record->k8s_events.empty() ? 0 : kNeedsKubernetes);
  for (const Detector& detector : Detectors()) {
    const Pattern& pattern = *detector.pattern;
    if (texts.detect != "all" && record->judge.IsOn(pattern) && (pattern.needs & ~given))
      return Usage(fmt::format("--detect {} needs {}", pattern.name, NeededInputs(pattern)));
  }
  return ParseJudge(texts.judge, &record->judge);
}

// straggle,xid,nccl_hang,wait=20ms.
Status ParseTriggers(const std::string& text, const RecordOptions& record, TriggerOptions* triggers) {
  constexpr std::string_view kWait = "wait=";
  for (const std::string& item : Split(text)) {
    std::string_view rest = item;
    uint64_t ms;
    if (item == "straggle")
      triggers->straggle = true;
    else if (item == "xid")
      triggers->xid = true;
    else if (item == "nccl_hang")
      triggers->nccl_hang = true;
    else if (rest.starts_with(kWait) && rest.ends_with("ms") &&
             ParseNumber(rest.substr(kWait.size(), rest.size() - kWait.size() - 2), 1, 3'600'000, &ms))
      triggers->wait_ns = ms * 1'000'000;
    else
      return Usage(
          fmt::format("--trigger {}: '{}' is not a trigger: give straggle, xid, nccl_hang or wait=20ms "
                      "(a number of ms)",
                      text, item));
  }
  if (!triggers->any()) return Usage("--trigger: give straggle, xid, nccl_hang or wait=20ms");
  if (!record.output.keep.any())
    return Usage("--trigger requires --keep: it keeps what --keep would remove");
  if (triggers->xid && (!record.detect || record.kmsg.empty()))
    return Usage("--trigger xid needs --detect and --kmsg");
  if (triggers->nccl_hang && (!record.detect || record.fr_dir.empty()))
    return Usage("--trigger nccl_hang needs --detect and --fr-dir");
  return {};
}

}  // namespace

po::options_description DescribeRecord(RecordTexts* texts, RecordOptions* record) {
  po::options_description kept("How long, and what is kept");
  kept.add_options()("duration", Text(&texts->duration, "S"),
                     "record S seconds (default: until Ctrl-C, or until COMMAND exits)")(
      "keep", Text(&texts->output.keep, "LIMITS"),
      "continue the recording that is there, and keep its newest part, within a time, a size, a share "
      "of the disk, or several of them: 24h, 10G, 10% or 24h,10G,10%")(
      "trigger", Text(&texts->trigger, "LIST"),
      "of what --keep keeps, keep for longer the minute before and the half minute after each of: "
      "straggle, xid, nccl_hang, "
      "wait=20ms (a process waited that long for a CPU); SIGUSR2 does the same")(
      "raw-table", po::bool_switch(&record->output.raw_table),
      "also keep what the kernel sent, for replay")("raw", Text(&record->raw, "FILE"),
                                                    "the same, as one file");
  po::options_description measured("What is measured, and at what cost");
  measured.add_options()("source", Text(&texts->source, "SOURCE"),
                         "auto (default), kmod (the kernel module) or bpf (no module)")(
      "gpu", Text(&texts->gpu, "WHEN"),
      "observe CUDA: auto (default: once a process uses it), on (or fail) or off")(
      "events", Text(&texts->events, "LIST"),
      fmt::format("perf counters, commas between them, each optionally =EVENT: {} (default: the first "
                  "three); or none",
                  CounterColumns())
          .c_str())(
      "no-waits", po::bool_switch(&texts->no_waits),
      "do not record why and when processes waited for a CPU; each switch then costs less")(
      "args", po::bool_switch(&record->arguments),
      "also keep the arguments of all processes, of which some hold secrets")(
      "rmids", Text(&texts->rmids, "N"), "RMIDs of the bpf source, 2 to 512 (default 512)")(
      "max-overhead", Text(&texts->max_overhead, "LIMIT"),
      "what the recording may cost: a share of all CPUs, a number of CPUs, or both (default 3%,2cpus); "
      "above that it measures less until it costs less; with ,stop it ends");
  po::options_description told("Who is told while it records");
  told.add_options()("metrics", Text(&record->metrics, "ADDRESS")->implicit_value(kMetricsAddress),
                     "metrics for Prometheus, over HTTP (--metrics=HOST:PORT; default 127.0.0.1:9464)")(
      "fleet", Text(&record->fleet, "URL"),
      "compare this node's health with its peers', by a Prometheus that gets our metrics and has our "
      "rules")("node-id", Text(&record->node_id, "NAME"),
               "this node's name among its peers (default: the host's name)")(
      "cluster-id", Text(&record->cluster_id, "NAME"),
      "name of the cluster, whose nodes are the peers (default: default)")(
      "health-interval", Text(&texts->health_interval, "S"),
      "seconds between two looks at the node's health (default 10)")(
      "remediate", Text(&record->remediate, "PATH")->implicit_value(kRemediateSocket),
      "serve GPU memory and straggling to a consumer on a Unix socket (--remediate=PATH; default "
      "/tmp/ingero-remediate.sock)")("remediate-group", Text(&record->remediate_group, "GROUP"),
                                     "let this group connect, too")(
      "join-remediate", Text(&record->join_remediate, "PATH"),
      "add the memory and straggling that another producer of that protocol reports");
  po::options_description detectors("Detectors beside it");
  detectors.add_options()("detect", Text(&texts->detect, "LIST")->implicit_value("all"),
                          fmt::format("run detectors while recording: {} (--detect=LIST; default all), "
                                      "on the inputs of the next three options",
                                      DetectorNames())
                              .c_str())("fr-dir", Text(&record->fr_dir, "FOLDER"),
                                        "where PyTorch's dumps will be, a file per rank")(
      "kmsg", Text(&record->kmsg, "FILE")->implicit_value("/dev/kmsg"),
      "a kernel log (--kmsg=FILE; default /dev/kmsg)")(
      "k8s-events", Text(&record->k8s_events, "FILE"),
      "a growing file of Kubernetes objects, such as kubectl get events -A -w -o json writes")(
      "verdicts", Text(&record->verdicts, "FILE"),
      "append verdicts to it, a JSON object per line; they are always printed, and noted in the "
      "recording");
  DescribeThresholds(&texts->judge, &detectors);
  po::options_description options;
  options.add(kept)
      .add(DescribeOutput(&texts->output, &record->output))
      .add(measured)
      .add(told)
      .add(detectors);
  return options;
}

// 3%, 2cpus, 3%,2cpus; each of them with ,stop.
Status ParseMaxOverhead(const std::string& text, OverheadLimit* limit) {
  const auto parse = [](std::string_view word, std::string_view unit, double min, double max,
                        double* to) {
    if (word.ends_with(unit)) word.remove_suffix(unit.size());
    double number = 0;
    auto [end, err] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (err != std::errc() || end != word.data() + word.size() || !(number >= min && number <= max))
      return false;
    *to = number;
    return true;
  };
  double percent = 0, cpus = 0;
  for (const std::string& word : Split(text)) {
    const bool is_cpus = word.ends_with("cpus");
    if (word == "stop" ? !std::exchange(limit->stops, true)
        : is_cpus      ? !cpus && parse(word, "cpus", 0.01, 10'000, &cpus)
                       : !percent && parse(word, "%", 0.1, 100, &percent))
      continue;
    return Usage(
        fmt::format("--max-overhead {}: give a percentage of all CPUs, 0.1 to 100, a number of CPUs, or "
                    "both, as 3%,2cpus; with ,stop the recording ends above it",
                    text));
  }
  if (!percent && !cpus) return {};  // the usual limit
  limit->percent = percent ? percent : 100;
  limit->cpus = cpus;
  return {};
}

Status ParseRecord(const RecordTexts& texts, RecordOptions* record) {
  record->waits = !texts.no_waits;
  if (texts.source == "auto")
    record->source = SourceChoice::kAuto;
  else if (texts.source == "kmod")
    record->source = SourceChoice::kKmod;
  else if (texts.source == "bpf")
    record->source = SourceChoice::kBpf;
  else
    return Usage(fmt::format("--source {}: the sources are auto, kmod and bpf", texts.source));
  if (texts.gpu == "auto")
    record->gpu = GpuChoice::kAuto;
  else if (texts.gpu == "on")
    record->gpu = GpuChoice::kOn;
  else if (texts.gpu == "off")
    record->gpu = GpuChoice::kOff;
  else
    return Usage(fmt::format("--gpu {}: give auto, on or off", texts.gpu));
  if (!record->remediate.empty() && record->gpu == GpuChoice::kOff)
    return Usage("--remediate requires CUDA tracing, which --gpu off turns off; leave one of them out");
  if (!record->metrics.empty())
    if (Status status = CheckMetrics(record->metrics); !status.ok()) return status;
  if (Status status = ParseFleet(texts, record); !status.ok()) return status;
  if (Status status = ParseRecordDetect(texts, record); !status.ok()) return status;
  if (!record->join_remediate.empty() && record->join_remediate == record->remediate)
    return Usage("--join-remediate and --remediate are one path: it would listen to itself");
  if (!record->remediate_group.empty() && record->remediate.empty())
    return Usage("--remediate-group requires --remediate");
  if (!texts.duration.empty())
    if (Status status = ParseSeconds(texts.duration, &record->duration_ns); !status.ok()) return status;
  uint64_t number;
  if (!ParseNumber(texts.rmids, 2, 512, &number))
    return Usage(fmt::format("--rmids {}: give a number from 2 to 512", texts.rmids));
  record->nr_rmids = static_cast<uint32_t>(number);
  if (!texts.max_overhead.empty())
    if (Status status = ParseMaxOverhead(texts.max_overhead, &record->max_overhead); !status.ok())
      return status;
  if (Status status = ParseOutput(texts.output, &record->output); !status.ok()) return status;
  if (record->output.raw_table && !record->raw.empty())
    return Usage("--raw and --raw-table keep the same: leave one of them out");
  if (record->output.raw_table && KindOf(record->output.path) != OutputKind::kFolder)
    return Usage(
        "--raw-table is for a recording, which is a folder: give another --output, or --raw FILE");
  if (!texts.trigger.empty())
    if (Status status = ParseTriggers(texts.trigger, *record, &record->output.triggers); !status.ok())
      return status;
  const std::vector<NamedFile> inputs = {{"what --kmsg reads", record->kmsg},
                                         {"what --k8s-events reads", record->k8s_events},
                                         {"what --config reads", texts.judge.config}};
  if (Status status = CheckNames(record->output, record->raw, record->verdicts, inputs); !status.ok())
    return status;
  return ParseCounterSpecs(texts.events, &record->counters);
}

}  // namespace slotscope
