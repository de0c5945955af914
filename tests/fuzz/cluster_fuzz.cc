// SPDX-License-Identifier: MIT
// Any bytes as objects of Kubernetes (first byte even) or as OpenTelemetry's logs (odd); and verdicts of
// what is found in them.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_line.h"
#include "detect/inputs/inputs.h"
#include "detect/inputs/otlp_logs.h"
#include "detect/patterns/detectors.h"
#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/verdict.h"
#include "detect/patterns/xid_correlation.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  KubernetesReader kubernetes;
  OtlpLogReader otlp(&kubernetes);
  DetectRecords records;
  std::string problem;
  const Status status = data[0] % 2 ? otlp.OnText(text) : ReadKubernetes(text, &kubernetes, &problem);
  Require(status.ok() == status.message().empty());
  otlp.AddTo(&records.nccl);
  records.xids = otlp.xids();
  records.cluster = kubernetes.Records();
  // An Xid for each eviction, so that something joins.
  for (const PodEviction& eviction : records.cluster.evictions)
    records.xids.push_back({eviction.when, LogClock::kZone, eviction.node, "xid", 79, "", {}, "", ""});
  JudgeOptions options;
  options.clock = NcclClock::kAsOf;
  options.as_of_ns = INT64_MAX / 2;
  const Findings findings = Judge(records, options);
  const size_t nr_evicted = AllOf<PodEvicted>(findings).size();
  Require(nr_evicted <= records.cluster.evictions.size());
  Require(AllOf<XidCorrelation>(findings).size() <= nr_evicted);
  for (const auto& finding : findings) {
    const auto verdict = VerdictJson(*finding);
    Require(!verdict["headline"].get<std::string>().empty());
    Require(!verdict["evidence_trail"].empty());
    for (char c : JsonLine(verdict) + VerdictOtlpLine(*finding, verdict))
      Require(c == '\n' || (c >= ' ' && c <= '~'));
  }
  kubernetes.Forget(1'748'419'550'000'000'000);
  Require(kubernetes.Records().evictions.size() <= records.cluster.evictions.size());
  return 0;
}
