// SPDX-License-Identifier: MIT
// Any bytes as lines of a kernel log.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "detect/inputs/kernel_log.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  LogTimeOptions times;
  times.zone = TimeZone(3600);
  // The first bits say what is known beside the log.
  if (size == 0) return 0;
  if (data[0] & 1) times.boot_ns = 1'700'000'000'000'000'000;
  if (data[0] & 2) times.year = 2024;
  if (data[0] & 4) times.newest_ns = 1'700'000'000'000'000'000;
  const bool has_receipt = data[0] & 8;
  KernelLogReader reader(times, "node");
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  uint64_t nr_found = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto xid = reader.OnLine(line, has_receipt ? std::optional<int64_t>(5) : std::nullopt);
    if (!xid) continue;
    nr_found++;
    Require(xid->code >= 0 && !xid->uid.empty() && !xid->node.empty());
    Require(xid->when.resolution_ns >= 0 && xid->when.last_ns() >= xid->when.begin_ns);
    Require(xid->bus.size() >= 10 && xid->bus.size() <= 14);
    Require(xid->clock != LogClock::kReceipt || has_receipt);
  }
  const KernelLogStats& stats = reader.stats();
  Require(stats.nr_xids == nr_found && stats.nr_without_time + stats.nr_without_node <= 2 * nr_found);
  Require(!has_receipt || stats.nr_without_time == 0);
  return 0;
}
