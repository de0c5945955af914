// SPDX-License-Identifier: MIT
// A thread that asks NVML what its GPUs are doing, and puts the answers among the rings' items.
#pragma once

#include <thread>

#include "base/unique_fd.h"
#include "nvml/nvml.h"
#include "ring/item_queue.h"

namespace slotscope {

class GpuSampler {
 public:
  GpuSampler() = default;
  ~GpuSampler() { Stop(); }

  // Begins, if it has not; both outlive the sampler. From now on nobody else uses *nvml.
  void Start(Nvml* nvml, ItemQueue* items);
  void Stop();

 private:
  // NVML wants 100 ms between two samples of GPM, and each costs a call into the driver.
  static constexpr int kPeriodMs = 200;

  static void Run(Nvml* nvml, ItemQueue* items, int stop_fd);

  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace slotscope
