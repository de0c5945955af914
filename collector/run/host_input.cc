// SPDX-License-Identifier: MIT
#include "run/host_input.h"

#include <utility>

#include "detect/host/host_evidence.h"
#include "detect/host/host_recorder.h"
#include "detect/host/slots_csv.h"
#include "recording/reader.h"
#include "run/engine.h"
#include "run/options.h"
#include "run/raw_input.h"

namespace slotscope {
namespace {

constexpr int64_t kBucketNs = 1'000'000;

void Prepare(const HostRecording& recording, const std::vector<NcclHang>& hangs, HostHistory* history) {
  for (const NcclHang& hang : hangs) {
    history->Want(hang.earliest_ns);
    for (int64_t since_ns : hang.since_ns) history->Want(since_ns);
  }
  if (hangs.empty()) history->Want(0);  // nothing
  for (const RankNote& rank : recording.ranks) history->SetRank(rank, 0);
}

Status ReadRaw(const HostRecording& recording, const std::vector<NcclHang>& hangs,
               std::unique_ptr<HostHistory>* history) {
  RawInput input;
  if (Status status = input.Open(recording.raw); !status.ok()) return status;
  const OutputOptions usual;
  const uint64_t slot_ns = input.slot_ns() ? input.slot_ns() : usual.slot_ns;
  HostRecorder recorder(kBucketNs, 0, nullptr);
  recorder.Look([&](HostHistory& of_recorder) { Prepare(recording, hangs, &of_recorder); });
  Engine engine(input.facts(), slot_ns, usual.window_ns, GpuTracker::kNothing, &recorder);
  RawInputEnd end;
  if (Status status = input.ReadAll(
          &engine, [] { return false; }, &end);
      !status.ok())
    return status;
  recorder.Look([&](HostHistory& of_recorder) {
    *history = std::make_unique<HostHistory>(std::move(of_recorder));
  });
  return end.error.empty() ? Status() : Status(Exit::kBadInput, end.error);
}

}  // namespace

std::string FindHostRecording(const std::vector<NcclHang>& hangs) {
  std::string path;
  RecordingReader recording;
  if (hangs.empty() || !FindRecording(&path).ok() || !recording.Open(path).ok()) return {};
  for (const auto& [number, segment] : recording.segments())
    for (const NcclHang& hang : hangs)
      if (segment.times.unix_start_ns() <= hang.earliest_ns &&
          hang.earliest_ns < segment.times.unix_end_ns())
        return path;
  return {};
}

Status ReadHost(const HostRecording& recording, const std::vector<NcclHang>& hangs,
                std::unique_ptr<HostHistory>* history) {
  if (!recording.raw.empty()) return ReadRaw(recording, hangs, history);
  if (recording.slots.empty()) return {};
  *history = std::make_unique<HostHistory>(kBucketNs, 0);
  Prepare(recording, hangs, history->get());
  return ReadSlotsCsv(recording.slots, history->get());
}

}  // namespace slotscope
