// SPDX-License-Identifier: MIT
#include "cli/gpu.h"

#include <fmt/core.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/escape.h"
#include "base/gpu_device.h"
#include "base/proc.h"
#include "base/say.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cuda/coverage.h"
#include "explain/history_reader.h"
#include "gpu/tracker.h"
#include "nvml/nvml.h"
#include "nvml/visible.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "run/counts.h"
#include "run/gpu_tables.h"
#include "run/pipeline.h"
#include "run/raw_input.h"
#include "sinks/gpu_report.h"

namespace slotscope {
namespace {

constexpr useconds_t kGpmUs = 120'000;  // NVML wants 100 ms between two samples
constexpr const char* kUnknown = "-";

std::string MiB(uint64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20)); }

std::string KnownMiB(uint64_t bytes) { return bytes == Nvml::kUnknownBytes ? kUnknown : MiB(bytes); }

std::string TotalMiB(const GpuDevice& gpu) { return gpu.total_bytes ? MiB(gpu.total_bytes) : kUnknown; }

// ---- now

struct Now {
  Status status;
  std::shared_ptr<Nvml> nvml = OpenNvml(&status);
  std::map<int32_t, std::vector<std::pair<size_t, uint64_t>>> clients;  // by pid: GPU, bytes

  const std::vector<GpuDevice>& gpus() const { return nvml->gpus(); }
};

void PrintDevices(Now* now) {
  if (!now->status.ok()) {
    Say(stdout, "GPUs: not known: {}\n", now->status.message());
    return;
  }
  std::vector<uint64_t> busy_ppm(now->gpus().size());
  std::vector<bool> knows(now->gpus().size());
  for (size_t i = 0; i < now->gpus().size(); i++) (void)now->nvml->SmActive(i, &busy_ppm[i]);
  usleep(kGpmUs);
  for (size_t i = 0; i < now->gpus().size(); i++) knows[i] = now->nvml->SmActive(i, &busy_ppm[i]);
  Say(stdout, "{:>4}  {:<28} {:>20} {:>8}  {:<16}  {}\n", "GPU", "NAME", "USED / ALL MiB", "BUSY %",
      "PCI", "UUID");
  for (size_t i = 0; i < now->gpus().size(); i++) {
    const GpuDevice& gpu = now->gpus()[i];
    Say(stdout, "{:>4}  {:<28} {:>20} {:>8}  {:<16}  {}{}\n", gpu.label(), gpu.name,
        fmt::format("{} / {}", KnownMiB(now->nvml->UsedBytes(i)), TotalMiB(gpu)),
        knows[i] ? fmt::format("{:.1f}", static_cast<double>(busy_ppm[i]) / 1e4) : kUnknown, gpu.pci,
        gpu.uuid, gpu.divided ? " (divided: see its instances)" : "");
  }
}

std::string LabelsOf(const Now& now, int32_t tgid) {
  if (!now.status.ok()) return kUnknown;
  const auto visible = VisibleGpus(now.gpus(), ReadGpuView(tgid));
  if (!visible) return "?";
  std::string labels;
  for (int32_t gpu : *visible)
    labels +=
        fmt::format("{}{}", labels.empty() ? "" : ",", now.gpus()[static_cast<size_t>(gpu)].label());
  return labels.empty() ? "none" : labels;
}

void PrintProcess(const Now& now, int32_t tgid, const std::vector<CudaFileCoverage>& coverage) {
  std::string memory;
  if (auto found = now.clients.find(tgid); found != now.clients.end())
    for (const auto& [gpu, bytes] : found->second)
      memory +=
          fmt::format("{}{}: {}", memory.empty() ? "" : ", ", now.gpus()[gpu].label(), KnownMiB(bytes));
  Say(stdout, "{:>8}  {:<16} {:<14} {}\n", tgid, ReadComm(tgid), LabelsOf(now, tgid),
      memory.empty() ? kUnknown : memory);
  if (!coverage.empty()) Say(stdout, "{:>8}  {}\n", "", CoverageText(coverage));
}

// Those that have CUDA's libraries, and those that the driver knows of.
void PrintProcesses(const Now& now) {
  Say(stdout, "\n{:>8}  {:<16} {:<14} {}\n", "PID", "COMM", "ITS DEVICES", "MiB BY THE DRIVER");
  KnownLibraries known;
  size_t nr = 0;
  bool refused = false;
  for (int32_t tgid : ListProcesses()) {
    refused |= access(fmt::format("/proc/{}/map_files", tgid).c_str(), R_OK) != 0 && geteuid() != 0;
    if (tgid == getpid()) continue;  // NVML brings libcuda along
    const auto coverage = ReadCoverage(tgid, &known);
    if (coverage.empty() && !now.clients.contains(tgid)) continue;
    PrintProcess(now, tgid, coverage);
    nr++;
  }
  if (nr == 0)
    Say(stdout, "{:>8}  no process uses CUDA{}\n", "", refused ? " that this user may look at" : "");
  if (refused)
    Say(stdout, "note: run as root to see the processes of others, and what can be seen of them\n");
}

Status PrintNow() {
  Now now;
  for (size_t i = 0; i < now.gpus().size(); i++) {
    if (now.gpus()[i].divided) continue;  // its instances say the same
    for (const GpuClient& client : now.nvml->Clients(i))
      now.clients[client.pid].emplace_back(i, client.bytes);
  }
  PrintDevices(&now);
  PrintProcesses(now);
  return {};
}

// ---- in a recording

void PrintKnownGpus(const std::vector<GpuDevice>& gpus) {
  if (gpus.empty()) Say(stdout, "GPUs: not known\n");
  for (const GpuDevice& device : gpus)
    Say(stdout, "GPU {:<5} {}, {} MiB, {}, {}{}\n", device.label(), device.name, TotalMiB(device),
        device.pci, device.uuid, device.divided ? " (divided)" : "");
}

std::string MsText(uint64_t ns) { return fmt::format("{:.1f}", static_cast<double>(ns) / 1e6); }

// At most 80 columns, but for what is very large.
void PrintUses(const std::vector<GpuDevice>& gpus, const GpuReport& report) {
  constexpr const char* kHidden = "hidden";
  constexpr const char* kLine = "{:>7} {:<15} {:>3} {:>4} {:>8} {:>9} {:>9} {:>8} {:>9}\n";
  Say(stdout, "\n");
  Say(stdout, kLine, "PID", "COMM", "DEV", "GPU", "PEAK MiB", "ACTIVE ms", "NO WORK", "LAUNCHES",
      "LEAKED");
  bool any_hidden = false, any_leaks = false;
  for (const auto& [key, use] : report.uses()) {
    const auto& [process, device] = key;
    const auto known = [&](GpuValue value, std::string text) {
      return use.unmeasured >> value & 1 ? std::string(kUnknown) : std::move(text);
    };
    std::string no_work = use.knows_no_work ? MsText(use.no_work_ns) : kUnknown;
    if (!use.knows_no_work && use.nr_launches > 0 && !(use.unmeasured >> kGpuActiveNs & 1))
      no_work = kHidden;
    any_hidden |= no_work == kHidden;
    any_leaks |= use.nr_leaks > 0;
    std::string leaked = fmt::format("{}: {}", use.nr_leaks, MiB(use.leaked_bytes));
    if (use.unmeasured >> kGpuMemBytes & 1) leaked = ">=" + leaked;
    Say(stdout, kLine, process.tgid, EscapeName(CommText(use.comm)),
        device == kUnknownDevice ? kUnknown : std::to_string(device),
        use.gpu == kUnknownGpu ? kUnknown : gpus[static_cast<size_t>(use.gpu)].label(),
        known(kGpuMemBytes, MiB(use.peak_bytes)), known(kGpuActiveNs, MsText(use.active_ns)), no_work,
        known(kGpuLaunches, std::to_string(use.nr_launches)), leaked);
  }
  if (report.uses().empty()) Say(stdout, "{:>7} no process used CUDA\n", "");
  if (any_leaks) Say(stdout, "LEAKED: how many allocations were not freed, and their MiB\n");
  if (any_hidden)
    Say(stdout,
        "{}: it never waited for all that it had launched: when its GPU had no work\n"
        "        is not visible from the host\n",
        kHidden);
}

void PrintNotes(const GpuReport& report) {
  if (report.nr_left_out()) Say(stdout, "note: there was no room for {} more\n", report.nr_left_out());
  for (const std::string& note : report.notes()) Say(stdout, "note: {}\n", note);
}

constexpr const char* kNotObserved =
    "CUDA was not observed in this recording: whether anybody used a GPU is not known";

// One that does not have what the kernel sent.
Status PrintTables(const std::string& path, bool has_gpus) {
  RecordingTables tables;
  if (!has_gpus && tables.Open(path).ok() && !tables.facts().observes_cuda) {
    Say(stdout, "{}\n", kNotObserved);
    return {};
  }
  std::vector<GpuDevice> gpus;
  GpuReport report;
  const Status status = ReadGpuTables(path, &gpus, &report);
  PrintKnownGpus(gpus);
  PrintUses(gpus, report);
  Say(stdout, "\nBy the tables gpu and spans; their last lines count what was lost\n");
  PrintNotes(report);
  return status;
}

Status PrintRaw(const std::string& path) {
  RawInput input;
  if (Status status = input.Open(path); !status.ok()) return status;
  const Facts& facts = input.facts();
  GpuReport report;
  const uint64_t slot_ns = input.slot_ns() ? input.slot_ns() : SS_TICK_PERIOD_NS;
  Engine engine(facts, slot_ns, OutputOptions().window_ns, GpuTracker::kSpans, &report);
  RawInputEnd end;
  if (Status status = input.ReadAll(
          &engine, [] { return false; }, &end);
      !status.ok())
    return status;

  if (facts.gpu.empty()) {
    Say(stdout, "{}\n", kNotObserved);
  } else {
    PrintKnownGpus(facts.gpus);
    PrintUses(facts.gpus, report);
  }
  const RunCounts counts = CountsOf(engine);
  Say(stdout,
      "\nCUDA calls {}, lost {}, malformed {}, late {}, frees of unknown memory {}; lost records {}\n",
      counts.gpu.nr_calls, counts.losses.nr_lost_calls, counts.merge.nr_malformed_calls,
      counts.gpu.nr_late, counts.gpu.nr_unknown_frees, counts.merge.nr_lost);
  PrintNotes(report);
  for (const std::string& note : engine.builder().late_notes()) Say(stdout, "note: {}\n", note);
  if (!input.note().empty()) Say(stdout, "note: {}\n", input.note());
  if (!end.cut.empty()) Say(stdout, "note: {}\n", end.cut);
  if (!end.error.empty()) return {Exit::kBadInput, end.error};
  return {};
}

Status PrintRecording(const std::string& path) {
  if (!RecordingReader::IsFolder(path)) return PrintRaw(path);
  RecordingReader recording;
  if (Status status = recording.Open(path); !status.ok()) return status;
  if (!recording.FilesOf(kRawTable).empty()) return PrintRaw(path);
  return PrintTables(path, !recording.FilesOf("gpu").empty());
}

}  // namespace

int PrintGpus(const GpuOptions& options) {
  return ExitCode(options.path.empty() ? PrintNow() : PrintRecording(options.path));
}

}  // namespace slotscope
