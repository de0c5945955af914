// SPDX-License-Identifier: MIT
#include "detect/patterns/xid_correlation.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "base/scan.h"
#include "detect/inputs/xid.h"

namespace slotscope {
namespace {

// A GPU that fails may say so many times.
constexpr size_t kMaxBefore = 7;
// Of Xids in the window, most of which are of other nodes whose names begin alike.
constexpr size_t kMaxLookedAt = 10'000;

// IsSameNode holds only for nodes that have this in common.
std::string ShortName(std::string_view node) { return Lower(node.substr(0, node.find('.'))); }

std::string Distance(const XidRecord& xid, const PodEviction& eviction) {
  if (!SurelyPrecedes(xid.when, eviction.when)) return "in the same second as";
  const double seconds =
      static_cast<double>(eviction.when.begin_ns - xid.when.begin_ns) / 1'000'000'000.0;
  return fmt::format("{:.0f} s after", seconds);
}

}  // namespace

std::vector<XidCorrelation> FindXidCorrelations(const std::vector<XidRecord>& xids,
                                                const std::vector<PodEviction>& evictions,
                                                int64_t window_ns) {
  // In their order; of the same time as they were given.
  std::map<std::string, std::vector<const XidRecord*>> of_node;
  for (const XidRecord& xid : xids) of_node[ShortName(xid.node)].push_back(&xid);
  for (auto& [node, list] : of_node)
    std::stable_sort(list.begin(), list.end(), [](const XidRecord* a, const XidRecord* b) {
      return a->when.begin_ns < b->when.begin_ns;
    });
  std::vector<XidCorrelation> found;
  for (PodEviction& eviction : DistinctEvictions(evictions)) {
    const auto at = of_node.find(ShortName(eviction.node));
    if (at == of_node.end()) continue;
    const auto& list = at->second;
    // Those after this one are later than the eviction, for certain.
    auto end = std::upper_bound(
        list.begin(), list.end(), eviction.when.last_ns(),
        [](int64_t last_ns, const XidRecord* xid) { return last_ns < xid->when.begin_ns; });
    std::vector<const XidRecord*> joined;
    for (size_t i = 0; i < kMaxLookedAt && end != list.begin() && joined.size() <= kMaxBefore; i++) {
      const XidRecord& xid = **--end;
      // Resolutions differ, so an earlier one may yet reach into the window; by no more than that.
      constexpr int64_t kCoarsest = 2'000'000'000;
      if (eviction.when.begin_ns - xid.when.begin_ns > window_ns + kCoarsest) break;
      if (LeastBetween(xid.when, eviction.when) <= window_ns && IsSameNode(xid.node, eviction.node))
        joined.push_back(&xid);
    }
    if (joined.empty()) continue;
    XidCorrelation& one = found.emplace_back();
    one.eviction = std::move(eviction);
    one.xid = *joined.front();
    for (size_t i = joined.size() - 1; i >= 1; i--) one.before.push_back(*joined[i]);
  }
  return found;
}

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

std::string XidCorrelation::Headline() const {
  return fmt::format("pod {} evicted from {} {} Xid {}{}", EscapeControls(eviction.pod),
                     EscapeControls(eviction.node), Distance(xid, eviction), xid.code,
                     xid.bus.empty() ? "" : fmt::format(" of GPU {}", EscapeControls(xid.bus)));
}

std::string XidCorrelation::Remediation() const {
  return fmt::format("drain {} and {}; see that {} runs again elsewhere", EscapeControls(eviction.node),
                     XidRemedy(xid.code), EscapeControls(eviction.pod));
}

std::vector<Evidence> XidCorrelation::Trail() const {
  std::vector<Evidence> trail;
  for (const XidRecord& one : before)
    trail.push_back({"kernel_event", one.uid, one.when, DescribeXid(one)});
  trail.push_back({"kernel_event", xid.uid, xid.when, DescribeXid(xid)});
  trail.push_back(EvidenceOf(eviction));
  return trail;
}

void XidCorrelation::PutFields(nlohmann::ordered_json* verdict) const {
  (*verdict)["xid_code"] = xid.code;
  (*verdict)["node"] = EscapeControls(eviction.node);
  (*verdict)["evicted_pod"] = EscapeControls(eviction.pod);
}

}  // namespace slotscope
