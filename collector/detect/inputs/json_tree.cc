// SPDX-License-Identifier: MIT
#include "detect/inputs/json_tree.h"

#include <fmt/core.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace slotscope {
namespace {

using Json = nlohmann::json;
using Index = ValueTree::Index;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 16u << 20;

class Handler final : public nlohmann::json_sax<Json> {
 public:
  explicit Handler(ValueTree* tree) : tree_(tree) {}

  bool null() override { return Put(tree_->AddNull()); }
  bool boolean(bool value) override { return Put(tree_->AddBool(value)); }
  bool number_integer(number_integer_t value) override { return Put(tree_->AddInteger(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Put(tree_->AddReal(static_cast<double>(value)));
    return Put(tree_->AddInteger(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(tree_->AddReal(value));
  }
  bool string(string_t& value) override { return Put(tree_->AddOwnText(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(tree_->AddDict()); }
  bool key(string_t& value) override {
    open_.back().items.push_back(tree_->AddOwnText(std::move(value)));
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(tree_->AddList()); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_ = fmt::format("at byte {}", position);
    return false;
  }

  Index root() const { return root_; }
  const std::string& error() const { return error_; }

 private:
  struct Container {
    Index index;
    std::vector<Index> items;
  };

  bool Put(Index value) {
    if (tree_->size() > kMaxValues) {
      error_ = "it is too large";
      return false;
    }
    if (open_.empty())
      root_ = value;
    else
      open_.back().items.push_back(value);
    return true;
  }
  bool Open(Index container) {
    if (!Put(container)) return false;
    if (open_.size() >= kMaxDepth) {
      error_ = fmt::format("it is deeper than {}", kMaxDepth);
      return false;
    }
    open_.push_back({container, {}});
    return true;
  }
  bool Close() {
    tree_->Append(open_.back().index, open_.back().items);
    open_.pop_back();
    return true;
  }

  ValueTree* tree_;
  std::vector<Container> open_;
  Index root_ = 0;
  std::string error_ = "it ends too early";
};

}  // namespace

Status ParseJson(std::string_view text, ValueTree* tree, Index* root) {
  Handler handler(tree);
  if (!Json::sax_parse(text, &handler))
    return {Exit::kBadInput, fmt::format("not a JSON text: {}", handler.error())};
  *root = handler.root();
  return {};
}

}  // namespace slotscope
