// SPDX-License-Identifier: MIT
#include "ship/block.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/escape.h"
#include "base/scan.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNsPerS = 1'000'000'000;

// Bit i: byte i of 64 is a comma.
uint64_t CommasOf(const char* bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101, kLow = 0x7f * kOnes;
  uint64_t commas = 0;
  for (unsigned at = 0; at < 64; at += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + at, sizeof(eight));
    eight ^= ',' * kOnes;                                              // a comma's byte is 0 now
    const uint64_t found = ~(((eight & kLow) + kLow) | eight | kLow);  // and has its highest bit only
    commas |= (found >> 7) * 0x0102040810204080 >> 56 << at;           // which are brought together
  }
  return commas;
}

constexpr int kMaxDepth = 8;  // of objects in objects: ours have two

// Each value that is no list by its name as a column ("culprit.pid": culprit_pid), as a CSV would have
// it.
void Flatten(const Json& object, const std::string& prefix, int depth,
             std::map<std::string, std::string>* fields) {
  if (depth > kMaxDepth) return;
  for (const auto& [key, value] : object.items()) {
    std::string name = prefix + key;
    std::replace(name.begin(), name.end(), '.', '_');
    if (value.is_object())
      Flatten(value, name + '_', depth + 1, fields);
    else if (value.is_string())
      (*fields)[name] = value.get<std::string>();
    else if (value.is_boolean())
      (*fields)[name] = value.get<bool>() ? "1" : "0";
    else if (value.is_number())
      (*fields)[name] = value.dump();
  }
}

}  // namespace

BlockMaker::BlockMaker(const ServerTable& table, const ShipSource& source, OnBlock on_block)
    : source_(source), table_(table.name), on_block_(std::move(on_block)) {
  for (const auto& [name, type] : table.columns) columns_.emplace_back(name, type);
  host_ = Find("host");
  boot_id_ = Find("boot_id");
  batch_ = Find("batch");
  row_ = Find("row");
  time_ = Find("time");
}

ShipColumn* BlockMaker::Find(std::string_view name) {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [&](const ShipColumn& column) { return column.name() == name; });
  return found == columns_.end() ? nullptr : &*found;
}

bool BlockMaker::IsOurs(const ShipColumn* column) const {
  return column == host_ || column == boot_id_ || column == batch_ || column == row_ || column == time_;
}

// Frames end with a line; what another program has packed ends anywhere.
Status BlockMaker::Take(std::string_view text) {
  if (!rest_.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    rest_ += text.substr(0, end);
    if (end == text.size()) return {};
    text.remove_prefix(end + 1);
    if (Status status = TakeLine(std::exchange(rest_, {})); !status.ok()) return status;
  }
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    if (Status status = TakeLine(text.substr(0, end)); !status.ok()) return status;
  rest_ = text;
  return {};
}

Status BlockMaker::TakeLine(std::string_view line) {
  if (source_.is_json) return TakeJson(line);
  if (line.starts_with("# ")) return {};
  Split(line);
  return by_place_.empty() ? TakeHeader(line) : TakeCsv(line);
}

// Most fields have a few characters, or none: whether one ends at a byte cannot be foretold, so that is
// asked of 64 at a time.
void BlockMaker::Split(std::string_view line) {
  ends_.resize(line.size() + 1);
  size_t nr = 0;
  for (size_t at = 0; at < line.size(); at += 64) {
    char last[64] = {};
    const char* bytes = line.data() + at;
    if (line.size() - at < sizeof(last)) {
      std::memcpy(last, bytes, line.size() - at);
      bytes = last;
    }
    for (uint64_t commas = CommasOf(bytes); commas; commas &= commas - 1)
      ends_[nr++] = static_cast<uint32_t>(at + static_cast<size_t>(std::countr_zero(commas)));
  }
  ends_[nr++] = static_cast<uint32_t>(line.size());
  ends_.resize(nr);
}

Status BlockMaker::TakeHeader(std::string_view line) {
  for (size_t i = 0; i < ends_.size(); i++) {
    const std::string_view name = Field(line, i);
    if (name == "slot_start_unix_ns") unix_place_ = i;
    if (name == "end_ns") end_place_ = i;
    ShipColumn* const column = Find(name);
    // Ours are not the recording's to say, and nobody says something twice.
    const bool is_taken = column && (IsOurs(column) || std::find(by_place_.begin(), by_place_.end(),
                                                                 column) != by_place_.end());
    by_place_.push_back(is_taken ? nullptr : column);
    if (!by_place_.back()) lacking_.emplace_back(name);
  }
  if (unix_place_ != kNone || end_place_ != kNone) return {};
  return {Exit::kBadInput, fmt::format("nothing says of what time the rows of {} are", table_)};
}

Status BlockMaker::TakeCsv(std::string_view line) {
  std::optional<int64_t> at_ns;
  if (ends_.size() == by_place_.size())
    at_ns = NumberOf<int64_t>(Field(line, unix_place_ != kNone ? unix_place_ : end_place_));
  if (!at_ns) {
    nr_malformed_++;
    return {};
  }
  if (Status status = AddRow(unix_place_ != kNone ? *at_ns : *at_ns + source_.unix_offset_ns);
      !status.ok())
    return status;
  for (size_t i = 0; i < ends_.size(); i++) {
    const std::string_view field = Field(line, i);
    if (by_place_[i] && !by_place_[i]->Add(field)) return Refuse(*by_place_[i], field);
  }
  return {};
}

// Each of its values for which there is a column, and the whole of it.
Status BlockMaker::TakeJson(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    nr_malformed_++;
    return {};
  }
  if (object.value("state", Json()) == "header") return {};
  std::map<std::string, std::string> fields;
  Flatten(object, "", 0, &fields);
  if (source_.each.empty()) {
    fields["json"] = line;
    return AddJsonRow(object, fields);
  }
  for (const Json& element : object.value(source_.each, Json::array())) {
    std::map<std::string, std::string> of_element = fields;
    if (element.is_object()) Flatten(element, "", 0, &of_element);
    if (Status status = AddJsonRow(object, of_element); !status.ok()) return status;
  }
  return {};
}

Status BlockMaker::AddJsonRow(const Json& object, const std::map<std::string, std::string>& fields) {
  const Json until = object.value("until_unix_ns", Json());
  if (Status status = AddRow(until.is_number_integer() ? until.get<int64_t>() : source_.start_unix_ns);
      !status.ok())
    return status;
  for (ShipColumn& column : columns_) {
    if (IsOurs(&column)) continue;
    const auto found = fields.find(column.name());
    const std::string_view field = found == fields.end() ? "" : std::string_view(found->second);
    if (!column.Add(field)) return Refuse(column, field);
  }
  return {};
}

// What every row has, in a new block if this one is full, or of another day.
Status BlockMaker::AddRow(int64_t unix_ns) {
  const int64_t unix_s = unix_ns / kNsPerS;
  if (unix_ns < 0 || unix_s > UINT32_MAX)
    return {Exit::kBadInput, fmt::format("a row of {} is of a time that no calendar has", table_)};
  const auto at_s = static_cast<uint32_t>(unix_s);
  if (block_.nr_rows >= kMaxRows || (block_.nr_rows > 0 && at_s / kDayS != block_.first_s / kDayS))
    if (Status status = EndBlock(); !status.ok()) return status;
  if (block_.nr_rows == 0) {
    block_.first_s = block_.last_s = at_s;
    block_.first_row = nr_rows_;
  }
  block_.first_s = std::min(block_.first_s, at_s);
  block_.last_s = std::max(block_.last_s, at_s);
  block_.nr_rows++;
  nr_rows_++;
  time_->AddNumber(at_s);
  return {};
}

Status BlockMaker::Refuse(const ShipColumn& column, std::string_view field) const {
  return {Exit::kBadInput,
          fmt::format("'{}' of a row of {} is no {}, which column {} of the database is",
                      EscapeName(field.substr(0, 40)), table_, column.type().name, column.name())};
}

Status BlockMaker::Finish() {
  if (!rest_.empty())
    if (Status status = TakeLine(std::exchange(rest_, {})); !status.ok()) return status;
  return EndBlock();
}

Status BlockMaker::EndBlock() {
  if (block_.nr_rows == 0) return {};
  for (size_t i = 0; i < block_.nr_rows; i++) {
    host_->Add(source_.host);
    boot_id_->Add(source_.boot_id);
    batch_->AddNumber(source_.batch);
    row_->AddNumber(block_.first_row + i);
  }
  block_.columns.clear();
  for (ShipColumn& column : columns_) {
    if (column.is_empty()) continue;
    column.Finish();
    block_.columns.push_back(&column);
  }
  Status status = on_block_(block_);
  for (ShipColumn& column : columns_) column.Clear();
  block_.number++;
  block_.nr_rows = 0;
  return status;
}

void PutBlock(const BlockMaker::Block& block, PackedBytes* body) {
  std::string head;
  AppendVarint(block.columns.size(), &head);
  AppendVarint(block.nr_rows, &head);
  for (const ShipColumn* column : block.columns) {
    AppendText(column->name(), &head);
    AppendText(column->type().name, &head);
    body->Add(head);
    body->Add(column->Head());
    body->Add(column->nulls());
    body->Add(column->values());
    head.clear();
  }
}

}  // namespace slotscope
