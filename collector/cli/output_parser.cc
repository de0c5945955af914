// SPDX-License-Identifier: MIT
#include "cli/output_parser.h"

#include <fmt/core.h>
#include <slotscope/events.h>

#include <iterator>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "base/same_file.h"
#include "cli/group_parser.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

// A duration has a unit, a size one of another kind, a share of the disk a third: 24h, 10G, 10%.
Status ParseKeep(const std::string& text, KeepLimits* keep) {
  constexpr uint64_t kNsPerS = 1'000'000'000;
  constexpr uint64_t kMinBytes = 1u << 20;
  for (const std::string& item : Split(text)) {
    std::string_view rest = item;
    const uint64_t factor = TakeUnit(
        {{'s', kNsPerS}, {'m', 60 * kNsPerS}, {'h', 3600 * kNsPerS}, {'d', 86400 * kNsPerS}}, &rest);
    uint64_t number;
    const bool is_time = factor && ParseNumber(rest, 1, INT64_MAX / (86400 * kNsPerS), &number);
    const bool is_share = item.ends_with('%');
    if (is_time && !keep->ns)
      keep->ns = number * factor;
    else if (is_share && !keep->percent && ParseNumber(rest.substr(0, rest.size() - 1), 1, 90, &number))
      keep->percent = number;
    else if (is_time || is_share || keep->bytes || !ParseSize(item, kMinBytes, &keep->bytes))
      return Usage(
          fmt::format("--keep {}: '{}' is not a time (24h), a size of at least 1M (10G) or a share of "
                      "the disk (1% to 90%); give each at most once",
                      text, item));
  }
  if (!keep->any())
    return Usage(
        "--keep: give a time, a size, a share of the disk, or some of them, such as 24h,10G,10%");
  return {};
}

Status ParseFilters(const OutputTexts& raw, FoldOptions* fold) {
  if (Status status = ParsePids(raw.pid, &fold->tgids); !status.ok()) return status;
  fold->comms = Split(raw.comm);
  if (!raw.comm.empty() && fold->comms.empty())
    return Usage(fmt::format("--comm {}: there is no name in it", raw.comm));
  for (const std::string& comm : fold->comms)
    if (comm.size() >= SS_COMM_LEN)
      return Usage(fmt::format("--comm {}: the kernel cuts names at 15 bytes; give '{}'", comm,
                               comm.substr(0, SS_COMM_LEN - 1)));
  if (Status status = ParseGroups(raw.groups, &fold->groups); !status.ok()) return status;
  uint64_t top = 0;
  if (!raw.top.empty() && !ParseNumber(raw.top, 1, 100'000, &top))
    return Usage(fmt::format("--top {}: give a number of processes, at least 1", raw.top));
  fold->top = top;
  return {};
}

}  // namespace

boost::program_options::options_description DescribeOutput(OutputTexts* texts, OutputOptions* output) {
  po::options_description rows("Which rows");
  rows.add_options()("pid", Text(&texts->pid, "LIST"),
                     "keep these processes, fold the others into one row 'other'")(
      "comm", Text(&texts->comm, "LIST"), "keep the processes of these names");
  DescribeGroups(&texts->groups, &rows);
  rows.add_options()("top", Text(&texts->top, "N"),
                     "keep the N processes with the most cpu time of each slot")(
      "all", po::bool_switch(&output->all), "keep all, also where a COMMAND is or was recorded")(
      "slot", Text(&texts->slot, "MS"), "length of a slot in milliseconds (default 1)")(
      "window", Text(&texts->window, "MS"), "how long a slot waits for late data (default 64)");
  po::options_description where("Where to");
  where.add_options()(
      "output,o", Text(&output->path, "PATH"),
      "a recording, which is a folder (default slotscope.rec, for replay replay.rec; an existing one "
      "becomes PATH.old); FILE.csv: one plain file; -: a stream to standard output")(
      "segment", Text(&texts->segment, "S"), "length of a recording's files in seconds (default 60)")(
      "max-size", Text(&texts->max_size, "BYTES"), "stop before the rows take more (K, M, G, T)")(
      "waits", Text(&output->waits, "FILE"),
      "also why processes waited for a CPU: by slot, cause, who ran instead, and CPU")(
      "processes", Text(&output->processes, "FILE"),
      "also who processes are: parent, executable, cgroup, container, pod, unit")(
      "spans", Text(&output->spans, "FILE"),
      "also what GPUs did, span by span: as CSV, or for Perfetto if FILE ends in .pftrace")(
      "gpu-csv", Text(&output->gpu_csv, "FILE"), "also what was done on each GPU, slot by slot")(
      "straggle", Text(&output->straggle, "FILE"),
      "also who straggles, and who ran while it waited, a JSON object per second and line")(
      "strict", po::bool_switch(&output->strict), "exit with 10 if any data was lost")(
      "verbose,v", po::bool_switch(&output->has_details),
      "say at the end what each counter of a loss means, and the accounts")("help,h", "this text");
  po::options_description options;
  options.add(rows).add(where);
  return options;
}

Status ParseOutput(const OutputTexts& texts, OutputOptions* output) {
  uint64_t number;
  if (!ParseNumber(texts.slot, 1, 1000, &number))
    return Usage(
        fmt::format("--slot {}: give the length of a slot in milliseconds, 1 to 1000", texts.slot));
  output->slot_ns = number * 1'000'000;
  if (!ParseNumber(texts.window, 2, 10'000, &number))
    return Usage(fmt::format("--window {}: give a number of milliseconds, 2 to 10000", texts.window));
  output->window_ns = number * 1'000'000;
  if (!texts.max_size.empty() && !ParseSize(texts.max_size, 64u << 10, &output->max_size))
    return Usage(
        fmt::format("--max-size {}: give a size of at least 64K, such as 500M or 2G", texts.max_size));
  if (!ParseNumber(texts.segment, 1, 86'400, &number))
    return Usage(fmt::format("--segment {}: give a number of seconds, 1 to 86400", texts.segment));
  output->segment_ns = number * 1'000'000'000;
  if (output->path.empty()) return Usage("--output: give a name");
  const bool is_folder = output->path.ends_with('/');
  while (output->path.size() > 1 && output->path.ends_with('/')) output->path.pop_back();
  constexpr const char* kOtherFiles[] = {".txt", ".tsv", ".json", ".ndjson", ".gz", ".xz", ".zst"};
  for (const char* ending : kOtherFiles)
    if (!is_folder && output->path.ends_with(ending))
      return Usage(
          fmt::format("--output {}: a recording is a folder, which would have that name: give FILE.csv "
                      "for one plain file, or {}/ if you mean it",
                      EscapeName(output->path), EscapeName(output->path)));
  if (!texts.keep.empty()) {
    if (KindOf(output->path) != OutputKind::kFolder)
      return Usage("--keep is for a recording, which is a folder: give another --output");
    if (Status status = ParseKeep(texts.keep, &output->keep); !status.ok()) return status;
  }
  return ParseFilters(texts, &output->fold);
}

Status CheckNames(const OutputOptions& output, const std::string& raw, const std::string& verdicts,
                  const std::vector<NamedFile>& inputs) {
  const NamedFile outputs[] = {{"--raw", raw},
                               {"--verdicts", verdicts},
                               {"--spans", output.spans},
                               {"--gpu-csv", output.gpu_csv},
                               {"--straggle", output.straggle},
                               {"--waits", output.waits},
                               {"--processes", output.processes},
                               {"--output", output.path == "-" ? "" : output.path}};
  const bool is_folder = KindOf(output.path) == OutputKind::kFolder;
  const auto is_same = [](const NamedFile& a, const NamedFile& b) {
    return !a.path.empty() && !b.path.empty() && IsSameFile(a.path, b.path);
  };
  for (const NamedFile& one : outputs) {
    const size_t slash = one.path.rfind('/');
    if (is_folder && slash != one.path.npos && IsSameFile(one.path.substr(0, slash), output.path))
      return Usage(
          fmt::format("{} {} would be in the recording {}, which is made anew: give another name",
                      one.name, EscapeName(one.path), EscapeName(output.path)));
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

}  // namespace slotscope
