// SPDX-License-Identifier: MIT
// Log records of OpenTelemetry, as its collector's file exporter writes them: a JSON object per export.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "detect/inputs/fr_dump.h"
#include "detect/inputs/kernel_log.h"
#include "detect/inputs/kubernetes.h"
#include "detect/inputs/nccl_records.h"

namespace slotscope {

struct OtlpStats {
  uint64_t nr_records = 0;
  uint64_t nr_other = 0;      // of nothing that a detector knows
  uint64_t nr_malformed = 0;  // lack what all of their kind have
};

// Takes from them what detectors need: records of flight recorders (gen_ai.training.rank and nccl.fr.*),
// Xids (kernelevents.xid), and Kubernetes' objects and events.
class OtlpLogReader {
 public:
  // Objects go to *kubernetes, which outlives this.
  explicit OtlpLogReader(KubernetesReader* kubernetes) : kubernetes_(*kubernetes) {}

  // One export. Exit::kBadInput if it is none.
  Status OnText(std::string_view json);

  const std::vector<XidRecord>& xids() const { return xids_; }
  // By rank, to be added to what else is known of a job.
  void AddTo(NcclRecords* records) const;
  bool has_ranks() const { return !ranks_.empty(); }

  const OtlpStats& stats() const { return stats_; }

 private:
  using Value = std::variant<std::string, int64_t, double, bool>;
  using Attributes = std::map<std::string, Value, std::less<>>;
  class Record;
  struct RankLog {
    FrDump dump;
    std::map<std::pair<std::string, std::string>, uint32_t> groups;  // by name and description
    std::map<std::string, uint32_t> operations;
  };

  static Attributes ReadAttributes(const ValueTree& tree, ValueTree::Index owner);
  void OnRecord(const Record& record);
  bool OnFlightRecord(const Record& record, int64_t rank);
  bool OnXid(const Record& record, int64_t code);

  KubernetesReader& kubernetes_;
  std::vector<XidRecord> xids_;
  std::map<int32_t, RankLog> ranks_;
  OtlpStats stats_;
};

}  // namespace slotscope
