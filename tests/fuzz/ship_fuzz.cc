// SPDX-License-Identifier: MIT
// Any text as a segment of a table that is shipped: what becomes of it is whole blocks, in which each
// column has a value for each row.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "require.h"
#include "ship/block.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  if (size == 0) return 0;
  ServerTable table = {"slots", {}};
  for (const auto& [name, type] : {std::pair{"host", "String"},
                                   {"boot_id", "LowCardinality(String)"},
                                   {"batch", "UInt64"},
                                   {"row", "UInt32"},
                                   {"time", "DateTime('UTC')"},
                                   {"slot_start_unix_ns", "Nullable(Int64)"},
                                   {"comm", "LowCardinality(String)"},
                                   {"cycles", "Nullable(UInt64)"},
                                   {"rank", "Nullable(Int32)"},
                                   {"mux_pct", "Nullable(Float64)"},
                                   {"json", "String"}})
    table.columns.emplace_back(name, *ParseServerType(type));
  ShipSource source = {"host", "boot", 0, 0, 1, (data[0] & 1) != 0, data[0] & 2 ? "each" : ""};
  uint64_t nr_rows = 0;
  BlockMaker maker(table, source, [&](const BlockMaker::Block& block) -> Status {
    Require(block.nr_rows > 0 && block.nr_rows <= BlockMaker::kMaxRows);
    Require(block.first_row == nr_rows && block.first_s <= block.last_s);
    Require(block.first_s / BlockMaker::kDayS == block.last_s / BlockMaker::kDayS);
    Require(!block.columns.empty());
    for (const ShipColumn* column : block.columns) {
      Require(column->nr_rows() == block.nr_rows);
      Require(column->nulls().nr_bytes() == (column->type().nullable ? block.nr_rows : 0));
      if (const size_t bytes = column->type().bytes)
        Require(column->values().nr_bytes() == bytes * block.nr_rows);
      else
        Require(column->values().nr_bytes() >= block.nr_rows);
    }
    nr_rows += block.nr_rows;
    return {};
  });
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Status status = maker.Take(text);
  if (status.ok()) status = maker.Finish();
  Require(status.ok() ? nr_rows == maker.nr_rows() : status.code() == Exit::kBadInput);
  return 0;
}
