// SPDX-License-Identifier: MIT
#include "remediate/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/escape.h"
#include "remediate/messages.h"

namespace slotscope {
namespace {

int64_t UnixNs(const Slot& slot, uint64_t ns) { return static_cast<int64_t>(ns) + slot.unix_offset_ns; }

}  // namespace

void Feed::OnSlot(Slot* slot) {
  for (const GpuBalance& balance : slot->gpu_detail.balances) OnBalance(*slot, balance);
  for (const StraggleReport& report : slot->straggles) OnStraggle(*slot, report);
  next_->OnSlot(slot);
}

// The number that the contract wants is the machine's. Where NVML does not list GPUs, the process's own
// has to do.
bool Feed::FindGpu(const GpuBalance& balance, uint32_t* gpu_id, uint64_t* total_bytes) {
  int32_t gpu = balance.gpu;
  if (gpu == kUnknownGpu && gpus_.size() == 1) gpu = 0;
  if (gpu != kUnknownGpu) {
    *gpu_id = gpus_[static_cast<size_t>(gpu)].index;
    *total_bytes = gpus_[static_cast<size_t>(gpu)].total_bytes;
  } else if (gpus_.empty() && balance.device != kUnknownDevice) {
    *gpu_id = static_cast<uint32_t>(balance.device);
    *total_bytes = 0;
    news_->Tell(
        "remediation: GPUs are not known here: gpu_id is the process's own number of its device");
  } else {
    return false;
  }
  if (*total_bytes == 0)
    news_->Tell(fmt::format(
        "remediation: how much memory GPU {} has is not known: total_vram and utilization_pct are 0",
        *gpu_id));
  return true;
}

void Feed::OnBalance(const Slot& slot, const GpuBalance& balance) {
  const auto pid = static_cast<uint32_t>(balance.process.tgid);
  if (balance.missed) {
    stats_.nr_unknown_balance++;
    news_->Tell(fmt::format(
        "remediation: CUDA calls of process {} were lost: what it holds is not known, and not told",
        pid));
    return;
  }
  MemoryMessage message = {};
  if (!FindGpu(balance, &message.gpu_id, &message.total_vram)) {
    stats_.nr_unknown_gpu++;
    news_->Tell(
        fmt::format("remediation: which GPU process {} uses is not known: its memory is not told", pid));
    return;
  }
  if (!balance.complete)
    news_->Tell(fmt::format(
        "remediation: not all of the memory of process {} ({}) was seen: its allocated_bytes are "
        "at least that",
        pid, EscapeName(CommText(balance.comm))));
  message.pid = pid;
  message.comm = CommText(balance.comm);
  message.allocated_bytes = balance.bytes;
  message.last_alloc_size = balance.last_alloc_bytes;
  message.timestamp_ns = UnixNs(slot, balance.ts_ns);
  send_(ToLine(message));
  stats_.nr_memory++;
}

void Feed::OnStraggle(const Slot& slot, const StraggleReport& report) {
  using State = StraggleReport::State;
  if (report.state == State::kResolved) {
    event_ids_.erase(report.process);
    return;
  }
  std::string& event_id = event_ids_[report.process];
  if (report.state == State::kInitial || event_id.empty()) event_id = MakeUuid();
  StraggleMessage message = {};
  message.pid = static_cast<uint32_t>(report.process.tgid);
  if (report.named) message.comm = CommText(report.comm);
  message.throughput_drop_pct = std::round(report.drop_ppm / 1e3) / 10;
  message.sched_switch_count = static_cast<uint32_t>(std::min<uint64_t>(report.nr_switches, UINT32_MAX));
  for (const Preemptor& preemptor : report.preemptors)
    message.preempting_pids.push_back(static_cast<uint32_t>(preemptor.tgid));
  message.timestamp_ns = UnixNs(slot, report.until_ns);
  message.sustained = report.state == State::kSustained;
  message.event_id = event_id;
  send_(ToLine(message));
  stats_.nr_straggle++;
}

}  // namespace slotscope
