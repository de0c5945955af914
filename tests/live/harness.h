// SPDX-License-Identifier: MIT
// What the live tests share: a recorder of raw messages, workloads in processes of their own, and the
// reading of a finished slots.csv. The source is SLOTSCOPE_TEST_SOURCE: bpf (default) or kmod.
#pragma once

#include <gtest/gtest.h>
#include <slotscope/events.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "merge/merger.h"
#include "ring/reader.h"
#include "ring/source.h"

namespace slotscope {

bool UsesModule();
std::unique_ptr<Source> MakeTestSource(uint32_t nr_rmids = 512);

// All messages of a source, from Start() to Stop().
class Recorder final : private MergeSink {
 public:
  explicit Recorder(uint32_t nr_rmids = 512);
  ~Recorder() override;

  void Start();  // fails the test if the source does not start
  void Stop();
  // Until all that has been written so far is out of the rings: what is written next then has all of
  // their room, however slow the machine is.
  void WaitUntilDrained() const;

  // After Stop(): in the order of time, stable.
  const std::vector<ss_any_message>& messages() const { return messages_; }
  std::vector<ss_rmid_event> RmidEvents() const;  // by seq; alloc, free and existing
  uint64_t nr_lost() const { return nr_lost_; }
  uint64_t nr_bad() const { return nr_bad_; }
  Source& source() { return *source_; }

 private:
  void Take();
  void OnMeasure(const ss_measure& measure) override;
  void OnTick(const ss_tick& tick) override;
  void OnCpuState(const ss_cpu_state& state) override;
  void OnMessage(const ss_any_message& message, bool) override { messages_.push_back(message); }
  void OnExpected(int) override {}
  void OnDumpEnd(uint64_t, uint64_t) override {}
  void OnClock(uint64_t, int64_t) override {}
  void OnNote(uint64_t, std::string_view) override {}
  void OnWatermark(uint64_t ts_ns) override { watermark_ns_.store(ts_ns, std::memory_order_relaxed); }

  std::unique_ptr<Source> source_;
  ItemQueue others_;
  std::unique_ptr<Reader> reader_;
  std::thread thread_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> watermark_ns_{0};
  std::vector<ss_any_message> messages_;
  uint64_t nr_lost_ = 0;
  uint64_t nr_bad_ = 0;
};

// The output of `live_tests --workload NAME ARGS...`, run as a process of its own to its end.
struct WorkloadResult {
  int exit_code = -1;
  std::string output;
  // Lines "KEY TGID VALUES..." -> for each: key, tgid, values.
  struct Line {
    std::string key;
    int32_t tgid;
    std::vector<uint64_t> values;
  };
  std::vector<Line> lines;
  std::vector<int32_t> TgidsOf(const std::string& key) const;
};
WorkloadResult RunWorkload(const std::vector<std::string>& args);
// What an already finished workload wrote to a file.
WorkloadResult ParseWorkload(const std::string& path);

// --workload cuda WHICH: 0 memory, 1 streams, 2 devices, 3 a little, 4 beside a
// rival, 5 with a heart, 6 memory and an exec, -N streams after N ms, else 8
// threads with so many rounds. In cuda_workload.cc.
int RunCudaWorkload(int which);
int RunUnreadableCuda(int ms);
int RunCudaThreads(int ms);
int RunStorageHolder(int ms);
int RunCudaLaunches(int ms);
int RunCudaSeldom(int ms);
int RunCudaFlood(int thousands);
int RunCudaTrain(int);
int RunCudaHolder(int ms);
int RunCudaOnManyStacks(int);
int RunCudaBehindJump(int);
int RunUnreadableCudaFlood(int ms);
// --workload cuda-gaps WHICH: what it does between launches. In gap_workload.cc.
enum {
  kGapSpins,
  kGapSleeps,
  kGapStopped,
  kGapInCall,
  kGapBesideHog,
  kGapThrottled,
  kGapOnDisk,      // which has to be slow
  kGapNeverWaits,  // for its GPU
  kNrGapKinds
};
int RunGaps(int which);
// --workload cuda-launcher ROUNDS: launches take it 2 ms of CPU time each, and what is between them 1
// ms. "launcher TGID ran in_calls", in ns of CPU time. Also in gap_workload.cc.
int RunLauncher(int rounds);
// Works until then.
void Spin(uint64_t until_ns);
// Sleeps until then, whatever signals come.
void SleepUntil(uint64_t until_ns);
// As /proc says it in one letter; 0 if that cannot be read. In state_workload.cc.
char StateOf(pid_t pid);
// tid 0: the calling thread.
void PinTo(pid_t tid, size_t cpu);
size_t NrCpus();  // online
// For so many ms; each process prints "waited TGID ns", by its threads' schedstat. In wait_workloads.cc.
int RunWaitingThreads(int ms);  // "threads": three on one CPU, nobody beside them
int RunWaitingMix(int ms);  // threads that are moved all the time, spinners, one that sleeps and runs
// So that each process has others in its way, for a second and a half.
enum WaitLoad {
  kLoadPingPong,  // two on one CPU, which wake each other
  kLoadSpinners,  // three on one CPU
  kLoadStorm,     // processes that are born, execute something, and end
  kLoadPeriodic,  // one that sleeps and runs, and a hog on its CPU
  kLoadFloating,  // four that sleep and run wherever they like
  kLoadShuffle,   // four that are sent from CPU to CPU all the time
  kLoadCrowd,     // a process of six threads, and two spinners
  kLoadRealtime,  // SCHED_FIFO and SCHED_DEADLINE, and a spinner on the first one's CPU
  kLoadStopped,   // two spinners, one of which is stopped half of the time
  kNrWaitLoads,
};
int RunWaitLoad(int which);
// A process whose cgroup may run for 20 ms in each 100; 10 more: cgroup v2. It prints "waited TGID ns
// when", by schedstat, and "throttled TGID ns", by cpu.stat; "unusable" if the cpu controller is not
// there. In quota_workload.cc.
enum { kQuotaAlone, kQuotaBeside, kQuotaThreads, kQuotaNested };
int RunUnderQuota(int which);
// In state_workload.cc. For so many ms: "is-STATE TGID from until"; sent on so often: "wanderer TGID
// nr".
int RunStates(int ms);
int RunWanderer(int nr);
// In incident_workload.cc: something happens to a process, for some 700 ms in the midst of three
// seconds: 100 x kind + seed. Prints "incident TGID from until", and the names of both before it;
// "unusable" if it cannot be made here.
enum LiveIncident {
  kLiveHog,
  kLiveBurst,
  kLiveThrottled,
  kLiveStopped,
  kLiveBlocked,
  kLiveLock,
  kLiveNoisy,
  kLiveLauncher,  // the hog is on the CPU of one that launches (into the stand-in CUDA libraries)
  kLiveLoader,    // it is on that of one that brings its data
  kLiveQuiet,
  kNrLiveIncidents,
};
int RunIncident(int which);
// Unmounts a hierarchy of the cpu controller, whose groups have been removed: as soon as they are gone,
// if nobody else has some. Of one that is unmounted before, the controller cannot be used as v2 any
// more.
void UnmountCpuController(const std::string& folder);
// Where the stand-in CUDA libraries are.
std::string StandinFolder();

// Dispatches --workload; returns its exit code. In workloads.cc.
int RunWorkloadHere(int argc, char** argv);

// Runs a program to its end; its stdout and stderr together in *output.
int RunProgram(const std::vector<std::string>& argv, std::string* output);

// The same for a shell script; $S is the program, $SRC the source under test, $T this one.
int Shell(const std::string& script, std::string* output);
// The kernel's own type information, in which something has another name of the same length.
std::string BtfWithout(const std::string& name);
// Writes down a table of a recording as it stands in it, for ReadCsv().
void WriteTable(const std::string& recording, const std::string& table, const std::string& path);
// For a test that runs a shell itself.
void ExportForShell();
// For that: waits until the recorder that was last put into the background has written to the file `err`
// that it records, or has ended.
std::string UntilRecording(const std::string& err);

// A BPF program that is loaded, of any recorder.
struct LoadedProgram {
  uint32_t id;
  uint64_t run_time_ns;     // while the kernel keeps statistics
  uint32_t verified_insns;  // that the verifier has followed
};
// Those whose name begins so.
std::vector<LoadedProgram> LoadedPrograms(std::string_view prefix);

// A row of a file: what stands in a column. Equal texts of a file are kept once, as a slow guest's
// recording has hundreds of thousands of rows.
class CsvRow {
 public:
  struct Shared {
    std::map<std::string, size_t, std::less<>> columns;
    std::unordered_set<std::string> texts;
  };
  CsvRow(std::shared_ptr<const Shared> shared, std::vector<const std::string*> fields)
      : shared_(std::move(shared)), fields_(std::move(fields)) {}

  // Throws std::out_of_range if there is no such column, or the row ends in front of it.
  const std::string& at(std::string_view column) const {
    const auto found = shared_->columns.find(column);
    if (found == shared_->columns.end()) throw std::out_of_range("no column " + std::string(column));
    return *fields_.at(found->second);
  }
  bool operator==(const CsvRow& other) const {
    return shared_->columns == other.shared_->columns &&
           std::ranges::equal(fields_, other.fields_, [](auto* a, auto* b) { return *a == *b; });
  }

 private:
  std::shared_ptr<const Shared> shared_;
  std::vector<const std::string*> fields_;
};

// The slots of a recording, or slots.csv. Of comments that are there several times the last one.
struct CsvFile {
  std::map<std::string, std::string> comments;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};
CsvFile ReadCsv(const std::string& path);
// A field that may be empty: 0.
inline uint64_t Number(const std::string& text) { return text.empty() ? 0 : std::stoull(text); }
// Fails the test unless the cpu_ns of each slot add up, and every row has every column.
void CheckIdentity(const CsvFile& csv);

std::string SlotscopeBinary();
// A folder of this test run's own, removed at exit.
std::string TempDir();
// A folder in it, empty however often the test is repeated.
std::string MakeDir(const std::string& name);
// All of a file.
std::string Text(const std::string& path);

// Tests run in a guest, whose CPUs are slow.
bool IsEmulated();
// In a guest: unloads the module, calls `between`, and loads it again: its probes are then behind those
// that `between` has attached. Without the module, and outside of a guest, it only calls.
void ReloadModule(const std::function<void()>& between);

// Until no probes of an earlier recording are still being taken off: the next one has to wait for that.
void WaitForDetachers();

// What hypervisors have taken of all CPUs so far, in ns; /proc/stat counts it per CPU in ticks of 10 ms.
uint64_t StealNs();
// What of it the scheduler has left out of what tasks ran, to the ns; StealNs() where it does not say.
uint64_t StolenNs();

// slotscope record -- live_tests --workload ARGS
struct Recorded {
  CsvFile csv;
  WorkloadResult truth;
  uint64_t stolen_ns = 0;  // meanwhile: by as much the kernel's accounting may say less
};
// when_recording: called when the recorder's programs are attached; the workload begins when it is back.
Recorded RecordWorkload(const std::vector<std::string>& args,
                        const std::vector<std::string>& options = {},
                        const std::function<void()>& when_recording = {});

}  // namespace slotscope
