// SPDX-License-Identifier: MIT
#include "explain/worst_seconds.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "explain/series.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Of one process: for how long it was held up, by second.
using HeldUp = std::map<int64_t, double>;

bool IsHeld(std::string_view state) {
  return state == "stopped" || state == "disk" || state == "blocked";
}

// What a row of a second tells of, by its end.
double HeldNs(const SlotRow& row) {
  uint64_t ns = 0;
  for (size_t why = 0; why < kNrWaitHindrances; why++)
    if (why != kByWakeup) ns += row.wait_ns[why];
  if (IsHeld(row.state) && row.state_since_ns)
    ns += static_cast<uint64_t>(
        std::max<int64_t>(0, row.start_ns + row.slot_ns - std::max(row.state_since_ns, row.start_ns)));
  return static_cast<double>(ns);
}

}  // namespace

Status FindWorstSeconds(const RecordingTables& tables, const UnixRange& range,
                        const Selection& selection, size_t nr, std::vector<UnixRange>* ranges) {
  std::unordered_map<ProcessKey, HeldUp, ProcessKeyHash> processes;
  std::map<int64_t, double> lost, worst;  // by second
  // Of a plain file there are no seconds: they are made of its slots.
  const std::string_view table = tables.Has(kSecondsTable) ? kSecondsTable : kSlotsTable;
  Status status = tables.ReadSlotRows(table, range, [&](const SlotRow& row) {
    const int64_t second_ns = row.start_ns / kSecond * kSecond;
    if (row.kind == "lost") lost[second_ns] += static_cast<double>(row.cpu_ns);
    if (row.key.tgid <= 0 || (selection.any() && !selection.Has(row.key.tgid, std::string(row.comm))))
      return;
    processes[row.key][second_ns] += HeldNs(row);
  });
  const auto add = [&](int64_t at_ns, double ns) {
    if (ns > 0) worst[at_ns] = std::max(worst[at_ns], ns);
  };
  for (const auto& [at_ns, ns] : lost) add(at_ns, ns);
  std::vector<double> values;
  for (const auto& [key, held] : processes) {
    values.clear();
    for (const auto& [at_ns, ns] : held) values.push_back(ns);
    const Usual usual = UsualOf(&values);
    for (const auto& [at_ns, ns] : held) add(at_ns, ns - usual.median - 3 * usual.spread);
  }
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [at_ns, ns] : worst) order.emplace_back(ns, at_ns);
  std::sort(order.rbegin(), order.rend());
  order.resize(std::min(order.size(), nr));
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  ranges->clear();
  for (const auto& [ns, at_ns] : order) {
    const UnixRange one = {at_ns - kContextNs, at_ns + kSecond + kContextNs};
    if (!ranges->empty() && one.from_ns <= ranges->back().to_ns)
      ranges->back().to_ns = one.to_ns;
    else
      ranges->push_back(one);
  }
  return status;
}

}  // namespace slotscope
