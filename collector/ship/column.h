// SPDX-License-Identifier: MIT
// A column of a block as ClickHouse's format Native has it: fields are added as the text that our tables
// have, and become what the server's type says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ship/packed_bytes.h"

namespace slotscope {

// A type of the server's, as far as we write it.
struct ServerType {
  // kWord: a text as its number among those that were said before it (LowCardinality).
  enum class Kind : uint8_t { kUnsigned, kSigned, kFloat, kText, kWord };

  Kind kind = Kind::kText;
  uint8_t bytes = 0;  // of a value; 0: a text's are its own
  bool nullable = false;
  std::string name;
};

// Nothing: it is none that we write.
std::optional<ServerType> ParseServerType(std::string_view name);

class ShipColumn {
 public:
  ShipColumn(std::string name, ServerType type) : name_(std::move(name)), type_(std::move(type)) {}

  const std::string& name() const { return name_; }
  const ServerType& type() const { return type_; }

  // A field of the next row; "" is "not measured", or a text of no length. False: it is no value of this
  // type, and the column is as it was.
  bool Add(std::string_view field) {
    if (!field.empty()) return AddFilled(field);
    if (!type_.nullable && type_.kind < ServerType::Kind::kText) return false;  // it would be a 0
    nr_waiting_++;
    return true;
  }
  // Of numbers without a sign.
  void AddNumber(uint64_t number) { Put(number); }

  // Nobody has measured anything: the block can do without it.
  bool is_empty() const { return nr_put_ == 0; }
  size_t nr_rows() const { return nr_put_ + nr_waiting_; }
  // The last row is there. REQUIRES: !is_empty(); so do the next three.
  void Finish() { PutWaiting(); }
  // What a block has of it behind its name and its type: head, nulls and values, one behind the other.
  std::string Head() const;
  const PackedBytes& nulls() const { return nulls_; }
  const PackedBytes& values() const { return values_; }
  // No rows.
  void Clear();

 private:
  bool AddFilled(std::string_view field);
  void AddWord(std::string_view word);
  // Of the number's lower bytes those that a value has.
  void Put(uint64_t number) {
    Begin();
    values_.AddNumber(number, type_.bytes);
  }
  // The next row has something.
  void Begin() {
    if (nr_waiting_ > 0) PutWaiting();
    nr_put_++;
    nr_run_++;
  }
  // Rows that wait get their room.
  void PutWaiting();

  std::string name_;
  ServerType type_;
  size_t nr_put_ = 0;  // rows whose values are there
  size_t nr_run_ = 0;  // of these, the last ones, which have something: their nulls are not there yet
  size_t nr_waiting_ = 0;                            // rows behind them, which have nothing
  PackedBytes nulls_;                                // a byte for each row: 1 is none
  PackedBytes values_;                               // of fixed size, or length and text
  std::unordered_map<std::string, uint32_t> words_;  // and their numbers; "" has 0
  std::string words_text_;                           // in the order of their numbers
  const std::pair<const std::string, uint32_t>* last_word_ = nullptr;
};

// A number of seven bits a byte.
template <typename Text>
void AppendVarint(uint64_t number, Text* bytes) {
  for (; number >= 0x80; number >>= 7) bytes->push_back(static_cast<char>(number | 0x80));
  bytes->push_back(static_cast<char>(number));
}
void AppendText(std::string_view text, std::string* bytes);

}  // namespace slotscope
