// SPDX-License-Identifier: MIT
#include "cli/check.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/cpu_list.h"
#include "base/escape.h"
#include "base/json_line.h"
#include "base/say.h"
#include "base/version.h"
#include "check/line.h"
#include "check/machine.h"
#include "check/trial.h"
#include "cli/record.h"
#include "nvml/nvml.h"
#include "recording/folder.h"
#include "recording/reader.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

using State = CheckLine::State;

constexpr size_t kWidth = 80;
constexpr const char* kServiceFolder = "/var/lib/slotscope";

// Where a trial is, and nothing afterwards.
class TrialFolder {
 public:
  TrialFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "slotscope-check.XXXXXX").string();
    if (mkdtemp(path.data())) path_ = path;
  }
  ~TrialFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;
  // Empty: there is none.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Of a table that was recorded.
double RateOf(const RecordingReader& recording, std::string_view table, double seconds) {
  uint64_t on_disk = 0, text_bytes = 0, header_bytes = 0;
  for (const std::string& path : recording.FilesOf(table)) {
    std::error_code error;
    on_disk += std::filesystem::file_size(path, error);
  }
  (void)recording.Read(table, {}, [&](std::string_view text) {
    text_bytes += text.size();
    while (text.starts_with("#")) {
      const size_t end = text.find('\n') + 1;
      header_bytes += end;
      text.remove_prefix(end == 0 ? text.size() : end);
    }
  });
  return BytesPerSecond(on_disk, text_bytes, header_bytes, seconds);
}

Status MakeTrial(RecordOptions options, Trial* trial) {
  const TrialFolder folder;
  if (folder.path().empty())
    return {Exit::kOutput, "cannot make a folder for a trial in $TMPDIR, or /tmp: set TMPDIR"};
  options.output.path = folder.path() + "/trial.rec";
  options.output.is_quiet = true;
  RecordReport report;
  if (Status status = RecordQuietly(options, &report); !status.ok()) return status;
  *trial = {std::move(report.facts), report.ring_bytes, report.seconds, report.cost_percent,
            report.counts};
  RecordingReader recording;
  if (Status status = recording.Open(options.output.path); !status.ok()) return status;
  for (const char* table : {"slots", "waits", "gpu", "spans"})
    trial->fine_bytes_per_s += RateOf(recording, table, report.seconds);
  trial->coarse_bytes_per_s = RateOf(recording, "seconds", report.seconds);
  return {};
}

CheckLine CheckRights() {
  if (geteuid() == 0) return {"rights", State::kYes, "root", ""};
  return {"rights", State::kNo, "to record takes root: eBPF programs are loaded",
          "sudo slotscope check"};
}

CheckLine CheckNvml() {
  Status status;
  const auto nvml = OpenNvml(&status);
  if (!status.ok())
    return {"NVML", State::kNo, fmt::format("GPUs have no names and no totals: {}", status.message()),
            ""};
  std::string names;
  for (const GpuDevice& gpu : nvml->gpus())
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", gpu.label(), gpu.name);
  return {"NVML", State::kYes, names.empty() ? "it knows no GPU" : names, ""};
}

// As the service has it by default.
CheckLine CheckServiceRing(const Trial& trial) {
  KeepLimits keep;
  keep.bytes = 10ull << 30;
  keep.percent = 10;
  return CheckRing(trial, BytesToKeep(keep, kServiceFolder), kServiceFolder);
}

CheckLines FindAll(const RecordOptions& trial_options, const std::string& release, Status* status) {
  CheckLines lines = {CheckKernel("", release), CheckRights()};
  Trial trial;
  *status = MakeTrial(trial_options, &trial);
  if (status->ok())
    lines.push_back(CheckSource(trial));
  else if (status->code() != Exit::kPrivilege)
    lines.push_back({"recording", State::kNo, status->message(), ""});
  lines.push_back(CheckModule(""));
  lines.push_back(CheckRdt(""));
  lines.push_back(CheckClock("", trial.facts.tick));
  lines.push_back(CheckCudaDriver(""));
  const bool has_driver = lines.back().state == State::kYes;
  if (has_driver) lines.push_back(CheckNvml());
  if (!status->ok()) return lines;
  if (has_driver) lines.push_back(CheckCuda(trial));
  lines.push_back(CheckCounters(trial));
  lines.push_back(CheckWaits(trial));
  for (CheckLine& line : CheckNotes(trial)) lines.push_back(std::move(line));
  lines.push_back(CheckLosses(trial));
  lines.push_back(CheckBuffers(trial));
  lines.push_back(CheckCost(trial));
  lines.push_back(CheckServiceRing(trial));
  return lines;
}

void PrintJson(const CheckLines& lines, const utsname& name, const Status& status) {
  nlohmann::ordered_json all = {{"slotscope", kVersion},
                                {"host", EscapeName(name.nodename)},
                                {"kernel", EscapeName(name.release)},
                                {"can_record", status.ok()},
                                {"lines", nlohmann::ordered_json::array()}};
  for (const CheckLine& line : lines) {
    nlohmann::ordered_json one = {{"name", line.name},
                                  {"state", kCheckStateNames[static_cast<size_t>(line.state)]},
                                  {"what", line.what}};
    if (!line.remedy.empty()) one["remedy"] = line.remedy;
    all["lines"].push_back(std::move(one));
  }
  Say(stdout, "{}", JsonLine(all));
}

}  // namespace

int Check(const CheckOptions& options) {
  utsname name = {};
  uname(&name);
  Status status;
  const CheckLines lines = FindAll(options.trial, name.release, &status);
  if (options.json) {
    PrintJson(lines, name, status);
  } else {
    Say(stdout, "slotscope {} on {}, {} CPUs. What it can measure here:\n\n{}\n", kVersion,
        EscapeName(name.nodename), ReadCpuList("online").size(), CheckText(lines, kWidth));
    Say(stdout, "{}\n",
        status.ok() ? "A recording can be made: slotscope record"
                    : "No recording can be made here, see above.");
  }
  return static_cast<int>(status.code());
}

}  // namespace slotscope
