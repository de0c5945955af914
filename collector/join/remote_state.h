// SPDX-License-Identifier: MIT
// Joins what another producer of the remediation protocol says of memory and straggling into the slots,
// as of each slot's time. What is measured here comes first.
//
//   said      |memory 5|        |memory 7|
//   slots     |  ?  |  5  |  5  |  5  |  7  |       a slot has what held at its end
//
// A message that comes when its slot is finished takes effect in the next one. (A producer that is
// another slotscope speaks a window late: give this one a longer window.)
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "ring/item_router.h"
#include "slots/slot.h"

namespace slotscope {

struct RemoteStats {
  uint64_t nr_joined = 0;    // messages that took effect
  uint64_t nr_late = 0;      // of these: later than they say
  uint64_t nr_rejected = 0;  // there was no room
};

class RemoteState final : public SlotSink, public RemoteItemSink {
 public:
  // Straggling is said once a second, and is not so any more if it is not said for this long.
  static constexpr uint64_t kStraggleStaleNs = 2'000'000'000;
  // Memory is said when it changes. It is not known any more if there has been no connection for this
  // long.
  static constexpr uint64_t kMemoryStaleNs = 5'000'000'000;
  static constexpr size_t kMaxProcesses = 65536;  // our own limits: then those of whom nothing was said
  static constexpr uint64_t kQuietNs = 60'000'000'000;  // for this long make room
  static constexpr size_t kMaxGpus = 64;                // of a process
  static constexpr size_t kMaxQueued = 1u << 20;

  explicit RemoteState(SlotSink* next) : next_(next) {}

  void OnMemory(const RemoteMemory& memory) override;
  void OnStraggle(const RemoteStraggle& straggle) override;
  void OnGone(uint64_t ts_ns) override;
  void OnSlot(Slot* slot) override;

  const RemoteStats& stats() const { return stats_; }
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state);

 private:
  struct Change {
    enum class Kind { kMemory, kStraggle, kGone } kind;
    RemoteMemory memory;
    RemoteStraggle straggle;

    template <typename Archive>
    void State(Archive& state) {
      state.Enum(kind, Kind::kGone);
      state.Plain(memory);
      state.Plain(straggle);
    }
  };
  struct Process {
    uint64_t said_ns = 0;     // the latest message of it
    uint64_t unheard_ns = 0;  // since when the connection has been gone, or was; 0: said since
    std::map<uint32_t, uint64_t> bytes;  // by GPU
    uint64_t straggled_ns = 0;           // the latest message that it does; 0: none
    bool sustained = false;
    uint64_t drop_ppm = 0;

    template <typename Archive>
    void State(Archive& state) {
      state(said_ns, unheard_ns, bytes, straggled_ns, sustained, drop_ppm);
    }
  };

  void Queue(uint64_t ts_ns, const Change& change);
  void Apply(uint64_t ts_ns, const Change& change);
  Process* ProcessOf(int32_t tgid, uint64_t ts_ns);
  void Prune(uint64_t now_ns);
  void Join(Slot* slot, Row* row, const Process& process, uint64_t end_ns) const;

  SlotSink* next_;
  std::multimap<uint64_t, Change> queued_;  // by time; as they came where equal
  std::unordered_map<int32_t, Process> processes_;
  uint64_t applied_ns_ = 0;
  uint64_t gone_ns_ = 0;  // when a connection ended last, until that is settled; 0: it is
  uint64_t pruned_ns_ = 0;
  RemoteStats stats_;
};

}  // namespace slotscope
