// SPDX-License-Identifier: MIT
#include "detect/patterns/xid_correlation_verdict.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/escape.h"
#include "detect/inputs/xid.h"

namespace slotscope {
namespace {

std::string Distance(const XidRecord& xid, const PodEviction& eviction) {
  if (!SurelyPrecedes(xid.when, eviction.when)) return "in the same second as";
  const double seconds =
      static_cast<double>(eviction.when.begin_ns - xid.when.begin_ns) / 1'000'000'000.0;
  return fmt::format("{:.0f} s after", seconds);
}

}  // namespace

std::string DescribeXid(const XidRecord& xid) {
  std::string text = fmt::format("Xid {}", xid.code);
  if (!xid.bus.empty()) text += fmt::format(" on GPU {}", EscapeControls(xid.bus));
  if (xid.pid) text += fmt::format(", process {}", *xid.pid);
  if (!xid.process.empty()) text += fmt::format(" ({})", EscapeControls(xid.process));
  if (!xid.message.empty()) text += ": " + EscapeControls(xid.message);
  if (xid.clock != LogClock::kLine && xid.clock != LogClock::kNone)
    text += fmt::format(" [time: {}]", LogClockText(xid.clock));
  return text;
}

Verdict XidCorrelationVerdict(const XidCorrelation& correlation) {
  const PodEviction& eviction = correlation.eviction;
  const XidRecord& xid = correlation.xid;
  const std::string pod = EscapeControls(eviction.pod), node = EscapeControls(eviction.node);
  nlohmann::ordered_json trail = nlohmann::ordered_json::array();
  for (const XidRecord& before : correlation.before)
    trail.push_back(Evidence("kernel_event", before.uid, before.when, DescribeXid(before)));
  trail.push_back(Evidence("kernel_event", xid.uid, xid.when, DescribeXid(xid)));
  trail.push_back(Evidence("pod_event", eviction.uid, eviction.when,
                           fmt::format("{} of {}: {}", EscapeControls(eviction.reason), pod,
                                       EscapeControls(eviction.message))));
  Verdict verdict;
  verdict.time_ns = eviction.when.begin_ns;
  verdict.key = "16 " + eviction.uid;
  if (!eviction.pod_uid.empty()) verdict.alias = "16 pod " + eviction.pod_uid;
  verdict.json = {
      {"pattern.id", "16"},
      {"headline",
       fmt::format("pod {} evicted from {} {} Xid {}{}", pod, node, Distance(xid, eviction), xid.code,
                   xid.bus.empty() ? "" : fmt::format(" of GPU {}", EscapeControls(xid.bus)))},
      {"remediation",
       fmt::format("drain {} and {}; see that {} runs again elsewhere", node, XidRemedy(xid.code), pod)},
      {"xid_code", xid.code},
      {"node", node},
      {"evicted_pod", pod},
      {"evidence_trail", std::move(trail)}};
  return verdict;
}

}  // namespace slotscope
