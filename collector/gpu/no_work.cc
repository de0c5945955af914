// SPDX-License-Identifier: MIT
#include "gpu/no_work.h"

#include "gpu/thread_line.h"

namespace slotscope {
namespace {

// [ThreadDoing]
constexpr GpuValue kCauses[] = {kNoWorkUnknown, kNoWorkRan,     kNoWorkWaited, kNoWorkInCudaWait,
                                kNoWorkDisk,    kNoWorkStopped, kNoWorkAsleep};

}  // namespace

void NoWork::AddTo(const Piece& piece, const ThreadLine* line, GpuRow* row) {
  row->values[kGpuNoWork] += piece.to_ns - piece.from_ns;
  if (!line) {
    row->values[kNoWorkUnknown] += piece.to_ns - piece.from_ns;
    return;
  }
  line->ForEach(piece.from_ns, piece.to_ns, [&](ThreadDoing doing, uint64_t from_ns, uint64_t to_ns) {
    row->values[kCauses[static_cast<size_t>(doing)]] += to_ns - from_ns;
    if (doing == ThreadDoing::kRuns) row->values[kNoWorkInCalls] += line->InCallsNs(from_ns, to_ns);
  });
}

uint64_t NoWork::AddTurn(const Piece& turn, const ThreadLine* line, GpuRow* row) {
  if (!line) return turn.to_ns - turn.from_ns;
  uint64_t unknown_ns = 0;
  line->ForEach(turn.from_ns, turn.to_ns, [&](ThreadDoing doing, uint64_t from_ns, uint64_t to_ns) {
    if (doing == ThreadDoing::kUnknown) unknown_ns += to_ns - from_ns;
    if (doing != ThreadDoing::kRuns) return;
    row->values[kLauncherRan] += to_ns - from_ns;
    row->values[kLauncherInCalls] += line->InCallsNs(from_ns, to_ns);
  });
  return unknown_ns;
}

}  // namespace slotscope
