// SPDX-License-Identifier: MIT
// From items to CSV text, by the engine of recordings and replays.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "raw/facts.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "tests/unit/text_file.h"

namespace slotscope {

// What passed in retired slots, by (who waited, cause, who ran: {} of other causes and who is not
// named).
class EarlierWaits : public SlotSink {
 public:
  using Sums = std::map<std::tuple<ProcessKey, size_t, ProcessKey>, uint64_t>;

  explicit EarlierWaits(SlotSink* next) : next_(next) {}
  void OnSlot(Slot* slot) override {
    for (const WaitDetail& one : slot->wait_details)
      if (one.is_earlier()) sums_[{one.waiter, one.cause, one.ran}] += one.ns;
    next_->OnSlot(slot);
  }
  const Sums& sums() const { return sums_; }

 private:
  SlotSink* next_;
  Sums sums_;
};

struct CsvEngine {
  CsvEngine(const Facts& its_facts, uint64_t its_slot_ns, uint64_t its_window_ns)
      : facts(its_facts),
        slot_ns(its_slot_ns),
        window_ns(its_window_ns),
        csv(&file, facts.unix_offset_ns, 0, facts.nr_more()),
        earlier(&csv) {
    Make();
  }

  Merger& merger() { return engine->merger(); }
  const SlotBuilder& builder() const { return engine->builder(); }
  // Another engine goes on where this one is.
  void GoOnAnew() {
    const std::string state = engine->SaveState();
    Make();
    const Status status = engine->LoadState(std::as_bytes(std::span(state)));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // The rows, without header and counters.
  const std::string& Finish() {
    engine->Finish();
    csv.Flush();
    return file.text;
  }
  void Make() {
    engine = std::make_unique<Engine>(facts, slot_ns, window_ns, GpuTracker::kNothing, &earlier);
  }

  Facts facts;
  uint64_t slot_ns, window_ns;
  TextFile file;
  CsvSink csv;
  EarlierWaits earlier;
  std::unique_ptr<Engine> engine;
};

}  // namespace slotscope
