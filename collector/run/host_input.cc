// SPDX-License-Identifier: MIT
#include "cli/host_input.h"

#include <utility>

#include "cli/engine.h"
#include "cli/raw_input.h"
#include "detect/host_evidence.h"
#include "detect/host_recorder.h"
#include "detect/slots_csv.h"
#include "raw/raw_file.h"

namespace slotscope {
namespace {

constexpr int64_t kBucketNs = 1'000'000;

void Prepare(const DetectOptions& options, const std::vector<NcclHang>& hangs, HostHistory* history) {
  for (const NcclHang& hang : hangs) {
    history->Want(hang.earliest_ns);
    for (int64_t since_ns : hang.since_ns) history->Want(since_ns);
  }
  if (hangs.empty()) history->Want(0);  // nothing
  for (const RankNote& rank : options.ranks) history->SetRank(rank, 0);
}

Status ReadRaw(const DetectOptions& options, const std::vector<NcclHang>& hangs,
               std::unique_ptr<HostHistory>* history) {
  RawFileReader reader;
  if (Status status = reader.Open(options.raw); !status.ok()) return status;
  const OutputOptions usual;
  HostRecorder recorder(usual.slot_ns, kBucketNs, 0, nullptr);
  recorder.Look([&](HostHistory& of_recorder) { Prepare(options, hangs, &of_recorder); });
  Engine engine(reader.facts(), usual.slot_ns, usual.window_ns, GpuTracker::kNothing, &recorder);
  const RawInputEnd end = ReadAll(&reader, options.raw, &engine, [] { return false; });
  if (!end.error.empty()) return {Exit::kBadInput, end.error};
  recorder.Look([&](HostHistory& of_recorder) {
    *history = std::make_unique<HostHistory>(std::move(of_recorder));
  });
  return {};
}

}  // namespace

Status ReadHost(const DetectOptions& options, const std::vector<NcclHang>& hangs,
                std::unique_ptr<HostHistory>* history) {
  if (!options.raw.empty()) return ReadRaw(options, hangs, history);
  if (options.slots.empty()) return {};
  *history = std::make_unique<HostHistory>(kBucketNs, 0);
  Prepare(options, hangs, history->get());
  return ReadSlotsCsv(options.slots, history->get());
}

}  // namespace slotscope
