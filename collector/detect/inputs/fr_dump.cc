// SPDX-License-Identifier: MIT
#include "detect/inputs/fr_dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "detect/inputs/json_tree.h"
#include "detect/inputs/moment.h"
#include "detect/inputs/pickle.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {
namespace {

using Index = ValueTree::Index;

// Our own limits.
constexpr size_t kMaxGroups = 4096;
constexpr size_t kMaxEntries = 200'000;
constexpr size_t kMaxKeys = 128;  // of an entry
constexpr size_t kMaxMembersText = 64u << 20;
constexpr size_t kMaxMembers = 1u << 18;  // of all groups
constexpr size_t kMaxOperations = 65536;
constexpr size_t kMaxTensors = 65536;  // of different sizes
constexpr size_t kMaxDimensions = 16;
constexpr size_t kMaxShown = 4;  // tensors of an operation
constexpr size_t kMaxType = 64;
constexpr int32_t kMaxRank = 10'000'000;
constexpr int64_t kMaxTimeoutMs = 1'000'000'000'000;  // 30 years: "never"

// "[0, 1, 2]", as the recorder writes a list. Nothing if it is none.
std::optional<std::vector<int32_t>> ParseRanks(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {};
  text = text.substr(1, text.size() - 2);
  std::vector<int32_t> ranks;
  while (!text.empty()) {
    if (!ranks.empty()) {
      if (text.front() != ',') return {};
      text.remove_prefix(1);
    }
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    int32_t rank;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc() || rank < 0 || rank > kMaxRank || ranks.size() >= kMaxMembers) return {};
    ranks.push_back(rank);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return ranks;
}

class Projection {
 public:
  Projection(const ValueTree& tree, FrDump* dump) : tree_(tree), dump_(*dump) {}

  Status Run(Index root) {
    if (tree_.kind(root) != ValueTree::Kind::kDict) return Bad("it is no dict");
    const auto version = TextOf(root, "version");
    if (!version) return Bad("it has no version");
    if (!version->starts_with("2."))
      return Bad(fmt::format("version {} is not read, only 2.x", EscapeControls(*version)));
    dump_.version = *version;
    config_ = tree_.Find(root, "pg_config");
    const auto entries = tree_.Find(root, "entries");
    if (!entries) return {};  // JSON has none if there is nothing in it
    if (tree_.kind(*entries) != ValueTree::Kind::kList) return Bad("its entries are no list");
    const auto list = tree_.List(*entries);
    if (list.size() > kMaxEntries)
      return Bad(fmt::format("it has {} entries, more than {}", list.size(), kMaxEntries));
    dump_.entries.reserve(list.size());
    for (Index entry : list) {
      FrEntry taken;
      if (!TakeEntry(entry, &taken)) {
        dump_.nr_malformed++;
        continue;
      }
      dump_.newest_ns = std::max({dump_.newest_ns, taken.created_ns, taken.started_ns.value_or(0),
                                  taken.completed_ns.value_or(0)});
      dump_.entries.push_back(taken);
    }
    SettleBatches();
    return {};
  }

 private:
  static Status Bad(const std::string& text) {
    return {Exit::kBadInput, fmt::format("not a dump of a flight recorder: {}", text)};
  }

  std::optional<std::string_view> TextOf(Index dict, std::string_view key) const {
    const auto found = tree_.Find(dict, key);
    const auto text = found ? tree_.Text(*found) : std::nullopt;
    return text && text->size() <= kMaxFieldText ? text : std::nullopt;
  }
  std::optional<int64_t> IntegerOf(Index dict, std::string_view key) const {
    const auto found = tree_.Find(dict, key);
    return found ? tree_.Integer(*found) : std::nullopt;
  }
  bool IsTrue(Index dict, std::string_view key) const {
    const auto found = tree_.Find(dict, key);
    return found && tree_.Bool(*found).value_or(false);
  }
  // JSON has 0 where a pickle has None.
  std::optional<int64_t> TimeOf(Index dict, std::string_view key) const {
    const auto time = IntegerOf(dict, key);
    return time && *time > 0 && *time <= kMaxTimeNs ? time : std::nullopt;
  }

  bool TakeEntry(Index entry, FrEntry* to) {
    if (tree_.kind(entry) != ValueTree::Kind::kDict || tree_.Dict(entry).size() > 2 * kMaxKeys)
      return false;
    const auto state = TextOf(entry, "state");
    const auto created_ns = TimeOf(entry, "time_created_ns");
    const auto sequence = IntegerOf(entry, "collective_seq_id");
    if (!state || !created_ns || !sequence || !TakeGroup(entry, &to->group) ||
        !TakeOperation(entry, &to->operation))
      return false;
    if (*state == "completed")
      to->state = FrState::kCompleted;
    else if (*state == "started")
      to->state = FrState::kStarted;
    else if (*state != "scheduled")
      return false;
    to->sequence = *sequence;
    to->p2p_sequence = IntegerOf(entry, "p2p_seq_id").value_or(0);
    to->created_ns = *created_ns;
    to->started_ns = TimeOf(entry, "time_discovered_started_ns");
    to->completed_ns = TimeOf(entry, "time_discovered_completed_ns");
    if (const auto timeout_ms = IntegerOf(entry, "timeout_ms");
        timeout_ms && *timeout_ms > 0 && *timeout_ms <= kMaxTimeoutMs)
      to->timeout_ms = timeout_ms;
    to->is_p2p = IsTrue(entry, "is_p2p");
    to->inputs = TakeInputs(entry);
    return true;
  }

  // The recorder leaves sends and receives of a batch in the state in which they were called. Behind
  // them is an entry of the same number, which is of the batch; a dump of what is in flight has none
  // once that is done.
  void SettleBatches() {
    std::map<std::pair<uint32_t, int64_t>, std::vector<size_t>> batches;  // by group and number
    for (size_t i = 0; i < dump_.entries.size(); i++)
      if (dump_.entries[i].is_p2p && dump_.entries[i].p2p_sequence > 0)
        batches[{dump_.entries[i].group, dump_.entries[i].p2p_sequence}].push_back(i);
    std::vector<bool> is_batch(dump_.entries.size());
    for (const auto& [key, members] : batches) {
      const FrEntry& last = dump_.entries[members.back()];
      const bool has_batch =
          members.size() > 1 && dump_.operations[last.operation].ends_with(":coalesced");
      // The same again is what the recorder has said of it later.
      const bool is_left = !has_batch && std::any_of(members.begin(), members.end(), [&](size_t i) {
        return dump_.entries[i].operation != last.operation;
      });
      if (!has_batch && !is_left) continue;
      is_batch[members.back()] = has_batch;
      for (size_t i : members) {
        FrEntry& one = dump_.entries[i];
        one.state = has_batch ? last.state : FrState::kCompleted;
        if (has_batch && !one.timeout_ms) one.timeout_ms = last.timeout_ms;
      }
    }
    size_t at = 0;
    std::erase_if(dump_.entries, [&](const FrEntry&) { return is_batch[at++]; });
  }

  // Of those tensors whose sizes are said.
  uint32_t TakeInputs(Index entry) {
    const auto sizes = tree_.Find(entry, "input_sizes");
    const auto list = sizes ? tree_.List(*sizes) : std::span<const Index>();
    if (list.empty()) return 0;
    FrTensors tensors;
    for (size_t i = 0; i < list.size(); i++) {
      const auto dimensions = tree_.List(list[i]);
      if (tree_.kind(list[i]) != ValueTree::Kind::kList || dimensions.size() > kMaxDimensions) return 0;
      uint64_t elements = 1;
      std::string text;
      for (Index dimension : dimensions) {
        const auto size = tree_.Integer(dimension);
        if (!size || *size < 0 ||
            __builtin_mul_overflow(elements, static_cast<uint64_t>(*size), &elements))
          return 0;
        text += fmt::format("{}{}", text.empty() ? "" : "x", *size);
      }
      if (__builtin_add_overflow(tensors.elements, elements, &tensors.elements)) return 0;
      if (i < kMaxShown) tensors.text += (i ? ", " : "") + (text.empty() ? std::string("1") : text);
    }
    if (list.size() > kMaxShown) tensors.text += fmt::format(" and {} more", list.size() - kMaxShown);
    if (const auto types = tree_.Find(entry, "input_dtypes"))
      if (const auto names = tree_.List(*types); !names.empty())
        tensors.type = tree_.Text(names[0]).value_or("").substr(0, kMaxType);
    if (!tensors.type.empty()) tensors.text += ' ' + tensors.type;
    const auto key = std::tuple(tensors.text, tensors.elements, tensors.type);
    if (tensors_.size() >= kMaxTensors && !tensors_.contains(key)) return 0;
    const auto [at, is_new] = tensors_.try_emplace(key, static_cast<uint32_t>(dump_.tensors.size()));
    if (is_new) dump_.tensors.push_back(std::move(tensors));
    return at->second;
  }

  bool TakeGroup(Index entry, uint32_t* group) {
    std::string name, description;
    const auto pair = tree_.Find(entry, "process_group");
    if (const auto items = pair ? tree_.List(*pair) : std::span<const Index>(); items.size() == 2) {
      const auto first = tree_.Text(items[0]), second = tree_.Text(items[1]);
      if (!first || !second || first->size() > kMaxFieldText || second->size() > kMaxFieldText)
        return false;
      name = *first;
      description = *second;
    } else if (const auto number = IntegerOf(entry, "pg_id")) {
      name = std::to_string(*number);
    } else {
      return false;
    }
    if (groups_.size() >= kMaxGroups && !groups_.contains({name, description})) return false;
    const auto [at, is_new] =
        groups_.try_emplace({name, description}, static_cast<uint32_t>(dump_.groups.size()));
    *group = at->second;
    if (is_new) dump_.groups.push_back({name, description, MembersOf(name)});
    return true;
  }

  std::vector<int32_t> MembersOf(const std::string& name) {
    const auto one = config_ ? tree_.Find(*config_, name) : std::nullopt;
    const auto ranks = one ? tree_.Find(*one, "ranks") : std::nullopt;
    if (!ranks) return {};
    std::vector<int32_t> members;
    if (const auto text = tree_.Text(*ranks)) {
      members_text_ += text->size();  // groups may share one
      if (members_text_ > kMaxMembersText) return {};
      members = ParseRanks(*text).value_or(std::vector<int32_t>());
    } else {
      for (Index item : tree_.List(*ranks)) {
        const auto rank = tree_.Integer(item);
        if (!rank || *rank < 0 || *rank > kMaxRank || members.size() >= kMaxMembers) return {};
        members.push_back(static_cast<int32_t>(*rank));
      }
    }
    nr_members_ += members.size();
    return nr_members_ <= kMaxMembers ? members : std::vector<int32_t>();
  }

  bool TakeOperation(Index entry, uint32_t* operation) {
    const std::string name(TextOf(entry, "profiling_name").value_or(""));
    if (operations_.size() >= kMaxOperations && !operations_.contains(name)) return false;
    const auto [at, is_new] =
        operations_.try_emplace(name, static_cast<uint32_t>(dump_.operations.size()));
    *operation = at->second;
    if (is_new) dump_.operations.push_back(name);
    return true;
  }

  const ValueTree& tree_;
  FrDump& dump_;
  std::optional<Index> config_;
  std::map<std::pair<std::string, std::string>, uint32_t> groups_;
  std::map<std::string, uint32_t> operations_;
  std::map<std::tuple<std::string, uint64_t, std::string>, uint32_t> tensors_;
  size_t nr_members_ = 0;
  size_t members_text_ = 0;
};

}  // namespace

Status ParseFrDump(std::string_view bytes, FrDump* dump) {
  ValueTree tree;
  return ParseFrDump(bytes, &tree, dump);
}

Status ParseFrDump(std::string_view bytes, ValueTree* tree, FrDump* dump) {
  tree->Clear();
  Index root = 0;
  const bool is_json = bytes.find_first_not_of(" \t\r\n") != bytes.npos &&
                       bytes[bytes.find_first_not_of(" \t\r\n")] == '{';
  if (Status status = is_json ? ParseJson(bytes, tree, &root) : ParsePickle(bytes, tree, &root);
      !status.ok())
    return status;
  *dump = {};
  return Projection(*tree, dump).Run(root);
}

void CondenseFrDump(FrDump* dump) {
  // Operations between two ranks are told apart by their names.
  using Kind = std::tuple<uint32_t, bool, uint32_t>;
  const auto kind_of = [](const FrEntry& entry) {
    return Kind(entry.group, entry.is_p2p, entry.is_p2p ? entry.operation : 0);
  };
  const auto sequence_of = [](const FrEntry& entry) {
    return entry.is_p2p ? entry.p2p_sequence : entry.sequence;
  };
  std::map<Kind, int64_t> newest_completed;
  std::set<std::pair<Kind, int64_t>> in_flight;  // at some time
  for (const FrEntry& entry : dump->entries) {
    if (entry.state != FrState::kCompleted) {
      in_flight.insert({kind_of(entry), sequence_of(entry)});
      continue;
    }
    const auto [at, is_new] = newest_completed.try_emplace(kind_of(entry), sequence_of(entry));
    if (!is_new) at->second = std::max(at->second, sequence_of(entry));
  }
  // Of what was in flight the last word counts.
  std::set<std::pair<Kind, int64_t>> said;
  std::vector<FrEntry> kept;
  for (auto entry = dump->entries.rbegin(); entry != dump->entries.rend(); ++entry) {
    const std::pair operation(kind_of(*entry), sequence_of(*entry));
    const bool is_completed = entry->state == FrState::kCompleted;
    const bool is_newest = is_completed && newest_completed.at(operation.first) == operation.second;
    if (is_completed && !is_newest && (in_flight.empty() || !in_flight.contains(operation))) continue;
    if (said.insert(operation).second && (!is_completed || is_newest)) kept.push_back(*entry);
  }
  std::reverse(kept.begin(), kept.end());
  kept.shrink_to_fit();
  dump->entries = std::move(kept);
}

std::optional<int32_t> FrRankOfName(std::string_view file_name) {
  for (std::string_view extension : {".json", ".pkl", ".pickle"})
    if (file_name.ends_with(extension)) file_name.remove_suffix(extension.size());
  const size_t last = file_name.find_last_not_of("0123456789");
  const std::string_view digits = last == file_name.npos ? file_name : file_name.substr(last + 1);
  int32_t rank;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || error != std::errc() || rank > kMaxRank) return {};
  return rank;
}

}  // namespace slotscope
