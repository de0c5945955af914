// SPDX-License-Identifier: MIT
#include "ship/column.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <system_error>
#include <utility>

namespace slotscope {
namespace {

static_assert(std::endian::native == std::endian::little, "as ClickHouse has it");

// "T" of "OUTER(T)".
bool TakeOuter(std::string_view outer, std::string_view* name) {
  if (!name->starts_with(outer) || !name->ends_with(')') || name->size() <= outer.size() + 1 ||
      (*name)[outer.size()] != '(')
    return false;
  *name = name->substr(outer.size() + 1, name->size() - outer.size() - 2);
  return true;
}

// All of it is that number. (Of 19 digits each is one of 64 bits; of more from_chars knows.)
bool ParseNumber(std::string_view field, uint64_t* number) {
  uint64_t value = 0;
  if (field.size() > 19) {
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *number);
    return error == std::errc() && end == field.data() + field.size();
  }
  for (const char c : field) {
    const auto digit = static_cast<unsigned char>(c - '0');
    if (digit > 9) return false;
    value = value * 10 + digit;
  }
  *number = value;
  return !field.empty();
}

}  // namespace

std::optional<ServerType> ParseServerType(std::string_view name) {
  struct Known {
    std::string_view name;
    ServerType::Kind kind;
    uint8_t bytes;
  };
  using enum ServerType::Kind;
  constexpr std::array kKnown = {
      Known{"UInt8", kUnsigned, 1},  Known{"UInt16", kUnsigned, 2}, Known{"UInt32", kUnsigned, 4},
      Known{"UInt64", kUnsigned, 8}, Known{"Int8", kSigned, 1},     Known{"Int16", kSigned, 2},
      Known{"Int32", kSigned, 4},    Known{"Int64", kSigned, 8},    Known{"Float32", kFloat, 4},
      Known{"Float64", kFloat, 8},   Known{"String", kText, 0}};
  ServerType type;
  type.name = name;
  if (name == "LowCardinality(String)") {
    type.kind = kWord;
    type.bytes = sizeof(uint32_t);
    return type;
  }
  std::string_view inner = name;
  type.nullable = TakeOuter("Nullable", &inner);
  // Seconds of Unix time, whatever the zone in which it is shown.
  if (inner == "DateTime" || inner.starts_with("DateTime(")) {
    type.kind = kUnsigned;
    type.bytes = 4;
    return type;
  }
  const auto* known =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& one) { return one.name == inner; });
  if (known == kKnown.end()) return {};
  type.kind = known->kind;
  type.bytes = known->bytes;
  return type;
}

void AppendText(std::string_view text, std::string* bytes) {
  AppendVarint(text.size(), bytes);
  *bytes += text;
}

void ShipColumn::PutWaiting() {
  values_.AddTimes(nr_waiting_ * std::max<size_t>(type_.bytes, 1), '\0');  // a text's length is 0
  if (type_.nullable) {
    nulls_.AddTimes(nr_run_, '\0');
    nulls_.AddTimes(nr_waiting_, '\1');
  }
  nr_put_ += std::exchange(nr_waiting_, 0);
  nr_run_ = 0;
}

bool ShipColumn::AddFilled(std::string_view field) {
  using enum ServerType::Kind;
  const unsigned nr_bits = type_.bytes * 8u;
  uint64_t number;
  switch (type_.kind) {
    case kUnsigned:
      if (!ParseNumber(field, &number) || (nr_bits < 64 && number >> nr_bits)) return false;
      Put(number);
      return true;
    case kSigned: {
      const bool is_negative = field.starts_with('-');
      if (!ParseNumber(field.substr(is_negative), &number)) return false;
      const uint64_t most = (uint64_t{1} << (nr_bits - 1)) - !is_negative;
      if (number > most) return false;
      Put(is_negative ? -number : number);
      return true;
    }
    case kFloat: {
      double real;
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), real);
      if (error != std::errc() || end != field.data() + field.size()) return false;
      Put(type_.bytes == 8 ? std::bit_cast<uint64_t>(real)
                           : std::bit_cast<uint32_t>(static_cast<float>(real)));
      return true;
    }
    case kText: {
      Begin();
      struct Length {  // as a text that it is appended to
        PackedBytes* bytes;
        void push_back(char byte) { bytes->Add(byte); }
      } length = {&values_};
      AppendVarint(field.size(), &length);
      values_.Add(field);
      return true;
    }
    case kWord:
      AddWord(field);
  }
  return true;
}

// Neighbours often say the same.
void ShipColumn::AddWord(std::string_view word) {
  if (!last_word_ || last_word_->first != word) {
    const auto [found, is_new] =
        words_.try_emplace(std::string(word), static_cast<uint32_t>(words_.size() + 1));
    if (is_new) AppendText(word, &words_text_);
    last_word_ = &*found;
  }
  Put(last_word_->second);
}

// Of words: a version, how wide their numbers are and that they follow, how many there are, they, and
// how many rows.
std::string ShipColumn::Head() const {
  constexpr uint64_t kVersion = 1, kOf32Bits = 2, kHasWords = 1u << 9, kOfThisBlock = 1u << 10;
  if (type_.kind != ServerType::Kind::kWord) return "";
  std::string head;
  const auto put = [&](uint64_t number) {
    head.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  put(kVersion);
  put(kOf32Bits | kHasWords | kOfThisBlock);
  put(words_.size() + 1);
  AppendText("", &head);
  head += words_text_;
  put(nr_rows());
  return head;
}

void ShipColumn::Clear() {
  nr_put_ = nr_run_ = nr_waiting_ = 0;
  nulls_.Clear();
  values_.Clear();
  words_.clear();
  words_text_.clear();
  last_word_ = nullptr;
}

}  // namespace slotscope
