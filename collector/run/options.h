// SPDX-License-Identifier: MIT
// What a run is to do, as the command line says it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/patterns/detectors.h"
#include "recording/folder.h"
#include "ring/counters.h"
#include "run/incidents.h"
#include "run/overhead.h"
#include "slots/fold.h"

namespace slotscope {

enum class SourceChoice { kAuto, kKmod, kBpf };

// What an --output is: "-" is a stream, a name that ends in .csv one plain file, any other a folder.
enum class OutputKind { kFolder, kFile, kStream };
inline OutputKind KindOf(const std::string& path) {
  if (path == "-") return OutputKind::kStream;
  return path.ends_with(".csv") ? OutputKind::kFile : OutputKind::kFolder;
}

// Of everything that makes rows.
struct OutputOptions {
  std::string path = "slotscope.rec";  // see KindOf()
  uint64_t slot_ns = 1'000'000;
  uint64_t window_ns = 64'000'000;
  FoldOptions fold;
  bool all = false;       // a command was recorded, and the others are wanted too
  std::string spans;      // file of the GPU's spans; empty: none
  std::string gpu_csv;    // file of what was done on each GPU; empty: none
  std::string straggle;   // file of straggling and its evidence; empty: none
  std::string waits;      // file of why processes waited; empty: none
  std::string processes;  // file of who they are; empty: none
  uint64_t max_size = 0;  // bytes; 0: no limit
  // Of a folder.
  uint64_t segment_ns = 60'000'000'000;
  KeepLimits keep;
  bool raw_table = false;  // what the kernel sent is in it, too
  TriggerOptions triggers;
  bool strict = false;
  bool is_quiet = false;     // nothing is printed at its end
  bool has_details = false;  // what is printed says what each counter means
};

// Whether CUDA is observed. kAuto: if this machine lets us, and once a process uses it.
enum class GpuChoice { kAuto, kOn, kOff };

// Where consumers of the protocol look for it.
inline constexpr const char* kRemediateSocket = "/tmp/ingero-remediate.sock";

// The port of OpenTelemetry's exporter for Prometheus.
inline constexpr const char* kMetricsAddress = "127.0.0.1:9464";

struct RecordOptions {
  OutputOptions output;
  std::string remediate;        // the socket's path; empty: none
  std::string remediate_group;  // a name or number; empty: none
  std::string join_remediate;   // another producer's socket; empty: none
  std::string metrics;          // HOST:PORT or PORT; empty: none
  std::string fleet;            // URL of Prometheus; empty: none
  std::string node_id;          // empty: the host's name
  std::string cluster_id = "default";
  uint64_t health_interval_ns = 10'000'000'000;
  // Detectors beside the recording; those of which there are inputs.
  bool detect = false;
  JudgeOptions judge;
  std::string fr_dir, kmsg, k8s_events;  // empty: not followed
  std::string verdicts;                  // a file; empty: they are only said
  std::string raw;                       // empty: no raw file
  SourceChoice source = SourceChoice::kAuto;
  GpuChoice gpu = GpuChoice::kAuto;
  uint64_t duration_ns = 0;  // 0: until a signal, or until the command exits
  CounterSpecs counters;
  uint32_t nr_rmids = 512;
  bool waits = true;       // why processes waited
  bool arguments = false;  // what they were given to do
  OverheadLimit max_overhead;
  std::vector<std::string> command;
};

}  // namespace slotscope
