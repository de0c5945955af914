// SPDX-License-Identifier: MIT
// Tells a consumer what slots say of memory and straggling. A step between two stages: slots pass
// through.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/gpu_device.h"
#include "base/news.h"
#include "slots/slot.h"

namespace slotscope {

struct FeedStats {
  uint64_t nr_memory = 0;  // messages made
  uint64_t nr_straggle = 0;
  // Changes of memory that were not told: what is held is not known, because calls were lost; or which
  // GPU it is on is not.
  uint64_t nr_unknown_balance = 0;
  uint64_t nr_unknown_gpu = 0;
};

class Feed final : public SlotSink {
 public:
  using SendFn = std::function<void(std::string line)>;

  // `gpus`: those in the facts. *news hears what consumers cannot be told.
  Feed(std::vector<GpuDevice> gpus, SendFn send, News* news, SlotSink* next)
      : gpus_(std::move(gpus)), send_(std::move(send)), news_(news), next_(next) {}

  void OnSlot(Slot* slot) override;

  // After the last slot.
  const FeedStats& stats() const { return stats_; }

 private:
  void OnBalance(const Slot& slot, const GpuBalance& balance);
  void OnStraggle(const Slot& slot, const StraggleReport& report);
  bool FindGpu(const GpuBalance& balance, uint32_t* gpu_id, uint64_t* total_bytes);

  std::vector<GpuDevice> gpus_;
  SendFn send_;
  News* news_;
  SlotSink* next_;
  FeedStats stats_;
  std::map<ProcessKey, std::string> event_ids_;  // of episodes that go on
};

}  // namespace slotscope
