// SPDX-License-Identifier: MIT
#include "cli/top_parser.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "cli/option_text.h"

namespace slotscope {

namespace po = boost::program_options;

po::options_description DescribeTop(TopTexts* texts, TopOptions* top) {
  po::options_description options("Whose rows, and in which order");
  DescribeWhose(&texts->reader, &top->reader,
                "a row for each process (default), name, pod, unit or cgroup", &options);
  options.add_options()("sort", Text(&texts->sort, "WHAT"),
                        "wait (default), worst, cpu, throttled, gpu, traffic, name or pid")(
      "once", po::bool_switch(&top->once), "prints one second, and ends")(
      "json", po::bool_switch(&top->reader.json), "the same for programs")(
      "rows,n", Text(&texts->nr_rows, "N"), "of one second, so many rows (default 20)");
  return options;
}

Status ParseTop(const TopTexts& texts, TopOptions* top) {
  ReaderTexts reader = texts.reader;
  const bool by_process = reader.group_by.empty() || reader.group_by == "process";
  if (by_process) reader.group_by.clear();
  if (!by_process && reader.group_by != "name" && reader.group_by != "pod" &&
      reader.group_by != "unit" && reader.group_by != "cgroup")
    return Usage(fmt::format("--group-by {}: give process, name, pod, unit or cgroup", reader.group_by));
  if (Status status = ParseReader(reader, &top->reader); !status.ok()) return status;
  if (!by_process) top->by = top->reader.selection.group_by;
  if (!texts.sort.empty()) {
    const auto found = std::find(kSortNames.begin(), kSortNames.end(), texts.sort);
    if (found == kSortNames.end())
      return Usage(fmt::format("--sort {}: give one of {}", texts.sort, fmt::join(kSortNames, ", ")));
    top->sort = static_cast<SortBy>(found - kSortNames.begin());
  }
  uint64_t nr = top->nr_rows;
  if (!texts.nr_rows.empty() && !ParseNumber(texts.nr_rows, 1, 100'000, &nr))
    return Usage(fmt::format("--rows {}: give a number of rows, 1 to 100000", texts.nr_rows));
  top->nr_rows = nr;
  top->once |= top->reader.json;
  return {};
}

}  // namespace slotscope
