// SPDX-License-Identifier: MIT
// What is known of a run when it begins: everything that the rows and the header of the output need and
// the messages do not tell. Goes into a raw file, so that a replay reads nothing of its own machine.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_device.h"
#include "base/rdt_shape.h"
#include "base/status.h"

namespace slotscope {

struct Facts {
  std::string host;
  std::string boot_id;
  std::string kernel;
  std::string time_zone;  // of the host's clock on the wall; empty: it did not say
  std::string source;     // "kmod", "bpf" or "gen"
  std::string source_reason;
  std::string backend;
  std::string backend_reason;
  std::string tick;
  // What each perf counter counts; empty: not counted. SS_NR_COUNTERS, and those behind each measure.
  std::vector<std::string> events = std::vector<std::string>(SS_NR_COUNTERS);
  RdtShape rdt;
  std::string gpu;                 // how CUDA is observed; empty: it is not
  std::vector<GpuDevice> gpus;     // by NVML, or the driver; empty: none, or it is not known
  std::string joined;              // the socket of another producer; empty: none
  std::vector<std::string> notes;  // a sentence each
  std::vector<int> present_cpus;
  bool has_waits = false;         // single waits are told (SS_MEASURE_ONE_WAIT, SS_WAIT)
  bool has_quota = false;         // and which were due to a quota (SS_WAIT_QUOTA)
  bool has_steal = false;         // and what the hypervisor took (ss_measure.stolen_ns)
  bool has_states = false;        // measures tell how a process left the CPU (SS_MEASURE_LEFT)
  bool has_turns = false;         // what threads do that use CUDA is told (SS_CUDA_TURN)
  size_t nr_streams = 0;          // rings there may be; one more stream carries state dumps
  int64_t unix_offset_ns = 0;     // CLOCK_REALTIME - CLOCK_MONOTONIC at the start
  int32_t command_tgid = 0;       // the command that was recorded, 0: none
  uint32_t abi = SS_ABI_VERSION;  // of the messages; in a raw file its header says it
  // Of a segment: which one of its recording, from 0 on, and when that began. One that is left out was
  // not written.
  uint64_t raw_segment = 0;
  uint64_t raw_begin_ns = 0;

  size_t nr_more() const { return events.size() - SS_NR_COUNTERS; }
  bool operator==(const Facts&) const = default;
};

std::string FactsToJson(const Facts& facts);
// Exit::kBadInput with what is wrong. Members that we do not know are ignored.
Status ParseFacts(std::string_view json, Facts* facts);

}  // namespace slotscope
