// SPDX-License-Identifier: MIT
#include "nvml/sampler.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace slotscope {
namespace {

// NVML wants 100 ms between two samples of GPM, and each costs a call into the driver.
constexpr std::chrono::milliseconds kPeriod(200);
constexpr std::chrono::seconds kStopTimeout(1);

GpuSample Ask(Nvml* nvml, size_t gpu, uint64_t* since_ns) {
  GpuSample sample = {};
  sample.gpu = static_cast<uint32_t>(gpu);
  if (const uint64_t bytes = nvml->UsedBytes(gpu); bytes != Nvml::kUnknownBytes) {
    sample.used_bytes = bytes;
    sample.known |= kGpuSampleUsed;
  }
  if (!nvml->has_sm_active(gpu)) return sample;
  const uint64_t now_ns = MonotonicNs();
  if (nvml->SmActive(gpu, &sample.sm_active_ppm)) sample.known |= kGpuSampleSmActive;
  sample.since_ns = std::exchange(*since_ns, now_ns);
  return sample;
}

}  // namespace

struct GpuSampler::State {
  std::shared_ptr<Nvml> nvml;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  ItemQueue* items = nullptr;  // null: it is to stop
  bool ended = false;
};

GpuSampler::GpuSampler() = default;
GpuSampler::~GpuSampler() { Stop(); }

void GpuSampler::Start(std::shared_ptr<Nvml> nvml, ItemQueue* items) {
  if (thread_.joinable() || nvml->gpus().empty()) return;
  state_ = std::make_shared<State>();
  state_->nvml = std::move(nvml);
  state_->items = items;
  thread_ = std::thread([state = state_] { Run(state); });
}

void GpuSampler::Stop() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->items = nullptr;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, kStopTimeout, [&] { return state_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void GpuSampler::Run(const std::shared_ptr<State>& state) {
  std::vector<uint64_t> since_ns(state->nvml->gpus().size());
  std::unique_lock lock(state->mutex);
  while (state->items) {
    for (size_t i = 0; i < since_ns.size() && state->items; i++) {
      lock.unlock();
      const GpuSample sample = Ask(state->nvml.get(), i, &since_ns[i]);
      lock.lock();
      if (sample.known && state->items)
        state->items->Put(ItemKind::kGpuSample, std::as_bytes(std::span(&sample, 1)));
    }
    state->changed.wait_for(lock, kPeriod, [&] { return state->items == nullptr; });
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace slotscope
