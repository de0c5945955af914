// SPDX-License-Identifier: MIT
#include "detect/value_tree.h"

namespace slotscope {

// What a container has is in one piece: if something else has been linked since, it moves behind that.
void ValueTree::Append(Index container, std::span<const Index> items) {
  Node& node = nodes_[container];
  if (node.begin + node.nr != links_.size()) {
    const size_t begin = links_.size();
    links_.reserve(begin + node.nr + items.size());
    for (uint32_t i = 0; i < node.nr; i++) links_.push_back(links_[node.begin + i]);
    node.begin = static_cast<uint32_t>(begin);
  }
  links_.insert(links_.end(), items.begin(), items.end());
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
