// SPDX-License-Identifier: MIT
#include "remediate/parser.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace slotscope {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 2;             // an object, and arrays in it; deeper ones mean nothing to us
constexpr uint64_t kMaxPid = 4'194'304;  // PID_MAX_LIMIT

// A number of that field if it is one; false if it is there and is not, or is too large.
bool TakeNumber(const Json& object, const char* name, uint64_t max, std::optional<uint64_t>* value) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return true;
  if (!found->is_number_unsigned()) return false;
  *value = found->get<uint64_t>();
  return **value <= max;
}

bool TakeTime(const Json& object, std::optional<int64_t>* unix_ns) {
  auto found = object.find("timestamp_ns");
  if (found == object.end() || found->is_null()) return true;
  if (!found->is_number_integer()) return false;
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return false;
  *unix_ns = found->get<int64_t>();
  return true;
}

bool TakeStraggle(const Json& object, RemoteStraggle* straggle) {
  if (auto drop = object.find("throughput_drop_pct"); drop != object.end() && !drop->is_null()) {
    if (!drop->is_number()) return false;
    const auto percent = drop->get<double>();
    if (!std::isfinite(percent)) return false;
    straggle->drop_ppm = static_cast<uint64_t>(std::clamp(percent, 0.0, 100.0) * 10'000 + 0.5);
  }
  if (auto sustained = object.find("sustained"); sustained != object.end() && !sustained->is_null()) {
    if (!sustained->is_boolean()) return false;
    straggle->sustained = sustained->get<bool>();
  }
  return true;
}

}  // namespace

RemoteMessage ParseRemoteLine(std::string_view line) {
  const auto shallow = [](int depth, Json::parse_event_t event, const Json&) {
    return depth < kMaxDepth ||
           (event != Json::parse_event_t::object_start && event != Json::parse_event_t::array_start);
  };
  RemoteMessage message = {RemoteMessage::Kind::kMalformed, {}, {}, {}};
  const Json object = Json::parse(line, shallow, false);
  if (!object.is_object()) return message;
  auto type = object.find("type");
  if (type == object.end() || !type->is_string()) return message;
  const auto& name = type->get_ref<const std::string&>();
  const bool is_memory = name == "memory";
  if (!is_memory && name != "straggle") {
    message.kind = RemoteMessage::Kind::kIgnored;
    return message;
  }
  std::optional<uint64_t> pid, gpu_id, bytes;
  if (!TakeNumber(object, "pid", kMaxPid, &pid) || !pid || *pid == 0 ||
      !TakeTime(object, &message.unix_ns))
    return message;
  const auto tgid = static_cast<int32_t>(*pid);
  if (is_memory) {
    // Some producers leave out gpu_id: they know of one GPU only.
    if (!TakeNumber(object, "gpu_id", UINT32_MAX, &gpu_id) ||
        !TakeNumber(object, "allocated_bytes", UINT64_MAX >> 16, &bytes) || !bytes)
      return message;
    message.memory = {tgid, static_cast<uint32_t>(gpu_id.value_or(0)), *bytes, 0};
    message.kind = RemoteMessage::Kind::kMemory;
  } else {
    message.straggle.tgid = tgid;
    if (TakeStraggle(object, &message.straggle)) message.kind = RemoteMessage::Kind::kStraggle;
  }
  return message;
}

void LineCutter::Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (!skipping_ && begun_.size() + piece.size() > kMaxLine) {
      nr_too_long_++;
      skipping_ = true;
      begun_.clear();
    }
    if (!skipping_ && begun_.empty() && end != bytes.npos) {
      if (!piece.empty()) on_line(piece);
    } else if (!skipping_) {
      begun_ += piece;
    }
    if (end == bytes.npos) return;
    if (!skipping_ && !begun_.empty()) on_line(begun_);
    begun_.clear();
    skipping_ = false;
    bytes.remove_prefix(end + 1);
  }
}

uint64_t MonotonicOf(std::optional<int64_t> unix_ns, const ClockPair& now, bool* misdated) {
  *misdated = false;
  int64_t ns;
  if (!unix_ns) return now.monotonic_ns;
  if (!__builtin_sub_overflow(*unix_ns, now.unix_offset_ns, &ns) && ns >= 0 &&
      static_cast<uint64_t>(ns) <= now.monotonic_ns &&
      now.monotonic_ns - static_cast<uint64_t>(ns) <= kMaxRemoteLagNs)
    return static_cast<uint64_t>(ns);
  *misdated = true;
  return now.monotonic_ns;
}

}  // namespace slotscope
