// SPDX-License-Identifier: MIT
// The engine from items to CSV text.
#pragma once

#include <cstdint>
#include <string>

#include "merge/merger.h"
#include "raw/facts.h"
#include "sinks/csv_sink.h"
#include "slots/slot_builder.h"
#include "tests/unit/text_file.h"

namespace slotscope {

struct Engine {
  Engine(const Facts& facts, uint64_t slot_ns, uint64_t window_ns)
      : csv(&file, facts.unix_offset_ns, 0),
        builder({slot_ns, window_ns, facts.present_cpus, true, facts.unix_offset_ns, facts.rdt}, &csv),
        merger(facts.nr_streams, window_ns, &builder) {}

  // The rows, without header and counters.
  const std::string& Finish() {
    merger.Flush();
    builder.Finish();
    csv.Flush();
    return file.text;
  }

  TextFile file;
  CsvSink csv;
  SlotBuilder builder;
  Merger merger;
};

}  // namespace slotscope
