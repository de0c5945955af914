// SPDX-License-Identifier: MIT
#include "cli/output_parser.h"

#include <fmt/core.h>
#include <slotscope/events.h>

#include <iterator>

#include "base/escape.h"
#include "base/same_file.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

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

Status ParseFilters(const OutputTexts& raw, FoldOptions* fold) {
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

}  // namespace

boost::program_options::options_description DescribeOutput(OutputTexts* texts, OutputOptions* output) {
  po::options_description options("Options of record and replay");
  options.add_options()("output,o", Text(&output->path, "FILE"),
                        "default slots.csv; FILE.part until it is complete")(
      "slot", Text(&texts->slot, "MS"), "length of a slot in milliseconds (default 1)")(
      "window", Text(&texts->window, "MS"), "how long a slot waits for late data (default 64)")(
      "pid", Text(&texts->pid, "LIST"), "keep these processes, fold the others into one row 'other'")(
      "comm", Text(&texts->comm, "LIST"), "keep the processes of these names")(
      "top", Text(&texts->top, "N"), "keep the N processes with the most cpu time of each slot")(
      "all", po::bool_switch(&output->all), "keep all, also where a COMMAND is or was recorded")(
      "spans", Text(&output->spans, "FILE"),
      "also what GPUs did, span by span: as CSV, or for Perfetto if FILE ends in .pftrace")(
      "gpu-csv", Text(&output->gpu_csv, "FILE"), "also what was done on each GPU, slot by slot")(
      "straggle", Text(&output->straggle, "FILE"),
      "also who straggles, and who took the CPU from it, a JSON object per second and line")(
      "max-size", Text(&texts->max_size, "BYTES"), "stop before the file is larger (K, M, G)")(
      "strict", po::bool_switch(&output->strict), "exit with 10 if any data was lost")("help,h",
                                                                                       "this text");
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
  if (!texts.max_size.empty())
    if (Status status = ParseSize(texts.max_size, &output->max_size); !status.ok()) return status;
  if (output->path.empty()) return Usage("--output: give a file name");
  return ParseFilters(texts, &output->fold);
}

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

}  // namespace slotscope
