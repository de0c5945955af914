// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string_view>

#include "base/escape.h"
#include "base/same_file.h"
#include "fleet/threshold_reader.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

struct VerbText {
  std::string_view name;
  std::string_view words;  // behind it
  std::string_view does;   // its lines
};

constexpr VerbText kVerbs[] = {
    {"record", "[options] [-- COMMAND [ARG...]]",
     "writes a row per process and millisecond to slots.csv, until Ctrl-C,\n"
     "for --duration, or until COMMAND exits (its rows, the rest folded into one)\n"},
    {"replay", "[options] FILE",
     "makes slots.csv again, from what record --raw FILE has kept; no root\n"},
    {"gen", "[options] FILE", "makes a raw FILE of a machine that does not exist, for tests\n"},
    {"rmids", "", "prints the RMID table of the kernel module\n"},
    {"gpu", "[FILE]",
     "prints the GPUs, the processes that use CUDA, and what can be seen of\n"
     "them; of a raw FILE: their memory, activity and leaks\n"},
    {"detect", "[--fr-dir FOLDER] [--kmsg FILE] [--k8s-events FILE] ...",
     "finds collectives that hang in the flight recorder's dumps of a job's\n"
     "ranks, and who holds them up; GPU errors that cost a pod its node; and\n"
     "why pods were evicted\n"},
};

std::string Synopsis(const VerbText& verb) {
  return fmt::format("slotscope {}{}{}", verb.name, verb.words.empty() ? "" : " ", verb.words);
}

// Of all verbs, in front of their options.
std::string Overview() {
  std::string text;
  for (const VerbText& verb : kVerbs)
    text += fmt::format("{} {}\n", text.empty() ? "Usage:" : "      ", Synopsis(verb));
  text += "       slotscope VERB --help | --help | --version\n\n";
  for (const VerbText& verb : kVerbs) {
    std::string_view name = verb.name;
    for (std::string_view rest = verb.does; !rest.empty(); name = "") {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      rest.remove_prefix(line.size());
      text += fmt::format("{:<9}{}", name, line);
    }
  }
  return text + "\n";
}

// Of one verb. REQUIRES: there is such a verb.
std::string HelpOf(std::string_view name, const po::options_description* description) {
  const VerbText& verb = *std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                       [&](const auto& one) { return one.name == name; });
  std::ostringstream text;
  text << "Usage: " << Synopsis(verb) << "\n\n" << name << ' ' << verb.does;
  if (description) text << "\n" << *description;
  return text.str();
}

constexpr uint64_t kMaxDurationS = 10 * 365 * 86400ull;

// What the program options library hands us; numbers are parsed here, where the message can say what
// was wrong with them.
struct RawOptions {
  // of what makes rows
  std::string slot = "1";
  std::string window = "64";
  std::string pid, comm, top, max_size;
  // of record
  std::string source = "auto";
  std::string gpu = "auto";
  std::string duration;
  std::string events = "cycles,instructions,llc_misses";
  std::string rmids = "512";
  std::string max_overhead = "3";
  std::string health_interval = "10";
  std::string detect;  // of record
  // of detect
  std::string as_of, nccl_hang_threshold, xid_correlation_window, config;
  std::string boot_time, year, zone = "local", format, ranks;
  bool json = false;
  // of gen, by name
  std::map<std::string, std::string> numbers;
};

Status Usage(std::string message) { return {Exit::kUsage, std::move(message)}; }

bool ParseNumber(std::string_view text, uint64_t min, uint64_t max, uint64_t* value) {
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return err == std::errc() && end == text.data() + text.size() && *value >= min && *value <= max;
}

Status ParseSeconds(const std::string& text, uint64_t* ns) {
  double seconds = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (err != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) ||
      seconds < 0.001 || seconds > static_cast<double>(kMaxDurationS))
    return Usage(fmt::format("--duration {}: give a number of seconds, at least 0.001", text));
  *ns = static_cast<uint64_t>(seconds * 1e9);
  return {};
}

// 100, 64K, 10M, 2G.
Status ParseSize(const std::string& text, uint64_t* bytes) {
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift) digits.remove_suffix(1);
  }
  constexpr uint64_t kMin = 64u << 10;
  if (!ParseNumber(digits, 1, UINT64_MAX >> 31, bytes) || (*bytes << shift) < kMin)
    return Usage(fmt::format("--max-size {}: give a size of at least 64K, such as 500M or 2G", text));
  *bytes <<= shift;
  return {};
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

Status ParseFilters(const RawOptions& raw, FoldOptions* fold) {
  for (const std::string& item : Split(raw.pid)) {
    uint64_t pid;
    if (!ParseNumber(item, 1, 4194304, &pid))
      return Usage(fmt::format("--pid {}: '{}' is not a process id", raw.pid, item));
    fold->tgids.push_back(static_cast<int32_t>(pid));
  }
  fold->comms = Split(raw.comm);
  if (!raw.pid.empty() && fold->tgids.empty())
    return Usage(fmt::format("--pid {}: there is no process id in it", raw.pid));
  if (!raw.comm.empty() && fold->comms.empty())
    return Usage(fmt::format("--comm {}: there is no name in it", raw.comm));
  for (const std::string& comm : fold->comms)
    if (comm.size() >= SS_COMM_LEN)
      return Usage(fmt::format("--comm {}: the kernel cuts names at 15 bytes; give '{}'", comm,
                               comm.substr(0, SS_COMM_LEN - 1)));
  uint64_t top = 0;
  if (!raw.top.empty() && !ParseNumber(raw.top, 1, 100'000, &top))
    return Usage(fmt::format("--top {}: give a number of processes, at least 1", raw.top));
  fold->top = top;
  return {};
}

Status ParseOutput(const RawOptions& raw, OutputOptions* output) {
  uint64_t number;
  if (!ParseNumber(raw.slot, 1, 1000, &number))
    return Usage(
        fmt::format("--slot {}: give the length of a slot in milliseconds, 1 to 1000", raw.slot));
  output->slot_ns = number * 1'000'000;
  if (!ParseNumber(raw.window, 2, 10'000, &number))
    return Usage(fmt::format("--window {}: give a number of milliseconds, 2 to 10000", raw.window));
  output->window_ns = number * 1'000'000;
  if (!raw.max_size.empty())
    if (Status status = ParseSize(raw.max_size, &output->max_size); !status.ok()) return status;
  if (output->path.empty()) return Usage("--output: give a file name");
  return ParseFilters(raw, &output->fold);
}

struct NamedFile {
  const char* name;  // an option, or what the file is
  std::string path;  // empty: none
};

// No file is written twice, and none that is read is overwritten.
Status CheckNames(const OutputOptions& output, const std::string& raw, const std::string& verdicts,
                  const std::vector<NamedFile>& inputs) {
  const NamedFile outputs[] = {{"--raw", raw},
                               {"--verdicts", verdicts},
                               {"--spans", output.spans},
                               {"--gpu-csv", output.gpu_csv},
                               {"--straggle", output.straggle},
                               {"--output", output.path}};
  const auto is_same = [](const NamedFile& a, const NamedFile& b) {
    return !a.path.empty() && !b.path.empty() && IsSameFile(a.path, b.path);
  };
  for (const NamedFile& one : outputs) {
    for (const NamedFile* other = &one + 1; other != std::end(outputs); other++)
      if (is_same(one, *other))
        return Usage(fmt::format("{} and {} are both {}: give two names", one.name, other->name,
                                 EscapeName(one.path)));
    for (const NamedFile& input : inputs)
      if (is_same(one, input))
        return Usage(fmt::format("{} {} would overwrite {}: give another name", one.name,
                                 EscapeName(one.path), input.name));
  }
  return {};
}

// A host's name, which is resolved; or an IPv4 address, as the name of no host is all digits.
bool IsHost(const std::string& host) {
  in_addr address;
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return true;
  return host.find_first_not_of("0123456789.") != host.npos &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) || c == '.' || c == '-' || c == '_');
         });
}

// PORT or HOST:PORT.
Status CheckMetrics(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = colon == text.npos ? "127.0.0.1" : text.substr(0, colon);
  uint64_t port;
  if (ParseNumber(colon == text.npos ? text : text.substr(colon + 1), 1, 65535, &port) && IsHost(host))
    return {};
  return Usage(
      fmt::format("--metrics {}: give a PORT of the loopback interface, or HOST:PORT, where HOST is a "
                  "name or an IPv4 address of this machine (0.0.0.0: all of them)",
                  EscapeName(text)));
}

// Names become labels, and part of questions.
Status CheckId(const char* option, const std::string& id) {
  constexpr size_t kMaxId = 253;  // of a DNS name
  if (!id.empty() && id.size() <= kMaxId &&
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return {};
  return Usage(fmt::format("{} {}: give 1 to {} printable ASCII characters without blanks", option,
                           EscapeControls(id), kMaxId));
}

Status ParseFleet(const RawOptions& raw, RecordOptions* record) {
  uint64_t number;
  if (!ParseNumber(raw.health_interval, 1, 300, &number))
    return Usage(
        fmt::format("--health-interval {}: give a number of seconds, 1 to 300", raw.health_interval));
  record->health_interval_ns = number * 1'000'000'000;
  if (!record->node_id.empty())
    if (Status status = CheckId("--node-id", record->node_id); !status.ok()) return status;
  if (Status status = CheckId("--cluster-id", record->cluster_id); !status.ok()) return status;
  if (record->fleet.empty()) return {};
  if (record->metrics.empty())
    return Usage("--fleet needs --metrics: Prometheus compares what it gets from there");
  if (record->gpu == GpuChoice::kOff)
    return Usage("--fleet needs what --gpu off does not observe; leave one of them out");
  return CheckFleetUrl(record->fleet);
}

// 300, 300s, 5m, 1h. Whole seconds, at least one.
Status ParseThreshold(const char* name, const std::string& text, int64_t* ns) {
  std::string_view digits = text;
  uint64_t unit = 1, number;
  if (!digits.empty() && (digits.back() == 's' || digits.back() == 'm' || digits.back() == 'h')) {
    unit = digits.back() == 's' ? 1 : digits.back() == 'm' ? 60 : 3600;
    digits.remove_suffix(1);
  }
  constexpr uint64_t kMaxSeconds = 1'000'000;
  if (!ParseNumber(digits, 1, kMaxSeconds / unit, &number))
    return Usage(fmt::format("{} {}: give a number of seconds, at least 1, such as 300 or 5m", name,
                             EscapeControls(text)));
  *ns = static_cast<int64_t>(number * unit) * 1'000'000'000;
  return {};
}

// A threshold of a detector: by a line of the configuration, or by an option, which goes before.
struct Threshold {
  std::string key;
  std::string option;
  std::string given;  // with the option
  int64_t* ns;
};

Status ReadConfig(const std::string& path, std::span<const Threshold> thresholds) {
  const std::string name = fmt::format("--config {}", EscapeControls(path));
  std::map<std::string, std::string> values;
  po::options_description keys;
  for (const Threshold& one : thresholds)
    keys.add_options()(one.key.c_str(), po::value(&values[one.key]));
  std::ifstream file(path);
  if (!file) return Usage(fmt::format("{}: cannot open it", name));
  try {
    po::variables_map variables;
    po::store(po::parse_config_file(file, keys), variables);
    po::notify(variables);
  } catch (const po::error& error) {
    return Usage(fmt::format("{}: {}; it has nccl_hang_threshold = S and xid_correlation_window = S",
                             name, EscapeControls(error.what())));
  }
  for (const Threshold& one : thresholds) {
    const std::string& value = values[one.key];
    if (value.empty()) continue;
    const std::string line = fmt::format("{}: {}", name, one.key);
    if (Status status = ParseThreshold(line.c_str(), value, one.ns); !status.ok()) return status;
  }
  return {};
}

Status ParseJudge(const RawOptions& raw, JudgeOptions* judge) {
  const Threshold thresholds[] = {{"nccl_hang_threshold", "--nccl-hang-threshold",
                                   raw.nccl_hang_threshold, &judge->nccl_hang.threshold_ns},
                                  {"xid_correlation_window", "--xid-correlation-window",
                                   raw.xid_correlation_window, &judge->xid_window_ns}};
  if (!raw.config.empty())
    if (Status status = ReadConfig(raw.config, thresholds); !status.ok()) return status;
  for (const Threshold& one : thresholds) {
    if (one.given.empty()) continue;
    if (Status status = ParseThreshold(one.option.c_str(), one.given, one.ns); !status.ok())
      return status;
  }
  return {};
}

Status ParseDetectors(const std::string& text, DetectorSet* set) {
  if (text.empty() || text == "all") return {};
  *set = {false, false, false};
  for (const std::string& item : Split(text)) {
    if (item == "nccl_hang")
      set->nccl_hang = true;
    else if (item == "xid_correlation")
      set->xid_correlation = true;
    else if (item == "pod_evicted")
      set->pod_evicted = true;
    else
      return Usage(
          fmt::format("--detect {}: there is no '{}', but nccl_hang, xid_correlation and "
                      "pod_evicted",
                      EscapeControls(text), EscapeControls(item)));
  }
  if (!set->nccl_hang && !set->xid_correlation && !set->pod_evicted)
    return Usage(fmt::format("--detect {}: there is no detector in it", EscapeControls(text)));
  return {};
}

// Each detector that is asked for by name has its inputs.
Status ParseRecordDetect(RawOptions* raw, RecordOptions* record) {
  record->detect = !raw->detect.empty();
  const bool has_input = !record->fr_dir.empty() || !record->kmsg.empty() || !record->k8s_events.empty();
  if (!record->detect) {
    if (has_input || !record->verdicts.empty() || !raw->config.empty() ||
        !raw->nccl_hang_threshold.empty() || !raw->xid_correlation_window.empty())
      return Usage(
          "--fr-dir, --kmsg, --k8s-events, --verdicts, --config and thresholds are of no use "
          "without --detect");
    return {};
  }
  if (!has_input)
    return Usage(
        "--detect has nothing to follow: give --fr-dir FOLDER (for nccl_hang), --k8s-events FILE (for "
        "pod_evicted), or --k8s-events FILE and --kmsg FILE (for xid_correlation)");
  DetectorSet& set = record->judge.detectors;
  if (Status status = ParseDetectors(raw->detect, &set); !status.ok()) return status;
  if (raw->detect != "all") {
    if (set.nccl_hang && record->fr_dir.empty()) return Usage("--detect nccl_hang needs --fr-dir");
    if (set.xid_correlation && (record->kmsg.empty() || record->k8s_events.empty()))
      return Usage("--detect xid_correlation needs --kmsg and --k8s-events");
    if (set.pod_evicted && record->k8s_events.empty())
      return Usage("--detect pod_evicted needs --k8s-events");
  }
  return ParseJudge(*raw, &record->judge);
}

Status ParseRecord(RawOptions* from, RecordOptions* record) {
  const RawOptions& raw = *from;
  if (raw.source == "auto")
    record->source = SourceChoice::kAuto;
  else if (raw.source == "kmod")
    record->source = SourceChoice::kKmod;
  else if (raw.source == "bpf")
    record->source = SourceChoice::kBpf;
  else
    return Usage(fmt::format("--source {}: the sources are auto, kmod and bpf", raw.source));
  if (raw.gpu == "auto")
    record->gpu = GpuChoice::kAuto;
  else if (raw.gpu == "on")
    record->gpu = GpuChoice::kOn;
  else if (raw.gpu == "off")
    record->gpu = GpuChoice::kOff;
  else
    return Usage(fmt::format("--gpu {}: give auto, on or off", raw.gpu));
  if (!record->remediate.empty() && record->gpu == GpuChoice::kOff)
    return Usage("--remediate needs what --gpu off does not observe; leave one of them out");
  if (!record->metrics.empty())
    if (Status status = CheckMetrics(record->metrics); !status.ok()) return status;
  if (Status status = ParseFleet(raw, record); !status.ok()) return status;
  if (Status status = ParseRecordDetect(from, record); !status.ok()) return status;
  if (!record->join_remediate.empty() && record->join_remediate == record->remediate)
    return Usage("--join-remediate and --remediate are one path: it would listen to itself");
  if (!record->remediate_group.empty() && record->remediate.empty())
    return Usage("--remediate-group is of no use without --remediate");
  if (!raw.duration.empty())
    if (Status status = ParseSeconds(raw.duration, &record->duration_ns); !status.ok()) return status;
  uint64_t number;
  if (!ParseNumber(raw.rmids, 2, 512, &number))
    return Usage(fmt::format("--rmids {}: give a number from 2 to 512", raw.rmids));
  record->nr_rmids = static_cast<uint32_t>(number);
  double& percent = record->max_overhead_percent;
  const std::string& text = raw.max_overhead;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (err != std::errc() || end != text.data() + text.size() || !(percent >= 0.1 && percent <= 100))
    return Usage(fmt::format("--max-overhead {}: give a percentage of all CPUs, 0.1 to 100", text));
  if (Status status = ParseOutput(raw, &record->output); !status.ok()) return status;
  const std::vector<NamedFile> inputs = {{"what --kmsg reads", record->kmsg},
                                         {"what --k8s-events reads", record->k8s_events},
                                         {"what --config reads", raw.config}};
  if (Status status = CheckNames(record->output, record->raw, record->verdicts, inputs); !status.ok())
    return status;
  return ParseCounterSpecs(raw.events, &record->counters);
}

po::typed_value<std::string>* Text(std::string* value, const char* name) {
  return po::value<std::string>(value)->value_name(name);
}

po::options_description DescribeOutput(RawOptions* raw, OutputOptions* output) {
  po::options_description options("Options of record and replay");
  options.add_options()("output,o", Text(&output->path, "FILE"),
                        "default slots.csv; FILE.part until it is complete")(
      "slot", Text(&raw->slot, "MS"), "length of a slot in milliseconds (default 1)")(
      "window", Text(&raw->window, "MS"), "how long a slot waits for late data (default 64)")(
      "pid", Text(&raw->pid, "LIST"), "keep these processes, fold the others into one row 'other'")(
      "comm", Text(&raw->comm, "LIST"), "keep the processes of these names")(
      "top", Text(&raw->top, "N"), "keep the N processes with the most cpu time of each slot")(
      "all", po::bool_switch(&output->all), "keep all, also where a COMMAND is or was recorded")(
      "spans", Text(&output->spans, "FILE"),
      "also what GPUs did, span by span: as CSV, or for Perfetto if FILE ends in .pftrace")(
      "gpu-csv", Text(&output->gpu_csv, "FILE"), "also what was done on each GPU, slot by slot")(
      "straggle", Text(&output->straggle, "FILE"),
      "also who straggles, and who took the CPU from it, a JSON object per second and line")(
      "max-size", Text(&raw->max_size, "BYTES"), "stop before the file is larger (K, M, G)")(
      "strict", po::bool_switch(&output->strict), "exit with 10 if any data was lost")("help,h",
                                                                                       "this text");
  return options;
}

// Of detect, and of record --detect.
void DescribeThresholds(RawOptions* raw, po::options_description* options) {
  options->add_options()(
      "nccl-hang-threshold", Text(&raw->nccl_hang_threshold, "S"),
      "seconds (or 5m) after which a collective hangs, at least 1 (default 300), or its "
      "own timeout if that is less")(
      "xid-correlation-window", Text(&raw->xid_correlation_window, "S"),
      "seconds within which an eviction follows an Xid, at least 1 (default 60)")(
      "config", Text(&raw->config, "FILE"),
      "lines of nccl_hang_threshold = S and xid_correlation_window = S; options go before");
}

po::options_description DescribeRecord(RawOptions* raw, RecordOptions* record) {
  po::options_description options("Options of record");
  options.add_options()("source", Text(&raw->source, "SOURCE"),
                        "auto (default), kmod (the kernel module) or bpf (no module)")(
      "gpu", Text(&raw->gpu, "WHEN"),
      "observe CUDA: auto (default: once a process uses it), on (or fail) or off")(
      "duration", Text(&raw->duration, "S"), "record S seconds")(
      "raw", Text(&record->raw, "FILE"), "also keep what the kernel sent, for replay")(
      "events", Text(&raw->events, "LIST"),
      "counters, commas between them: cycles, instructions, llc_misses (default: all three), each "
      "optionally =EVENT; or none")(
      "max-overhead", Text(&raw->max_overhead, "PCT"),
      "what the recording may cost, in % of all CPUs; above it steps down, then stops (default 3)")(
      "remediate", Text(&record->remediate, "PATH")->implicit_value(kRemediateSocket),
      "serve GPU memory and straggling to a consumer on a Unix socket (--remediate=PATH; default "
      "/tmp/ingero-remediate.sock)")("remediate-group", Text(&record->remediate_group, "GROUP"),
                                     "let this group connect, too")(
      "join-remediate", Text(&record->join_remediate, "PATH"),
      "join what another producer of that protocol says of memory and straggling")(
      "metrics", Text(&record->metrics, "ADDRESS")->implicit_value(kMetricsAddress),
      "metrics for Prometheus, over HTTP (--metrics=HOST:PORT; default 127.0.0.1:9464)")(
      "fleet", Text(&record->fleet, "URL"),
      "compare this node's health with its peers', by a Prometheus that gets our metrics and has our "
      "rules")("node-id", Text(&record->node_id, "NAME"),
               "of this node, among its peers (default: the host's name)")(
      "cluster-id", Text(&record->cluster_id, "NAME"), "whose nodes are peers (default: default)")(
      "health-interval", Text(&raw->health_interval, "S"),
      "seconds between two looks at the node's health (default 10)")(
      "detect", Text(&raw->detect, "LIST")->implicit_value("all"),
      "run detectors beside the recording: nccl_hang, xid_correlation, pod_evicted (--detect=LIST; "
      "default "
      "all) on what the next three follow")("fr-dir", Text(&record->fr_dir, "FOLDER"),
                                            "where PyTorch's dumps will be, a file per rank")(
      "kmsg", Text(&record->kmsg, "FILE")->implicit_value("/dev/kmsg"),
      "a kernel log (--kmsg=FILE; default /dev/kmsg)")(
      "k8s-events", Text(&record->k8s_events, "FILE"),
      "to which Kubernetes' objects are added, such as by kubectl get events -A -w -o json")(
      "verdicts", Text(&record->verdicts, "FILE"),
      "verdicts are added to it, a JSON object per line; they are said and noted in any case")(
      "rmids", Text(&raw->rmids, "N"), "RMIDs of the bpf source, 2 to 512 (default 512)");
  DescribeThresholds(raw, &options);
  return options;
}

// A number of gen: its name, where it goes, and what it may be.
struct GenNumber {
  const char* name;
  uint64_t GeneratorOptions::*member;
  uint64_t min, max;
  const char* help;
};
constexpr GenNumber kGenNumbers[] = {
    {"seed", &GeneratorOptions::seed, 0, UINT64_MAX, "another seed, another run (default 1)"},
    {"cpus", &GeneratorOptions::nr_cpus, 1, 1024, "CPUs (default 2)"},
    {"missing-cpus", &GeneratorOptions::nr_missing_cpus, 0, 1023, "of these, present but never online"},
    {"milliseconds", &GeneratorOptions::duration_ms, 1, 86'400'000, "how long it runs (default 1000)"},
    {"processes", &GeneratorOptions::nr_processes, 1, 1'000'000, "alive at a time (default 200)"},
    {"kthreads", &GeneratorOptions::nr_kthreads, 0, 10'000, "kernel threads (default 8)"},
    {"rmids", &GeneratorOptions::nr_rmids, 2, SS_RMID_CAPACITY, "RMIDs (default 512)"},
    {"switches", &GeneratorOptions::switches_per_s, 1, 1'000'000, "per second and CPU (default 5000)"},
    {"births", &GeneratorOptions::births_per_s, 0, 1'000'000, "and deaths per second (default 100)"},
    {"tick-jitter", &GeneratorOptions::tick_jitter_ns, 0, 900'000,
     "ns behind the border (default 20000)"},
    {"lost", &GeneratorOptions::lost_ppm, 0, 1'000'000, "records lost, per million"},
    {"inverted", &GeneratorOptions::inverted_ppm, 0, 1'000'000, "written a little later, per million"},
    {"late", &GeneratorOptions::late_ppm, 0, 1'000'000, "written much later, per million"},
    {"malformed", &GeneratorOptions::malformed_ppm, 0, 1'000'000, "records with nonsense, per million"},
    {"unknown", &GeneratorOptions::unknown_ppm, 0, 1'000'000,
     "measures with a missed switch, per million"},
    {"stalls", &GeneratorOptions::stalls_per_s, 0, 1000, "times per second the collector stands still"},
    {"cpu-stalls", &GeneratorOptions::cpu_stalls_per_s, 0, 1000, "times one ring is not drained"},
    {"hotplugs", &GeneratorOptions::hotplugs_per_s, 0, 1000, "times a CPU goes away and comes back"},
    {"l3-domains", &GeneratorOptions::nr_l3_domains, 0, 1024,
     "with RDT counters each; 0: no RDT (default)"},
    {"rdt-skipped", &GeneratorOptions::rdt_skipped_ppm, 0, 1'000'000,
     "counters not read in a tick, per million"},
    {"rdt-failed", &GeneratorOptions::rdt_failed_ppm, 0, 1'000'000,
     "reads without a value, per million"},
    {"clock-steps", &GeneratorOptions::clock_steps_per_s, 0, 1000, "steps of the wall clock per second"},
};

po::options_description DescribeGenerate(RawOptions* raw, GeneratorOptions* generator) {
  po::options_description options("Options of gen");
  for (const GenNumber& number : kGenNumbers)
    options.add_options()(number.name, Text(&raw->numbers[number.name], "N"), number.help);
  options.add_options()("wrap", po::bool_switch(&generator->wrap),
                        "sequence numbers, generations and counters wrap")(
      "no-counters", po::bool_switch(&generator->no_counters), "as on a machine without a PMU");
  return options;
}

Status ParseGenerate(const RawOptions& raw, GeneratorOptions* generator) {
  for (const GenNumber& number : kGenNumbers) {
    const std::string& text = raw.numbers.at(number.name);
    if (!text.empty() && !ParseNumber(text, number.min, number.max, &(generator->*number.member)))
      return Usage(fmt::format("--{} {}: give a number from {} to {}", number.name, text, number.min,
                               number.max));
  }
  if (generator->nr_missing_cpus >= generator->nr_cpus)
    return Usage("--missing-cpus: at least one CPU must be there");
  if (generator->nr_l3_domains > generator->nr_cpus) return Usage("--l3-domains: each must have a CPU");
  return {};
}

// Parses a verb's `words` by `description`. Words that belong to no option go to *rest.
Status ParseWords(const std::string& verb, const std::vector<std::string>& words,
                  const po::options_description& description, std::vector<std::string>* rest,
                  bool* help) {
  try {
    namespace style = po::command_line_style;
    po::variables_map variables;
    po::options_description all;
    all.add(description).add_options()("stray", po::value(rest));
    auto parsed = po::command_line_parser(words)
                      .options(all)
                      .positional(po::positional_options_description().add("stray", -1))
                      .style(style::unix_style & ~style::allow_guessing)
                      .run();
    po::store(parsed, variables);
    po::notify(variables);
    for (const auto& [name, value] : variables)
      if (const auto* text = boost::any_cast<std::string>(&value.value());
          text && text->empty() && name != "help")
        return Usage(fmt::format("--{}: the value is empty; give one, or leave the option out", name));
    *help = variables.count("help");
  } catch (const po::error& error) {
    // The library puts the words into its message where it finds %name%, also into those words: for
    // ever.
    for (const std::string& word : words)
      if (word.find('%') != std::string::npos)
        return Usage(fmt::format(
            "there is an option that does not exist, or one without its value; see slotscope {} --help",
            verb));
    return Usage(fmt::format("{}; see slotscope {} --help", error.what(), verb));
  }
  return {};
}

po::options_description DescribeDetect(RawOptions* raw, DetectOptions* detect) {
  po::options_description options("Options of detect");
  options.add_options()("fr-dir", Text(&detect->paths.fr_dir, "FOLDER"),
                        "PyTorch's dumps, a file per rank (such as nccl_trace_rank_0), pickles or JSON")(
      "kmsg", Text(&detect->paths.kmsg, "FILE"),
      "a kernel log: as /dev/kmsg, dmesg or journalctl (also -o json) give it; - is the standard input")(
      "k8s-events", Text(&detect->paths.k8s_events, "FILE"),
      "Events, Nodes and Pods, as kubectl get -o json or a watch give them")(
      "otlp-logs", Text(&detect->paths.otlp_logs, "FILE"),
      "log records of OpenTelemetry, as its collector's file exporter writes them")(
      "slots", Text(&detect->slots, "FILE"),
      "slots.csv of a recording of this host, for what it saw of the ranks that hang")(
      "raw", Text(&detect->raw, "FILE"), "the same from a raw file (record --raw)")(
      "ranks", Text(&raw->ranks, "LIST"),
      "which processes the ranks are in that recording, if it does not say so: 0=4711,1=4712")(
      "as-of", Text(&raw->as_of, "TIME"),
      "when the dumps were written: Unix seconds, or 2026-11-22T08:30:00Z (default: when the shortest "
      "timeout of what is in flight had passed)")(
      "boot-time", Text(&raw->boot_time, "TIME"),
      "when the machine of the kernel log was booted, for lines that count from there")(
      "year", Text(&raw->year, "YEAR"),
      "of the kernel log's first line, if lines do not say it (default: by the file's last change)")(
      "tz", Text(&raw->zone, "ZONE"), "of times that do not say it: +02:00, UTC, or local (default)")(
      "node-id", Text(&detect->node_id, "NAME"),
      "of kernel log lines that do not say of which node they are (default: the host's name)")(
      "format", Text(&raw->format, "FORMAT"),
      "text (for people), json (a verdict per line) or otlp (a log record per line); default: text in a "
      "terminal, else json")("json", po::bool_switch(&raw->json), "the same as --format json")(
      "demo", po::bool_switch(&detect->demo), "show one of each, of made-up inputs");
  DescribeThresholds(raw, &options);
  return options;
}

// Unix seconds, or the date and time with its zone.
bool ParseTime(const std::string& text, int64_t* unix_ns) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (!(seconds > 0 && seconds < 9e9)) return false;
    *unix_ns = static_cast<int64_t>(seconds * 1e9);
    return true;
  }
  const auto moment = ParseTimestamp(text);
  if (!moment) return false;
  *unix_ns = moment->begin_ns;
  return *unix_ns > 0;
}

Status ParseLogTimes(const RawOptions& raw, LogTimeOptions* times) {
  constexpr const char* kForms = "give Unix seconds, or a time as in 2026-11-22T08:30:00Z";
  int64_t unix_ns;
  if (!raw.boot_time.empty()) {
    if (!ParseTime(raw.boot_time, &unix_ns))
      return Usage(fmt::format("--boot-time {}: {}", EscapeControls(raw.boot_time), kForms));
    times->boot_ns = unix_ns;
  }
  uint64_t year;
  if (!raw.year.empty()) {
    if (!ParseNumber(raw.year, 1990, 2200, &year))
      return Usage(fmt::format("--year {}: give a year, such as 2026", EscapeControls(raw.year)));
    times->year = static_cast<int>(year);
  }
  const auto zone = TimeZone::Parse(raw.zone);
  if (!zone) return Usage(fmt::format("--tz {}: give +02:00, UTC or local", EscapeControls(raw.zone)));
  times->zone = *zone;
  return {};
}

Status ParseRanks(const std::string& text, std::vector<RankNote>* ranks) {
  for (const std::string& item : Split(text)) {
    const size_t equals = item.find('=');
    uint64_t rank, tgid;
    if (equals == item.npos || !ParseNumber(item.substr(0, equals), 0, 10'000'000, &rank) ||
        !ParseNumber(item.substr(equals + 1), 1, 4194304, &tgid))
      return Usage(fmt::format("--ranks {}: give ranks and process ids, such as 0=4711,1=4712",
                               EscapeControls(text)));
    ranks->push_back({static_cast<int32_t>(rank), static_cast<int32_t>(tgid), ""});
  }
  return {};
}

Status ParseHost(const RawOptions& raw, DetectOptions* detect) {
  const bool has_host = !detect->slots.empty() || !detect->raw.empty();
  if (!detect->slots.empty() && !detect->raw.empty())
    return Usage("--slots and --raw are two recordings; give one");
  if (has_host && detect->paths.fr_dir.empty() && detect->paths.otlp_logs.empty())
    return Usage("--slots and --raw are about ranks; give --fr-dir, too");
  if (!raw.ranks.empty() && !has_host) return Usage("--ranks is of no use without --slots or --raw");
  return ParseRanks(raw.ranks, &detect->ranks);
}

Status ParseDetect(RawOptions* raw, DetectOptions* detect) {
  const DetectPaths& paths = detect->paths;
  const std::string* const inputs[] = {&paths.fr_dir, &paths.kmsg, &paths.k8s_events, &paths.otlp_logs};
  size_t nr_given = 0, nr_stdin = 0;
  for (const std::string* input : inputs) {
    nr_given += !input->empty();
    nr_stdin += *input == "-";
  }
  if (detect->demo && nr_given) return Usage("--demo has its own inputs; leave the others out");
  if (!detect->demo && !nr_given)
    return Usage(
        "detect: say what to look at: --fr-dir, --kmsg, --k8s-events or --otlp-logs; or see "
        "detect --demo");
  if (nr_stdin > 1) return Usage("detect: only one input can be - (the standard input)");
  if (!detect->node_id.empty())
    if (Status status = CheckId("--node-id", detect->node_id); !status.ok()) return status;
  if (raw->format == "otlp")
    detect->format = VerdictFormat::kOtlp;
  else if (raw->format == "text")
    detect->format = VerdictFormat::kStory;
  else if (raw->format == "json")
    detect->format = VerdictFormat::kJson;
  else if (!raw->format.empty())
    return Usage(fmt::format("--format {}: give text, json or otlp", EscapeControls(raw->format)));
  if (raw->json && detect->format != VerdictFormat::kAuto && detect->format != VerdictFormat::kJson)
    return Usage("--json and --format are two formats; give one");
  if (raw->json) detect->format = VerdictFormat::kJson;
  if (Status status = ParseJudge(*raw, &detect->judge); !status.ok()) return status;
  if (Status status = ParseLogTimes(*raw, &detect->times); !status.ok()) return status;
  if (Status status = ParseHost(*raw, detect); !status.ok()) return status;
  if (raw->as_of.empty()) return {};
  int64_t unix_ns;
  if (!ParseTime(raw->as_of, &unix_ns))
    return Usage(fmt::format("--as-of {}: give Unix seconds, or a time as in 2026-11-22T08:30:00Z",
                             EscapeControls(raw->as_of)));
  detect->as_of_ns = unix_ns;
  return {};
}

// replay and gen: one file.
Status TakeFile(const char* verb, const std::vector<std::string>& rest, std::string* path) {
  if (rest.size() != 1 || rest[0].empty())
    return Usage(fmt::format("{} wants one file, and got {}", verb, rest.size()));
  *path = rest[0];
  return {};
}

Status TakeCommand(std::vector<std::string>* words, std::vector<std::string>* command) {
  for (size_t i = 0; i < words->size(); i++) {
    if ((*words)[i] != "--") continue;
    command->assign(words->begin() + static_cast<ptrdiff_t>(i) + 1, words->end());
    words->resize(i);
    if (command->empty()) return Usage("there is no command after --");
    break;
  }
  return {};
}

}  // namespace

Status ParseOptions(int argc, char** argv, Options* options) {
  RawOptions raw;
  po::options_description of_record = DescribeRecord(&raw, &options->record);
  of_record.add(DescribeOutput(&raw, &options->record.output));
  po::options_description of_replay = DescribeOutput(&raw, &options->replay.output);
  po::options_description of_gen = DescribeGenerate(&raw, &options->generate.generator);
  po::options_description of_detect = DescribeDetect(&raw, &options->detect);
  std::ostringstream help;
  help << Overview() << of_record << "\n" << of_detect << "\n" << of_gen;
  options->help = help.str();
  of_gen.add_options()("help,h", "this text");
  of_detect.add_options()("help,h", "this text");

  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return Usage("say what to do: slotscope record, or slotscope --help");
  const std::string verb = words[0];
  words.erase(words.begin());
  std::vector<std::string> rest;
  bool wants_help = false;
  const auto show_help = [&](const po::options_description* description) {
    options->help = HelpOf(verb, description);
    return Status();
  };
  if (verb == "--help" || verb == "-h" || verb == "help") return {};
  if (verb == "--version") {
    options->verb = Options::Verb::kShowVersion;
    return {};
  }
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if ((verb == "rmids" || verb == "gpu") && std::any_of(words.begin(), words.end(), is_help))
    return show_help(nullptr);
  if (verb == "rmids") {
    if (!words.empty()) return Usage(fmt::format("rmids takes no '{}'", words[0]));
    options->verb = Options::Verb::kRmids;
    return {};
  }
  if (verb == "gpu") {
    options->verb = Options::Verb::kGpu;
    for (const std::string& word : words)
      if (word.starts_with("-"))
        return Usage(fmt::format("gpu has no option '{}'; see slotscope gpu --help", word));
    if (words.size() > 1)
      return Usage(fmt::format("gpu takes one file at most, and got {}", words.size()));
    if (!words.empty() && words[0].empty()) return Usage("gpu: the file's name is empty");
    if (!words.empty()) options->gpu.path = words[0];
    return {};
  }
  if (verb == "record") {
    if (Status status = TakeCommand(&words, &options->record.command); !status.ok()) return status;
    if (Status status = ParseWords(verb, words, of_record, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_record);
    if (!rest.empty())
      return Usage(fmt::format("'{}' is no option; to record a command write: slotscope record -- {}",
                               rest[0], rest[0]));
    options->verb = Options::Verb::kRecord;
    return ParseRecord(&raw, &options->record);
  }
  if (verb == "replay") {
    if (Status status = ParseWords(verb, words, of_replay, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_replay);
    options->verb = Options::Verb::kReplay;
    if (Status status = TakeFile("replay", rest, &options->replay.path); !status.ok()) return status;
    if (Status status = ParseOutput(raw, &options->replay.output); !status.ok()) return status;
    return CheckNames(options->replay.output, "", "", {{"what is replayed", options->replay.path}});
  }
  if (verb == "gen") {
    if (Status status = ParseWords(verb, words, of_gen, &rest, &wants_help); !status.ok()) return status;
    if (wants_help) return show_help(&of_gen);
    options->verb = Options::Verb::kGenerate;
    if (Status status = TakeFile("gen", rest, &options->generate.path); !status.ok()) return status;
    return ParseGenerate(raw, &options->generate.generator);
  }
  if (verb == "detect") {
    if (Status status = ParseWords(verb, words, of_detect, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_detect);
    if (!rest.empty())
      return Usage(fmt::format("detect takes no '{}'; see slotscope detect --help", rest[0]));
    options->verb = Options::Verb::kDetect;
    return ParseDetect(&raw, &options->detect);
  }
  return Usage(fmt::format("there is no '{}'; see slotscope --help", verb));
}

}  // namespace slotscope
