// SPDX-License-Identifier: MIT
// What a pickle or a JSON text says, as values that know nothing of where they came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope {

// Our own limit for a text that is kept of a tree.
inline constexpr size_t kMaxFieldText = 4096;

// All values of one text. They refer to each other by index, and may do so more than once, even in
// circles: whoever reads them goes only as deep as what it looks for is.
class ValueTree {
 public:
  using Index = uint32_t;
  enum class Kind : uint8_t { kNull, kBool, kInteger, kReal, kText, kList, kDict };

  Index AddNull() { return Add({.kind = Kind::kNull}); }
  Index AddBool(bool value) { return Add({.kind = Kind::kBool, .number = {.integer = value}}); }
  Index AddInteger(int64_t value) { return Add({.kind = Kind::kInteger, .number = {.integer = value}}); }
  Index AddReal(double value) { return Add({.kind = Kind::kReal, .number = {.real = value}}); }
  // `text` outlives the tree; or is kept by it.
  Index AddText(std::string_view text) { return Add({.kind = Kind::kText, .text = text}); }
  Index AddOwnText(std::string text) { return AddText(own_.emplace_back(std::move(text))); }
  Index AddList() { return Add({.kind = Kind::kList}); }
  Index AddDict() { return Add({.kind = Kind::kDict}); }
  // Forgets all, and keeps its memory for the next text.
  void Clear();

  // Of a dict keys and values take turns.
  void Append(Index container, std::span<const Index> items);

  Kind kind(Index index) const { return nodes_[index].kind; }
  size_t size() const { return nodes_.size(); }

  // What it is, if it is that.
  std::optional<bool> Bool(Index index) const;
  std::optional<int64_t> Integer(Index index) const;
  std::optional<double> Number(Index index) const;
  std::optional<std::string_view> Text(Index index) const;
  // Empty if it is no list, or no dict.
  std::span<const Index> List(Index index) const { return ItemsOf(index, Kind::kList); }
  std::span<const Index> Dict(Index index) const { return ItemsOf(index, Kind::kDict); }
  // Of a key of a dict; the last one counts.
  std::optional<Index> Find(Index dict, std::string_view key) const;

 private:
  struct Node {
    Kind kind;
    union {
      int64_t integer;  // of a bool, too
      double real;
    } number = {.integer = 0};
    std::string_view text = {};
    // Of links_.
    uint32_t begin = 0;
    uint32_t nr = 0;
    uint32_t room = 0;
  };

  Index Add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<Index>(nodes_.size() - 1);
  }
  std::span<const Index> ItemsOf(Index index, Kind kind) const {
    const Node& node = nodes_[index];
    if (node.kind != kind) return {};
    return std::span(links_).subspan(node.begin, node.nr);
  }

  std::vector<Node> nodes_;
  std::vector<Index> links_;
  std::deque<std::string> own_;
};

}  // namespace slotscope
