// SPDX-License-Identifier: MIT
// Items that say nothing of rings and time, to whom they are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ring/item.h"

namespace slotscope {

// What others than CUDA's probes say of GPUs, and of what these lost.
struct GpuItemSink {
  virtual ~GpuItemSink() = default;
  // Calls were lost, somewhere from from_ns to to_ns, of whoever.
  virtual void OnLostCalls(uint64_t from_ns, uint64_t to_ns) = 0;
  // Of this process.
  virtual void OnLostCalls(const LostCalls& lost, uint64_t from_ns, uint64_t to_ns) = 0;
  // Which GPUs (indices into the facts' list; they may be any numbers) are the devices of that process.
  virtual void OnView(int32_t tgid, std::span<const int32_t> gpus, uint64_t ts_ns) = 0;
  virtual void OnSample(const GpuSample& sample, uint64_t ts_ns) = 0;
};

// What another producer says of processes. Times are near the item's.
struct RemoteItemSink {
  virtual ~RemoteItemSink() = default;
  virtual void OnMemory(const RemoteMemory& memory) = 0;
  virtual void OnStraggle(const RemoteStraggle& straggle) = 0;
  // Nothing more is heard from ts_ns on.
  virtual void OnGone(uint64_t ts_ns) = 0;
};

class ItemRouter final : public ItemSink {
 public:
  ItemRouter(GpuItemSink* gpu, RemoteItemSink* remote) : gpu_(gpu), remote_(remote) {}

  bool OnItem(const ItemHeader& item, std::span<const std::byte> payload) override;

  // As the last item about them had it.
  const SourceLosses& losses() const { return losses_; }
  const RemoteCounts& remote() const { return counts_; }
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state) {
    state.Plain(losses_);
    state(losses_ns_);
    state.Plain(counts_);
  }

 private:
  bool OnLosses(const ItemHeader& item, std::span<const std::byte> payload);
  bool OnGpuView(const ItemHeader& item, std::span<const std::byte> payload);

  GpuItemSink* gpu_;
  RemoteItemSink* remote_;
  SourceLosses losses_;
  uint64_t losses_ns_ = 0;  // as of when
  RemoteCounts counts_;
};

}  // namespace slotscope
