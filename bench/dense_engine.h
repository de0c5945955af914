// SPDX-License-Identifier: MIT
// The fastest method that we know, to measure the distance to it: slot by slot, each CPU's records are
// drained to the slot's end, so only one slot is open and its rows stay in the cache; a row lies at its
// process's number; what a process's rows have in common is formatted once. It gets the same messages
// and writes the same rows as the engine, and knows no loss, no gaps, no late messages, no RDT and no
// GPU.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "merge/message.h"
#include "merge/run.h"
#include "ring/item.h"
#include "row_tail.h"
#include "sinks/decimal.h"
#include "slots/cut.h"
#include "track/tracker.h"

namespace slotscope {

class DenseEngine {
 public:
  // `items`: as the merge gets them. No text is made without `csv`.
  DenseEngine(std::span<const std::byte> items, size_t nr_cpus, int64_t unix_offset_ns, bool csv)
      : items_(items),
        unix_offset_ns_(unix_offset_ns),
        csv_(csv),
        cpus_(nr_cpus),
        hints_(2 * kNrHints, 0),
        text_(512u << 10) {
    MakeProcess({INT32_MAX, UINT64_MAX});  // the one that an empty hint names
  }

  void Run() {
    for (auto items = items_; !items.empty();) {
      const auto item = Load<ItemHeader>(items.data());
      const auto payload = items.subspan(sizeof(item), item.size);
      items = items.subspan(sizeof(item) + item.size);
      if (item.kind == ItemKind::kRecords && !payload.empty())
        cpus_[item.stream].rings.push_back(payload);
      else if (item.kind == ItemKind::kDump)
        OnDump(payload);
      else if (item.kind == ItemKind::kRoundEnd)
        OnRound();
    }
  }

  uint64_t nr_messages() const { return nr_messages_; }
  uint64_t nr_rows() const { return nr_rows_; }
  uint64_t nr_bytes() const { return nr_bytes_ + size_; }
  uint64_t nr_slots() const { return nr_slots_; }
  uint64_t written_cpu_ns() const { return written_[kCpuNs]; }

 private:
  static constexpr uint32_t kNrHints = 1024;
  static constexpr size_t kMaxRowBytes = 640;

  struct Cpu {
    std::deque<std::span<const std::byte>> rings;
    uint64_t at_ns = 0;  // measured up to here
    Sums taken = {};     // of the measure in front, by earlier slots
    bool is_cut = false;
  };
  struct alignas(32) DenseRow {
    Sums sums = {};
    uint32_t rmid = 0;
    uint32_t unmeasured = 0;
    uint32_t flags = 0;
    uint32_t used = 0;
    RowPlaces places;
  };
  static const DenseRow kBlank;  // copied: to clear as many bytes takes GCC longer
  struct ProcessText {
    Comm comm = {};
    uint32_t rmid = UINT32_MAX;  // of the text
    uint32_t size = 0;
    char text[96];
  };

  // ---- who

  uint32_t MakeProcess(const ProcessKey& key) {
    auto id = static_cast<uint32_t>(keys_.size());
    if (free_ids_.empty()) {
      keys_.emplace_back();
      texts_.emplace_back();
      rows_.emplace_back();
      ranks_.push_back(0);
    } else {
      id = free_ids_.back();
      free_ids_.pop_back();
    }
    keys_[id] = key;
    texts_[id] = {};
    by_key_.emplace(key, id);
    const auto at = std::upper_bound(order_.begin(), order_.end(), key,
                                     [&](const ProcessKey& a, uint32_t b) { return a < keys_[b]; });
    SetRanks(order_.insert(at, id));
    used_ranks_.resize(order_.size() / 64 + 1);
    return id;
  }

  // Of all from there on.
  void SetRanks(std::vector<uint32_t>::iterator from) {
    for (; from != order_.end(); ++from) ranks_[*from] = static_cast<uint32_t>(from - order_.begin());
  }

  // Some slots behind its end nothing more comes of it.
  void ForgetDead() {
    while (!dead_.empty() && dead_.front().second + 32 * SS_TICK_PERIOD_NS < border_ns_) {
      if (const auto at = by_key_.find(dead_.front().first); at != by_key_.end()) {
        const uint32_t id = at->second;
        by_key_.erase(at);
        keys_[id] = {INT32_MIN, UINT64_MAX};
        SetRanks(order_.erase(order_.begin() + ranks_[id]));
        free_ids_.push_back(id);
      }
      dead_.pop_front();
    }
  }

  uint32_t Find(const ProcessKey& key) {
    const auto at = by_key_.find(key);
    return at == by_key_.end() ? MakeProcess(key) : at->second;
  }

  uint32_t IdOf(const ss_measure& measure) {
    const ProcessKey key = {measure.tgid, measure.start_time_ns};
    uint32_t& hint = hints_[measure.rmid ? measure.rmid % kNrHints
                                         : kNrHints + static_cast<uint32_t>(key.tgid) % kNrHints];
    if (keys_[hint] != key) hint = Find(key);
    return hint;
  }

  void OnMeta(const ss_task_meta& meta) {
    if (meta.flags & SS_TASK_EXIT) {
      dead_.push_back({{meta.tgid, meta.start_time_ns}, border_ns_});
      return;
    }
    ProcessText& text = texts_[Find({meta.tgid, meta.start_time_ns})];
    std::copy_n(meta.comm, SS_COMM_LEN, text.comm.begin());
    text.rmid = UINT32_MAX;
  }

  void OnDump(std::span<const std::byte> messages) {
    while (messages.size() >= sizeof(ss_hdr)) {
      const auto hdr = Load<ss_hdr>(messages.data());
      if (hdr.size < sizeof(hdr) || hdr.size > messages.size()) return;
      if (hdr.type == SS_TASK_META) OnMeta(Load<ss_task_meta>(messages.data()));
      messages = messages.subspan(hdr.size);
    }
  }

  // ---- slot by slot

  void OnRound() {
    if (border_ns_ == 0 && !Begin()) return;
    for (;;) {
      bool all = true;
      for (Cpu& cpu : cpus_) all &= Drain(&cpu);
      if (!all) return;  // the rest of this slot comes with the next round
      Retire();
      border_ns_ += SS_TICK_PERIOD_NS;
    }
  }

  // The first slot is the first that all CPUs were measured in from its start.
  bool Begin() {
    uint64_t latest_ns = 0;
    for (const Cpu& cpu : cpus_) {
      if (cpu.rings.empty()) return false;
      const auto* measure = FirstMeasure(cpu.rings.front());
      if (!measure) return false;
      latest_ns = std::max<uint64_t>(latest_ns, measure->start_ns);
    }
    border_ns_ = latest_ns - latest_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
    // What is in front of it counts as before: it fills a slot that is not written.
    for (Cpu& cpu : cpus_) Drain(&cpu);
    ClearRows();
    border_ns_ += SS_TICK_PERIOD_NS;
    return true;
  }

  static const ss_measure* FirstMeasure(std::span<const std::byte> ring) {
    while (!ring.empty()) {
      const auto header = Load<perf_event_header>(ring.data());
      if (Load<ss_hdr>(ring.data() + kMessageAt).type == SS_MEASURE)
        return reinterpret_cast<const ss_measure*>(ring.data() + kMessageAt);
      ring = ring.subspan(header.size);
    }
    return nullptr;
  }

  // All that the CPU did up to the border. False: some of it has not come yet.
  bool Drain(Cpu* cpu) {
    while (!cpu->rings.empty()) {
      std::span<const std::byte>& ring = cpu->rings.front();
      while (!ring.empty()) {
        const auto header = Load<perf_event_header>(ring.data());
        const auto* hdr = reinterpret_cast<const ss_hdr*>(ring.data() + kMessageAt);
        for (size_t line = 0; line < kMeasureRecord; line += kCacheLine)
          __builtin_prefetch(ring.data() + kPrefetchAhead + line);
        if (hdr->type == SS_MEASURE) {
          const auto& measure = *reinterpret_cast<const ss_measure*>(hdr);
          if (!IsValidMeasure(measure)) std::abort();
          if (measure.hdr.ts_ns > border_ns_) {
            TakeHead(cpu, measure);
            return true;
          }
          TakeRest(cpu, measure);
        } else if (hdr->type == SS_TASK_META) {
          OnMeta(*reinterpret_cast<const ss_task_meta*>(hdr));
        } else if (hdr->type == SS_RMID_FREE) {
          const auto& event = *reinterpret_cast<const ss_rmid_event*>(hdr);
          dead_.push_back({{event.tgid, event.start_time_ns}, border_ns_});
        }
        nr_messages_++;
        ring = ring.subspan(header.size);
      }
      cpu->rings.pop_front();
    }
    return cpu->at_ns >= border_ns_;
  }

  void TakeHead(Cpu* cpu, const ss_measure& measure) {
    if (measure.start_ns >= border_ns_) return;
    const Addends addends = AddendsOf(measure);
    const Sums until = SumsUntil(measure, addends.sums, border_ns_);
    AddTo(measure, cpu->is_cut ? Difference(until, cpu->taken) : until, addends.unmeasured);
    cpu->taken = until;
    cpu->is_cut = true;
    cpu->at_ns = border_ns_;
  }

  void TakeRest(Cpu* cpu, const ss_measure& measure) {
    const Addends addends = AddendsOf(measure);
    AddTo(measure, cpu->is_cut ? Difference(addends.sums, cpu->taken) : addends.sums,
          addends.unmeasured);
    cpu->is_cut = false;
    cpu->at_ns = measure.hdr.ts_ns;
  }

  void AddTo(const ss_measure& measure, const Sums& sums, uint32_t unmeasured) {
    const uint32_t id = IdOf(measure);
    DenseRow& row = rows_[id];
    if (!row.used) {
      row.used = 1;
      touched_.push_back(id);
    }
    row.rmid = std::max(row.rmid, measure.rmid);
    row.flags |= measure.flags;
    row.unmeasured |= unmeasured;
    Add(&row.sums, sums);
    places_.Add(&row.places, measure.hdr.cpu, static_cast<uint32_t>(sums[kCpuNs]));
  }

  // ---- rows

  void ClearRows() {
    for (uint32_t id : touched_) rows_[id] = kBlank;
    touched_.clear();
    places_.clear();
  }

  void Retire() {
    for (uint32_t id : touched_) used_ranks_[ranks_[id] / 64] |= uint64_t{1} << ranks_[id] % 64;
    if (csv_ && text_.size() - size_ < touched_.size() * kMaxRowBytes + 64) {
      nr_bytes_ += std::exchange(size_, 0);
      text_.resize(std::max(text_.size(), touched_.size() * kMaxRowBytes + 64));
    }
    char prefix[48];
    const uint64_t start_ns = border_ns_ - SS_TICK_PERIOD_NS;
    char* end = AppendDecimal(prefix, start_ns);
    *end++ = ',';
    end = AppendDecimal(end, start_ns + static_cast<uint64_t>(unix_offset_ns_));
    *end++ = ',';
    const std::string_view start(prefix, static_cast<size_t>(end - prefix));
    for (size_t word = 0; word < used_ranks_.size(); word++) {
      for (uint64_t bits = std::exchange(used_ranks_[word], 0); bits; bits &= bits - 1) {
        const uint32_t id = order_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
        Add(&written_, rows_[id].sums);
        if (csv_) Format(start, id, rows_[id]);
        rows_[id] = kBlank;
      }
    }
    nr_rows_ += touched_.size();
    nr_slots_++;
    touched_.clear();
    places_.clear();
    ForgetDead();
  }

  void Format(std::string_view start, uint32_t id, const DenseRow& row) {
    char* out = text_.data() + size_;
    std::memcpy(out, start.data(), 48);
    out += start.size();
    ProcessText& text = texts_[id];
    if (text.rmid != row.rmid) MakeText(&text, keys_[id], row);
    std::memcpy(out, text.text, sizeof(text.text));
    out += text.size;
    for (size_t i = kCpuNs; i <= kLlcMisses; i++) {
      *out++ = ',';
      if (!(row.unmeasured >> i & 1)) out = AppendDecimal(out, row.sums[i]);
    }
    std::memcpy(out, kRowTail.data(), kRowTail.size());
    const bool is_process = !(row.flags & SS_MEASURE_IDLE);
    out = AppendPlaces(out + kRowTail.size(), is_process, places_.Of(row.places));
    size_ = static_cast<size_t>(out - text_.data());
  }

  // From tgid to kind.
  static void MakeText(ProcessText* text, const ProcessKey& key, const DenseRow& row) {
    char* out = text->text;
    const auto put = [&](std::string_view what) {
      std::memcpy(out, what.data(), what.size());
      out += what.size();
    };
    const bool idle = row.flags & SS_MEASURE_IDLE;
    out = AppendDecimal(out, static_cast<uint64_t>(key.tgid));
    put(",");
    if (!idle) out = AppendDecimal(out, key.start_time_ns);
    put(",");
    put(idle ? "idle" : CommText(text->comm));
    put(",");
    out = AppendDecimal(out, row.rmid);
    put(idle                             ? ",idle"
        : row.flags & SS_MEASURE_KTHREAD ? ",kernel"
        : row.rmid                       ? ",user"
                                         : ",unassigned");
    text->rmid = row.rmid;
    text->size = static_cast<uint32_t>(out - text->text);
  }

  std::span<const std::byte> items_;
  const int64_t unix_offset_ns_;
  const bool csv_;
  std::vector<Cpu> cpus_;
  uint64_t border_ns_ = 0;      // the end of the slot that is open
  std::vector<DenseRow> rows_;  // [id]
  Places places_;               // of rows_
  std::vector<uint32_t> touched_;
  std::vector<ProcessKey> keys_;    // [id]
  std::vector<ProcessText> texts_;  // [id]
  std::vector<uint32_t> hints_;
  std::unordered_map<ProcessKey, uint32_t, ProcessKeyHash> by_key_;
  std::vector<uint32_t> order_;  // ids by key
  std::vector<uint32_t> ranks_;  // [id] -> place in order_
  std::vector<uint64_t> used_ranks_;
  std::vector<uint32_t> free_ids_;
  std::deque<std::pair<ProcessKey, uint64_t>> dead_;  // and the slot's end in which they died
  std::vector<char> text_;
  size_t size_ = 0;
  Sums written_ = {};
  uint64_t nr_messages_ = 0;
  uint64_t nr_rows_ = 0;
  uint64_t nr_bytes_ = 0;
  uint64_t nr_slots_ = 0;
};

inline const DenseEngine::DenseRow DenseEngine::kBlank;

}  // namespace slotscope
