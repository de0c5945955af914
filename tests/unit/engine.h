// SPDX-License-Identifier: MIT
// From items to CSV text, by the engine of recordings and replays.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "raw/facts.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "tests/unit/text_file.h"

namespace slotscope {

struct CsvEngine {
  CsvEngine(const Facts& its_facts, uint64_t its_slot_ns, uint64_t its_window_ns)
      : facts(its_facts),
        slot_ns(its_slot_ns),
        window_ns(its_window_ns),
        csv(&file, facts.unix_offset_ns, 0, facts.nr_more()) {
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
    engine = std::make_unique<Engine>(facts, slot_ns, window_ns, GpuTracker::kNothing, &csv);
  }

  Facts facts;
  uint64_t slot_ns, window_ns;
  TextFile file;
  CsvSink csv;
  std::unique_ptr<Engine> engine;
};

}  // namespace slotscope
