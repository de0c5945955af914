// SPDX-License-Identifier: MIT
#include "cli/detect.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rfc3339.h"
#include "base/say.h"
#include "detect/fr_folder.h"
#include "detect/nccl_hang.h"
#include "detect/nccl_hang_verdict.h"

namespace slotscope {
namespace {

constexpr size_t kMaxTold = 10;

// The culprits first: they are what somebody has to go to.
void TellHangs(const NcclRecords& records, std::vector<NcclHang> hangs, NcclClock clock) {
  if (hangs.empty()) {
    Say(stdout, "No hang: no two ranks of {} wait in one operation for too long.\n",
        records.ranks().size());
    return;
  }
  std::map<int32_t, std::set<uint32_t>> groups_of;  // by suspect
  std::set<int32_t> unknown;
  int64_t earliest_ns = hangs[0].earliest_ns;
  for (const NcclHang& hang : hangs) {
    for (const NcclSuspect& suspect : hang.suspects)
      if (!hang.is_p2p) groups_of[suspect.rank].insert(hang.group);
    unknown.insert(hang.unknown_ranks.begin(), hang.unknown_ranks.end());
    earliest_ns = std::min(earliest_ns, hang.earliest_ns);
  }
  Say(stdout, "NCCL hang since {}: {} operation{}, of {} ranks with a dump.\n", Rfc3339(earliest_ns),
      hangs.size(), hangs.size() == 1 ? " waits" : "s wait", records.ranks().size());
  for (const auto& [rank, groups] : groups_of)
    Say(stdout, "  rank {} holds up {} process group{}\n", rank, groups.size(),
        groups.size() == 1 ? "" : "s");
  if (groups_of.empty())
    Say(stdout, "  no rank is behind: look at the network, and at the ranks without a dump\n");
  for (int32_t rank : unknown) Say(stdout, "  rank {} has left no dump\n", rank);
  // Those that somebody holds up first: the others wait for them, as a rule.
  std::stable_partition(hangs.begin(), hangs.end(),
                        [](const NcclHang& hang) { return !hang.suspects.empty(); });
  if (clock == NcclClock::kDumps)
    Say(stdout,
        "  dumps do not say when they were written: the shortest timeout is taken to have passed, or "
        "give "
        "--as-of TIME\n");
  size_t nr_told = 0;
  for (const NcclHang& hang : hangs) {
    if (nr_told++ == kMaxTold) {
      Say(stdout, "  ... and {} more (--json has all)\n", hangs.size() - kMaxTold);
      break;
    }
    Say(stdout, "  {:.0f} s: {}\n", static_cast<double>(hang.age_ns) / 1e9,
        NcclHangHeadline(records, hang));
  }
}

}  // namespace

int Detect(const DetectOptions& options) {
  FrFolder folder;
  const Status status = ReadFrFolder(options.fr_dir, &folder);
  if (!status.ok()) {
    Say(stderr, "slotscope: {}\n", status.message());
    return static_cast<int>(status.code());
  }
  for (const std::string& problem : folder.problems) Say(stderr, "slotscope: {}\n", problem);
  if (folder.nr_malformed)
    Say(stderr, "slotscope: {} entries lack what all have, and are left out\n", folder.nr_malformed);
  NcclHangOptions of_hang;
  of_hang.threshold_ns = static_cast<int64_t>(options.nccl_hang_threshold_ns);
  if (options.as_of_ns) {
    of_hang.clock = NcclClock::kAsOf;
    of_hang.as_of_ns = *options.as_of_ns;
  }
  std::vector<NcclHang> hangs = FindNcclHangs(folder.records, of_hang);
  if (!options.json && isatty(STDOUT_FILENO)) {
    TellHangs(folder.records, std::move(hangs), of_hang.clock);
  } else {
    for (const NcclHang& hang : hangs)
      Say(stdout, "{}", NcclHangLine(folder.records, hang, of_hang.clock));
  }
  return static_cast<int>(folder.problems.empty() ? Exit::kOk : Exit::kBadInput);
}

}  // namespace slotscope
