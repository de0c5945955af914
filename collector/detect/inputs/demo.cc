// SPDX-License-Identifier: MIT
#include "detect/inputs/demo.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "detect/inputs/fr_dump.h"
#include "detect/inputs/kernel_log.h"

namespace slotscope {
namespace {

// 2026-03-03T16:08:08.5Z: three ranks call an operation, and the fourth one does not.
constexpr int64_t kCalledNs = 1'772'554'088'500'000'000;

std::string DumpOf(int32_t rank) {
  std::string entries;
  // The last two operations; the first of them is done.
  for (int sequence : {6, 7}) {
    if (rank == 2 && sequence == 7) continue;
    const int64_t created_ns = kCalledNs + rank * 1'340'000 - (sequence == 6 ? 412'000'000 : 0);
    const bool done = sequence == 6;
    entries += fmt::format(
        R"({}{{"record_id":{},"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":{},)"
        R"("p2p_seq_id":0,"op_id":{},"profiling_name":"nccl:all_reduce","time_created_ns":{},)"
        R"("state":"{}","time_discovered_started_ns":{},"time_discovered_completed_ns":{},)"
        R"("retired":{},"timeout_ms":600000,"is_p2p":false}})",
        entries.empty() ? "" : ",", sequence, sequence, sequence, created_ns,
        done ? "completed" : "started", created_ns + 90'000, done ? created_ns + 2'000'000 : 0, done);
  }
  return fmt::format(
      R"({{"version":"2.9","pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1, 2, 3]"}}}},)"
      R"("entries":[{}]}})",
      entries);
}

constexpr std::string_view kKernelLog[] = {
    "2026-03-03T16:20:11,548768+00:00 gpu-node-7 kernel: NVRM: GPU at PCI:0000:91:00: GPU-demo",
    "2026-03-03T16:20:11,548779+00:00 gpu-node-7 kernel: NVRM: Xid (PCI:0000:91:00): 79, "
    "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "2026-03-03T16:20:11,548783+00:00 gpu-node-7 kernel: NVRM: GPU 0000:91:00.0: GPU has fallen off the "
    "bus.",
};

std::string Eviction(int number, const char* pod, const char* node, const char* reason,
                     const char* message, const char* time) {
  return fmt::format(
      R"({{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{1}.{0}","namespace":"train",)"
      R"("uid":"0e1d2c3b-0000-4000-8000-00000000000{0}"}},"involvedObject":{{"kind":"Pod",)"
      R"("namespace":"train","name":"{1}","uid":"aaaaaaaa-0000-4000-8000-00000000000{0}"}},)"
      R"("reason":"{3}","message":"{4}","source":{{"component":"kubelet","host":"{2}"}},)"
      R"("firstTimestamp":"{5}","lastTimestamp":"{5}","count":1,"type":"Warning","eventTime":null}})"
      "\n",
      number, pod, node, reason, message, time);
}

std::string Cluster() {
  std::string text;
  for (int i = 1; i <= 3; i++)
    text += Eviction(i, fmt::format("trainer-{}", i).c_str(), "gpu-node-7", "TaintManagerEviction",
                     fmt::format("Marking for deletion Pod train/trainer-{}", i).c_str(),
                     "2026-03-03T16:20:21Z");
  text +=
      R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"gpu-node-8","uid":"bbbbbbbb-0000-4000-8000-000000000008"},)"
      R"("status":{"conditions":[{"type":"DiskPressure","status":"True","lastTransitionTime":"2026-03-03T16:31:02Z",)"
      R"("reason":"KubeletHasDiskPressure","message":"kubelet has disk pressure"}]}})"
      "\n";
  text += Eviction(4, "logger-0", "gpu-node-8", "Evicted",
                   "The node was low on resource: ephemeral-storage. Threshold quantity: 30Gi, "
                   "available: 24094024Ki. ",
                   "2026-03-03T16:31:09Z");
  return text;
}

}  // namespace

Status MakeDemo(DetectInputs* inputs) {
  for (int32_t rank = 0; rank < 4; rank++) {
    FrDump dump;
    if (Status status = ParseFrDump(DumpOf(rank), &dump); !status.ok()) return status;
    inputs->records.nccl.Add(rank, dump);
  }
  KernelLogReader log(LogTimeOptions{}, "gpu-node-7");
  for (std::string_view line : kKernelLog)
    if (auto xid = log.OnLine(line)) inputs->records.xids.push_back(std::move(*xid));
  KubernetesReader kubernetes;
  std::string problem;
  if (Status status = ReadKubernetes(Cluster(), &kubernetes, &problem); !status.ok()) return status;
  inputs->records.cluster = kubernetes.Records();
  inputs->notes.emplace_back("none of this is real: made-up inputs");
  return {};
}

}  // namespace slotscope
