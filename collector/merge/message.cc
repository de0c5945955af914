// SPDX-License-Identifier: MIT
#include "merge/message.h"

#include <cstdint>
#include <cstring>

namespace slotscope {
namespace {

bool IsTerminated(const char (&comm)[SS_COMM_LEN]) {
  return std::memchr(comm, 0, sizeof(comm)) != nullptr;
}

bool IsValidSample(const ss_rdt_sample& sample) {
  return sample.hdr.ts_ns > 0 && sample.since_ns <= sample.hdr.ts_ns && sample.rmid != 0 &&
         sample.event >= SS_RDT_LLC_OCCUPANCY && sample.event <= SS_RDT_MBM_LOCAL &&
         sample.status < SS_RDT_NR_STATUS;
}

bool IsValidCall(const ss_cuda_call& call) {
  return call.hdr.ts_ns > 0 && call.start_ns <= call.hdr.ts_ns && call.tgid > 0 && call.tid > 0 &&
         call.op >= SS_CUDA_INIT && call.op < SS_CUDA_NR_OPS;
}

bool IsValidTurn(const ss_cuda_turn& turn) {
  return turn.hdr.ts_ns > 0 && turn.tgid > 0 && turn.tid > 0 && turn.turn >= SS_TURN_RUNS &&
         turn.turn <= SS_TURN_WOKEN && turn.left <= SS_LEFT_ENDED && turn.op < SS_CUDA_NR_OPS;
}

bool IsValidWait(const ss_wait& wait) {
  return wait.end_ns > 0 && wait.end_ns <= wait.hdr.ts_ns && wait.wait_ns <= wait.end_ns &&
         wait.start_ns < wait.end_ns && wait.tgid >= 0;
}

size_t SizeOfType(uint16_t type) {
  switch (type) {
    case SS_MEASURE:
      return sizeof(ss_measure);
    case SS_TASK_META:
      return sizeof(ss_task_meta);
    case SS_RMID_ALLOC:
    case SS_RMID_FREE:
    case SS_RMID_ALLOC_FAILED:
    case SS_RMID_EXISTING:
      return sizeof(ss_rmid_event);
    case SS_RDT_SAMPLE:
      return sizeof(ss_rdt_sample);
    case SS_TICK:
      return sizeof(ss_tick);
    case SS_CPU_STATE:
      return sizeof(ss_cpu_state);
    case SS_WAIT:
      return sizeof(ss_wait);
    case SS_CUDA_CALL:
      return sizeof(ss_cuda_call);
    case SS_CUDA_TURN:
      return sizeof(ss_cuda_turn);
    default:
      return 0;
  }
}

}  // namespace

Decoded DecodeMessage(std::span<const std::byte> bytes, ss_any_message* message) {
  std::memset(static_cast<void*>(message), 0, sizeof(*message));
  if (bytes.size() < sizeof(ss_hdr)) return Decoded::kMalformed;
  std::memcpy(&message->hdr, bytes.data(), sizeof(ss_hdr));
  if (message->hdr.size != bytes.size()) return Decoded::kMalformed;
  size_t size = SizeOfType(message->hdr.type);
  if (size == 0) return Decoded::kUnknownType;
  if (bytes.size() < size) return Decoded::kMalformed;
  std::memcpy(static_cast<void*>(message), bytes.data(), size);
  switch (message->hdr.type) {
    case SS_MEASURE:
      return IsValidMeasure(message->measure) ? Decoded::kValid : Decoded::kMalformed;
    case SS_TASK_META:
      return IsTerminated(message->task_meta.comm) && message->task_meta.tgid >= 0 ? Decoded::kValid
                                                                                   : Decoded::kMalformed;
    case SS_RMID_ALLOC:
    case SS_RMID_FREE:
    case SS_RMID_ALLOC_FAILED:
    case SS_RMID_EXISTING:
      return message->rmid_event.tgid >= 0 ? Decoded::kValid : Decoded::kMalformed;
    case SS_CUDA_CALL:
      return IsValidCall(message->cuda_call) ? Decoded::kValid : Decoded::kMalformed;
    case SS_CUDA_TURN:
      return IsValidTurn(message->cuda_turn) ? Decoded::kValid : Decoded::kMalformed;
    case SS_WAIT:
      return IsValidWait(message->wait) ? Decoded::kValid : Decoded::kMalformed;
    case SS_RDT_SAMPLE:
      return IsValidSample(message->rdt_sample) ? Decoded::kValid : Decoded::kMalformed;
    default:
      return Decoded::kValid;
  }
}

Decoded DecodeText(std::span<const std::byte> bytes, ss_text* text) {
  constexpr size_t kTextAt = offsetof(ss_text, text);
  std::memset(static_cast<void*>(text), 0, sizeof(*text));
  if (bytes.size() < kTextAt) return Decoded::kMalformed;
  std::memcpy(static_cast<void*>(text), bytes.data(), kTextAt);
  if (text->hdr.size != bytes.size() || text->text_len > SS_TEXT_LEN ||
      text->text_len > bytes.size() - kTextAt || text->tgid < 0)
    return Decoded::kMalformed;
  std::memcpy(text->text, bytes.data() + kTextAt, text->text_len);
  const bool of_cgroup = text->hdr.type == SS_CGROUP || text->hdr.type == SS_CGROUP_GONE;
  return of_cgroup == (text->tgid == 0) ? Decoded::kValid : Decoded::kMalformed;
}

}  // namespace slotscope
