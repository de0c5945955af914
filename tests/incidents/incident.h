// SPDX-License-Identifier: MIT
// Machines on which something happens, or nothing, and what that was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "explain/history.h"

namespace slotscope {

enum class IncidentKind : uint8_t {
  kHog,        // one process runs on somebody's CPU
  kBurst,      // many small ones do
  kThrottled,  // a quota is used up
  kStopped,    // SIGSTOP
  kDisk,       // a disk does not answer
  kLock,       // who holds a lock of its process is kept from its CPU
  kNoisy,      // some processes of a name run on all CPUs
  kLauncher,   // a process runs on the CPU of one that launches: its GPU has nothing to do
  kLoader,     // the same, of one that loads data for one that launches
  kBandwidth,  // memory is slow, because somebody moves much of it
  kLossy,      // the recording has lost what happened
  kQuiet,      // nothing: idle, services, a build that takes nearly all CPUs, a fair pair
  kNr,
};
const char* IncidentName(IncidentKind kind);

struct Truth {
  std::vector<std::string> who;       // any of them is right; none: nobody
  std::vector<Hindrance> why;         // the same
  std::string neighbor;               // empty: there is none
  std::string idle_gpu_of;            // the first sentence says that it had no work; empty: it need not
  uint64_t begin_ns = 0, end_ns = 0;  // since the beginning
};

// Unix time of the beginning.
inline constexpr int64_t kIncidentUnixNs = 1'790'001'000'000'000'000;

// Writes a raw file. The same kind and seed give the same file.
Status MakeIncident(IncidentKind kind, uint64_t seed, const std::string& path, Truth* truth);

}  // namespace slotscope
