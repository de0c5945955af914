// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include "base/version.h"
#include "cli/options.h"
#include "cli/record.h"
#include "cli/rmids.h"

int main(int argc, char** argv) {
  using namespace slotscope;
  Options options;
  if (Status status = ParseOptions(argc, argv, &options); !status.ok()) {
    fmt::print(stderr, "slotscope: {}\n", status.message());
    return static_cast<int>(status.code());
  }
  switch (options.verb) {
    case Options::Verb::kShowHelp:
      fmt::print("{}", options.help);
      return 0;
    case Options::Verb::kShowVersion:
      fmt::print("slotscope {}\n", kVersion);
      return 0;
    case Options::Verb::kRecord:
      return Record(options.record);
    case Options::Verb::kRmids:
      return PrintRmids();
  }
  return 0;
}
