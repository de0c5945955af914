// SPDX-License-Identifier: MIT
#include "harness.h"

#include <bpf/bpf.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cuda/probes.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "ring/bpf_object.h"
#include "steal.skel.h"

namespace slotscope {
namespace {

constexpr uint64_t kWindowNs = 64'000'000;

std::vector<std::string> SplitComma(const std::string& line) {
  std::vector<std::string> fields;
  std::string field;
  std::istringstream in(line);
  while (std::getline(in, field, ',')) fields.push_back(field);
  if (!line.empty() && line.back() == ',') fields.emplace_back();
  return fields;
}

void ParseLines(WorkloadResult* result) {
  std::istringstream in(result->output);
  std::string text;
  while (std::getline(in, text)) {
    std::istringstream fields(text);
    WorkloadResult::Line line;
    if (!(fields >> line.key >> line.tgid)) continue;
    uint64_t value;
    while (fields >> value) line.values.push_back(value);
    result->lines.push_back(line);
  }
}

}  // namespace

bool UsesModule() {
  const char* source = getenv("SLOTSCOPE_TEST_SOURCE");
  return source && std::string(source) == "kmod";
}

std::unique_ptr<Source> MakeTestSource(uint32_t nr_rmids) {
  SourceOptions options;
  options.nr_rmids = nr_rmids;
  return UsesModule() ? MakeKmodSource(options) : MakeNativeSource(options);
}

Recorder::Recorder(uint32_t nr_rmids) : source_(MakeTestSource(nr_rmids)) {}

Recorder::~Recorder() { Stop(); }

void Recorder::Start() {
  Status status = source_->Start();
  ASSERT_TRUE(status.ok()) << status.message();
  reader_ = std::make_unique<Reader>(source_.get(), PossibleCpus(), ReadClocks(), &others_);
  // A storm, or whatever else a slow machine does, must not keep us from draining: tests judge only what
  // is whole. Threads inherit it.
  const int nice_before = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, -20);
  thread_ = std::thread([this] { Take(); });
  status = reader_->Start();
  setpriority(PRIO_PROCESS, 0, nice_before);
  ASSERT_TRUE(status.ok()) << status.message();
}

void Recorder::Stop() {
  if (!thread_.joinable()) return;
  reader_->Stop();
  stopped_.store(true, std::memory_order_release);
  thread_.join();
  std::stable_sort(messages_.begin(), messages_.end(),
                   [](const auto& a, const auto& b) { return a.hdr.ts_ns < b.hdr.ts_ns; });
}

void Recorder::WaitUntilDrained() const {
  const uint64_t now_ns = MonotonicNs();
  while (watermark_ns_.load(std::memory_order_relaxed) < now_ns)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Recorder::Take() {
  Merger merger(PossibleCpus(), kWindowNs, this);
  for (;;) {
    bool stopped = stopped_.load(std::memory_order_acquire);
    Block* block = reader_->blocks().TakeFilled();
    if (block) {
      EXPECT_TRUE(merger.OnItems(block->bytes()));
      reader_->blocks().PutEmpty(block);
    }
    if (!block && stopped) break;
    if (!block) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  merger.Flush();
  nr_lost_ = merger.stats().nr_lost;
  nr_bad_ = merger.stats().nr_malformed + merger.stats().nr_unknown;
}

void Recorder::OnMeasure(const ss_measure& measure) {
  ss_any_message message = {};
  message.measure = measure;
  messages_.push_back(message);
}

void Recorder::OnTick(const ss_tick& tick) {
  ss_any_message message = {};
  message.tick = tick;
  messages_.push_back(message);
}

void Recorder::OnCpuState(const ss_cpu_state& state) {
  ss_any_message message = {};
  message.cpu_state = state;
  messages_.push_back(message);
}

std::vector<ss_rmid_event> Recorder::RmidEvents() const {
  std::vector<ss_rmid_event> events;
  for (const ss_any_message& message : messages_)
    if (message.hdr.type == SS_RMID_ALLOC || message.hdr.type == SS_RMID_FREE ||
        message.hdr.type == SS_RMID_EXISTING)
      events.push_back(message.rmid_event);
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    if (a.seq != b.seq) return a.seq < b.seq;
    return a.hdr.type != SS_RMID_EXISTING && b.hdr.type == SS_RMID_EXISTING;
  });
  return events;
}

int RunProgram(const std::vector<std::string>& argv, std::string* output) {
  int pipe_fds[2];
  if (pipe(pipe_fds)) return -1;
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(pipe_fds[1], 1);
    dup2(pipe_fds[1], 2);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    execv(args[0], args.data());
    _exit(126);
  }
  close(pipe_fds[1]);
  char chunk[4096];
  ssize_t got;
  while ((got = read(pipe_fds[0], chunk, sizeof(chunk))) > 0)
    output->append(chunk, static_cast<size_t>(got));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

WorkloadResult RunWorkload(const std::vector<std::string>& args) {
  WorkloadResult result;
  std::vector<std::string> argv = {"/proc/self/exe", "--workload"};
  argv.insert(argv.end(), args.begin(), args.end());
  result.exit_code = RunProgram(argv, &result.output);
  ParseLines(&result);
  return result;
}

WorkloadResult ParseWorkload(const std::string& path) {
  WorkloadResult result;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  result.output = text.str();
  ParseLines(&result);
  return result;
}
std::vector<int32_t> WorkloadResult::TgidsOf(const std::string& key) const {
  std::vector<int32_t> tgids;
  for (const Line& line : lines)
    if (line.key == key) tgids.push_back(line.tgid);
  return tgids;
}

std::string UntilRecording(const std::string& err) {
  return "until grep -qs recording " + err + " || ! kill -0 $!; do sleep 0.1; done; ";
}

std::vector<LoadedProgram> LoadedPrograms(std::string_view prefix) {
  std::vector<LoadedProgram> programs;
  uint32_t id = 0;
  while (bpf_prog_get_next_id(id, &id) == 0) {
    const UniqueFd fd(bpf_prog_get_fd_by_id(id));
    bpf_prog_info info = {};
    uint32_t size = sizeof(info);
    if (fd.valid() && bpf_obj_get_info_by_fd(fd.get(), &info, &size) == 0 &&
        std::string_view(info.name).starts_with(prefix))
      programs.push_back({id, info.run_time_ns, info.verified_insns});
  }
  return programs;
}

void ExportForShell() {
  setenv("S", SlotscopeBinary().c_str(), 1);
  setenv("T", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);  // for --workload
  // An emulated machine is watched at any price; the test of the guard gives its own limit behind this
  // one.
  setenv("SRC", UsesModule() ? "kmod --max-overhead 100" : "bpf --max-overhead 100", 1);
}

int Shell(const std::string& script, std::string* output) {
  ExportForShell();
  return RunProgram({"/bin/sh", "-c", script}, output);
}

CsvFile ReadCsv(const std::string& path) {
  CsvFile csv;
  std::ifstream file;
  std::istringstream of_recording;
  if (RecordingReader::Reads(path)) {
    RecordingReader reader;
    std::string text;
    Status status = reader.Open(path);
    if (status.ok())
      status = reader.Read(kSlotsTable, {}, [&](std::string_view piece) { text += piece; });
    EXPECT_TRUE(status.ok()) << status.message();
    of_recording.str(std::move(text));
  } else {
    file.open(path);
  }
  std::istream& in = file.is_open() ? static_cast<std::istream&>(file) : of_recording;
  std::string header, line;
  const auto shared = std::make_shared<CsvRow::Shared>();
  while (std::getline(in, line)) {
    if (line.starts_with("# ")) {
      size_t colon = line.find(": ");
      csv.comments[line.substr(2, colon - 2)] = colon == std::string::npos ? "" : line.substr(colon + 2);
    } else if (csv.columns.empty()) {
      csv.columns = SplitComma(header = line);
      for (size_t i = 0; i < csv.columns.size(); i++) shared->columns[csv.columns[i]] = i;
    } else if (line != header) {  // each segment has it
      std::vector<const std::string*> fields;
      for (std::string& field : SplitComma(line))
        fields.push_back(&*shared->texts.insert(std::move(field)).first);
      EXPECT_EQ(fields.size(), csv.columns.size()) << line;
      csv.rows.emplace_back(shared, std::move(fields));
    }
  }
  return csv;
}

void CheckIdentity(const CsvFile& csv) {
  const uint64_t nr_cpus = std::stoull(csv.comments.at("nr_cpus"));
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> sums;  // by start: of cpu_ns, the slot's length
  for (const auto& row : csv.rows) {
    auto& [sum, slot_ns] = sums[std::stoull(row.at("slot_start_ns"))];
    sum += std::stoull(row.at("cpu_ns"));
    slot_ns = std::stoull(row.at("slot_ns"));
  }
  size_t nr_wrong = 0, nr_apart = 0;
  uint64_t end = sums.empty() ? 0 : sums.begin()->first;
  for (const auto& [start, of] : sums) {
    nr_wrong += of.first != of.second * nr_cpus;
    nr_apart += start != end;
    end = start + of.second;
  }
  EXPECT_EQ(nr_wrong, 0u) << "slots whose cpu_ns do not add up to their length x " << nr_cpus;
  EXPECT_EQ(nr_apart, 0u) << "slots are not consecutive";
  EXPECT_TRUE(csv.comments.at("identity").starts_with("holds")) << csv.comments.at("identity");
  EXPECT_EQ(sums.size(), std::stoull(csv.comments.at("slots")));
}

std::string SlotscopeBinary() {
  const char* path = getenv("SLOTSCOPE_BINARY");
  return std::filesystem::absolute(path ? path : "build/slotscope").string();
}

std::string TempDir() {
  static const struct Dir {
    std::string path;
    Dir() {
      char name[] = "/tmp/slotscope-test.XXXXXX";
      path = mkdtemp(name);
    }
    ~Dir() {
      std::string ignored;
      RunProgram({"/bin/rm", "-rf", path}, &ignored);
    }
  } dir;
  return dir.path;
}

void WriteTable(const std::string& recording, const std::string& table, const std::string& path) {
  RecordingReader reader;
  std::ofstream file(path);
  ASSERT_TRUE(reader.Open(recording).ok());
  ASSERT_TRUE(reader.Read(table, {}, [&](std::string_view text) { file << text; }).ok());
}

std::string BtfWithout(const std::string& name) {
  std::string bytes = Text("/sys/kernel/btf/vmlinux");
  for (size_t at = 0; (at = bytes.find(name, at)) != std::string::npos; at += name.size())
    bytes[at + name.size() - 2] = 'X';
  return bytes;
}

std::string MakeDir(const std::string& name) {
  const std::string dir = TempDir() + "/" + name;
  std::filesystem::remove_all(dir);
  std::filesystem::create_directory(dir);
  return dir;
}

std::string Text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool IsEmulated() { return getenv("SLOTSCOPE_TEST_SCALE") != nullptr; }

void ReloadModule(const std::function<void()>& between) {
  if (!UsesModule() || !IsEmulated()) return between();
  const uint64_t start_ns = MonotonicNs();
  std::string output;
  while (RunProgram({"/bin/sh", "-c", "rmmod slotscope"}, &output) != 0) {
    ASSERT_LT(MonotonicNs() - start_ns, 20'000'000'000u) << output;
    usleep(100'000);
  }
  between();
  // And keep its tracepoints switched on again (tests/vm/common.sh says why).
  EXPECT_EQ(
      RunProgram({"/bin/sh", "-c", ". ./common.sh; insmod slotscope.ko && keep_on slotscope"}, &output),
      0)
      << output;
}

void WaitForDetachers() {
  const auto is_any = [] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "comm");
      std::string comm;
      if (std::getline(file, comm) && comm == kDetacherName) return true;
    }
    return false;
  };
  constexpr uint64_t kMostNs = 300'000'000'000;
  const uint64_t start_ns = MonotonicNs();
  while (is_any() && MonotonicNs() - start_ns < kMostNs) usleep(20'000);
  EXPECT_FALSE(is_any());
}

uint64_t StealNs() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  uint64_t fields[8] = {};
  file >> cpu;
  for (uint64_t& field : fields) file >> field;
  return fields[7] * (1'000'000'000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
}

uint64_t StolenNs() {
  static const std::unique_ptr<steal, decltype(&steal__destroy)> program(steal__open_and_load(),
                                                                         &steal__destroy);
  if (!program) return StealNs();
  uint64_t sum_ns = 0;
  bool is_known = true;
  std::jthread reader([&] {  // on each CPU in turn
    const long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < nr_cpus; cpu++) {
      cpu_set_t only;
      CPU_ZERO(&only);
      CPU_SET(static_cast<size_t>(cpu), &only);
      if (sched_setaffinity(0, sizeof(only), &only) != 0) continue;  // it is offline
      bpf_test_run_opts options = {};
      options.sz = sizeof(options);
      is_known &= bpf_prog_test_run_opts(bpf_program__fd(program->progs.steal_read), &options) == 0 &&
                  program->bss->steal_is_known;
      sum_ns += program->bss->steal_ns;
    }
  });
  reader.join();
  return is_known ? sum_ns : StealNs();
}

Recorded RecordWorkload(const std::vector<std::string>& args, const std::vector<std::string>& options,
                        const std::function<void()>& when_recording) {
  Recorded recorded;
  std::string csv_path = TempDir() + "/slots.csv";
  std::string truth_path = TempDir() + "/truth";
  std::vector<std::string> argv = {
      SlotscopeBinary(), "record", "--source",       UsesModule() ? "kmod" : "bpf",
      "--output",        csv_path, "--max-overhead", "100"};
  argv.insert(argv.end(), options.begin(), options.end());
  // A shell keeps the workload's own output apart from the recorder's.
  std::string command = "exec \"$0\" --workload \"$@\" > " + truth_path;
  const std::string ready_path = TempDir() + "/ready", go_path = TempDir() + "/go";
  if (when_recording) {
    unlink(ready_path.c_str());
    unlink(go_path.c_str());
    command =
        fmt::format(": > {0}; until [ -e {1} ]; do sleep 0.01; done; ", ready_path, go_path) + command;
  }
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  self[std::max<ssize_t>(length, 0)] = 0;
  argv.insert(argv.end(), {"--", "/bin/sh", "-c", command, self});
  argv.insert(argv.end(), args.begin(), args.end());
  const uint64_t stolen_before_ns = StolenNs();
  std::string output;
  std::jthread starter([&](std::stop_token stop) {
    if (!when_recording) return;
    while (access(ready_path.c_str(), F_OK) != 0 && !stop.stop_requested()) usleep(5'000);
    when_recording();
    std::ofstream{go_path};
  });
  int code = RunProgram(argv, &output);
  starter.request_stop();
  starter.join();
  recorded.stolen_ns = StolenNs() - stolen_before_ns;
  EXPECT_EQ(code, 0) << output;
  recorded.csv = ReadCsv(csv_path);
  recorded.truth = ParseWorkload(truth_path);
  return recorded;
}

}  // namespace slotscope
