// SPDX-License-Identifier: MIT
#include "cli/detect_parser.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <vector>

#include "base/escape.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

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

Status ParseLogTimes(const DetectTexts& texts, LogTimeOptions* times) {
  constexpr const char* kForms = "give Unix seconds, or a time as in 2026-11-22T08:30:00Z";
  int64_t unix_ns;
  if (!texts.boot_time.empty()) {
    if (!ParseTime(texts.boot_time, &unix_ns))
      return Usage(fmt::format("--boot-time {}: {}", EscapeControls(texts.boot_time), kForms));
    times->boot_ns = unix_ns;
  }
  uint64_t year;
  if (!texts.year.empty()) {
    if (!ParseNumber(texts.year, 1990, 2200, &year))
      return Usage(fmt::format("--year {}: give a year, such as 2026", EscapeControls(texts.year)));
    times->year = static_cast<int>(year);
  }
  const auto zone = TimeZone::Parse(texts.zone);
  if (!zone) return Usage(fmt::format("--tz {}: give +02:00, UTC or local", EscapeControls(texts.zone)));
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

Status ParseHost(const DetectTexts& texts, DetectOptions* detect) {
  const bool has_host = !detect->host.slots.empty() || !detect->host.raw.empty();
  if (!detect->host.slots.empty() && !detect->host.raw.empty())
    return Usage("--slots and --raw are two recordings; give one");
  if (has_host && detect->paths.fr_dir.empty() && detect->paths.otlp_logs.empty())
    return Usage("--slots and --raw are about ranks; give --fr-dir, too");
  if (!texts.ranks.empty() && !has_host) return Usage("--ranks requires --slots or --raw");
  return ParseRanks(texts.ranks, &detect->host.ranks);
}

}  // namespace

po::options_description DescribeDetect(DetectTexts* texts, DetectOptions* detect) {
  po::options_description options("Options of detect");
  options.add_options()("fr-dir", Text(&detect->paths.fr_dir, "FOLDER"),
                        "PyTorch's dumps, a file per rank (such as nccl_trace_rank_0), pickles or JSON")(
      "kmsg", Text(&detect->paths.kmsg, "FILE"),
      "a kernel log: as /dev/kmsg, dmesg or journalctl (also -o json) give it; - is the standard input")(
      "k8s-events", Text(&detect->paths.k8s_events, "FILE"),
      "Events, Nodes and Pods, as kubectl get -o json or a watch give them")(
      "otlp-logs", Text(&detect->paths.otlp_logs, "FILE"),
      "log records of OpenTelemetry, as its collector's file exporter writes them")(
      "slots", Text(&detect->host.slots, "FILE"),
      "a recording, a segment of it, or a slots.csv of this host, to show what the hanging ranks did")(
      "raw", Text(&detect->host.raw, "FILE"), "the same from a raw file (record --raw)")(
      "ranks", Text(&texts->ranks, "LIST"),
      "the process of each rank in that recording, if it does not name them: 0=4711,1=4712")(
      "as-of", Text(&texts->as_of, "TIME"),
      "when the dumps were written: Unix seconds, or 2026-11-22T08:30:00Z (default: when the shortest "
      "timeout of what is in flight had passed)")(
      "boot-time", Text(&texts->boot_time, "TIME"),
      "when the machine of the kernel log was booted, for lines that count from there")(
      "year", Text(&texts->year, "YEAR"),
      "of the kernel log's first line, if lines do not say it (default: by the file's last change)")(
      "tz", Text(&texts->zone, "ZONE"), "of times that do not say it: +02:00, UTC, or local (default)")(
      "node-id", Text(&detect->node_id, "NAME"),
      "node of kernel log lines that name none (default: the host's name)")(
      "format", Text(&texts->format, "FORMAT"),
      "text (for people), json (a verdict per line) or otlp (a log record per line); default: text in a "
      "terminal, else json")("json", po::bool_switch(&texts->json), "the same as --format json")(
      "demo", po::bool_switch(&detect->demo), "show one of each, of made-up inputs");
  DescribeThresholds(&texts->judge, &options);
  return options;
}

Status ParseDetect(const DetectTexts& texts, DetectOptions* detect) {
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
  if (texts.format == "otlp")
    detect->format = VerdictFormat::kOtlp;
  else if (texts.format == "text")
    detect->format = VerdictFormat::kStory;
  else if (texts.format == "json")
    detect->format = VerdictFormat::kJson;
  else if (!texts.format.empty())
    return Usage(fmt::format("--format {}: give text, json or otlp", EscapeControls(texts.format)));
  if (texts.json && detect->format != VerdictFormat::kAuto && detect->format != VerdictFormat::kJson)
    return Usage("--json and --format are two formats; give one");
  if (texts.json) detect->format = VerdictFormat::kJson;
  if (Status status = ParseJudge(texts.judge, &detect->judge); !status.ok()) return status;
  if (Status status = ParseLogTimes(texts, &detect->times); !status.ok()) return status;
  if (Status status = ParseHost(texts, detect); !status.ok()) return status;
  if (texts.as_of.empty()) return {};
  int64_t unix_ns;
  if (!ParseTime(texts.as_of, &unix_ns))
    return Usage(fmt::format("--as-of {}: give Unix seconds, or a time as in 2026-11-22T08:30:00Z",
                             EscapeControls(texts.as_of)));
  detect->as_of_ns = unix_ns;
  return {};
}

}  // namespace slotscope
