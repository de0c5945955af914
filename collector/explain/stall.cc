// SPDX-License-Identifier: MIT
#include "explain/stall.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/party_text.h"

namespace slotscope {

std::string Party::Text() const {
  if (is_place)
    return nr == 1 ? WithShortIds(name) : fmt::format("{} ({} processes)", WithShortIds(name), nr);
  if (place.empty()) return PartyText(name, nr, tgid);
  if (nr == 1) return fmt::format("{} ({}, {})", name, tgid, place);
  return fmt::format("{} ({})", PartyText(name, nr, tgid), place);
}

const char* ConfidenceText(Confidence confidence) {
  constexpr std::array kTexts = {"high", "medium", "low"};
  return kTexts[static_cast<size_t>(confidence)];
}

uint64_t Stall::waited_ns() const {
  return std::accumulate(ns.begin(), ns.begin() + kNrWaitHindrances, uint64_t{0});
}

Confidence Stall::confidence() const {
  const double share = has_waits ? std::max(lost_share, unknown_share) : 1;
  const bool accuses_unseen = std::any_of(neighbors.begin(), neighbors.end(), [](const auto& one) {
    return one.is_unusual && !one.has_rows;
  });
  if (share < 0.05 && !waits_on && !guesses && !accuses_unseen) return Confidence::kHigh;
  return share < 0.2 && !guesses ? Confidence::kMedium : Confidence::kLow;
}

uint64_t Stall::idle_gpu_ns() const {
  constexpr uint64_t kLeastNs = 10'000'000;
  constexpr std::array<GpuValue, kNrHindrances> kParts = {
      kNoWorkWaited,  kNoWorkWaited,  kNoWorkThrottled, kNoWorkWaited, kNoWorkWaited, kNoWorkWaited,
      kNoWorkStopped, kNoWorkStopped, kNoWorkDisk,      kNoWorkAsleep, kNoWorkRan,    kNoWorkUnknown};
  const uint64_t idle_ns = why == kStarved ? 0 : gpu[kParts[why]];
  return idle_ns >= std::max(kLeastNs, ns[why] / 5) ? idle_ns : 0;
}

bool Stall::HasUnusualNeighbor() const {
  if (why == kSlower) return !neighbors.empty() && neighbors.front().is_unusual;
  uint64_t unusual_ns = 0;
  for (const Neighbor& neighbor : neighbors)
    if (neighbor.is_unusual) unusual_ns += neighbor.ns;
  return unusual_ns > 0 && unusual_ns * 2 >= ns[kByOthers];
}

bool Selection::Has(const ProcessKey& process, const std::string& comm) const {
  return members.contains(process) || std::find(pids.begin(), pids.end(), process.tgid) != pids.end() ||
         std::find(comms.begin(), comms.end(), comm) != comms.end();
}

}  // namespace slotscope
