// SPDX-License-Identifier: MIT
#include "detect/inputs/otlp_logs.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "base/scan.h"
#include "detect/inputs/json_tree.h"
#include "detect/inputs/moment.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {
namespace {

using Index = ValueTree::Index;

// Our own limits.
constexpr size_t kMaxAttributes = 256;
constexpr size_t kMaxXids = 100'000;
constexpr size_t kMaxRanks = 65'536;
constexpr size_t kMaxLoggedOperations = 4'000'000;  // of all ranks

// Whole numbers of 64 bits are texts in this format; some writers make them numbers.
std::optional<int64_t> IntegerOf(const ValueTree& tree, Index index) {
  if (const auto number = tree.Integer(index)) return number;
  const auto text = tree.Text(index);
  return text ? NumberOf<int64_t>(*text) : std::nullopt;
}

// {"kvlistValue": {"values": [{"key": ..., "value": ...}]}} and its like, as the values they mean.
Index Flatten(const ValueTree& from, Index any, ValueTree* to, int depth) {
  constexpr int kMaxNested = 32;
  if (depth > kMaxNested) return to->AddNull();
  if (const auto text = from.Find(any, "stringValue")) return to->AddText(from.Text(*text).value_or(""));
  if (const auto number = from.Find(any, "intValue"))
    return to->AddInteger(IntegerOf(from, *number).value_or(0));
  if (const auto flag = from.Find(any, "boolValue"))
    return to->AddBool(from.Bool(*flag).value_or(false));
  if (const auto real = from.Find(any, "doubleValue"))
    return to->AddReal(from.Number(*real).value_or(0));
  std::vector<Index> items;
  if (const auto list = from.Find(any, "arrayValue")) {
    if (const auto values = from.Find(*list, "values"))
      for (Index value : from.List(*values)) items.push_back(Flatten(from, value, to, depth + 1));
    const Index made = to->AddList();
    to->Append(made, items);
    return made;
  }
  if (const auto dict = from.Find(any, "kvlistValue")) {
    if (const auto values = from.Find(*dict, "values"))
      for (Index pair : from.List(*values)) {
        const auto key = from.Find(pair, "key"), value = from.Find(pair, "value");
        if (!key || !value || !from.Text(*key)) continue;
        items.push_back(to->AddText(*from.Text(*key)));
        items.push_back(Flatten(from, *value, to, depth + 1));
      }
    const Index made = to->AddDict();
    to->Append(made, items);
    return made;
  }
  return to->AddNull();
}

}  // namespace

class OtlpLogReader::Record {
 public:
  Record(const ValueTree& tree, Index record, const Attributes& resource)
      : tree_(tree), record_(record), resource_(resource), own_(ReadAttributes(tree, record)) {}

  // The record's own attribute, or its resource's.
  const Value* Find(std::string_view key) const {
    if (const auto at = own_.find(key); at != own_.end()) return &at->second;
    const auto at = resource_.find(key);
    return at == resource_.end() ? nullptr : &at->second;
  }
  std::string Text(std::string_view key) const {
    const Value* value = Find(key);
    if (!value) return {};
    if (const auto* text = std::get_if<std::string>(value)) return *text;
    if (const auto* number = std::get_if<int64_t>(value)) return std::to_string(*number);
    return {};
  }
  // Of the first key that has one.
  std::optional<int64_t> Integer(std::initializer_list<std::string_view> keys) const {
    for (std::string_view key : keys) {
      const Value* value = Find(key);
      if (!value) continue;
      if (const auto* number = std::get_if<int64_t>(value)) return *number;
      if (const auto* text = std::get_if<std::string>(value)) return NumberOf<int64_t>(*text);
    }
    return {};
  }
  // Unix time; when it was, or when it was seen.
  std::optional<int64_t> TimeNs() const {
    for (const char* key : {"timeUnixNano", "observedTimeUnixNano"})
      if (const auto found = tree_.Find(record_, key))
        if (const auto ns = IntegerOf(tree_, *found); ns && *ns > 0 && *ns <= kMaxTimeNs) return ns;
    return {};
  }
  // The node it is about: as the resource says, which is where it was made; else as the record does.
  std::string Node() const {
    for (const Attributes* one : {&resource_, &own_})
      for (const char* key : {"k8s.node.name", "host.name"})
        if (const auto at = one->find(key); at != one->end())
          if (const auto* text = std::get_if<std::string>(&at->second); text && !text->empty())
            return *text;
    return {};
  }
  std::optional<Index> body() const { return tree_.Find(record_, "body"); }
  std::string BodyText() const {
    const auto any = body();
    const auto text = any ? tree_.Find(*any, "stringValue") : std::nullopt;
    return text ? std::string(tree_.Text(*text).value_or("")) : std::string();
  }
  const ValueTree& tree() const { return tree_; }

 private:
  const ValueTree& tree_;
  Index record_;
  const Attributes& resource_;
  Attributes own_;
};

OtlpLogReader::Attributes OtlpLogReader::ReadAttributes(const ValueTree& tree, Index owner) {
  Attributes attributes;
  const auto list = tree.Find(owner, "attributes");
  if (!list) return attributes;
  for (Index pair : tree.List(*list)) {
    const auto key = tree.Find(pair, "key"), value = tree.Find(pair, "value");
    const auto name = key ? tree.Text(*key) : std::nullopt;
    if (!name || name->size() > kMaxFieldText || !value || attributes.size() >= kMaxAttributes) continue;
    if (const auto text = tree.Find(*value, "stringValue"); text && tree.Text(*text))
      attributes.insert_or_assign(std::string(*name),
                                  std::string(tree.Text(*text)->substr(0, kMaxFieldText)));
    else if (const auto number = tree.Find(*value, "intValue"); number && IntegerOf(tree, *number))
      attributes.insert_or_assign(std::string(*name), *IntegerOf(tree, *number));
    else if (const auto flag = tree.Find(*value, "boolValue"); flag && tree.Bool(*flag))
      attributes.insert_or_assign(std::string(*name), *tree.Bool(*flag));
    else if (const auto real = tree.Find(*value, "doubleValue"); real && tree.Number(*real))
      attributes.insert_or_assign(std::string(*name), *tree.Number(*real));
  }
  return attributes;
}

Status OtlpLogReader::OnText(std::string_view json) {
  ValueTree tree;
  Index root;
  if (Status status = ParseJson(json, &tree, &root); !status.ok()) return status;
  const auto resources = tree.Find(root, "resourceLogs");
  if (!resources) return {Exit::kBadInput, "not OpenTelemetry's logs: it has no resourceLogs"};
  for (Index resource_logs : tree.List(*resources)) {
    const auto resource = tree.Find(resource_logs, "resource");
    const Attributes of_resource = resource ? ReadAttributes(tree, *resource) : Attributes();
    const auto scopes = tree.Find(resource_logs, "scopeLogs");
    if (!scopes) continue;
    for (Index scope : tree.List(*scopes))
      if (const auto records = tree.Find(scope, "logRecords"))
        for (Index record : tree.List(*records)) OnRecord(Record(tree, record, of_resource));
  }
  return {};
}

void OtlpLogReader::OnRecord(const Record& record) {
  stats_.nr_records++;
  const auto rank = record.Integer({"gen_ai.training.rank", "nccl.rank", "nccl.fr.rank"});
  if (rank && record.Find("nccl.fr.collective_seq_id")) {
    if (!OnFlightRecord(record, *rank)) stats_.nr_malformed++;
    return;
  }
  if (record.Find("kernelevents.xid")) {
    const auto code = record.Integer({"kernelevents.xid"});
    if (!code || !OnXid(record, *code)) stats_.nr_malformed++;
    return;
  }
  if (record.Find("k8s.event.reason") && record.Find("k8s.object.name")) {
    const auto time_ns = record.TimeNs();
    KubernetesReader::FlatEvent event;
    event.uid = record.Text("k8s.event.uid");
    if (event.uid.empty()) event.uid = record.Text("k8s.event.name");
    if (!time_ns || event.uid.empty()) {
      stats_.nr_malformed++;
      return;
    }
    // Events of Kubernetes are of a second's resolution, unless they say more.
    constexpr int64_t kSecond = 1'000'000'000;
    event.when = {*time_ns, *time_ns % kSecond == 0 ? kSecond : 1};
    event.reason = record.Text("k8s.event.reason");
    event.message = record.BodyText().substr(0, kMaxFieldText);
    event.host = record.Text("k8s.node.name");
    event.kind = record.Text("k8s.object.kind");
    event.name_space = record.Text("k8s.namespace.name");
    event.name = record.Text("k8s.object.name");
    event.object_uid = record.Text("k8s.object.uid");
    kubernetes_.OnFlatEvent(event);
    return;
  }
  if (const auto body = record.body()) {
    if (const std::string text = record.BodyText(); text.starts_with('{')) {
      ValueTree tree;
      Index root;
      if (ParseJson(text, &tree, &root).ok() && kubernetes_.OnValue(tree, root)) return;
    } else if (record.tree().Find(*body, "kvlistValue")) {
      ValueTree tree;
      const Index root = Flatten(record.tree(), *body, &tree, 0);
      if (kubernetes_.OnValue(tree, root)) return;
    }
  }
  stats_.nr_other++;
}

bool OtlpLogReader::OnFlightRecord(const Record& record, int64_t rank) {
  const auto sequence = record.Integer({"nccl.fr.collective_seq_id"});
  const std::string state = record.Text("nccl.fr.state");
  FrEntry entry;
  // A record without the time of its creation was started no later than it was seen.
  auto created_ns = record.Integer({"nccl.fr.time_created_ns", "nccl.fr.time_discovered_started_ns"});
  if (!created_ns || *created_ns <= 0 || *created_ns > kMaxTimeNs) created_ns = record.TimeNs();
  if (rank < 0 || rank > INT32_MAX || !sequence || !created_ns) return false;
  if (state == "completed")
    entry.state = FrState::kCompleted;
  else if (state == "started")
    entry.state = FrState::kStarted;
  else if (state == "scheduled")
    entry.state = FrState::kScheduled;
  else
    return false;
  const auto key = static_cast<int32_t>(rank);
  if (stats_.nr_records > kMaxLoggedOperations || (ranks_.size() >= kMaxRanks && !ranks_.contains(key)))
    return false;
  RankLog& log = ranks_[key];
  // The group's name, where it is said: ids differ between ranks.
  std::string name = record.Text("nccl.fr.pg_name"), description = record.Text("nccl.fr.pg_desc");
  if (name.empty()) name = record.Text("nccl.fr.pg_id");
  std::string operation = record.Text("nccl.fr.profiling_name");
  const auto [group, is_new_group] =
      log.groups.try_emplace({name, description}, static_cast<uint32_t>(log.dump.groups.size()));
  if (is_new_group) log.dump.groups.push_back({std::move(name), std::move(description), {}});
  const auto [known, is_new] =
      log.operations.try_emplace(operation, static_cast<uint32_t>(log.dump.operations.size()));
  if (is_new) log.dump.operations.push_back(std::move(operation));
  entry.group = group->second;
  entry.operation = known->second;
  entry.sequence = *sequence;
  entry.created_ns = *created_ns;
  if (const Value* is_p2p = record.Find("nccl.fr.is_p2p"))
    if (const bool* flag = std::get_if<bool>(is_p2p)) entry.is_p2p = *flag;
  entry.p2p_sequence = record.Integer({"nccl.fr.p2p_seq_id"}).value_or(0);
  if (const auto timeout_ms = record.Integer({"nccl.fr.timeout_ms"});
      timeout_ms && *timeout_ms > 0 && *timeout_ms < 1'000'000'000'000)
    entry.timeout_ms = timeout_ms;
  log.dump.entries.push_back(entry);
  return true;
}

bool OtlpLogReader::OnXid(const Record& record, int64_t code) {
  const auto time_ns = record.TimeNs();
  XidRecord xid;
  xid.node = record.Node();
  if (!time_ns || code < 0 || code > 100'000 || xid.node.empty() || xids_.size() >= kMaxXids)
    return false;
  xid.when = {*time_ns, 1};
  xid.code = static_cast<int32_t>(code);
  xid.bus = record.Text("gpu.id");
  xid.message = record.BodyText().substr(0, kMaxFieldText);
  // The driver's own line says more.
  if (const size_t at = FindXid(xid.message); at != xid.message.npos)
    if (auto parsed = ParseXid(std::string_view(xid.message).substr(at));
        parsed && parsed->code == code) {
      xid.bus = std::move(parsed->bus);
      xid.pid = parsed->pid;
      xid.process = std::move(parsed->process);
      xid.message = std::move(parsed->message);
    }
  xid.uid = record.Text("log.record.uid");
  if (xid.uid.empty()) xid.uid = fmt::format("{}-record-{}", xid.node, stats_.nr_records);
  xids_.push_back(std::move(xid));
  return true;
}

void OtlpLogReader::AddTo(NcclRecords* records) const {
  for (const auto& [rank, log] : ranks_) records->Add(rank, log.dump);
}

}  // namespace slotscope
