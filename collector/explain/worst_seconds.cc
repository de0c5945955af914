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

// Of one process, or of all of a name that live for moments: in which second for how long.
struct Second {
  int64_t second = 0;      // of Unix time
  float usual_too_ns = 0;  // what counts however usual it is
  float ns = 0;            // the rest
};
using HeldUp = std::vector<Second>;

struct Candidate {
  std::string comm;
  HeldUp held;
  // By its last row; until its next one nothing is heard of it.
  Hindrance left = kNrHindrances;
  int64_t left_ns = 0;
};

void Add(HeldUp* held, int64_t second, double usual_too_ns, double ns) {
  if (held->empty() || held->back().second != second) held->push_back({second, 0, 0});
  held->back().usual_too_ns += static_cast<float>(usual_too_ns);
  held->back().ns += static_cast<float>(ns);
}

void OnRow(const SlotRow& row, Candidate* process) {
  const auto of = [&](Hindrance why) { return static_cast<double>(row.wait_ns[why]); };
  const int64_t end_ns = row.start_ns + row.slot_ns;
  double usual_too_ns = of(kByQuota);
  double ns = of(kByOthers) + of(kBySelf) + of(kBySteal) + of(kByUnknown) +
              static_cast<double>(row.wait_earlier_ns) + static_cast<double>(StarvedNs(row.gpu));
  if (process->left != kNrHindrances && row.start_ns > process->left_ns)
    (process->left == kStopped ? usual_too_ns : ns) +=
        static_cast<double>(row.start_ns - process->left_ns);
  process->left = HindranceOf(row.state);
  process->left_ns = end_ns;
  if (process->left != kNrHindrances && row.state_since_ns)
    (process->left == kStopped ? usual_too_ns : ns) +=
        static_cast<double>(std::max<int64_t>(0, end_ns - std::max(row.state_since_ns, row.start_ns)));
  Add(&process->held, row.start_ns / kSecond, usual_too_ns, ns);
}

}  // namespace

Status CountRows(const RecordingTables& tables, const UnixRange& range, uint64_t* nr) {
  *nr = 0;
  if (!tables.Has(kSecondsTable)) return {};
  // A row stands at the begin of its second.
  const UnixRange seconds = {range.from_ns / kSecond * kSecond, range.to_ns};
  return tables.ReadSlotRows(kSecondsTable, seconds, [&](const SlotRow& row) { *nr += row.nr_slots; });
}

int64_t ContextOf(int64_t length_ns, double rows_per_s, uint64_t most_rows) {
  const double room_ns = rows_per_s > 0 ? static_cast<double>(most_rows) / rows_per_s * 1e9 : 1e18;
  const double context_ns = (room_ns - static_cast<double>(length_ns)) / 2;
  return static_cast<int64_t>(std::clamp(context_ns, double{kLeastContextNs}, double{kContextNs}));
}

Status FindWorstSeconds(const RecordingTables& tables, const UnixRange& range,
                        const Selection& selection, size_t nr, std::vector<UnixRange>* ranges,
                        uint64_t most_rows) {
  constexpr size_t kMomentary = 3;  // seconds of life: too few to say what is usual
  std::unordered_map<ProcessKey, Candidate, ProcessKeyHash> processes;
  std::map<int64_t, double> lost, worst;  // by second
  std::map<int64_t, uint64_t> nr_rows;    // the same
  // Of a plain file there are no seconds: they are made of its slots.
  const std::string_view table = tables.Has(kSecondsTable) ? kSecondsTable : kSlotsTable;
  Status status = tables.ReadSlotRows(table, range, [&](const SlotRow& row) {
    nr_rows[row.start_ns / kSecond] += row.nr_slots;
    if (row.kind == "lost") lost[row.start_ns / kSecond] += static_cast<double>(row.cpu_ns);
    if (row.key.tgid <= 0 || (selection.any() && !selection.Has(row.key, std::string(row.comm)))) return;
    Candidate& process = processes[row.key];
    if (process.comm != row.comm) process.comm = row.comm;
    OnRow(row, &process);
  });
  std::map<std::string, std::map<int64_t, Second>> momentary;
  for (auto process = processes.begin(); process != processes.end();) {
    if (process->second.held.size() >= kMomentary) {
      ++process;
      continue;
    }
    for (const Second& one : process->second.held) {
      Second& sum = momentary[process->second.comm][one.second];
      sum.second = one.second;
      sum.usual_too_ns += one.usual_too_ns;
      sum.ns += one.ns;
    }
    process = processes.erase(process);
  }
  const auto add = [&](int64_t second, double ns) {
    if (ns > 0) worst[second] = std::max(worst[second], ns);
  };
  for (const auto& [second, ns] : lost) add(second, ns);
  std::vector<double> values;
  const auto judge = [&](const HeldUp& held) {
    values.clear();
    for (const Second& one : held) values.push_back(static_cast<double>(one.ns));
    const Usual usual = UsualOf(&values);
    for (const Second& one : held)
      add(one.second, static_cast<double>(one.usual_too_ns) +
                          std::max(0.0, static_cast<double>(one.ns) - usual.median - 3 * usual.spread));
  };
  for (const auto& [key, process] : processes) judge(process.held);
  for (const auto& [comm, seconds] : momentary) {
    HeldUp held;
    for (const auto& [second, one] : seconds) held.push_back(one);
    judge(held);
  }
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [second, ns] : worst) order.emplace_back(ns, second * kSecond);
  std::sort(order.rbegin(), order.rend());
  order.resize(std::min(order.size(), nr));
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  uint64_t all_rows = 0;
  for (const auto& [second, number] : nr_rows) all_rows += number;
  const double rows_per_s =
      nr_rows.empty() ? 0 : static_cast<double>(all_rows) / static_cast<double>(nr_rows.size());
  const int64_t context_ns = ContextOf(kSecond, rows_per_s, most_rows);
  const auto has_room = [&](int64_t ns) {
    return static_cast<double>(ns) / 1e9 * rows_per_s <= static_cast<double>(most_rows);
  };
  ranges->clear();
  for (const auto& [ns, at_ns] : order) {
    UnixRange one = {at_ns - context_ns, at_ns + kSecond + context_ns};
    if (!ranges->empty() && one.from_ns <= ranges->back().to_ns) {
      UnixRange& last = ranges->back();
      if (has_room(one.to_ns - last.from_ns)) {
        last.to_ns = one.to_ns;
        continue;
      }
      // Their border is between the two seconds: each is whole, and is told once.
      last.to_ns = one.from_ns = (last.to_ns - context_ns + at_ns) / 2;
    }
    ranges->push_back(one);
  }
  return status;
}

}  // namespace slotscope
