// SPDX-License-Identifier: MIT
#include "top/second.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "explain/groups.h"

namespace slotscope {
namespace {

bool IsSelected(const Selection& selection, const ProcessKey& key, const std::string& comm,
                const Cgroup* cgroup) {
  if (!selection.any() || selection.Has(key, comm)) return true;
  return selection.groups.any() && cgroup && selection.groups.Matches(*cgroup);
}

class Maker {
 public:
  Maker(const Board& board, const History& history, TopGroupBy by, const Selection& selection)
      : board_(board), history_(history), by_(by), selection_(selection), range_(LastSecondOf(board)) {}

  TopSecond Make() {
    second_.from_ns = range_.from_ns;
    second_.to_ns = range_.to_ns;
    second_.nr_cpus = history_.nr_cpus();
    if (range_.to_ns == 0) return std::move(second_);
    FindRows();
    FindEarlier();
    FindNeighbors();
    AddCells();
    AddMachine();
    for (TopRow& row : second_.rows) Finish(&row);
    return std::move(second_);
  }

 private:
  static std::string IdOf(const GroupName& group) {
    return fmt::format("{}{} {}", group.is_place ? 'p' : 'n', group.is_kernel ? 'k' : 'u', group.name);
  }

  bool IsIn(int64_t start_ns) const { return start_ns >= range_.from_ns && start_ns < range_.to_ns; }

  // Those that a row's last ten seconds are of as well.
  void FindEarlier() {
    for (const auto& [key, process] : board_.processes()) {
      if (row_of_.contains(key) || (!by_ && process.state.name != "ended")) continue;
      ProcessHistory gone;
      gone.key = key;
      gone.comm = process.comm;
      gone.is_kernel = process.is_kernel;
      gone.cgroup = process.cgroup;
      const auto row = row_of_id_.find(IdOf(NameOfGroup(gone, by_.value_or(GroupBy::kName))));
      if (row != row_of_id_.end()) second_.rows[row->second].earlier.push_back(key);
    }
  }

  // It lived before that second, or lives on its own.
  bool WasThereBefore(const ProcessKey& key) const {
    const auto found = board_.processes().find(key);
    return found != board_.processes().end() && !found->second.cells.empty() &&
           found->second.cells.front().start_ns < range_.from_ns;
  }

  void Put(const ProcessKey& key, const ProcessHistory& process) {
    GroupName group = NameOfGroup(process, by_.value_or(GroupBy::kName));
    std::string id = IdOf(group);
    if (!by_ && WasThereBefore(key)) {
      group.name = process.comm.empty() ? group.name : process.comm;
      id = fmt::format("{} {}", key.tgid, key.start_time_ns);
    }
    const auto [place, is_new] = row_of_id_.try_emplace(id, second_.rows.size());
    if (is_new) {
      TopRow& row = second_.rows.emplace_back();
      row.id = id;
      row.who = {group.name, 0, key.tgid, group.is_kernel, group.is_place, ""};
    }
    TopRow& row = second_.rows[place->second];
    row.who.nr++;
    row.members.push_back(key);
    row_of_[key] = place->second;
  }

  void FindRows() {
    for (const ProcessHistory& process : history_.processes()) {
      if (process.bins.empty() && process.spans.empty()) continue;
      if (!IsSelected(selection_, process.key, process.comm, process.cgroup.get())) continue;
      Put(process.key, process);
      AddHistory(process, &second_.rows[row_of_[process.key]]);
    }
    for (const auto& [key, process] : board_.processes()) {
      if (!process.state.is_held() || process.heard_ns > range_.from_ns || row_of_.contains(key))
        continue;
      if (!IsSelected(selection_, key, process.comm, process.cgroup.get())) continue;
      ProcessHistory silent;
      silent.key = key;
      silent.comm = process.comm;
      silent.is_kernel = process.is_kernel;
      silent.cgroup = process.cgroup;
      Put(key, silent);
      if (process.state.waits())
        second_.rows[row_of_[key]].wait_ns[process.state.name == "throttled" ? kByQuota : kByUnknown] +=
            kSecondNs;
    }
  }

  void AddHistory(const ProcessHistory& process, TopRow* row) {
    for (const ProcessBin& bin : process.bins) {
      for (size_t i = 0; i < kNrWaitHindrances; i++) row->wait_ns[i] += bin.ns[i];
      row->did.cpu_ns += bin.cpu_ns;
      row->did.traffic_bytes += bin.traffic_bytes;
      row->did.has_traffic |= bin.has_traffic;
    }
    // It waits and has no row that says so yet.
    for (const Span& span : process.spans)
      if (span.why < kNrWaitHindrances)
        row->wait_ns[span.why] += static_cast<uint64_t>(std::max<int64_t>(
            0, std::min(span.to_ns, range_.to_ns) - std::max(span.from_ns, range_.from_ns)));
  }

  void FindNeighbors() {
    std::map<std::pair<size_t, uint32_t>, uint64_t> sums;  // row and process
    for (const RanWhile& pair : history_.ran_instead())
      if (const auto row = row_of_.find(history_.processes()[pair.waiter].key); row != row_of_.end())
        sums[{row->second, pair.ran}] += pair.ns;
    // Those of one name together, unless it is one only.
    std::map<std::pair<size_t, std::string>, std::pair<Party, uint64_t>> parties;
    for (const auto& [pair, ns] : sums) {
      const ProcessHistory& ran = history_.processes()[pair.second];
      const GroupName group = NameOfGroup(ran, by_.value_or(GroupBy::kName));
      auto& [party, sum] = parties[{pair.first, group.name}];
      if (party.nr++ == 0) party = {group.name, 1, ran.key.tgid, group.is_kernel, group.is_place, ""};
      sum += ns;
    }
    for (const auto& [place, party] : parties)
      second_.rows[place.first].ran_instead.emplace_back(party.first.Text(), party.second);
    for (TopRow& row : second_.rows)
      std::stable_sort(row.ran_instead.begin(), row.ran_instead.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; });
  }

  // What is known by the slot: the worst of them, and what was measured.
  void AddCells() {
    for (TopRow& row : second_.rows) {
      std::map<int64_t, uint64_t> waits;
      for (const ProcessKey& key : row.members) {
        const auto found = board_.processes().find(key);
        if (found == board_.processes().end()) continue;
        const auto& cells = found->second.cells;
        for (auto cell = cells.rbegin(); cell != cells.rend() && cell->start_ns >= range_.from_ns;
             ++cell) {
          if (!IsIn(cell->start_ns)) continue;
          row.did.has_waits |= cell->did.has_waits;
          row.did.measured_waits |= cell->did.measured_waits;
          row.did.has_gpu |= cell->did.has_gpu;
          row.did.gpu_active_ns += cell->did.gpu_active_ns;
          waits[cell->start_ns] += cell->did.wait_ns;
        }
        if (row.members.size() == 1) row.state = found->second.state;
      }
      for (const auto& [start_ns, ns] : waits) {
        if (ns > row.worst_wait_ns) {
          row.worst_wait_ns = ns;
          row.worst_start_ns = start_ns;
        }
        auto& [most, who] = worst_of_slot_[start_ns];
        if (ns <= most) continue;
        most = ns;
        who = row.who.Text();
      }
    }
  }

  void AddMachine() {
    for (const Board::Machine& slot : board_.machine()) {
      if (!IsIn(slot.start_ns)) continue;
      second_.recorded_ns += slot.slot_ns;
      second_.cpu_ns += slot.cpu_ns;
      second_.lost_ns += slot.lost_ns;
      second_.wait_ns += slot.wait_ns;
      second_.has_waits |= slot.has_waits;
      if (slot.wait_ns <= second_.worst_wait_ns) continue;
      second_.worst_wait_ns = slot.wait_ns;
      second_.worst_start_ns = slot.start_ns;
      second_.worst_who = worst_of_slot_[slot.start_ns].second;
    }
  }

  void Finish(TopRow* row) const {
    row->did.wait_ns =
        std::accumulate(row->wait_ns.begin(), row->wait_ns.begin() + kNrWaitHindrances, uint64_t{0});
    row->did.throttled_ns = row->wait_ns[kByQuota];
    row->did.has_waits |= row->did.wait_ns > 0;
    // Of who has no row, what is known is measured.
    for (size_t i = 0; i < kNrWaitHindrances; i++)
      if (row->wait_ns[i] > 0) row->did.measured_waits |= static_cast<uint8_t>(1u << i);
  }

  const Board& board_;
  const History& history_;
  const TopGroupBy by_;
  const Selection& selection_;
  const UnixRange range_;
  TopSecond second_;
  std::unordered_map<std::string, size_t> row_of_id_;
  std::unordered_map<ProcessKey, size_t, ProcessKeyHash> row_of_;
  std::map<int64_t, std::pair<uint64_t, std::string>> worst_of_slot_;  // of rows
};

}  // namespace

UnixRange LastSecondOf(const Board& board) {
  const int64_t to_ns = board.end_ns() / kBinNs * kBinNs;
  return to_ns == 0 ? UnixRange{0, 0} : UnixRange{to_ns - kSecondNs, to_ns};
}

TopSecond MakeSecond(const Board& board, const History& history, TopGroupBy by,
                     const Selection& selection) {
  return Maker(board, history, by, selection).Make();
}

}  // namespace slotscope
