// SPDX-License-Identifier: MIT
// Items as a source hands them over, made by hand.
#pragma once

#include <linux/perf_event.h>
#include <slotscope/interval.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "ring/item.h"
#include "ring/item_router.h"

namespace slotscope {

template <typename T>
std::span<const std::byte> ObjectBytes(const T& object) {
  return {reinterpret_cast<const std::byte*>(&object), sizeof(object)};
}

// Of no interest.
struct NoItems final : GpuItemSink, RemoteItemSink {
  void OnLostCalls(uint64_t, uint64_t) override {}
  void OnLostCalls(const LostCalls&, uint64_t, uint64_t) override {}
  void OnView(int32_t, std::span<const int32_t>, uint64_t) override {}
  void OnSample(const GpuSample&, uint64_t) override {}
  void OnMemory(const RemoteMemory&) override {}
  void OnStraggle(const RemoteStraggle&) override {}
  void OnGone(uint64_t) override {}
};

// Measures, ticks... with a header that says what they are.
template <typename Message>
Message MakeMessage(uint16_t type, uint32_t cpu, uint64_t ts_ns) {
  Message message = {};
  message.hdr = {ts_ns, type, sizeof(message), cpu};
  return message;
}

inline ss_measure MakeMeasure(uint32_t cpu, uint64_t start_ns, uint64_t end_ns, uint32_t seq = 0) {
  auto measure = MakeMessage<ss_measure>(SS_MEASURE, cpu, end_ns);
  measure.start_ns = start_ns;
  measure.seq = seq;
  measure.flags = SS_INTERVAL_HAS;
  return measure;
}

inline ss_tick MakeTick(uint32_t cpu, uint64_t ts_ns) {
  return MakeMessage<ss_tick>(SS_TICK, cpu, ts_ns);
}

inline ss_cpu_state MakeCpuState(uint32_t cpu, uint64_t ts_ns, bool online) {
  auto state = MakeMessage<ss_cpu_state>(SS_CPU_STATE, cpu, ts_ns);
  state.online = online;
  return state;
}

inline ss_task_meta MakeMeta(uint32_t cpu, uint64_t ts_ns) {
  return MakeMessage<ss_task_meta>(SS_TASK_META, cpu, ts_ns);
}

inline ss_rmid_event MakeRmidEvent(uint16_t type, uint32_t cpu, uint64_t ts_ns) {
  return MakeMessage<ss_rmid_event>(type, cpu, ts_ns);
}

// Perf records as the kernel writes them into a ring.
class Records {
 public:
  Records& Bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Records& Record(uint32_t type, std::span<const std::byte> body) {
    perf_event_header header = {type, 0, static_cast<uint16_t>(sizeof(header) + body.size())};
    return Bytes(ObjectBytes(header)).Bytes(body);
  }
  // PERF_SAMPLE_RAW: the size counts the padding that makes the record a multiple of 8 long.
  Records& Sample(std::span<const std::byte> message) {
    std::vector<std::byte> body(sizeof(uint32_t));
    body.insert(body.end(), message.begin(), message.end());
    while (body.size() % kItemAlign) body.push_back(std::byte{0});
    const auto raw_size = static_cast<uint32_t>(body.size() - sizeof(uint32_t));
    std::memcpy(body.data(), &raw_size, sizeof(raw_size));
    return Record(PERF_RECORD_SAMPLE, body);
  }
  template <typename T>
  Records& Message(const T& message) {
    return Sample(ObjectBytes(message));
  }
  // Its first bytes.
  template <typename T>
  Records& Message(const T& message, size_t size) {
    return Sample(ObjectBytes(message).first(size));
  }
  Records& Lost(uint64_t nr) {
    const uint64_t body[] = {0, nr};
    return Record(PERF_RECORD_LOST, ObjectBytes(body));
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  void Clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

// A buffer of items that begins 4 bytes off an 8-byte border, as a Block does, and that ends where its
// items end, so that a sanitizer sees who reads on.
class Items {
 public:
  Items() : storage_(kLead) {}

  Items& Add(ItemKind kind, size_t stream, uint64_t begin_ns, uint64_t end_ns = 0,
             std::span<const std::byte> payload = {}, uint16_t flags = 0) {
    ItemHeader header = {
        kind,     flags, static_cast<uint32_t>(stream), static_cast<uint32_t>(payload.size()), 0,
        begin_ns, end_ns};
    return Bytes(ObjectBytes(header)).Bytes(payload);
  }
  Items& Bytes(std::span<const std::byte> bytes) {
    storage_.insert(storage_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  std::span<const std::byte> bytes() const { return std::span(storage_).subspan(kLead); }
  std::span<std::byte> bytes() { return std::span(storage_).subspan(kLead); }

 private:
  static constexpr size_t kLead = 4;
  std::vector<std::byte> storage_;  // as operator new aligns it
};

// A text as the payload of an item: padded with zeros.
inline std::vector<std::byte> PaddedText(std::string_view text) {
  std::vector<std::byte> bytes((text.size() + kItemAlign - 1) / kItemAlign * kItemAlign);
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace slotscope
