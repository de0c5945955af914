// SPDX-License-Identifier: MIT
// What one would write first, to compare the engine with: a loser tree puts the messages of all CPUs in
// order, a slot is a hash map, std::to_chars formats. It knows no loss, no gaps and no late messages.
#pragma once

#include <slotscope/events.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "merge/message.h"
#include "merge/run.h"
#include "row_tail.h"
#include "slots/cut.h"

namespace slotscope {

// Which of some streams has the smallest key.
class LoserTree {
 public:
  explicit LoserTree(std::vector<uint64_t> keys)
      : nr_(static_cast<uint32_t>(keys.size())),
        winner_(nr_),
        keys_(std::move(keys)),
        losers_(nr_, nr_) {
    keys_.push_back(0);  // loses to nobody until all have played
    for (uint32_t i = nr_; i-- > 0;) Play(i);
  }

  uint32_t winner() const { return winner_; }
  uint64_t key() const { return keys_[winner_]; }
  void SetKey(uint64_t key) {
    keys_[winner_] = key;
    Play(winner_);
  }

 private:
  void Play(uint32_t stream) {
    winner_ = stream;
    for (uint32_t node = (stream + nr_) / 2; node > 0; node /= 2)
      if (keys_[losers_[node]] < keys_[winner_]) std::swap(losers_[node], winner_);
  }

  uint32_t nr_;
  uint32_t winner_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> losers_;
};

class PlainEngine {
 public:
  // `rings`: a CPU's records each. No text is made without `csv`.
  PlainEngine(const std::vector<std::vector<std::byte>>& rings, bool csv)
      : rings_(rings.begin(), rings.end()), csv_(csv), text_(512u << 10) {}

  void Run() {
    std::vector<uint64_t> keys;
    for (std::span<const std::byte>& ring : rings_) keys.push_back(KeyOf(ring));
    for (LoserTree tree(keys); tree.key() != UINT64_MAX;) {
      std::span<const std::byte>& ring = rings_[tree.winner()];
      const auto header = Load<perf_event_header>(ring.data());
      OnMessage(ring.subspan(kMessageAt, header.size - kMessageAt));
      ring = ring.subspan(header.size);
      tree.SetKey(KeyOf(ring));
    }
    while (!slots_.empty()) Retire();
  }

  uint64_t nr_messages() const { return nr_messages_; }
  uint64_t nr_rows() const { return nr_rows_; }
  uint64_t nr_bytes() const { return nr_bytes_ + size_; }
  // Received and not written.
  Sums missing() const { return Difference(received_, written_); }

 private:
  struct PlainRow {
    Sums sums = {};
    uint32_t rmid = 0;
    RowPlaces places;
  };
  struct PlainSlot {
    uint64_t start_ns = 0;
    std::unordered_map<ProcessKey, PlainRow, ProcessKeyHash> rows;
    Places places;
  };

  static uint64_t KeyOf(std::span<const std::byte> ring) {
    return ring.size() < kMessageAt + sizeof(ss_hdr) ? UINT64_MAX
                                                     : Load<ss_hdr>(ring.data() + kMessageAt).ts_ns;
  }

  void OnMessage(std::span<const std::byte> bytes) {
    const auto hdr = Load<ss_hdr>(bytes.data());
    if (hdr.size > bytes.size()) return;
    ss_any_message message;
    if (hdr.type == SS_MEASURE) {
      const auto& measure = *reinterpret_cast<const ss_measure*>(bytes.data());
      if (hdr.size != sizeof(measure) || !IsValidMeasure(measure)) return;
      OnMeasure(measure);
    } else if (DecodeMessage(bytes.first(hdr.size), &message) != Decoded::kValid) {
      return;
    } else if (hdr.type == SS_TASK_META) {
      std::copy_n(message.task_meta.comm, SS_COMM_LEN,
                  comms_[{message.task_meta.tgid, message.task_meta.start_time_ns}].begin());
    }
    nr_messages_++;
    while (!slots_.empty() && slots_.front().start_ns + 3 * SS_TICK_PERIOD_NS <= message.hdr.ts_ns)
      Retire();
  }

  void OnMeasure(const ss_measure& measure) {
    if (measure.start_ns == measure.hdr.ts_ns) return;
    const Sums whole = AddendsOf(measure).sums;
    Add(&received_, whole);
    Cut cut(measure, whole);
    for (uint64_t at_ns = measure.start_ns; at_ns < measure.hdr.ts_ns;) {
      PlainSlot& slot = SlotAt(at_ns);
      const uint64_t from_ns = at_ns;
      at_ns = std::min<uint64_t>(slot.start_ns + SS_TICK_PERIOD_NS, measure.hdr.ts_ns);
      PlainRow& row = slot.rows[{measure.tgid, measure.start_time_ns}];
      row.rmid = std::max(row.rmid, measure.rmid);
      Add(&row.sums, cut.TakeUntil(at_ns));
      slot.places.Add(&row.places, measure.hdr.cpu, static_cast<uint32_t>(at_ns - from_ns));
    }
  }

  PlainSlot& SlotAt(uint64_t ts_ns) {
    const uint64_t start_ns = ts_ns - ts_ns % SS_TICK_PERIOD_NS;
    if (slots_.empty()) slots_.push_back({start_ns, {}, {}});
    while (slots_.back().start_ns < start_ns)
      slots_.push_back({slots_.back().start_ns + SS_TICK_PERIOD_NS, {}, {}});
    while (slots_.front().start_ns > start_ns)
      slots_.push_front({slots_.front().start_ns - SS_TICK_PERIOD_NS, {}, {}});
    return slots_[(start_ns - slots_.front().start_ns) / SS_TICK_PERIOD_NS];
  }

  void Retire() {
    const PlainSlot& slot = slots_.front();
    std::vector<std::pair<ProcessKey, PlainRow>> rows(slot.rows.begin(), slot.rows.end());
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, row] : rows) {
      Add(&written_, row.sums);
      if (csv_) Format(slot, key, row);
    }
    nr_rows_ += rows.size();
    slots_.pop_front();
  }

  void Format(const PlainSlot& slot, const ProcessKey& key, const PlainRow& row) {
    if (text_.size() - size_ < 1024) nr_bytes_ += std::exchange(size_, 0);
    Number(slot.start_ns);
    Number(slot.start_ns);  // as Unix time
    Number(key.tgid);
    Number(key.start_time_ns);
    Text(CommText(comms_[key]));
    Number(row.rmid);
    Text(key.tgid ? "user" : "idle");
    for (size_t i = kCpuNs; i <= kLlcMisses; i++) Number(row.sums[i]);
    size_--;  // the tail begins with a comma
    std::copy(kRowTail.begin(), kRowTail.end(), text_.begin() + static_cast<ptrdiff_t>(size_));
    char* const tail = text_.data() + size_ + kRowTail.size();
    size_ = static_cast<size_t>(AppendPlaces(tail, key.tgid != 0, slot.places.Of(row.places)) -
                                text_.data());
  }

  template <typename T>
  void Number(T value) {
    char* const at = text_.data() + size_;
    char* const end = std::to_chars(at, at + 24, value).ptr;
    *end = ',';
    size_ += static_cast<size_t>(end - at) + 1;
  }

  void Text(std::string_view text) {
    std::copy(text.begin(), text.end(), text_.begin() + static_cast<ptrdiff_t>(size_));
    size_ += text.size();
    text_[size_++] = ',';
  }

  std::vector<std::span<const std::byte>> rings_;
  const bool csv_;
  std::vector<char> text_;
  size_t size_ = 0;
  std::deque<PlainSlot> slots_;
  std::unordered_map<ProcessKey, Comm, ProcessKeyHash> comms_;
  Sums received_ = {};
  Sums written_ = {};
  uint64_t nr_messages_ = 0;
  uint64_t nr_rows_ = 0;
  uint64_t nr_bytes_ = 0;
};

}  // namespace slotscope
