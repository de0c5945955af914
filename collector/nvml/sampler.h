// SPDX-License-Identifier: MIT
// A thread that asks NVML what its GPUs are doing, and puts the answers among the rings' items.
#pragma once

#include <memory>
#include <thread>

#include "nvml/nvml.h"
#include "ring/item_queue.h"

namespace slotscope {

class GpuSampler {
 public:
  GpuSampler();
  ~GpuSampler();

  // Begins, if it has not. From now on nobody else uses *nvml. `items` outlives the sampler.
  void Start(std::shared_ptr<Nvml> nvml, ItemQueue* items);
  // A driver that hangs does not hang us: then the thread is left to itself.
  void Stop();

 private:
  struct State;

  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // the thread's, too
  std::thread thread_;
};

}  // namespace slotscope
