// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include <fmt/core.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

namespace slotscope {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "Usage: slotscope record [options] [-- COMMAND [ARG...]]\n"
    "       slotscope rmids\n"
    "       slotscope --help | --version\n"
    "\n"
    "record   writes a row per process and millisecond to slots.csv, until Ctrl-C, for\n"
    "         --duration, or until COMMAND exits (its rows, the rest folded into one)\n"
    "rmids    prints the RMID table of the kernel module\n"
    "\n";

constexpr uint64_t kMaxDurationS = 10 * 365 * 86400ull;

// What the program options library hands us; numbers are parsed here, where the message can say what
// was wrong with them.
struct RawRecord {
  std::string source = "auto";
  std::string duration;
  std::string slot = "1";
  std::string window = "64";
  std::string events = "cycles,instructions,llc_misses";
  std::string rmids = "512";
  std::string pid, comm, top, max_size;
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

Status ParseFilters(const RawRecord& raw, FoldOptions* fold) {
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

Status ParseRecord(const RawRecord& raw, RecordOptions* record) {
  if (raw.source == "auto")
    record->source = SourceChoice::kAuto;
  else if (raw.source == "kmod")
    record->source = SourceChoice::kKmod;
  else if (raw.source == "bpf")
    record->source = SourceChoice::kBpf;
  else
    return Usage(fmt::format("--source {}: the sources are auto, kmod and bpf", raw.source));
  if (!raw.duration.empty())
    if (Status status = ParseSeconds(raw.duration, &record->duration_ns); !status.ok()) return status;
  uint64_t number;
  if (!ParseNumber(raw.slot, 1, 1000, &number))
    return Usage(
        fmt::format("--slot {}: give the length of a slot in milliseconds, 1 to 1000", raw.slot));
  record->slot_ns = number * 1'000'000;
  if (!ParseNumber(raw.window, 2, 10'000, &number))
    return Usage(fmt::format("--window {}: give a number of milliseconds, 2 to 10000", raw.window));
  record->window_ns = number * 1'000'000;
  if (!ParseNumber(raw.rmids, 2, 512, &number))
    return Usage(fmt::format("--rmids {}: give a number from 2 to 512", raw.rmids));
  record->nr_rmids = static_cast<uint32_t>(number);
  if (!raw.max_size.empty())
    if (Status status = ParseSize(raw.max_size, &record->max_size); !status.ok()) return status;
  if (record->output.empty()) return Usage("--output: give a file name");
  if (Status status = ParseFilters(raw, &record->fold); !status.ok()) return status;
  if (!record->command.empty()) record->fold.followed_only = true;
  return ParseCounterSpecs(raw.events, &record->counters);
}

po::options_description DescribeRecord(RawRecord* raw, RecordOptions* record) {
  po::options_description options("Options of record");
  auto text = [](std::string* value, const char* name) {
    return po::value<std::string>(value)->value_name(name);
  };
  options.add_options()("source", text(&raw->source, "SOURCE"),
                        "auto (default), kmod (the kernel module) or bpf (no module)")(
      "duration", text(&raw->duration, "S"), "record S seconds")(
      "output,o", text(&record->output, "FILE"), "default slots.csv; FILE.part until it is complete")(
      "slot", text(&raw->slot, "MS"), "length of a slot in milliseconds (default 1)")(
      "window", text(&raw->window, "MS"), "how long a slot waits for late data (default 64)")(
      "events", text(&raw->events, "LIST"),
      "counters: cycles,instructions,llc_misses (default), each optionally =EVENT; or none")(
      "rmids", text(&raw->rmids, "N"), "RMIDs of the bpf source, 2 to 512 (default 512)")(
      "pid", text(&raw->pid, "LIST"), "keep these processes, fold the others into one row 'other'")(
      "comm", text(&raw->comm, "LIST"), "keep the processes of these names")(
      "top", text(&raw->top, "N"), "keep the N processes with the most cpu time of each slot")(
      "max-size", text(&raw->max_size, "BYTES"), "stop before the file is larger (K, M, G)")(
      "strict", po::bool_switch(&record->strict), "exit with 10 if any data was lost")("help,h",
                                                                                       "this text");
  return options;
}

}  // namespace

Status ParseOptions(int argc, char** argv, Options* options) {
  RawRecord raw;
  RecordOptions& record = options->record;
  po::options_description description = DescribeRecord(&raw, &record);
  std::ostringstream help;
  help << kUsage << description;
  options->help = help.str();

  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return Usage("say what to do: slotscope record, or slotscope --help");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return {};
  if (words[0] == "--version") {
    options->verb = Options::Verb::kShowVersion;
    return {};
  }
  if (words[0] == "rmids") {
    if (words.size() > 1) return Usage(fmt::format("rmids takes no '{}'", words[1]));
    options->verb = Options::Verb::kRmids;
    return {};
  }
  if (words[0] != "record")
    return Usage(fmt::format("there is no '{}'; see slotscope --help", words[0]));

  options->verb = Options::Verb::kRecord;
  words.erase(words.begin());
  for (size_t i = 0; i < words.size(); i++) {
    if (words[i] != "--") continue;
    record.command.assign(words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
    words.resize(i);
    if (record.command.empty()) return Usage("there is no command after --");
    break;
  }
  try {
    namespace style = po::command_line_style;
    po::variables_map variables;
    // A word that belongs to no option lands in one of our own, so that the message can name it.
    std::vector<std::string> stray;
    po::options_description all;
    all.add(description).add_options()("stray", po::value(&stray));
    auto parsed = po::command_line_parser(words)
                      .options(all)
                      .positional(po::positional_options_description().add("stray", -1))
                      .style(style::unix_style & ~style::allow_guessing)
                      .run();
    po::store(parsed, variables);
    po::notify(variables);
    if (!stray.empty())
      return Usage(fmt::format("'{}' is no option; to record a command write: slotscope record -- {}",
                               stray[0], stray[0]));
    for (const auto& [name, value] : variables)
      if (const auto* text = boost::any_cast<std::string>(&value.value());
          text && text->empty() && name != "help")
        return Usage(fmt::format("--{}: the value is empty; give one, or leave the option out", name));
    if (variables.count("help")) {
      options->verb = Options::Verb::kShowHelp;
      return {};
    }
  } catch (const po::error& error) {
    return Usage(fmt::format("{}; see slotscope --help", error.what()));
  }
  return ParseRecord(raw, &record);
}

}  // namespace slotscope
