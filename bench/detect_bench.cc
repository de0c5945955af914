// SPDX-License-Identifier: MIT
// What the detectors take for inputs of the size of a large job. Compare ratios within one run; these
// machines are shared. `read_limit` reads every byte once.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "detect/inputs/fr_folder.h"
#include "detect/inputs/inputs.h"
#include "detect/inputs/kernel_log.h"
#include "detect/inputs/kubernetes.h"
#include "detect/patterns/detectors.h"
#include "detect/patterns/pod_evicted.h"
#include "tests/unit/pickle_writer.h"

namespace slotscope {
namespace {

constexpr int kRanks = 1024;
constexpr int kRecords = 2000;
constexpr int64_t kBeginNs = 1'700'000'000'000'000'000;

std::string Members() {
  std::string text = "[0";
  for (int rank = 1; rank < kRanks; rank++) text += fmt::format(", {}", rank);
  return text + "]";
}

// What a rank's recorder has after `nr` operations, of which the last one is in flight if `hangs`; with
// stacks of three frames each, as they are by default.
std::string Pickle(int nr, bool hangs) {
  PickleWriter to;
  to.Dict([&] {
    to.Text("version").Text("2.9").Text("pg_config").Dict([&] {
      to.Text("0").Dict([&] {
        to.Text("name").Text("0").Text("desc").Text("default_pg").Text("ranks").Text(Members());
      });
    });
    to.Text("entries").List([&] {
      for (int i = 0; i < nr; i++) {
        const bool done = !hangs || i + 1 < nr;
        const int64_t created_ns = kBeginNs + i * int64_t{1'000'000};
        to.Dict([&] {
          to.Text("frames").List([&] {
            for (int line = 0; line < 3; line++)
              to.Dict([&] {
                to.Text("name")
                    .Text("forward")
                    .Text("filename")
                    .Text("/opt/model.py")
                    .Text("line")
                    .Int(line);
              });
          });
          to.Text("record_id").Int(i).Text("pg_id").Int(0).Text("process_group").Pair("0", "default_pg");
          to.Text("collective_seq_id").Int(100'000 + i).Text("p2p_seq_id").Int(0).Text("op_id").Int(i);
          to.Text("profiling_name").Text("nccl:all_reduce").Text("time_created_ns").Int(created_ns);
          to.Text("input_sizes").List([&] { to.List([&] { to.Int(4096).Int(2048); }); });
          to.Text("input_dtypes").List([&] { to.Text("BFloat16"); });
          to.Text("state").Text(done ? "completed" : "started");
          to.Text("time_discovered_started_ns").Int(created_ns + 90'000);
          to.Text("time_discovered_completed_ns");
          done ? to.Int(created_ns + 2'000'000) : to.None();
          to.Text("retired").Bool(done).Text("timeout_ms").Int(600'000).Text("is_p2p").Bool(false);
        });
      }
    });
  });
  return to.Done();
}

// The same as JSON, without frames, as dump_json() gives it.
std::string JsonDump(int nr) {
  std::string entries;
  for (int i = 0; i < nr; i++)
    entries += fmt::format(
        R"({}{{"collective_seq_id":{},"input_dtypes":["BFloat16"],"input_sizes":[[4096,2048]],"is_p2p":false,)"
        R"("op_id":{},"p2p_seq_id":0,"pg_id":0,"process_group":["0","default_pg"],"profiling_name":)"
        R"("nccl:all_reduce","record_id":{},"retired":true,"state":"completed","time_created_ns":{},)"
        R"("time_discovered_completed_ns":{},"time_discovered_started_ns":{},"timeout_ms":600000}})",
        i ? "," : "", 100'000 + i, i, i, kBeginNs + i, kBeginNs + i + 2, kBeginNs + i + 1);
  return fmt::format(R"({{"entries":[{}],"pg_config":{{"0":{{"ranks":"{}"}}}},"version":"2.9"}})",
                     entries, Members());
}

void CountBytes(benchmark::State& state, size_t bytes, int records) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
  state.SetItemsProcessed(state.iterations() * records);
}

void ReadLimit(benchmark::State& state) {
  const std::string bytes = Pickle(kRecords, true);
  for (auto _ : state)
    benchmark::DoNotOptimize(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}));
  CountBytes(state, bytes.size(), kRecords);
}
BENCHMARK(ReadLimit)->Name("read_limit");

void ParseDump(benchmark::State& state, const std::string& bytes) {
  ValueTree tree;
  FrDump dump;
  for (auto _ : state) {
    if (!ParseFrDump(bytes, &tree, &dump).ok() || dump.entries.size() != kRecords)
      return state.SkipWithError("it is not read");
    CondenseFrDump(&dump);
  }
  CountBytes(state, bytes.size(), kRecords);
}
void ParsePickleDump(benchmark::State& state) { ParseDump(state, Pickle(kRecords, true)); }
void ParseJsonDump(benchmark::State& state) { ParseDump(state, JsonDump(kRecords)); }
BENCHMARK(ParsePickleDump)->Name("dump_pickle");
BENCHMARK(ParseJsonDump)->Name("dump_json");

// All files of a job: rank 7 does not come to the last operation.
void WholeJob(benchmark::State& state) {
  const std::string folder = fmt::format("/tmp/slotscope-detect-bench.{}", getpid());
  std::filesystem::create_directory(folder);
  const auto path = [&](int rank) { return fmt::format("{}/nccl_trace_rank_{}", folder, rank); };
  std::ofstream(path(0), std::ios::binary) << Pickle(kRecords, true);
  std::ofstream(path(7), std::ios::binary) << Pickle(kRecords - 1, false);
  for (int rank = 1; rank < kRanks; rank++)
    if (rank != 7) std::filesystem::create_hard_link(path(0), path(rank));
  for (auto _ : state) {
    FrFolder read;
    if (!ReadFrFolder(folder, &read).ok() || read.records.ranks().size() != kRanks)
      state.SkipWithError("it is not read");
    const auto hangs = FindNcclHangs(read.records, {});
    if (hangs.size() != 1 || hangs[0].suspects.size() != 1 || hangs[0].suspects[0].rank != 7)
      state.SkipWithError("the culprit is not found");
  }
  state.SetItemsProcessed(state.iterations() * kRanks * kRecords);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
  std::filesystem::remove_all(folder);
}
BENCHMARK(WholeJob)->Name("job_1024_ranks_2000_records")->Unit(benchmark::kMillisecond)->Iterations(1);

// Most lines of a kernel log are about other things.
void KernelLog(benchmark::State& state) {
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; i++)
    lines.push_back(fmt::format("2026-03-03T16:20:11.{:06}+0000 gpu-node-7 kernel: ", i) +
                    (i % 100 ? "usb 1-1: new device found"
                             : "NVRM: Xid (PCI:0000:91:00): 79, pid=4711, name=python3, GPU has fallen "
                               "off the bus."));
  size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size();
  for (auto _ : state) {
    KernelLogReader reader({}, "n");
    for (const std::string& line : lines) benchmark::DoNotOptimize(reader.OnLine(line));
    if (reader.stats().nr_xids != 10) return state.SkipWithError("they are not found");
  }
  CountBytes(state, bytes, 1000);
}
BENCHMARK(KernelLog)->Name("kernel_log_lines");

// A cluster's Events, of which each tenth is an eviction, and 1000 Xids on as many nodes.
void Cluster(benchmark::State& state) {
  constexpr int kEvents = 10'000;
  std::string text;
  std::vector<XidRecord> xids;
  for (int i = 0; i < kEvents; i++)
    text += fmt::format(
        R"({{"type":"ADDED","object":{{"kind":"Event","metadata":{{"uid":"e{0}"}},"involvedObject":{{"kind":"Pod",)"
        R"("namespace":"t","name":"p{0}"}},"reason":"{1}","message":"The node was low on resource: memory. ",)"
        R"("source":{{"host":"n{2}"}},"lastTimestamp":"2023-11-14T22:13:{3:02}Z"}}}})"
        "\n",
        i, i % 10 ? "Pulled" : "Evicted", i % 1000, i % 60);
  for (int node = 0; node < 1000; node++)
    xids.push_back({{kBeginNs, 1}, LogClock::kLine, fmt::format("n{}", node), "x", 79, "", {}, "", ""});
  for (auto _ : state) {
    KubernetesReader reader;
    std::string problem;
    DetectRecords records;
    if (!ReadKubernetes(text, &reader, &problem).ok()) return state.SkipWithError("it is not read");
    records.cluster = reader.Records();
    records.xids = xids;
    if (AllOf<PodEvicted>(Judge(records, {})).size() != kEvents / 10)
      return state.SkipWithError("they are not found");
  }
  CountBytes(state, text.size(), kEvents);
}
BENCHMARK(Cluster)->Name("kubernetes_events")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slotscope
