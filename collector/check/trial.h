// SPDX-License-Identifier: MIT
// What a recording of some seconds, made to try it, says of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "check/line.h"
#include "raw/facts.h"
#include "run/counts.h"

namespace slotscope {

struct Trial {
  Facts facts;
  size_t ring_bytes = 0;               // of one CPU
  double seconds = 0;                  // recorded
  std::optional<double> cost_percent;  // of all CPUs; the recorder and what runs in the kernel for it
  RunCounts counts;
  // On the disk, per second: tables of milliseconds, and those that are kept longer.
  double fine_bytes_per_s = 0, coarse_bytes_per_s = 0;
};

CheckLine CheckSource(const Trial& trial);
CheckLine CheckCounters(const Trial& trial);
CheckLine CheckWaits(const Trial& trial);
// How CUDA is observed, once there is a driver.
CheckLine CheckCuda(const Trial& trial);
// What else the source says of this kernel.
CheckLines CheckNotes(const Trial& trial);
CheckLine CheckBuffers(const Trial& trial);
CheckLine CheckLosses(const Trial& trial);
CheckLine CheckCost(const Trial& trial);
// How far back a ring of so many bytes reaches.
CheckLine CheckRing(const Trial& trial, uint64_t bytes, const std::string& folder);

// Bytes per second of a table, from the files of a short recording: without their headers, which a
// longer one has as seldom as segments.
double BytesPerSecond(uint64_t bytes_on_disk, uint64_t text_bytes, uint64_t header_bytes,
                      double seconds);

}  // namespace slotscope
