// SPDX-License-Identifier: MIT
#include "cli/detect.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/json_line.h"
#include "base/say.h"
#include "cli/detect_story.h"
#include "cli/exit_code.h"
#include "detect/host/host_evidence.h"
#include "detect/inputs/demo.h"
#include "detect/inputs/inputs.h"
#include "detect/patterns/verdict.h"
#include "run/host_input.h"

namespace slotscope {
namespace {

std::string HostName() {
  utsname name = {};
  uname(&name);
  return EscapeName(name.nodename);
}

Status RunDetect(const DetectOptions& options) {
  DetectInputs inputs;
  JudgeOptions judge = options.judge;
  if (options.as_of_ns) {
    judge.clock = NcclClock::kAsOf;
    judge.as_of_ns = *options.as_of_ns;
  }
  const std::string node = options.node_id.empty() ? HostName() : options.node_id;
  Status status = options.demo ? MakeDemo(&inputs)
                               : ReadDetectInputs(options.paths, options.times, node,
                                                  !options.node_id.empty(), &inputs);
  if (!status.ok()) return status;
  for (const std::string& note : inputs.notes) Say(stderr, "slotscope: {}\n", note);
  for (const std::string& problem : inputs.problems) Say(stderr, "slotscope: {}\n", problem);
  const Findings findings = Judge(inputs.records, judge);
  const auto hangs = AllOf<NcclHang>(findings);
  HostRecording recording = options.host;
  if (recording.slots.empty() && recording.raw.empty() && !options.demo) {
    recording.slots = FindHostRecording(hangs);
    if (!recording.slots.empty())
      Say(stderr, "slotscope: what this host saw of it is from {} (--slots names another)\n",
          EscapeName(recording.slots));
  }
  std::unique_ptr<HostHistory> host;
  if (status = ReadHost(recording, hangs, &host); !status.ok()) {
    // What is damaged of a recording hides neither the rest of it nor what the dumps say.
    if (status.code() != Exit::kBadInput || !host) return status;
    Say(stderr, "slotscope: {}\n", status.message());
    inputs.problems.push_back(status.message());
  }
  EvidenceFn evidence;
  if (host) evidence = [&](const NcclHang& hang) { return HostEvidenceOf(*host, hang, {}); };
  std::string output;
  if (options.format == VerdictFormat::kStory ||
      (options.format == VerdictFormat::kAuto && isatty(STDOUT_FILENO))) {
    output = DetectStory(inputs.records, findings, judge, evidence);
  } else {
    for (const auto& finding : findings) {
      nlohmann::ordered_json verdict = VerdictJson(*finding);
      if (const auto* hang = As<NcclHang>(*finding); hang && evidence)
        verdict["host_evidence"] = HostEvidenceJson(evidence(*hang));
      output += options.format == VerdictFormat::kOtlp ? VerdictOtlpLine(*finding, verdict)
                                                       : JsonLine(verdict);
    }
    if (output.empty()) Say(stderr, "slotscope: no verdict (--format text says what there is)\n");
  }
  if (fwrite(output.data(), 1, output.size(), stdout) != output.size() || fflush(stdout))
    return {Exit::kOutput, fmt::format("cannot write the verdicts: {}", ErrnoText(errno))};
  return inputs.problems.empty() ? Status() : Status(Exit::kBadInput, "not all of the input was read");
}

}  // namespace

int Detect(const DetectOptions& options) { return ExitCode(RunDetect(options)); }

}  // namespace slotscope
