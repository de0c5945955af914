// SPDX-License-Identifier: MIT
#include "detect/inputs/value_tree.h"

#include <algorithm>

namespace slotscope {

void ValueTree::Clear() {
  nodes_.clear();
  links_.clear();
  own_.clear();
}

// What a container has is in one piece. One that has got something before moves behind all others, with
// room for as much again: so whoever fills it bit by bit costs no more than twice what there is.
void ValueTree::Append(Index container, std::span<const Index> items) {
  Node& node = nodes_[container];
  if (node.nr + items.size() > node.room) {
    const size_t begin = links_.size();
    const size_t room = node.nr + std::max<size_t>(node.nr, items.size());
    links_.resize(begin + room);
    std::copy_n(links_.begin() + node.begin, node.nr, links_.begin() + static_cast<ptrdiff_t>(begin));
    node.begin = static_cast<uint32_t>(begin);
    node.room = static_cast<uint32_t>(room);
  }
  std::copy(items.begin(), items.end(), links_.begin() + node.begin + node.nr);
  node.nr += static_cast<uint32_t>(items.size());
}

std::optional<bool> ValueTree::Bool(Index index) const {
  const Node& node = nodes_[index];
  return node.kind == Kind::kBool ? std::optional(node.number.integer != 0) : std::nullopt;
}

std::optional<int64_t> ValueTree::Integer(Index index) const {
  const Node& node = nodes_[index];
  return node.kind == Kind::kInteger ? std::optional(node.number.integer) : std::nullopt;
}

std::optional<double> ValueTree::Number(Index index) const {
  const Node& node = nodes_[index];
  if (node.kind == Kind::kReal) return node.number.real;
  if (node.kind == Kind::kInteger) return static_cast<double>(node.number.integer);
  return {};
}

std::optional<std::string_view> ValueTree::Text(Index index) const {
  const Node& node = nodes_[index];
  return node.kind == Kind::kText ? std::optional(node.text) : std::nullopt;
}

std::optional<ValueTree::Index> ValueTree::Find(Index dict, std::string_view key) const {
  const std::span<const Index> items = Dict(dict);
  for (size_t i = items.size() / 2; i-- > 0;)
    if (const Node& node = nodes_[items[2 * i]]; node.kind == Kind::kText && node.text == key)
      return items[2 * i + 1];
  return {};
}

}  // namespace slotscope
