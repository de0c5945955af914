// SPDX-License-Identifier: MIT
// Reads all files that detectors are given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "detect/inputs/kubernetes.h"
#include "detect/inputs/records.h"
#include "detect/inputs/timestamp.h"

namespace slotscope {

// Empty paths are not read; "-" is the standard input.
struct DetectPaths {
  std::string fr_dir;      // a folder of flight recorders' dumps
  std::string kmsg;        // a kernel log
  std::string k8s_events;  // objects of Kubernetes
  std::string otlp_logs;   // log records of OpenTelemetry
};

struct DetectInputs {
  DetectRecords records;
  std::vector<std::string> problems;  // parts of the input that are not read
  std::vector<std::string> notes;     // what was assumed
};

// `times.newest_ns` is taken from each file, where it is 0. Exit::kBadInput if an input has nothing that
// can be read.
Status ReadDetectInputs(const DetectPaths& paths, LogTimeOptions times, const std::string& node,
                        bool node_is_given, DetectInputs* inputs);

// A text of Kubernetes objects: one, or many in a row. Exit::kBadInput if there is none.
Status ReadKubernetes(std::string_view text, KubernetesReader* reader, std::string* problem);

}  // namespace slotscope
