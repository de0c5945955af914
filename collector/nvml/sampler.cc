// SPDX-License-Identifier: MIT
#include "nvml/sampler.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <vector>

#include "base/clock.h"

namespace slotscope {

void GpuSampler::Start(Nvml* nvml, ItemQueue* items) {
  if (thread_.joinable() || nvml->gpus().empty()) return;
  stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return;  // out of files: the rows say that NVML said nothing
  thread_ = std::thread(Run, nvml, items, stop_.get());
}

void GpuSampler::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void GpuSampler::Run(Nvml* nvml, ItemQueue* items, int stop_fd) {
  std::vector<uint64_t> since_ns(nvml->gpus().size());
  pollfd stop = {stop_fd, POLLIN, 0};
  do {
    for (size_t i = 0; i < nvml->gpus().size(); i++) {
      GpuSample sample = {};
      sample.gpu = static_cast<uint32_t>(i);
      sample.used_bytes = nvml->UsedBytes(i);
      if (sample.used_bytes == Nvml::kUnknownBytes)
        sample.used_bytes = 0;
      else
        sample.known |= kGpuSampleUsed;
      if (nvml->has_sm_active(i)) {
        const uint64_t now_ns = MonotonicNs();
        if (nvml->SmActive(i, &sample.sm_active_ppm)) sample.known |= kGpuSampleSmActive;
        sample.since_ns = std::exchange(since_ns[i], now_ns);
      }
      if (sample.known) items->Put(ItemKind::kGpuSample, std::as_bytes(std::span(&sample, 1)));
    }
  } while (poll(&stop, 1, kPeriodMs) <= 0);
}

}  // namespace slotscope
