// SPDX-License-Identifier: MIT
// The engine from items to CSV text.
#pragma once

#include <cstdint>
#include <string>

#include "base/out_file.h"
#include "merge/merger.h"
#include "raw/facts.h"
#include "sinks/csv_sink.h"
#include "slots/slot_builder.h"

namespace slotscope {

struct TextFile final : OutFile {
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (auto piece : pieces) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  }
  uint64_t size() const override { return text.size(); }
  std::string text;
};

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
