// SPDX-License-Identifier: MIT
#include "ring/item_router.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace slotscope {
namespace {

// A raw file of a recorder that knew no GPUs has shorter ones.
constexpr size_t kOldLosses = offsetof(SourceLosses, nr_lost_calls);
constexpr size_t kNamelessLosses = offsetof(SourceLosses, nr_unnamed_calls);

template <typename T>
bool LoadWhole(std::span<const std::byte> payload, T* to) {
  if (payload.size() < sizeof(*to)) return false;
  std::memcpy(to, payload.data(), sizeof(*to));
  return true;
}

}  // namespace

bool ItemRouter::OnItem(const ItemHeader& item, std::span<const std::byte> payload) {
  // What is said now is of a while ago at most.
  const auto is_near = [&](uint64_t ts_ns) {
    return ts_ns <= item.begin_ns && item.begin_ns - ts_ns <= kMaxJumpNs;
  };
  GpuSample sample;
  LostCalls lost;
  RemoteMemory memory;
  RemoteStraggle straggle;
  switch (item.kind) {
    case ItemKind::kLosses:
      return OnLosses(item, payload);
    case ItemKind::kLostCalls:
      if (!LoadWhole(payload, &lost)) return false;
      gpu_->OnLostCalls(lost, std::min(item.end_ns, item.begin_ns), item.begin_ns);
      return true;
    case ItemKind::kGpuView:
      return OnGpuView(item, payload);
    case ItemKind::kGpuSample:
      if (!LoadWhole(payload, &sample)) return false;
      gpu_->OnSample(sample, item.begin_ns);
      return true;
    case ItemKind::kRemoteMemory:
      if (!LoadWhole(payload, &memory) || !is_near(memory.ts_ns)) return false;
      remote_->OnMemory(memory);
      return true;
    case ItemKind::kRemoteStraggle:
      if (!LoadWhole(payload, &straggle) || !is_near(straggle.ts_ns)) return false;
      remote_->OnStraggle(straggle);
      return true;
    case ItemKind::kRemoteGone:
      remote_->OnGone(item.begin_ns);
      return true;
    case ItemKind::kRemoteCounts:
      return LoadWhole(payload, &counts_);
    default:
      return false;
  }
}

// They came between the one before and this one.
bool ItemRouter::OnLosses(const ItemHeader& item, std::span<const std::byte> payload) {
  if (payload.size() < kOldLosses) return false;
  const uint64_t from_ns = item.end_ns ? std::min(item.end_ns, item.begin_ns) : losses_ns_;
  SourceLosses losses;
  std::memcpy(&losses, payload.data(), std::min(payload.size(), sizeof(losses)));
  // An older recorder knew of no call whose it was.
  if (payload.size() <= kNamelessLosses) losses.nr_unnamed_calls = losses.nr_lost_calls;
  // What of CUDA finds no room in a ring is counted where it is written, call by call.
  if (losses.nr_unnamed_calls != losses_.nr_unnamed_calls ||
      losses.nr_bypassed_calls != losses_.nr_bypassed_calls || losses.unprobed_ns != losses_.unprobed_ns)
    gpu_->OnLostCalls(from_ns, item.begin_ns);
  losses_ = losses;
  losses_ns_ = item.begin_ns;
  return true;
}

bool ItemRouter::OnGpuView(const ItemHeader& item, std::span<const std::byte> payload) {
  GpuViewItem view;
  if (!LoadWhole(payload, &view)) return false;
  payload = payload.subspan(sizeof(view));
  std::vector<int32_t> gpus(std::min<size_t>(view.nr, payload.size() / sizeof(int32_t)));
  if (gpus.size() != view.nr) return false;
  if (view.nr) std::memcpy(gpus.data(), payload.data(), gpus.size() * sizeof(int32_t));
  gpu_->OnView(view.tgid, gpus, item.begin_ns);
  return true;
}

}  // namespace slotscope
