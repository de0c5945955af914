// SPDX-License-Identifier: MIT
// The oracle: what slots.csv must say of a stream of items, made slowly and in the plainest way. It
// shares the definitions of messages and items with the engine, and no code: ordered maps instead of
// dense tables, every name looked up in the whole history, every row formatted anew.
#pragma once

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <slotscope/events.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ring/item.h"

namespace slotscope::oracle {

using Key = std::pair<int32_t, uint64_t>;  // tgid, start_time_ns
// cpu, wait, switches, preemptions, cycles, instructions, llc_misses, enabled, running
using Values = std::array<uint64_t, 9>;
constexpr uint64_t kGraceNs = 3'000'000;

inline void AddTo(Values* to, const Values& what) {
  for (size_t i = 0; i < what.size(); i++) (*to)[i] += what[i];
}

struct RowSum {
  Values values = {};
  std::set<size_t> lacking;  // columns that some piece lacked
  uint32_t rmid = 0;
  bool kthread = false, idle = false, untracked = false;
};

struct SlotSum {
  std::map<Key, RowSum> rows;
  uint64_t lost_ns = 0, offline_ns = 0;
};

struct Run {
  std::vector<int> present_cpus;
  size_t nr_streams;
  uint64_t slot_ns;
  uint64_t window_ns;
  int64_t unix_offset_ns;
};

class Oracle {
 public:
  explicit Oracle(const Run& run)
      : run_(run), cpus_(run.nr_streams), unix_offset_ns_(run.unix_offset_ns) {
    for (int cpu : run.present_cpus) cpus_[static_cast<size_t>(cpu)].present = true;
  }

  void Feed(std::span<const std::byte> items) {
    for (size_t at = 0; at < items.size();) {
      ItemHeader item;
      std::memcpy(&item, items.data() + at, sizeof(item));
      OnItem(item, items.subspan(at + sizeof(item), item.size));
      at += sizeof(item) + item.size;
    }
  }

  void Finish() {
    MoveWatermark();
    for (size_t cpu = 0; cpu < cpus_.size(); cpu++) TakeWaiting(cpu, UINT64_MAX);
    if (!dump_ends_.empty()) dumped_ns_ = std::min(dumped_ns_, dump_ends_.front());
    if (!first_ns_) FixFirst(UINT64_MAX);
    const uint64_t last_ns = first_ns_ ? LastBorder() : 0;
    while (next_ns_ + run_.slot_ns <= last_ns) Retire();
    for (const auto& [start_ns, slot] : slots_)
      for (const auto& [key, row] : slot.rows) AddTo(&after, row.values);
  }

  std::string csv;  // rows, and lines where the clock was set; no header, no counters
  uint64_t nr_slots = 0, nr_rows = 0, lost_ns = 0, offline_ns = 0;
  uint64_t nr_messages = 0, nr_malformed = 0, nr_unknown = 0, nr_lost = 0, nr_late = 0, nr_missed = 0;
  Values received = {}, written = {}, late = {}, before = {}, after = {};

 private:
  struct Cpu {
    bool present = false, expected = false, begun = false, measured = false;
    uint64_t begun_ns = 0, cursor_ns = 0;
    // of its ring
    bool online = false;
    uint64_t passed_ns = 0, continues_ns = 0;
    std::vector<ss_any_message> waiting;
  };
  struct Name {
    uint64_t ts_ns;
    std::string comm;
  };

  void OnItem(const ItemHeader& item, std::span<const std::byte> payload) {
    Cpu* cpu = item.stream < cpus_.size() ? &cpus_[item.stream] : nullptr;
    switch (item.kind) {
      case ItemKind::kRecords:
        OnRecords(item, payload);
        if (!(item.flags & kItemMore) && item.begin_ns > kGraceNs)
          cpu->passed_ns = std::max(cpu->passed_ns, item.begin_ns - kGraceNs);
        break;
      case ItemKind::kRoundEnd:
        MoveWatermark();
        break;
      case ItemKind::kOnline:
        cpu->online = true;
        cpu->passed_ns = std::max(cpu->passed_ns, item.begin_ns);
        break;
      case ItemKind::kOffline: {
        cpu->online = false;
        ss_any_message gone = {};
        uint64_t end_ns = std::max(cpu->continues_ns, watermark_ns_);
        for (const ss_any_message& message : cpu->waiting)
          end_ns = std::max<uint64_t>(end_ns, message.hdr.ts_ns);
        gone.hdr = {end_ns, SS_CPU_STATE, sizeof(ss_cpu_state), item.stream};
        Wait(item.stream, gone);
        break;
      }
      case ItemKind::kExpected:
        cpu->expected |= cpu->present;
        break;
      case ItemKind::kDump:
        for (size_t at = 0; at < payload.size();) {
          ss_hdr hdr;
          std::memcpy(&hdr, payload.data() + at, sizeof(hdr));
          OnMessage(item, payload.subspan(at, hdr.size));
          at += hdr.size;
        }
        break;
      case ItemKind::kDumpEnd:
        dump_ends_.push_back(item.begin_ns);
        break;
      case ItemKind::kClock:
        clocks_.emplace_back(item.begin_ns, static_cast<int64_t>(item.end_ns));
        break;
      default:
        break;
    }
  }

  void OnRecords(const ItemHeader& item, std::span<const std::byte> records) {
    for (size_t at = 0; at < records.size();) {
      perf_event_header header;
      std::memcpy(&header, records.data() + at, sizeof(header));
      auto body = records.subspan(at + sizeof(header), header.size - sizeof(header));
      at += header.size;
      if (header.type == PERF_RECORD_LOST) {
        uint64_t number;
        std::memcpy(&number, body.data() + 8, sizeof(number));
        nr_lost += number;
        continue;
      }
      uint32_t size;
      ss_hdr hdr;
      std::memcpy(&size, body.data(), sizeof(size));
      std::memcpy(&hdr, body.data() + 4, sizeof(hdr));
      if (hdr.size > size || size - hdr.size >= 8 || hdr.cpu != item.stream)
        nr_malformed++;
      else
        OnMessage(item, body.subspan(4, hdr.size));
    }
  }

  static size_t SizeOf(uint16_t type) {
    static const std::map<uint16_t, size_t> sizes = {{SS_MEASURE, sizeof(ss_measure)},
                                                     {SS_TASK_META, sizeof(ss_task_meta)},
                                                     {SS_RMID_ALLOC, sizeof(ss_rmid_event)},
                                                     {SS_RMID_FREE, sizeof(ss_rmid_event)},
                                                     {SS_RMID_ALLOC_FAILED, sizeof(ss_rmid_event)},
                                                     {SS_RMID_EXISTING, sizeof(ss_rmid_event)},
                                                     {SS_RDT_SAMPLE, sizeof(ss_rdt_sample)},
                                                     {SS_TICK, sizeof(ss_tick)},
                                                     {SS_CPU_STATE, sizeof(ss_cpu_state)}};
    auto found = sizes.find(type);
    return found == sizes.end() ? 0 : found->second;
  }

  static bool IsSane(const ss_any_message& message) {
    if (message.hdr.type != SS_MEASURE)
      return true;  // the generator spoils nothing else in a valid size
    const ss_measure& measure = message.measure;
    for (const ss_counter& counter : measure.counters)
      if (counter.running_ns > counter.enabled_ns) return false;
    return measure.start_ns <= measure.hdr.ts_ns && measure.preemptions <= measure.switches &&
           measure.tgid >= 0;
  }

  void OnMessage(const ItemHeader& item, std::span<const std::byte> bytes) {
    ss_any_message message = {};
    std::memcpy(static_cast<void*>(&message), bytes.data(), std::min(bytes.size(), sizeof(message)));
    if (SizeOf(message.hdr.type) == 0) {
      nr_unknown++;
      return;
    }
    if (bytes.size() < SizeOf(message.hdr.type) || !IsSane(message) ||
        message.hdr.ts_ns > item.end_ns + kGraceNs) {
      nr_malformed++;
      return;
    }
    nr_messages++;
    const bool is_late = message.hdr.ts_ns < watermark_ns_;
    nr_late += is_late;
    if (message.hdr.type == SS_MEASURE || message.hdr.type == SS_CPU_STATE) {
      if (is_late) {
        Take(item.stream, message);
        TakeWaiting(item.stream, 0);
      } else {
        Wait(item.stream, message);
      }
    } else if (message.hdr.type == SS_TASK_META && !(message.task_meta.flags & SS_TASK_EXIT)) {
      const ss_task_meta& meta = message.task_meta;
      auto& names = names_[{meta.tgid, meta.start_time_ns}];
      names.push_back({std::max<uint64_t>(meta.hdr.ts_ns, next_ns_), meta.comm});
      std::stable_sort(names.begin(), names.end(),
                       [](const Name& a, const Name& b) { return a.ts_ns < b.ts_ns; });
    }
  }

  // ---- The order of one CPU.

  void Wait(size_t index, const ss_any_message& message) {
    auto& waiting = cpus_[index].waiting;
    waiting.push_back(message);
    // By end, and then by start: one of no length follows the one that ends where it does.
    std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
      return std::pair(a.hdr.ts_ns, StartOf(a)) < std::pair(b.hdr.ts_ns, StartOf(b));
    });
    TakeWaiting(index, 0);
  }

  static uint64_t StartOf(const ss_any_message& message) {
    return message.hdr.type == SS_MEASURE ? message.measure.start_ns : message.hdr.ts_ns;
  }

  void TakeWaiting(size_t index, uint64_t until_ns) {
    Cpu& cpu = cpus_[index];
    while (!cpu.waiting.empty()) {
      ss_any_message message = cpu.waiting.front();
      if (message.hdr.ts_ns >= until_ns && StartOf(message) != cpu.continues_ns) break;
      cpu.waiting.erase(cpu.waiting.begin());
      Take(index, message);
    }
  }

  void Take(size_t index, const ss_any_message& message) {
    Cpu& cpu = cpus_[index];
    cpu.continues_ns = std::max<uint64_t>(cpu.continues_ns, message.hdr.ts_ns);
    if (!cpu.present) return;
    if (message.hdr.type == SS_CPU_STATE)
      TakeState(&cpu, message.cpu_state);
    else
      TakeMeasure(&cpu, message.measure);
  }

  void MoveWatermark() {
    uint64_t newest_ns = 0;
    for (const Cpu& cpu : cpus_)
      if (cpu.online) newest_ns = std::max(newest_ns, cpu.passed_ns);
    uint64_t all_ns = newest_ns;
    for (const Cpu& cpu : cpus_)
      if (cpu.online && newest_ns - cpu.passed_ns <= run_.window_ns)
        all_ns = std::min(all_ns, cpu.passed_ns);
    if (all_ns <= watermark_ns_) return;
    watermark_ns_ = all_ns;
    for (size_t cpu = 0; cpu < cpus_.size(); cpu++) TakeWaiting(cpu, watermark_ns_);
    for (uint64_t end_ns : dump_ends_)
      if (end_ns < watermark_ns_) dumped_ns_ = std::min(dumped_ns_, end_ns);
    if (!first_ns_) FixFirst(watermark_ns_);
    if (first_ns_)
      while (next_ns_ + run_.slot_ns + run_.window_ns <= watermark_ns_) Retire();
  }

  // ---- Time into slots.

  static void Begin(Cpu* cpu, uint64_t ts_ns, bool measured) {
    cpu->begun = true;
    cpu->measured = measured;
    cpu->begun_ns = cpu->cursor_ns = ts_ns;
  }

  void TakeState(Cpu* cpu, const ss_cpu_state& state) {
    if (!cpu->begun) {
      Begin(cpu, state.hdr.ts_ns, state.online);
      return;
    }
    Gap(cpu, state.hdr.ts_ns);
    cpu->measured = state.online;
  }

  void TakeMeasure(Cpu* cpu, const ss_measure& measure) {
    const uint64_t start_ns = measure.start_ns, end_ns = measure.hdr.ts_ns;
    if (measure.flags & SS_MEASURE_UNKNOWN) {
      nr_missed++;
      if (cpu->begun)
        Gap(cpu, end_ns);
      else
        Begin(cpu, end_ns, true);
      return;
    }
    RowSum whole;
    whole.values = {end_ns - start_ns, measure.wait_ns, measure.switches, measure.preemptions};
    if (measure.flags & SS_MEASURE_NO_WAIT) whole.lacking.insert(1);
    bool any = false;
    for (size_t i = 0; i < SS_NR_COUNTERS; i++) {
      const ss_counter& counter = measure.counters[i];
      if (counter.running_ns == 0) {
        whole.lacking.insert(4 + i);
        continue;
      }
      whole.values[4 + i] = counter.delta;
      if (!any) whole.values[7] = counter.enabled_ns, whole.values[8] = counter.running_ns;
      any = true;
    }
    if (!any) whole.lacking.insert(7);
    whole.rmid = measure.rmid;
    whole.kthread = measure.flags & SS_MEASURE_KTHREAD;
    whole.idle = measure.flags & SS_MEASURE_IDLE;
    whole.untracked = measure.flags & SS_MEASURE_UNTRACKED;
    AddTo(&received, whole.values);

    if (!cpu->begun) {
      Begin(cpu, end_ns, true);
      AddTo(&before, whole.values);
      return;
    }
    if (end_ns <= cpu->begun_ns) {
      AddTo(!first_ns_ || end_ns <= first_ns_ ? &before : &late, whole.values);
      return;
    }
    Gap(cpu, start_ns);
    cpu->measured = true;
    Key key = {measure.tgid, measure.start_time_ns};
    if (start_ns == end_ns) {
      Put(key, whole, whole.values, end_ns - 1, 0);
      return;
    }
    // Every border that can matter; a piece between two of them has one home.
    std::set<uint64_t> cuts = {start_ns, end_ns};
    for (uint64_t at_ns : {first_ns_, cpu->cursor_ns})
      if (at_ns > start_ns && at_ns < end_ns) cuts.insert(at_ns);
    for (uint64_t at_ns = start_ns / run_.slot_ns * run_.slot_ns; at_ns < end_ns; at_ns += run_.slot_ns)
      if (at_ns > start_ns) cuts.insert(at_ns);
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      Values piece = {};
      for (size_t i = 0; i < piece.size(); i++) {
        bool at_start = i == 1 || ((i == 2 || i == 3) && (measure.flags & SS_MEASURE_TICK));
        bool at_end = (i == 2 || i == 3) && !at_start;
        if (at_start)
          piece[i] = *cut == start_ns ? whole.values[i] : 0;
        else if (at_end)
          piece[i] = *std::next(cut) == end_ns ? whole.values[i] : 0;
        else
          piece[i] = ShareUpTo(whole.values[i], *std::next(cut) - start_ns, end_ns - start_ns) -
                     ShareUpTo(whole.values[i], *cut - start_ns, end_ns - start_ns);
      }
      Put(key, whole, piece, *cut, cpu->cursor_ns);
    }
    cpu->cursor_ns = std::max(cpu->cursor_ns, end_ns);
  }

  static uint64_t ShareUpTo(uint64_t value, uint64_t part, uint64_t whole) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * part / whole);
  }

  void Put(Key key, const RowSum& whole, const Values& piece, uint64_t at_ns, uint64_t cursor_ns) {
    if (first_ns_ && at_ns < first_ns_) {
      AddTo(&before, piece);
      return;
    }
    if (at_ns < cursor_ns || (first_ns_ && at_ns < next_ns_)) {
      AddTo(&late, piece);
      return;
    }
    RowSum& row = slots_[at_ns / run_.slot_ns * run_.slot_ns].rows[key];
    AddTo(&row.values, piece);
    row.lacking.insert(whole.lacking.begin(), whole.lacking.end());
    row.rmid = std::max(row.rmid, whole.rmid);
    row.kthread |= whole.kthread;
    row.idle |= whole.idle;
    row.untracked |= whole.untracked;
  }

  void Gap(Cpu* cpu, uint64_t until_ns) {
    if (until_ns <= cpu->cursor_ns) return;
    for (uint64_t at_ns = std::max(cpu->cursor_ns, next_ns_); at_ns < until_ns;) {
      uint64_t start_ns = at_ns / run_.slot_ns * run_.slot_ns;
      uint64_t end_ns = std::min(until_ns, start_ns + run_.slot_ns);
      SlotSum& slot = slots_[start_ns];
      (cpu->measured ? slot.lost_ns : slot.offline_ns) += end_ns - at_ns;
      at_ns = end_ns;
    }
    cpu->cursor_ns = until_ns;
  }

  void FixFirst(uint64_t now_ns) {
    bool any = false, all = true;
    uint64_t earliest_ns = now_ns, from_ns = dumped_ns_;
    for (const Cpu& cpu : cpus_) {
      any |= cpu.begun;
      all &= cpu.begun || !cpu.expected;
      if (!cpu.begun) continue;
      earliest_ns = std::min(earliest_ns, cpu.begun_ns);
      from_ns = std::max(from_ns, cpu.begun_ns);
    }
    if (dumped_ns_ == UINT64_MAX || !any || !(all || now_ns - earliest_ns > run_.window_ns)) return;
    first_ns_ = next_ns_ = (from_ns + run_.slot_ns - 1) / run_.slot_ns * run_.slot_ns;
    while (!slots_.empty() && slots_.begin()->first < first_ns_) {
      for (const auto& [key, row] : slots_.begin()->second.rows) AddTo(&before, row.values);
      slots_.erase(slots_.begin());
    }
    for (Cpu& cpu : cpus_)
      if (cpu.present && !cpu.begun) Begin(&cpu, first_ns_, false);
  }

  uint64_t LastBorder() const {
    uint64_t newest_ns = 0;
    for (const Cpu& cpu : cpus_)
      if (cpu.present && cpu.measured) newest_ns = std::max(newest_ns, cpu.cursor_ns);
    uint64_t last_ns = newest_ns;
    for (const Cpu& cpu : cpus_)
      if (cpu.present && cpu.measured && newest_ns - cpu.cursor_ns <= run_.window_ns)
        last_ns = std::min(last_ns, cpu.cursor_ns);
    return last_ns / run_.slot_ns * run_.slot_ns;
  }

  // ---- Rows.

  void Retire() {
    const uint64_t end_ns = next_ns_ + run_.slot_ns;
    for (Cpu& cpu : cpus_)
      if (cpu.present) Gap(&cpu, end_ns);
    SlotSum slot = slots_[next_ns_];
    slots_.erase(next_ns_);
    int64_t offset_ns = unix_offset_ns_;
    while (!clocks_.empty() && clocks_.front().first <= next_ns_) {
      offset_ns = clocks_.front().second;
      clocks_.erase(clocks_.begin());
    }
    if (offset_ns != unix_offset_ns_) csv += fmt::format("# unix_offset_ns: {}\n", offset_ns);
    unix_offset_ns_ = offset_ns;
    for (const auto& [key, row] : slot.rows) {
      AddTo(&written, row.values);
      AppendRow(key, row, end_ns);
    }
    auto time_row = [&](const char* kind, uint64_t time_ns) {
      if (time_ns == 0) return;
      csv += fmt::format("{},{},,,,,{},{},,,,,,,,,,,,,,,,\n", next_ns_,
                         static_cast<int64_t>(next_ns_) + unix_offset_ns_, kind, time_ns);
      nr_rows++;
    };
    time_row("lost", slot.lost_ns);
    time_row("offline", slot.offline_ns);
    lost_ns += slot.lost_ns;
    offline_ns += slot.offline_ns;
    nr_slots++;
    next_ns_ = end_ns;
  }

  std::string NameAt(Key key, uint64_t ts_ns) const {
    std::string comm;
    if (auto found = names_.find(key); found != names_.end())
      for (const Name& name : found->second)
        if (name.ts_ns <= ts_ns) comm = name.comm;
    std::string escaped;
    for (unsigned char c : comm) {
      bool plain = c >= 0x20 && c <= 0x7e && !strchr(",\"\\", c);
      escaped += plain ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
    }
    return escaped;
  }

  void AppendRow(Key key, const RowSum& row, uint64_t end_ns) {
    if (row.values == Values{}) return;
    const char* kind = row.idle ? "idle" : row.kthread ? "kernel" : row.rmid ? "user" : "unassigned";
    csv +=
        fmt::format("{},{},{},{},{},{},{}", next_ns_, static_cast<int64_t>(next_ns_) + unix_offset_ns_,
                    key.first, row.idle || row.untracked ? "" : std::to_string(key.second),
                    row.idle ? "idle" : NameAt(key, end_ns), row.rmid, kind);
    for (size_t i = 0; i < 7; i++)
      csv += row.lacking.contains(i) ? "," : fmt::format(",{}", row.values[i]);
    csv += ',';
    if (uint64_t enabled = row.values[7]; enabled && !row.lacking.contains(7)) {
      uint64_t tenths = (row.values[8] * 2000 + enabled) / (enabled * 2);
      csv += fmt::format("{}.{}", tenths / 10, tenths % 10);
    }
    csv += ",,,,unsupported,,,,,\n";
    nr_rows++;
  }

  Run run_;
  std::vector<Cpu> cpus_;
  std::map<uint64_t, SlotSum> slots_;
  std::map<Key, std::vector<Name>> names_;
  std::vector<uint64_t> dump_ends_;
  std::vector<std::pair<uint64_t, int64_t>> clocks_;
  uint64_t watermark_ns_ = 0, first_ns_ = 0, next_ns_ = 0, dumped_ns_ = UINT64_MAX;
  int64_t unix_offset_ns_;
};

}  // namespace slotscope::oracle
