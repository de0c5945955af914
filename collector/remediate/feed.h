// SPDX-License-Identifier: MIT
// Tells a consumer what slots say of memory and straggling. A step between two stages: slots pass
// through.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/gpu_device.h"
#include "base/news.h"
#include "remediate/messages.h"
#include "slots/slot.h"

namespace slotscope {

struct FeedStats {
  uint64_t nr_memory = 0;  // messages made, or that would have been
  uint64_t nr_straggle = 0;
  // Changes of memory that were not told: what is held is not known, because calls were lost; or which
  // GPU it is on is not.
  uint64_t nr_unknown_balance = 0;
  uint64_t nr_unknown_gpu = 0;
};

class RemediateFeed final : public SlotSink {
 public:
  using SendFn = std::function<void(std::string line)>;

  // `gpus`: those in the facts. `wants` is asked before a message is made, which costs. *news hears
  // what consumers cannot be told.
  RemediateFeed(std::vector<GpuDevice> gpus, SendFn send, std::function<bool()> wants, News* news,
                SlotSink* next)
      : gpus_(std::move(gpus)),
        send_(std::move(send)),
        wants_(std::move(wants)),
        news_(news),
        next_(next) {}

  void OnSlot(Slot* slot) override;

  // After the last slot.
  const FeedStats& stats() const { return stats_; }

 private:
  void OnBalance(const Slot& slot, const GpuBalance& balance);
  void OnStraggle(const Slot& slot, const StraggleReport& report);
  // *gpu: which balances are on the same one.
  bool FindGpu(const GpuBalance& balance, int32_t* gpu, MemoryMessage* message);

  std::vector<GpuDevice> gpus_;
  SendFn send_;
  std::function<bool()> wants_;
  News* news_;
  SlotSink* next_;
  FeedStats stats_;
  // By process and GPU: what it holds, by its own devices; there where it holds something.
  std::map<std::pair<ProcessKey, int32_t>, std::map<int32_t, uint64_t>> held_;
  std::set<ProcessKey> incomplete_;              // of whom that was said
  std::map<ProcessKey, std::string> event_ids_;  // of episodes that go on
};

}  // namespace slotscope
