// SPDX-License-Identifier: MIT
// From items to CSV text, by the engine of recordings and replays.
#pragma once

#include <cstdint>
#include <string>

#include "raw/facts.h"
#include "run/engine.h"
#include "sinks/csv_sink.h"
#include "tests/unit/text_file.h"

namespace slotscope {

struct CsvEngine {
  CsvEngine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns)
      : csv(&file, facts.unix_offset_ns, 0, facts.nr_more()),
        engine(facts, slot_ns, window_ns, GpuTracker::kNothing, &csv) {}

  Merger& merger() { return engine.merger(); }
  const SlotBuilder& builder() const { return engine.builder(); }
  // The rows, without header and counters.
  const std::string& Finish() {
    engine.Finish();
    csv.Flush();
    return file.text;
  }

  TextFile file;
  CsvSink csv;
  Engine engine;
};

}  // namespace slotscope
