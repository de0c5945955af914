// SPDX-License-Identifier: MIT
// Rows of one segment of a table, as blocks of ClickHouse's format Native. Which rows are in which block
// follows from the segment alone, so whoever reads it again makes the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ship/column.h"

namespace slotscope {

// A table of the server.
struct ServerTable {
  std::string name;
  std::vector<std::pair<std::string, ServerType>> columns;
};

// Where rows come from.
struct ShipSource {
  std::string host, boot_id;
  int64_t start_unix_ns = 0;   // of the segment
  int64_t unix_offset_ns = 0;  // of rows that say CLOCK_MONOTONIC only
  uint64_t batch = 0;          // its name: see Shipper
  bool is_json = false;
  // Of JSON: each element of this list is a row, with the values of the whole that it has not itself.
  std::string each;
};

class BlockMaker {
 public:
  // The server makes of a block of more than a million, or of more than one day, several parts, and then
  // not all of them may be there.
  static constexpr size_t kMaxRows = 250'000;
  static constexpr int64_t kDayS = 86'400;  // of UTC: what a partition has

  struct Block {
    size_t number = 0;                       // in the segment
    size_t nr_rows = 0;                      // at least one
    uint32_t first_s = 0, last_s = 0;        // of their times: the least and the most
    uint64_t first_row = 0;                  // in the segment
    std::vector<const ShipColumn*> columns;  // those that have something
  };
  // A block that is complete, which is there for as long as the call takes.
  using OnBlock = std::function<Status(const Block&)>;

  // All outlive it. REQUIRES: the table has the columns host, boot_id, batch, row and time.
  BlockMaker(const ServerTable& table, const ShipSource& source, OnBlock on_block);

  // What comes behind what came before, first a header. Exit::kBadInput: what a row says cannot be put
  // into the table; else what OnBlock() returned.
  Status Take(std::string_view text);
  // The last block.
  Status Finish();

  // Columns of the segment for which the table has none: what they say is not shipped.
  const std::vector<std::string>& lacking() const { return lacking_; }
  uint64_t nr_rows() const { return nr_rows_; }
  // Lines that are no rows: with another number of fields than there are columns, or no JSON.
  uint64_t nr_malformed() const { return nr_malformed_; }

 private:
  Status TakeLine(std::string_view line);
  void Split(std::string_view line);
  Status TakeHeader(std::string_view line);
  Status TakeCsv(std::string_view line);
  std::string_view Field(std::string_view line, size_t place) const {
    const size_t begin = place == 0 ? 0 : ends_[place - 1] + 1;
    return line.substr(begin, ends_[place] - begin);
  }
  Status TakeJson(std::string_view line);
  Status AddJsonRow(const nlohmann::ordered_json& object,
                    const std::map<std::string, std::string>& fields);
  Status AddRow(int64_t unix_ns);
  Status Refuse(const ShipColumn& column, std::string_view field) const;
  Status EndBlock();
  ShipColumn* Find(std::string_view name);
  bool IsOurs(const ShipColumn* column) const;

  ShipSource source_;
  std::string table_;
  OnBlock on_block_;
  std::vector<ShipColumn> columns_;
  // Ours, among them.
  ShipColumn *host_ = nullptr, *boot_id_ = nullptr, *batch_ = nullptr, *row_ = nullptr, *time_ = nullptr;
  std::vector<ShipColumn*> by_place_;  // of a line's fields; null: the table has no such column
  size_t unix_place_ = kNone, end_place_ = kNone;
  std::vector<uint32_t> ends_;  // of a line's fields, in it
  std::string rest_;            // a line that has no end yet
  std::vector<std::string> lacking_;
  uint64_t nr_rows_ = 0, nr_malformed_ = 0;
  Block block_;

  static constexpr size_t kNone = SIZE_MAX;
};

// What a request's body has of it.
void PutBlock(const BlockMaker::Block& block, PackedBytes* body);

}  // namespace slotscope
