// SPDX-License-Identifier: MIT
#include "remediate/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "remediate/messages.h"

namespace slotscope {
namespace {

constexpr size_t kMaxIncomplete = 65536;  // then none is named any more

int64_t UnixNs(const Slot& slot, uint64_t ns) { return static_cast<int64_t>(ns) + slot.unix_offset_ns; }

// "gpu_no_work_waited_ns" -> "waited".
std::string CauseName(std::string_view column) {
  constexpr std::string_view kBegin = "gpu_no_work_", kEnd = "_ns";
  return std::string(column.substr(kBegin.size(), column.size() - kBegin.size() - kEnd.size()));
}

// What is known of that second: who ran instead, and why the GPU had no work.
void AddReasons(const StraggleReport& report, StraggleMessage* message) {
  constexpr size_t kWaitAt = 1;  // in kEffortColumns
  static_assert(kEffortColumns[kWaitAt]->name == "wait_ns");
  const bool knows_wait = !(report.effort.unmeasured >> kWaitAt & 1);
  const uint64_t wait_ns = knows_wait ? report.effort.values[kWaitAt] : 0;
  if (knows_wait) message->wait_ns = wait_ns;
  const auto cause = knows_wait ? MainCause(report.wait_causes.values.data(), wait_ns) : std::nullopt;
  if (cause) message->wait_cause = kWaitCauseNames[*cause];
  if (cause == kWaitOthers && !report.ran_instead.empty() &&
      IsCulprit(report.until_ns - report.since_ns, wait_ns, report.wait_causes.values[kWaitOthers],
                report.ran_instead[0].second.ns)) {
    const auto& [key, ran] = report.ran_instead[0];
    message->culprit_pid = static_cast<uint32_t>(key.tgid);
    if (ran.named) message->culprit_comm = CommText(ran.comm);
    message->culprit_ns = ran.ns;
  }
  const auto& [values, unmeasured] = report.no_work;
  if ((unmeasured & 1) || values[0] == 0) return;  // of one that does not wait nobody can tell
  message->gpu_no_work_ns = values[0];
  const auto most = std::max_element(values.begin() + 1, values.end());
  const auto at = static_cast<size_t>(most - values.begin());
  if (*most > 0 && !(unmeasured >> at & 1))
    message->gpu_no_work_cause = CauseName(kNoWorkColumns[at]->name);
}

}  // namespace

void RemediateFeed::OnSlot(Slot* slot) {
  for (const GpuBalance& balance : slot->gpu_detail.balances) OnBalance(*slot, balance);
  for (const StraggleReport& report : slot->straggles) OnStraggle(*slot, report);
  next_->OnSlot(slot);
}

// The number that the contract wants is the machine's. Where NVML does not list GPUs, the process's own
// has to do.
bool RemediateFeed::FindGpu(const GpuBalance& balance, int32_t* gpu, MemoryMessage* message) {
  *gpu = balance.gpu == kUnknownGpu && gpus_.size() == 1 ? 0 : balance.gpu;
  if (*gpu != kUnknownGpu) {
    message->gpu_id = gpus_[static_cast<size_t>(*gpu)].index;
    message->total_vram = gpus_[static_cast<size_t>(*gpu)].total_bytes;
  } else if (gpus_.empty() && balance.device != kUnknownDevice) {
    *gpu = balance.device;
    message->gpu_id = static_cast<uint32_t>(balance.device);
    news_->Tell(
        "remediation: GPUs are not known here: gpu_id is the process's own number of its device");
  } else {
    return false;
  }
  if (message->total_vram == 0)
    news_->Tell(fmt::format(
        "remediation: how much memory GPU {} has is not known: total_vram and utilization_pct are 0",
        message->gpu_id));
  return true;
}

void RemediateFeed::OnBalance(const Slot& slot, const GpuBalance& balance) {
  // Where there is only one GPU it was that one.
  if (balance.again && gpus_.size() == 1) return;
  const auto pid = static_cast<uint32_t>(balance.process.tgid);
  MemoryMessage message = {};
  int32_t gpu;
  if (!FindGpu(balance, &gpu, &message)) {
    stats_.nr_unknown_gpu++;
    news_->Tell(fmt::format(
        "remediation: which GPU process {} uses is not known: until it is, its memory is not told",
        pid));
    return;
  }
  // Some of its devices may be one GPU, if it is not known which device a call was on.
  auto& by_device = held_[{balance.process, gpu}];
  by_device[balance.device] = balance.bytes;
  for (const auto& [device, bytes] : by_device) message.allocated_bytes += bytes;
  if (message.allocated_bytes == 0) held_.erase({balance.process, gpu});
  if (balance.missed) {
    stats_.nr_unknown_balance++;
    news_->Tell(fmt::format(
        "remediation: CUDA calls of process {} were lost: its memory is unknown, and no message is sent",
        pid));
    return;
  }
  if (!balance.complete && incomplete_.size() < kMaxIncomplete &&
      incomplete_.insert(balance.process).second)
    news_->Tell(fmt::format(
        "remediation: not all of the memory of process {} ({}) was seen: its allocated_bytes are "
        "at least that",
        pid, EscapeName(CommText(balance.comm))));
  stats_.nr_memory++;
  if (!wants_()) return;
  message.pid = pid;
  message.comm = CommText(balance.comm);
  message.last_alloc_size = balance.last_alloc_bytes;
  message.timestamp_ns = UnixNs(slot, balance.ts_ns);
  send_(ToLine(message));
}

void RemediateFeed::OnStraggle(const Slot& slot, const StraggleReport& report) {
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
  for (const auto& [key, ran] : report.ran_instead) {
    const auto pid = static_cast<uint32_t>(key.tgid);
    auto& pids = message.preempting_pids;
    if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);  // it was born anew
  }
  message.timestamp_ns = UnixNs(slot, report.until_ns);
  message.sustained = report.state == State::kSustained;
  message.event_id = event_id;
  AddReasons(report, &message);
  send_(ToLine(message));
  stats_.nr_straggle++;
}

}  // namespace slotscope
