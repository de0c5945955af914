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

#include "base/rdt_shape.h"
#include "ring/item.h"
#include "slots/accounting.h"

namespace slotscope::oracle {

using Key = std::pair<int32_t, uint64_t>;  // tgid, start_time_ns
// cpu, wait, switches, preemptions, cycles, instructions, llc_misses, enabled, running, migrations; and
// of each perf counter behind these: delta, enabled, running.
constexpr size_t kMoreAt = 10;
using Values = std::array<uint64_t, kMoreAt + 3 * SS_MAX_MORE>;
constexpr uint64_t kGraceNs = 3'000'000;
constexpr uint64_t kLeadNs = 10'000'000;  // from an item of another slot length to its first slot

inline void AddTo(Values* to, const Values& what) {
  for (size_t i = 0; i < what.size(); i++) (*to)[i] += what[i];
}

using Interval = std::pair<uint64_t, uint64_t>;

// A process in one slot and L3 domain.
struct DomainSum {
  uint64_t cpu_ns = 0;
  Interval ran = {UINT64_MAX, 0};
  std::array<uint64_t, 2> bytes = {};  // mbm total, local
  std::array<std::set<Interval>, 2> covered;
  std::array<unsigned, 2> status = {};
  std::set<std::array<uint64_t, 3>> readings;  // when, status, bytes
};

// Why a process waited in a slot: others, self, throttled, wakeup, steal, unknown.
struct WaitSum {
  std::array<uint64_t, 6> causes = {};
  uint64_t earlier_ns = 0;
  std::map<std::pair<size_t, Key>, uint64_t> earlier;  // by cause, and by who ran
  std::map<Key, uint64_t> others;                      // who ran
  // Waits that last beyond the slot: since when, and are they throttled then.
  std::set<std::pair<uint64_t, bool>> lasting;
};

struct RowSum {
  Values values = {};
  WaitSum wait;
  std::map<uint32_t, DomainSum> domains;  // by id
  bool without_rmid = false;              // at some time
  std::set<size_t> lacking;               // columns that some piece lacked
  uint32_t rmid = 0, generation = 0, cpu = 0;
  bool kthread = false, idle = false, untracked = false;
  std::map<uint32_t, uint64_t> on_ns;  // by CPU
  uint32_t flags = 0;                  // of one measure
  uint64_t end_ns = 0;
  std::set<std::pair<uint64_t, uint32_t>>
      ends;  // when pieces ended, and how: SS_LEFT_*, or 8: it runs on
};

struct SlotSum {
  std::map<Key, RowSum> rows;
  uint64_t lost_ns = 0, offline_ns = 0;
  Interval lost = {UINT64_MAX, 0};  // hull
};

struct Run {
  std::vector<int> present_cpus;
  size_t nr_streams;
  uint64_t slot_ns;
  uint64_t window_ns;
  int64_t unix_offset_ns;
  RdtShape rdt;
  size_t nr_more;
  std::set<size_t> lacking;  // columns that no measure has
  bool has_waits = false;
};

class Oracle {
 public:
  explicit Oracle(const Run& run)
      : run_(run),
        cpus_(run.nr_streams),
        lengths_{{0, run.slot_ns}},
        unix_offset_ns_(run.unix_offset_ns) {
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
    all_measured_ns_ = first_ns_ ? AllMeasuredUntil() : 0;
    for (const Waited& waited : std::exchange(waited_, {})) {
      if (first_ns_)
        Place(waited);
      else
        before[1] += waited.ns;
    }
    const uint64_t last_ns = StartOf(all_measured_ns_);
    while (EndOf(next_ns_) <= last_ns) Retire();
    for (const auto& [start_ns, slot] : slots_)
      for (const auto& [key, row] : slot.rows) {
        for (const auto& [why, ns] : row.wait.earlier) earlier[{key, why.first, why.second}] -= ns;
        AddTo(&after, row.values);
        after[1] += row.wait.earlier_ns;
        earlier_ns -= row.wait.earlier_ns;
        for (size_t i = 0; i < 2; i++) mbm.after[i] += BytesOf(row, i);
      }
    for (const auto& [slot_ns, sample] : samples_) CountMbm(sample, &mbm.after);
  }

  std::string csv;  // rows, and lines where the clock was set; no header, no counters
  uint64_t nr_slots = 0, nr_rows = 0, lost_ns = 0, offline_ns = 0;
  uint64_t nr_messages = 0, nr_malformed = 0, nr_unknown = 0, nr_lost = 0, nr_late = 0, nr_missed = 0;
  Values received = {}, written = {}, late = {}, before = {}, after = {};
  uint64_t earlier_ns = 0;                                   // of waiting
  std::map<std::tuple<Key, size_t, Key>, uint64_t> earlier;  // of it, by who waited, why, and for whom
  std::array<uint64_t, 6> caused_ns = {};
  MbmAccounting mbm;
  uint64_t nr_late_samples = 0, nr_unowned = 0;

 private:
  union Message {
    ss_hdr hdr;
    ss_any_message any;
    ss_long_measure long_measure;
  };
  struct Cpu {
    bool present = false, expected = false, begun = false, measured = false;
    uint64_t begun_ns = 0, cursor_ns = 0;
    // of its ring
    bool online = false;
    uint64_t passed_ns = 0, continues_ns = 0;
    std::vector<Message> waiting;
  };
  struct Name {
    uint64_t ts_ns;
    std::string comm;
  };

  uint64_t LengthAt(uint64_t ts_ns) const { return std::prev(lengths_.upper_bound(ts_ns))->second; }
  uint64_t StartOf(uint64_t ts_ns) const { return ts_ns / LengthAt(ts_ns) * LengthAt(ts_ns); }
  uint64_t EndOf(uint64_t start_ns) const { return start_ns + LengthAt(start_ns); }

  // Where a slot of both lengths would begin.
  void ChangeLength(uint64_t from_ns, uint64_t slot_ns) {
    slot_ns = (slot_ns + run_.slot_ns - 1) / run_.slot_ns * run_.slot_ns;
    const auto [last_ns, length_ns] = *lengths_.rbegin();
    if (length_ns == slot_ns) return;
    from_ns = (std::max(from_ns, last_ns) + run_.slot_ns - 1) / run_.slot_ns * run_.slot_ns;
    while (from_ns % slot_ns || from_ns % length_ns) from_ns += run_.slot_ns;
    lengths_[from_ns] = slot_ns;
  }

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
        Message gone = {};
        uint64_t end_ns = std::max(cpu->continues_ns, watermark_ns_);
        for (const Message& message : cpu->waiting)
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
      case ItemKind::kSlotLength: {
        uint64_t slot_ns;
        std::memcpy(&slot_ns, payload.data(), sizeof(slot_ns));
        ChangeLength(item.begin_ns + kLeadNs, slot_ns);
        break;
      }
      case ItemKind::kWaitCauses: {
        uint64_t told;
        std::memcpy(&told, payload.data(), sizeof(told));
        causes_told_[item.begin_ns + kLeadNs] = told != 0;
        break;
      }
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
                                                     {SS_CPU_STATE, sizeof(ss_cpu_state)},
                                                     {SS_WAIT, sizeof(ss_wait)},
                                                     {SS_CUDA_CALL, sizeof(ss_cuda_call)},
                                                     {SS_CUDA_TURN, sizeof(ss_cuda_turn)}};
    auto found = sizes.find(type);
    return found == sizes.end() ? 0 : found->second;
  }

  static bool IsSane(const Message& message, size_t size) {
    if (message.hdr.type == SS_CUDA_CALL) {  // only a damaged message has this type here
      const ss_cuda_call& call = message.any.cuda_call;
      return call.hdr.ts_ns > 0 && call.start_ns <= call.hdr.ts_ns && call.tgid > 0 && call.tid > 0 &&
             call.op > 0 && call.op < SS_CUDA_NR_OPS;
    }
    if (message.hdr.type == SS_CUDA_TURN) {  // the same
      const ss_cuda_turn& turn = message.any.cuda_turn;
      return turn.hdr.ts_ns > 0 && turn.tgid > 0 && turn.tid > 0 && turn.turn > 0 && turn.turn <= 3 &&
             turn.left <= SS_LEFT_ENDED && turn.op < SS_CUDA_NR_OPS;
    }
    if (message.hdr.type == SS_WAIT) {
      const ss_wait& wait = message.any.wait;
      return wait.end_ns > 0 && wait.end_ns <= wait.hdr.ts_ns && wait.wait_ns <= wait.end_ns &&
             wait.start_ns < wait.end_ns && wait.tgid >= 0;
    }
    if (message.hdr.type != SS_MEASURE)
      return true;  // the generator spoils nothing else in a valid size
    const ss_measure& measure = message.any.measure;
    for (const ss_counter& counter : measure.counters)
      if (counter.running_ns > counter.enabled_ns) return false;
    for (size_t i = 0; sizeof(ss_measure) + (i + 1) * sizeof(ss_counter) <= size && i < SS_MAX_MORE; i++)
      if (message.long_measure.more[i].running_ns > message.long_measure.more[i].enabled_ns)
        return false;
    return measure.start_ns <= measure.hdr.ts_ns && measure.preemptions <= measure.switches &&
           measure.tgid >= 0;
  }

  // Only a damaged message is one here.
  static bool IsText(std::span<const std::byte> bytes) {
    ss_text text = {};
    std::memcpy(static_cast<void*>(&text), bytes.data(), std::min(bytes.size(), sizeof(text)));
    const bool names_process = text.hdr.type != SS_CGROUP && text.hdr.type != SS_CGROUP_GONE;
    return bytes.size() >= offsetof(ss_text, text) + text.text_len && text.text_len <= SS_TEXT_LEN &&
           text.tgid >= 0 && names_process == (text.tgid != 0);
  }

  void OnMessage(const ItemHeader& item, std::span<const std::byte> bytes) {
    Message message = {};
    std::memcpy(static_cast<void*>(&message), bytes.data(), std::min(bytes.size(), sizeof(message)));
    if (message.hdr.type == SS_CUDA_CALLS) {  // a damaged one, so it has none in it
      nr_malformed += bytes.size() != sizeof(ss_hdr);
      return;
    }
    if (message.hdr.type >= SS_EXEC && message.hdr.type <= SS_CGROUP_MOVE) {  // no row shows it
      const bool is_text = IsText(bytes) && message.hdr.ts_ns <= item.end_ns + kGraceNs;
      (is_text ? nr_messages : nr_malformed)++;
      nr_late += is_text && message.hdr.ts_ns < watermark_ns_;
      return;
    }
    if (SizeOf(message.hdr.type) == 0) {
      nr_unknown++;
      return;
    }
    if (bytes.size() < SizeOf(message.hdr.type) || !IsSane(message, bytes.size()) ||
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
    } else if (message.hdr.type == SS_WAIT) {
      if (run_.has_waits) TakeWait(message.any.wait);
    } else if (message.hdr.type == SS_RDT_SAMPLE) {
      CountMbm(message.any.rdt_sample, &mbm.received);
      Queue(message.any.rdt_sample);
    } else if (message.hdr.type == SS_RMID_ALLOC || message.hdr.type == SS_RMID_EXISTING) {
      const ss_rmid_event& event = message.any.rmid_event;
      Learn(event.rmid, event.generation, {event.tgid, event.start_time_ns},
            std::max<uint64_t>(event.hdr.ts_ns, next_ns_));
      if (message.hdr.type == SS_RMID_ALLOC)
        allocated_ns_[{event.tgid, event.start_time_ns}] = std::max<uint64_t>(event.hdr.ts_ns, next_ns_);
    } else if (message.hdr.type == SS_TASK_META && !(message.any.task_meta.flags & SS_TASK_EXIT)) {
      const ss_task_meta& meta = message.any.task_meta;
      auto& names = names_[{meta.tgid, meta.start_time_ns}];
      names.push_back({std::max<uint64_t>(meta.hdr.ts_ns, next_ns_), meta.comm});
      std::stable_sort(names.begin(), names.end(),
                       [](const Name& a, const Name& b) { return a.ts_ns < b.ts_ns; });
    }
  }

  // ---- The order of one CPU.

  void Wait(size_t index, const Message& message) {
    auto& waiting = cpus_[index].waiting;
    waiting.push_back(message);
    // By end, and then by start: one of no length follows the one that ends where it does.
    std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
      return std::pair(a.hdr.ts_ns, StartOf(a)) < std::pair(b.hdr.ts_ns, StartOf(b));
    });
    TakeWaiting(index, 0);
  }

  static uint64_t StartOf(const Message& message) {
    return message.hdr.type == SS_MEASURE ? message.any.measure.start_ns : message.hdr.ts_ns;
  }

  void TakeWaiting(size_t index, uint64_t until_ns) {
    Cpu& cpu = cpus_[index];
    while (!cpu.waiting.empty()) {
      const Message message = cpu.waiting.front();
      if (message.hdr.ts_ns >= until_ns && StartOf(message) != cpu.continues_ns) break;
      cpu.waiting.erase(cpu.waiting.begin());
      Take(index, message);
    }
  }

  void Take(size_t index, const Message& message) {
    Cpu& cpu = cpus_[index];
    cpu.continues_ns = std::max<uint64_t>(cpu.continues_ns, message.hdr.ts_ns);
    if (!cpu.present) return;
    if (message.hdr.type == SS_CPU_STATE)
      TakeState(&cpu, message.any.cpu_state);
    else
      TakeMeasure(&cpu, message.long_measure);
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
    if (!first_ns_) return;
    PlaceWaits(watermark_ns_, run_.window_ns / 2);
    while (EndOf(next_ns_) + run_.window_ns <= watermark_ns_) Retire();
  }

  // ---- Waiting.

  struct Ran {
    uint64_t start_ns, end_ns;
    Key key;
    char what;  // 'p' process, 'i' idle, '?'
    uint64_t stolen_ns;
  };
  struct Waited {
    Key key;
    uint32_t rmid;
    bool kthread;
    char
        how;  // 'w' one wait, 'o' own, '?' unknown when, 's' a sum, 'b' for `ran`, 'i' for idle, 'f' far
    uint64_t cut_ns;
    size_t cpu;
    uint64_t start_ns, end_ns, ns;
    Key ran = {};
    uint64_t throttled_from_ns = 0, throttled_to_ns = 0;
  };

  void TakeWait(const ss_wait& wait) {
    received[1] += wait.wait_ns;
    Waited one = {{wait.tgid, wait.start_time_ns},
                  wait.rmid,
                  (wait.flags & SS_WAIT_KTHREAD) != 0,
                  'w',
                  wait.cut_ns,
                  wait.queue_cpu,
                  wait.start_ns,
                  wait.end_ns,
                  wait.wait_ns};
    if (wait.flags & SS_WAIT_OWN)
      one.how = 'o';
    else if (wait.flags & (SS_WAIT_HIDDEN | SS_WAIT_PHANTOM))
      one.how = '?';
    else if ((wait.flags & SS_WAIT_QUOTA) &&
             !(wait.flags & (SS_WAIT_FOR | SS_WAIT_IDLE | SS_WAIT_FAR))) {
      one.throttled_from_ns = wait.start_ns;
      one.throttled_to_ns = wait.throttled_until_ns;
    } else if (wait.flags & (SS_WAIT_FOR | SS_WAIT_IDLE | SS_WAIT_FAR))
      one.how = wait.flags & SS_WAIT_FOR ? 'b' : wait.flags & SS_WAIT_IDLE ? 'i' : 'f';
    one.ran = {wait.ran_tgid, wait.ran_start_time_ns};
    waited_.push_back(one);
  }

  // Of a measure that is about to be taken; then who ran is known up to its end.
  void TakeWaitOf(const ss_measure& measure) {
    if (measure.wait_ns && !(measure.flags & SS_MEASURE_UNKNOWN)) {
      received[1] += measure.wait_ns;
      const bool one = measure.flags & SS_MEASURE_ONE_WAIT;
      const Waited waited = {
          {measure.tgid, measure.start_time_ns},
          measure.rmid,
          (measure.flags & SS_MEASURE_KTHREAD) != 0,
          one ? 'w' : 's',
          one ? measure.cut_ns : 0,
          measure.hdr.cpu,
          measure.start_ns,
          one ? measure.start_ns : std::max<uint64_t>(measure.start_ns + 1, measure.hdr.ts_ns),
          measure.wait_ns};
      if (first_ns_)
        Place(waited);
      else
        waited_.push_back(waited);
    }
    auto& ran = ran_[measure.hdr.cpu];
    const uint64_t known_ns = ran.empty() ? measure.start_ns : ran.back().end_ns;
    if (measure.hdr.ts_ns <= known_ns) return;
    if (measure.start_ns > known_ns) ran.push_back({known_ns, measure.start_ns, {}, '?', 0});
    ran.push_back({std::max<uint64_t>(known_ns, measure.start_ns), measure.hdr.ts_ns,
                   measure.flags & SS_MEASURE_UNKNOWN ? Key() : Key(measure.tgid, measure.start_time_ns),
                   measure.flags & SS_MEASURE_UNKNOWN ? '?'
                   : measure.flags & SS_MEASURE_IDLE  ? 'i'
                                                      : 'p',
                   measure.stolen_ns});
  }

  void PlaceWaits(uint64_t until_ns, uint64_t patience_ns) {
    std::vector<Waited> left;
    for (const Waited& waited : std::exchange(waited_, {})) {
      const auto& ran = ran_[waited.cpu];
      const bool known = waited.how == '?' || waited.how == 's' || waited.cpu > MaxCpu() ||
                         (ran.empty() ? 0 : ran.back().end_ns) >= waited.end_ns ||
                         until_ns - waited.end_ns >= patience_ns;
      if (waited.end_ns <= until_ns && known)
        Place(waited);
      else
        left.push_back(waited);
    }
    waited_ = left;
  }

  size_t MaxCpu() const {
    return static_cast<size_t>(*std::max_element(run_.present_cpus.begin(), run_.present_cpus.end()));
  }

  // Every border cuts; each piece is looked up by its middle.
  void Place(Waited waited) {
    if (waited.how == 'o') threaded_.insert(waited.key);
    const auto era = causes_told_.upper_bound(waited.end_ns);
    if (era != causes_told_.begin() && !std::prev(era)->second) {
      waited.how = waited.how == 'w' || waited.how == '?' ? '?' : 's';
    }
    uint64_t begin_ns =
        waited.how == 'w' || waited.how == '?' ? waited.end_ns - waited.ns : waited.start_ns;
    const uint64_t end_ns = waited.end_ns, length_ns = end_ns - begin_ns, told_begin_ns = begin_ns;
    const auto spread = [&](uint64_t ns, size_t cause, Key who, uint64_t stolen_ns = 0) {
      std::set<uint64_t> cuts = Borders(begin_ns, end_ns);
      for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        const auto part = [&](uint64_t of) {
          return ShareUpTo(of, *std::next(cut) - begin_ns, length_ns) -
                 ShareUpTo(of, *cut - begin_ns, length_ns);
        };
        Put(waited, *cut, part(ns), cause, who, part(stolen_ns));
      }
    };
    if (waited.how == 'f') {
      std::vector<Ran> others;
      uint64_t sum_ns = 0, until_ns = 0;
      if (waited.cpu <= MaxCpu())
        for (const Ran& run : ran_[waited.cpu]) {
          if (run.end_ns <= begin_ns || run.start_ns >= end_ns) continue;
          if (run.what == 'p' && run.key == waited.key && !threaded_.contains(waited.key)) continue;
          if (!others.empty() && others.back().end_ns == run.start_ns && others.back().key == run.key &&
              others.back().what == run.what &&
              others.back().stolen_ns + run.stolen_ns == 0) {  // it ran on
            sum_ns += std::min(run.end_ns, end_ns) - run.start_ns;
            others.back().end_ns = std::min(run.end_ns, end_ns);
            continue;
          }
          others.push_back(run);
          others.back().start_ns = std::max(run.start_ns, begin_ns);
          others.back().end_ns = std::min(run.end_ns, end_ns);
          sum_ns += others.back().end_ns - others.back().start_ns;
          others.back().stolen_ns = StolenIn(run, others.back().start_ns, others.back().end_ns);
        }
      if (others.empty()) spread(waited.ns, 5, {});
      for (const Ran& run : others) {
        const auto next = [&](uint64_t ns, size_t cause) {
          const uint64_t before_ns = ShareUpTo(waited.ns, until_ns, sum_ns);
          until_ns += ns;
          spread(ShareUpTo(waited.ns, until_ns, sum_ns) - before_ns, cause, run.key);
        };
        next(run.end_ns - run.start_ns - run.stolen_ns, CauseOf(run, waited.key));
        next(run.stolen_ns, 4);
      }
      return;
    }
    if (waited.how != 'w' && waited.how != '?') {
      const std::map<char, size_t> causes = {{'s', 5}, {'o', 1}, {'b', 0}, {'i', 3}};
      const size_t cause = causes.at(waited.how);
      uint64_t ran_ns = 0, stolen_ns = 0;
      if (waited.cpu <= MaxCpu() && waited.how != 's')
        for (const Ran& run : ran_[waited.cpu]) {
          if (run.end_ns <= begin_ns || run.start_ns >= end_ns || CauseOf(run, waited.key) != cause ||
              (cause == 0 && run.key != waited.ran))
            continue;
          const uint64_t from_ns = std::max(run.start_ns, begin_ns);
          ran_ns += std::min(run.end_ns, end_ns) - from_ns;
          stolen_ns += StolenIn(run, from_ns, std::min(run.end_ns, end_ns));
        }
      spread(waited.ns, cause, waited.ran, ran_ns ? ShareUpTo(waited.ns, stolen_ns, ran_ns) : 0);
      return;
    }
    static const std::vector<Ran> kNothing;
    const auto& ran = waited.how == '?' || waited.cpu > MaxCpu() ? kNothing : ran_[waited.cpu];
    // What is in front of the end of the first run of its own goes to whoever came next.
    const uint64_t throttled_ns = std::clamp(waited.throttled_from_ns, begin_ns, end_ns);
    const uint64_t goes_on_ns = std::clamp(waited.throttled_to_ns, throttled_ns, end_ns);
    const bool was_throttled = waited.throttled_to_ns > 0;
    // What seems to be in front of its beginning goes to whoever ran then.
    const uint64_t left_ns =
        std::min(waited.cut_ns, (was_throttled ? throttled_ns : end_ns) - told_begin_ns);
    begin_ns += left_ns;
    const uint64_t since_begin_ns = begin_ns;
    std::set<uint64_t> cuts = Borders(begin_ns, end_ns);
    for (const Ran& run : ran)
      for (uint64_t at_ns : {run.start_ns, run.end_ns})
        if (at_ns > begin_ns && at_ns < end_ns) cuts.insert(at_ns);
    if (was_throttled)
      for (uint64_t at_ns : {throttled_ns, goes_on_ns})
        if (at_ns > begin_ns && at_ns < end_ns) cuts.insert(at_ns);
    bool is_first = true;
    for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
      size_t cause = 5;
      Key who = {};
      uint64_t stolen_ns = 0;
      for (const Ran& run : ran) {
        if (*cut < run.start_ns || *cut >= run.end_ns) continue;
        cause = CauseOf(run, waited.key);
        who = run.key;
        stolen_ns = StolenIn(run, *cut, *std::next(cut));
      }
      if (was_throttled && *cut >= throttled_ns && *cut < goes_on_ns) {
        cause = 2;
        stolen_ns = 0;
      }
      const uint64_t border_ns = *std::next(cut), since_ns = was_throttled ? told_begin_ns : begin_ns;
      if (border_ns < end_ns && border_ns == EndOf(StartOf(border_ns - 1)) && *cut >= next_ns_)
        slots_[StartOf(*cut)].rows[waited.key].wait.lasting.insert({since_ns, cause == 2});
      if (std::exchange(is_first, false) && left_ns) Put(waited, since_begin_ns, left_ns, cause, who);
      Put(waited, *cut, *std::next(cut) - *cut, cause, who, stolen_ns);
    }
  }

  static size_t CauseOf(const Ran& run, const Key& waiter) {
    return run.what == '?' ? 5 : run.what == 'i' ? 3 : run.key == waiter ? 1 : 0;
  }

  static uint64_t StolenIn(const Ran& run, uint64_t from_ns, uint64_t to_ns) {
    const uint64_t length_ns = run.end_ns - run.start_ns, all_ns = std::min(run.stolen_ns, length_ns);
    if (length_ns == 0) return 0;
    return ShareUpTo(all_ns, to_ns - run.start_ns, length_ns) -
           ShareUpTo(all_ns, from_ns - run.start_ns, length_ns);
  }

  // Of all runs of the same one behind each other; but for those that the hypervisor cut.
  static uint64_t OwnEnd(const std::vector<Ran>& ran, const Ran& of, bool also_cut = false) {
    uint64_t end_ns = of.end_ns;
    for (const Ran& run : ran)
      if (run.start_ns == end_ns && run.key == of.key && run.what == of.what &&
          (also_cut || of.stolen_ns + run.stolen_ns == 0))
        end_ns = run.end_ns;
    return end_ns;
  }

  // With where slots begin, and where those that are open do.
  std::set<uint64_t> Borders(uint64_t begin_ns, uint64_t end_ns) const {
    std::set<uint64_t> cuts = {begin_ns, end_ns};
    if (next_ns_ > begin_ns && next_ns_ < end_ns) cuts.insert(next_ns_);
    for (uint64_t at_ns = StartOf(begin_ns); at_ns < end_ns; at_ns = EndOf(at_ns))
      if (at_ns > begin_ns) cuts.insert(at_ns);
    return cuts;
  }

  // Of it stolen_ns were the hypervisor's.
  void Put(const Waited& waited, uint64_t at_ns, uint64_t ns, size_t cause, Key who,
           uint64_t stolen_ns = 0) {
    if (ns == 0) return;
    const bool is_earlier = at_ns < next_ns_;
    if (is_earlier && waited.end_ns <= next_ns_) {
      (waited.end_ns <= first_ns_ ? before : late)[1] += ns;
      return;
    }
    RowSum& row = slots_[StartOf(is_earlier ? waited.end_ns - 1 : at_ns)].rows[waited.key];
    row.rmid = std::max(row.rmid, waited.rmid);
    row.kthread |= waited.kthread;
    if (is_earlier) {
      earlier_ns += ns;
      row.wait.earlier_ns += ns;
    }
    stolen_ns = std::min(stolen_ns, ns);
    if (is_earlier) {
      const Key whom = cause == 0 ? who : Key();
      row.wait.earlier[{cause, whom}] += ns - stolen_ns;
      row.wait.earlier[{4, Key()}] += stolen_ns;
      earlier[{waited.key, cause, whom}] += ns - stolen_ns;
      earlier[{waited.key, 4, Key()}] += stolen_ns;
      return;
    }
    row.values[1] += ns;
    for (auto [of, part_ns] : {std::pair(cause, ns - stolen_ns), std::pair(size_t{4}, stolen_ns)}) {
      row.wait.causes[of] += part_ns;
      caused_ns[of] += part_ns;
    }
    if (cause == 0 && ns > stolen_ns) row.wait.others[who] += ns - stolen_ns;
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

  void TakeMeasure(Cpu* cpu, const ss_long_measure& whole_measure) {
    const ss_measure& measure = whole_measure.measure;
    const uint64_t start_ns = measure.start_ns, end_ns = measure.hdr.ts_ns;
    if (run_.has_waits) TakeWaitOf(measure);
    if (measure.flags & SS_MEASURE_UNKNOWN) {
      nr_missed++;
      if (cpu->begun)
        Gap(cpu, end_ns);
      else
        Begin(cpu, end_ns, true);
      return;
    }
    RowSum whole;
    whole.values = {end_ns - start_ns, run_.has_waits ? 0 : measure.wait_ns, measure.switches,
                    measure.preemptions};
    whole.values[9] = measure.migrations;
    if (!run_.has_waits) whole.lacking.insert(9);
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
    for (size_t i = 0; i < run_.nr_more; i++) {
      const size_t at = kMoreAt + 3 * i;
      const ss_counter& counter = whole_measure.more[i];
      const bool is_there = sizeof(ss_measure) + (i + 1) * sizeof(ss_counter) <= measure.hdr.size;
      if (!is_there || counter.running_ns == 0) {
        whole.lacking.insert(at);
        continue;
      }
      whole.values[at] = counter.delta;
      whole.values[at + 1] = counter.enabled_ns;
      whole.values[at + 2] = counter.running_ns;
    }
    whole.rmid = measure.rmid;
    whole.kthread = measure.flags & SS_MEASURE_KTHREAD;
    whole.idle = measure.flags & SS_MEASURE_IDLE;
    whole.untracked = measure.flags & SS_MEASURE_UNTRACKED;
    whole.generation = measure.generation;
    whole.cpu = measure.hdr.cpu;
    whole.flags = measure.flags;
    whole.end_ns = end_ns;
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
      Put(key, whole, whole.values, {end_ns - 1, end_ns - 1}, 0);
      return;
    }
    // Every border that can matter; a piece between two of them has one home.
    std::set<uint64_t> cuts = {start_ns, end_ns};
    for (uint64_t at_ns : {first_ns_, cpu->cursor_ns})
      if (at_ns > start_ns && at_ns < end_ns) cuts.insert(at_ns);
    for (uint64_t at_ns = StartOf(start_ns); at_ns < end_ns; at_ns = EndOf(at_ns))
      if (at_ns > start_ns) cuts.insert(at_ns);
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      Values piece = {};
      for (size_t i = 0; i < piece.size(); i++) {
        bool at_start = i == 1 || i == 9 || ((i == 2 || i == 3) && (measure.flags & SS_MEASURE_TICK));
        bool at_end = (i == 2 || i == 3) && !at_start;
        if (at_start)
          piece[i] = *cut == start_ns ? whole.values[i] : 0;
        else if (at_end)
          piece[i] = *std::next(cut) == end_ns ? whole.values[i] : 0;
        else
          piece[i] = ShareUpTo(whole.values[i], *std::next(cut) - start_ns, end_ns - start_ns) -
                     ShareUpTo(whole.values[i], *cut - start_ns, end_ns - start_ns);
      }
      Put(key, whole, piece, {*cut, *std::next(cut)}, cpu->cursor_ns);
    }
    cpu->cursor_ns = std::max(cpu->cursor_ns, end_ns);
  }

  static uint64_t ShareUpTo(uint64_t value, uint64_t part, uint64_t whole) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * part / whole);
  }

  void Put(Key key, const RowSum& whole, const Values& piece, Interval when, uint64_t cursor_ns) {
    const uint64_t at_ns = when.first;
    if (first_ns_ && at_ns < first_ns_) {
      AddTo(&before, piece);
      return;
    }
    if (at_ns < cursor_ns || (first_ns_ && at_ns < next_ns_)) {
      AddTo(&late, piece);
      return;
    }
    RowSum& row = slots_[StartOf(at_ns)].rows[key];
    AddTo(&row.values, piece);
    row.lacking.insert(whole.lacking.begin(), whole.lacking.end());
    row.rmid = std::max(row.rmid, whole.rmid);
    row.kthread |= whole.kthread;
    row.idle |= whole.idle;
    row.untracked |= whole.untracked;
    const uint64_t to_ns = when.second + (when.first == when.second);
    const bool runs_on = to_ns < whole.end_ns || (whole.flags & SS_MEASURE_TICK);
    row.ends.insert({to_ns, runs_on ? 8 : (whole.flags & SS_MEASURE_LEFT) >> SS_MEASURE_LEFT_SHIFT});
    if (whole.rmid) Learn(whole.rmid, whole.generation, key, 0);
    if (when.first == when.second) return;
    row.on_ns[whole.cpu] += when.second - when.first;
    row.without_rmid |= whole.rmid == 0;
    if (whole.rmid == 0) return;
    DomainSum& domain = row.domains[DomainOf(static_cast<int>(whole.cpu))];
    domain.cpu_ns += when.second - when.first;
    domain.ran = {std::min(domain.ran.first, when.first), std::max(domain.ran.second, when.second)};
  }

  void Gap(Cpu* cpu, uint64_t until_ns) {
    if (until_ns <= cpu->cursor_ns) return;
    for (uint64_t at_ns = std::max(cpu->cursor_ns, next_ns_); at_ns < until_ns;) {
      uint64_t start_ns = StartOf(at_ns);
      uint64_t end_ns = std::min(until_ns, EndOf(start_ns));
      SlotSum& slot = slots_[start_ns];
      (cpu->measured ? slot.lost_ns : slot.offline_ns) += end_ns - at_ns;
      if (cpu->measured)
        slot.lost = {std::min(slot.lost.first, at_ns), std::max(slot.lost.second, end_ns)};
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
    first_ns_ = next_ns_ = StartOf(from_ns) == from_ns ? from_ns : EndOf(StartOf(from_ns));
    while (!slots_.empty() && slots_.begin()->first < first_ns_) {
      for (const auto& [key, row] : slots_.begin()->second.rows) AddTo(&before, row.values);
      slots_.erase(slots_.begin());
    }
    for (const auto& [slot_ns, sample] : std::exchange(samples_, {})) Queue(sample);
    for (Cpu& cpu : cpus_)
      if (cpu.present && !cpu.begun) Begin(&cpu, first_ns_, false);
  }

  uint64_t AllMeasuredUntil() const {
    uint64_t newest_ns = 0;
    for (const Cpu& cpu : cpus_)
      if (cpu.present && cpu.measured) newest_ns = std::max(newest_ns, cpu.cursor_ns);
    uint64_t last_ns = newest_ns;
    for (const Cpu& cpu : cpus_)
      if (cpu.present && cpu.measured && newest_ns - cpu.cursor_ns <= run_.window_ns)
        last_ns = std::min(last_ns, cpu.cursor_ns);
    return last_ns;
  }

  // ---- Rows.

  void Retire() {
    const uint64_t end_ns = EndOf(next_ns_);
    for (Cpu& cpu : cpus_)
      if (cpu.present) Gap(&cpu, end_ns);
    Attribute();
    SlotSum slot = slots_[next_ns_];
    slots_.erase(next_ns_);
    if (slot.lost.first < slot.lost.second) retired_lost_.push_back(slot.lost);
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
      csv += fmt::format("{},{},,,,,{},{},,,,,,,,,,,,,,,,,{}{}\n", next_ns_,
                         static_cast<int64_t>(next_ns_) + unix_offset_ns_, kind, time_ns,
                         end_ns - next_ns_, std::string(27 + 2 * run_.nr_more, ','));
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

  // At the slot's end; of a row that has neither run nor waited what was true before, where RDT is
  // counted.
  std::string StateColumns(Key key, const RowSum& row, uint64_t end_ns) {
    const char* kNames[] = {"", "waiting", "asleep", "disk", "blocked", "stopped", "traced", "ended"};
    std::string text = ",,";
    const bool seen = !row.ends.empty() || !row.wait.lasting.empty();
    const auto last = row.ends.empty() ? std::pair<uint64_t, uint32_t>() : *row.ends.rbegin();
    if (last == std::pair<uint64_t, uint32_t>(end_ns, 8)) {
      text = ",running,";
    } else if (!row.wait.lasting.empty()) {
      const uint64_t since_ns = row.wait.lasting.begin()->first;  // one that is not throttled goes first
      text = fmt::format(",{},{}", row.wait.lasting.begin()->second ? "throttled" : "waiting", since_ns);
    } else if (last.second > 0 && last.second < 8) {
      text = fmt::format(",{},{}", kNames[last.second], last.first);
    } else if (!seen && run_.rdt.any()) {
      if (auto known = states_.find(key); known != states_.end() && known->second != ",running,")
        text = known->second;
    }
    if (seen && run_.rdt.any()) states_[key] = text;
    if (row.idle) return ",,,,,";
    if (!run_.has_waits) text = ",,";  // nor states: machines have all or nothing of these
    uint64_t longest_ns = 0;
    uint32_t main_cpu = 0;
    for (const auto& [cpu, ns] : row.on_ns)
      if (ns > longest_ns) longest_ns = ns, main_cpu = cpu;
    text += longest_ns ? fmt::format(",{},{}", row.on_ns.size(), main_cpu) : ",,";
    return text + (run_.has_waits ? fmt::format(",{}", row.values[9]) : ",");
  }

  void AppendRow(Key key, const RowSum& row, uint64_t end_ns) {
    std::string rdt = RdtColumns(key, row);
    const std::string state = StateColumns(key, row, end_ns);
    if (row.values == Values{} && row.wait.earlier_ns + BytesOf(row, 0) + BytesOf(row, 1) == 0) return;
    const char* kind = row.idle ? "idle" : row.kthread ? "kernel" : row.rmid ? "user" : "unassigned";
    csv += fmt::format("{},{},{},{},{},{},{}", next_ns_,
                       static_cast<int64_t>(next_ns_) + unix_offset_ns_, key.first,
                       row.idle || row.untracked || key.second == 0 ? "" : std::to_string(key.second),
                       row.idle ? "idle" : NameAt(key, end_ns), row.rmid, kind);
    const auto lacks = [&](size_t at) { return row.lacking.contains(at) || run_.lacking.contains(at); };
    for (size_t i = 0; i < 7; i++) csv += lacks(i) ? "," : fmt::format(",{}", row.values[i]);
    csv += Percent(row, 7) + rdt + fmt::format(",,,,,,{}", EndOf(next_ns_) - next_ns_);
    csv += run_.has_waits && !row.idle && !lacks(1) ? WaitColumns(row.wait) : std::string(10, ',');
    csv += state + std::string(12, ',');  // these machines use no GPU
    for (size_t at = kMoreAt; at < kMoreAt + 3 * run_.nr_more; at += 3)
      csv += (lacks(at) ? "," : fmt::format(",{}", row.values[at])) +
             (lacks(at) ? "," : Percent(row, at + 1));
    csv += '\n';
    nr_rows++;
  }

  static std::string WaitColumns(const WaitSum& wait) {
    const auto& c = wait.causes;
    std::string text =
        fmt::format(",{},{},{},{},{},{},{}", wait.earlier_ns, c[0], c[1], c[2], c[3], c[4], c[5]);
    Key longest = {};
    uint64_t ns = 0;
    for (const auto& [key, ran_ns] : wait.others)
      if (ran_ns > ns) longest = key, ns = ran_ns;
    return text + (ns ? fmt::format(",{},{},{}", longest.first,
                                    longest.second ? std::to_string(longest.second) : "", ns)
                      : ",,,");
  }

  // Of what begins there: enabled, running.
  static std::string Percent(const RowSum& row, size_t at) {
    const uint64_t enabled = row.values[at];
    if (enabled == 0 || row.lacking.contains(at)) return ",";
    const uint64_t tenths = (row.values[at + 1] * 2000 + enabled) / (enabled * 2);
    return fmt::format(",{}.{}", tenths / 10, tenths % 10);
  }

  // ---- RDT. `mbm` of the engine's accounting is no more than six pairs of numbers.

  static bool IsMbm(const ss_rdt_sample& sample) { return sample.event != SS_RDT_LLC_OCCUPANCY; }
  static uint64_t BytesOf(const RowSum& row, size_t i) {
    uint64_t bytes = 0;
    for (const auto& [id, domain] : row.domains) bytes += domain.bytes[i];
    return bytes;
  }
  static void CountMbm(const ss_rdt_sample& sample, MbmSums* to) {
    if (IsMbm(sample) && sample.status == SS_RDT_OK)
      (*to)[sample.event - SS_RDT_MBM_TOTAL] += sample.value;
  }
  uint32_t DomainOf(int cpu) const {
    for (const L3Domain& domain : run_.rdt.domains)
      for (int member : domain.cpus)
        if (member == cpu) return domain.id;
    return UINT32_MAX;
  }

  void Learn(uint32_t rmid, uint32_t generation, Key owner, uint64_t from_ns) {
    owners_[{rmid, generation}].insert({from_ns, owner});
  }

  // As of the slot that retires; 0: not known.
  uint64_t AllocatedNs(Key key) const {
    auto found = allocated_ns_.find(key);
    return found != allocated_ns_.end() && found->second <= EndOf(next_ns_) ? found->second : 0;
  }

  // To the slot with which it is attributed.
  void Queue(const ss_rdt_sample& sample) {
    const uint64_t ts_ns = sample.hdr.ts_ns;
    if (run_.rdt.domains.empty()) {
      CountMbm(sample, &mbm.unowned);
      nr_unowned++;
      return;
    }
    uint64_t at_ns;
    if (IsMbm(sample)) {
      if (first_ns_ && ts_ns <= next_ns_) {
        CountMbm(sample, ts_ns <= first_ns_ ? &mbm.before : &mbm.late);
        nr_late_samples += ts_ns > first_ns_;
        return;
      }
      at_ns = std::max({std::min<uint64_t>(sample.since_ns, ts_ns - 1),
                        std::min(ts_ns - run_.window_ns / 2, ts_ns - 1), next_ns_});
    } else {
      at_ns = ts_ns / SS_TICK_PERIOD_NS * SS_TICK_PERIOD_NS - 1;
      if (first_ns_ && at_ns < next_ns_) {
        nr_late_samples += at_ns >= first_ns_;
        return;
      }
    }
    samples_.emplace_back(StartOf(at_ns), sample);
  }

  // Samples whose slot is the one that retires. Bytes make rows, so they come first.
  void Attribute() {
    const uint64_t slot_end_ns = EndOf(next_ns_);
    auto mine = std::stable_partition(samples_.begin(), samples_.end(),
                                      [&](const auto& queued) { return queued.first != next_ns_; });
    std::vector<std::pair<ss_rdt_sample, Key>> owned;
    for (auto at = mine; at != samples_.end(); ++at) {
      const ss_rdt_sample& sample = at->second;
      auto& owners = owners_[{sample.rmid, sample.generation}];
      if (!owners.empty() && owners.begin()->first <= slot_end_ns) {
        owned.emplace_back(sample, owners.begin()->second);
        continue;
      }
      CountMbm(sample, &mbm.unowned);
      nr_unowned++;
    }
    samples_.erase(mine, samples_.end());
    std::vector<Cut> cuts;
    for (const auto& [sample, owner] : owned)
      if (IsMbm(sample)) cuts.push_back(CutSample(sample, owner));
    for (const Cut& cut : cuts)
      for (const auto& [when, bytes] : cut.pieces)
        if (bytes) RowAt(when.first)[cut.owner].domains[cut.domain].bytes[cut.i] += bytes;
    for (const Cut& cut : cuts) {
      for (const auto& [when, bytes] : cut.pieces) {
        if (!RowAt(when.first).contains(cut.owner)) continue;
        RowSum& row = RowAt(when.first)[cut.owner];
        row.rmid = std::max(row.rmid, cut.rmid);
        DomainSum& domain = row.domains[cut.domain];
        domain.status[cut.i] = std::max(domain.status[cut.i], cut.status);
        if (cut.read && cut.long_enough) domain.covered[cut.i].insert(when);
      }
    }
    for (const auto& [sample, owner] : owned)
      if (!IsMbm(sample) && RowAt(next_ns_).contains(owner))
        RowAt(next_ns_)[owner].domains[sample.domain].readings.insert(
            {sample.hdr.ts_ns, sample.status, sample.status == SS_RDT_OK ? sample.value : 0});
    for (const auto& [key, row] : RowAt(next_ns_))
      for (const auto& [id, domain] : row.domains)
        if (domain.cpu_ns) ran_until_[{key, id}] = domain.ran.second;
  }

  std::map<Key, RowSum>& RowAt(uint64_t ts_ns) { return slots_[StartOf(ts_ns)].rows; }

  struct Cut {
    Key owner;
    uint32_t domain, rmid;
    size_t i;  // 0: total, 1: local
    bool read, long_enough;
    unsigned status;
    std::vector<std::pair<Interval, uint64_t>> pieces;  // bytes
  };

  Cut CutSample(const ss_rdt_sample& sample, Key owner) {
    const uint64_t end_ns = sample.hdr.ts_ns;
    const uint64_t begin_ns = std::min<uint64_t>(sample.since_ns, end_ns - 1);
    Cut cut = {owner,
               sample.domain,
               sample.rmid,
               sample.event - SS_RDT_MBM_TOTAL + size_t{0},
               sample.status == SS_RDT_OK,
               sample.since_ns < end_ns,
               sample.status,
               {}};
    uint64_t bytes = cut.read ? sample.value : 0;

    // What is not known, or comes too late, is taken out by time.
    uint64_t placed_ns = std::max(begin_ns, first_ns_);
    if (begin_ns < next_ns_ && ran_until_[{owner, sample.domain}] > placed_ns) placed_ns = next_ns_;
    if (placed_ns > begin_ns) {
      uint64_t unplaced = ShareUpTo(bytes, placed_ns - begin_ns, end_ns - begin_ns);
      uint64_t too_early =
          begin_ns < first_ns_ ? ShareUpTo(bytes, first_ns_ - begin_ns, end_ns - begin_ns) : 0;
      mbm.before[cut.i] += too_early;
      mbm.late[cut.i] += unplaced - too_early;
      nr_late_samples += placed_ns > first_ns_;
      bytes -= unplaced;
      if (unplaced && end_ns - begin_ns > 2 * run_.slot_ns)
        cut.status = std::max<unsigned>(cut.status, SS_RDT_PARTIAL);
    }

    // First how heavy each piece is, then what it gets.
    uint64_t sum = 0;
    bool guessed =
        (!retired_lost_.empty() && retired_lost_.back().second > begin_ns) || end_ns > all_measured_ns_;
    for (uint64_t at_ns = std::max({begin_ns, placed_ns, next_ns_}); at_ns < end_ns;) {
      const uint64_t slot_ns = StartOf(at_ns);
      uint64_t until_ns = std::min(end_ns, EndOf(slot_ns));
      const Interval lost = slots_[slot_ns].lost;
      guessed |= lost.first < end_ns && lost.second > std::max({begin_ns, placed_ns, next_ns_});
      uint64_t ran_ns = 0;
      if (RowAt(at_ns).contains(owner)) ran_ns = RowAt(at_ns)[owner].domains[sample.domain].cpu_ns;
      cut.pieces.push_back(
          {{at_ns, until_ns}, ShareUpTo(ran_ns, until_ns - at_ns, EndOf(slot_ns) - slot_ns)});
      sum += cut.pieces.back().second;
      at_ns = until_ns;
    }
    if (sum == 0) {
      for (auto& [when, weight] : cut.pieces) sum += weight = when.second - when.first;
      guessed |= cut.pieces.size() > 1;
    }
    if (bytes && guessed) cut.status = std::max<unsigned>(cut.status, SS_RDT_PARTIAL);
    uint64_t upto = 0;
    for (auto& [when, weight] : cut.pieces) {
      uint64_t before_it = ShareUpTo(bytes, upto, sum);
      upto += weight;
      weight = ShareUpTo(bytes, upto, sum) - before_it;
    }
    return cut;
  }

  static bool IsWhole(const DomainSum& domain, const std::set<Interval>& covered, uint64_t alloc_ns) {
    for (auto at = covered.begin(); at != covered.end(); ++at)
      if (std::next(at) != covered.end() && std::next(at)->first != at->second) return false;
    return covered.begin()->first <= std::max(domain.ran.first, alloc_ns) &&
           covered.rbegin()->second >= domain.ran.second;
  }

  // From the comma behind mux_pct to rdt_status.
  std::string RdtColumns(Key key, const RowSum& row) {
    const char* names[] = {"ok",    "baseline",    "tainted",    "partial",    "skipped",
                           "error", "unavailable", "unassigned", "unsupported"};
    if (run_.rdt.domains.empty()) return ",,,,unsupported";
    unsigned worst = SS_RDT_OK;
    std::array<std::string, 3> values;
    const uint64_t alloc_ns = AllocatedNs(key);
    bool ran = false;
    for (const auto& [id, domain] : row.domains) ran |= domain.cpu_ns > 0;
    for (size_t i = 0; i < 3; i++) {
      std::set<std::string> known;  // of each domain where it must be
      bool explained = true;
      uint64_t sum = 0;
      for (const auto& [id, domain] : row.domains) {
        unsigned status = SS_RDT_OK;
        std::string is = "yes";
        if (i < 2) {
          sum += domain.bytes[i];
          status = domain.status[i];
          if (!ran && domain.bytes[i]) status = std::max<unsigned>(status, SS_RDT_PARTIAL);
          if (status == SS_RDT_OK && domain.covered[i].empty()) is = domain.cpu_ns ? "no" : "";
          if (status == SS_RDT_OK && !domain.covered[i].empty() && domain.cpu_ns &&
              !IsWhole(domain, domain.covered[i], alloc_ns))
            is = "some";
        } else if (domain.readings.empty()) {
          is = domain.cpu_ns ? "no" : "";
        } else {
          sum += (*domain.readings.rbegin())[2];
          status = static_cast<unsigned>((*domain.readings.rbegin())[1]);
        }
        worst = std::max(worst, status);
        explained &= status == SS_RDT_OK;
        if (!is.empty() && (domain.cpu_ns || !ran)) known.insert(is);
      }
      if (known == std::set<std::string>{"yes"}) {
        if (explained) values[i] = std::to_string(sum);
      } else {
        bool none = !known.contains("yes") && !known.contains("some");
        worst = std::max<unsigned>(worst, none ? SS_RDT_SKIPPED : SS_RDT_PARTIAL);
      }
      if (i < 2) mbm.written[i] += BytesOf(row, i);
    }
    if (row.rmid == 0) worst = SS_RDT_UNASSIGNED;
    if (row.without_rmid) worst = std::max<unsigned>(worst, SS_RDT_UNASSIGNED);
    if (row.rmid == 0 || row.without_rmid) values = {};
    return fmt::format(",{},{},{},{}", values[0], values[1], values[2], names[worst]);
  }

  Run run_;
  std::map<size_t, std::vector<Ran>> ran_;  // by CPU
  std::map<Key, std::string> states_;       // columns of the last row in which it ran or waited
  std::vector<Waited> waited_;              // not placed yet
  std::set<Key> threaded_;                  // their threads have waited for each other
  std::vector<Cpu> cpus_;
  std::map<uint64_t, SlotSum> slots_;
  std::vector<Interval> retired_lost_;
  uint64_t all_measured_ns_ = UINT64_MAX;  // at the end: what every CPU has been measured up to
  std::map<Key, std::vector<Name>> names_;
  std::vector<std::pair<uint64_t, ss_rdt_sample>> samples_;  // to be attributed with a slot
  std::map<std::pair<uint32_t, uint32_t>, std::set<std::pair<uint64_t, Key>>> owners_;  // since when
  std::map<std::pair<Key, uint32_t>, uint64_t> ran_until_;
  std::map<Key, uint64_t> allocated_ns_;
  std::map<uint64_t, uint64_t> lengths_;  // of slots, since when
  std::vector<uint64_t> dump_ends_;
  std::map<uint64_t, bool> causes_told_;  // of waits that end from there on
  std::vector<std::pair<uint64_t, int64_t>> clocks_;
  uint64_t watermark_ns_ = 0, first_ns_ = 0, next_ns_ = 0, dumped_ns_ = UINT64_MAX;
  int64_t unix_offset_ns_;
};

}  // namespace slotscope::oracle
