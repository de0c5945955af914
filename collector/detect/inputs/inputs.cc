// SPDX-License-Identifier: MIT
#include "detect/inputs/inputs.h"

#include <fmt/core.h>

#include <functional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/escape.h"
#include "base/text_input.h"
#include "detect/inputs/fr_folder.h"
#include "detect/inputs/json_texts.h"
#include "detect/inputs/otlp_logs.h"

namespace slotscope {
namespace {

constexpr size_t kMaxObject = 256u << 20;

// Calls for each object of a text; counts those that were none. Exit::kBadInput if all were.
Status ForEachObject(std::string_view text, const std::function<Status(std::string_view)>& on_object,
                     std::string* problem) {
  // Most files are one object, and only the whole of it says where it is broken.
  Status first = on_object(text);
  if (first.ok()) return {};
  JsonTexts texts(kMaxObject);
  size_t nr_good = 0, nr_bad = 0;
  std::string why;
  texts.Feed(text, [&](std::string_view one) {
    const Status status = on_object(one);
    nr_good += status.ok();
    nr_bad += !status.ok();
    if (!status.ok() && why.empty()) why = status.message();
  });
  nr_bad += texts.nr_malformed() + texts.has_rest();
  if (nr_good == 0) return first;
  if (nr_bad > 0)
    *problem = fmt::format("{} of {} objects cannot be read{}{}", nr_bad, nr_good + nr_bad,
                           why.empty() ? ": they are cut off, or no objects" : ": ", why);
  return {};
}

// The usual reason for which nothing joins.
void NoteNodes(DetectInputs* inputs) {
  std::set<std::string> of_log, of_events;
  for (const XidRecord& xid : inputs->records.xids) of_log.insert(xid.node);
  for (const PodEviction& eviction : inputs->records.cluster.evictions)
    if (!eviction.node.empty()) of_events.insert(eviction.node);
  if (of_log.empty() || of_events.empty()) return;
  for (const std::string& one : of_log)
    for (const std::string& other : of_events)
      if (IsSameNode(one, other)) return;
  inputs->notes.push_back(
      fmt::format("no Xid is of a node that pods were evicted from: {} in the log, {} in the events "
                  "(--node-id NAME)",
                  EscapeControls(*of_log.begin()) + (of_log.size() > 1 ? ", ..." : ""),
                  EscapeControls(*of_events.begin()) + (of_events.size() > 1 ? ", ..." : "")));
}

Status WithName(const std::string& name, const Status& status) {
  return {status.code(), fmt::format("{}: {}", EscapeControls(name), status.message())};
}

Status ReadKernelLog(const std::string& path, LogTimeOptions times, const std::string& node,
                     bool node_is_given, DetectInputs* inputs) {
  if (times.newest_ns == 0) times.newest_ns = ChangedNs(path);
  if (path == "/dev/kmsg" && !times.boot_ns) times.boot_ns = ReadClocks().unix_offset_ns;
  KernelLogReader reader(times, node);
  size_t nr_without_year = 0;
  Status status = ReadLines(path, [&](std::string_view line) {
    auto xid = reader.OnLine(line);
    if (!xid) return;
    nr_without_year += xid->clock == LogClock::kYear;
    auto& to = xid->clock == LogClock::kNone ? inputs->records.untimed_xids : inputs->records.xids;
    to.push_back(std::move(*xid));
  });
  if (!status.ok()) return status;
  const KernelLogStats& stats = reader.stats();
  if (stats.nr_lines > 0 && !stats.has_kernel_lines)
    return {Exit::kBadInput,
            fmt::format("{}: no line of it looks like one of a kernel log; give what journalctl -k or "
                        "dmesg prints",
                        EscapeControls(path))};
  const std::string name = EscapeControls(path);
  if (stats.nr_without_time)
    inputs->problems.push_back(fmt::format(
        "{}: Xids whose time cannot be placed: {}; give --boot-time (if it counts from the "
        "boot: uptime -s), --year (if it has none), or a log with times (journalctl -k -o json)",
        name, stats.nr_without_time));
  if (nr_without_year && !times.year)
    inputs->notes.push_back(
        fmt::format("{}: Xids without a year: {}; taken from the file's last change (--year YEAR)", name,
                    nr_without_year));
  if (stats.nr_malformed)
    inputs->problems.push_back(
        fmt::format("{}: lines that look like an Xid and cannot be read: {}", name, stats.nr_malformed));
  if (stats.nr_without_node && !node_is_given)
    inputs->notes.push_back(fmt::format(
        "{}: Xids that do not say of which node they are: {}; taken to be of {} (--node-id NAME)", name,
        stats.nr_without_node, node));
  return {};
}

}  // namespace

Status ReadKubernetes(std::string_view text, KubernetesReader* reader, std::string* problem) {
  return ForEachObject(
      text, [&](std::string_view one) { return reader->OnText(one); }, problem);
}

Status ReadDetectInputs(const DetectPaths& paths, LogTimeOptions times, const std::string& node,
                        bool node_is_given, DetectInputs* inputs) {
  if (!paths.fr_dir.empty()) {
    FrFolder folder;
    if (Status status = ReadFrFolder(paths.fr_dir, &folder); !status.ok()) return status;
    inputs->records.nccl = std::move(folder.records);
    for (std::string& problem : folder.problems) inputs->problems.push_back(std::move(problem));
    if (folder.nr_malformed)
      inputs->problems.push_back(fmt::format("{}: {} entries lack what all have, and are left out",
                                             EscapeControls(paths.fr_dir), folder.nr_malformed));
  }
  if (!paths.kmsg.empty())
    if (Status status = ReadKernelLog(paths.kmsg, times, node, node_is_given, inputs); !status.ok())
      return status;
  KubernetesReader kubernetes;
  if (!paths.k8s_events.empty()) {
    std::string text, problem;
    if (Status status = ReadInput(paths.k8s_events, &text); !status.ok()) return status;
    if (Status status = ReadKubernetes(text, &kubernetes, &problem); !status.ok())
      return {status.code(),
              fmt::format("{}: {}; give what kubectl get events,nodes,pods -A -o json prints",
                          EscapeControls(paths.k8s_events), status.message())};
    if (!problem.empty())
      inputs->problems.push_back(fmt::format("{}: {}", EscapeControls(paths.k8s_events), problem));
  }
  OtlpLogReader otlp(&kubernetes);
  if (!paths.otlp_logs.empty()) {
    std::string text, problem;
    if (Status status = ReadInput(paths.otlp_logs, &text); !status.ok()) return status;
    if (Status status = ForEachObject(
            text, [&](std::string_view one) { return otlp.OnText(one); }, &problem);
        !status.ok())
      return WithName(paths.otlp_logs, status);
    if (!problem.empty())
      inputs->problems.push_back(fmt::format("{}: {}", EscapeControls(paths.otlp_logs), problem));
    if (otlp.stats().nr_malformed)
      inputs->problems.push_back(fmt::format("{}: {} records lack what all of their kind have",
                                             EscapeControls(paths.otlp_logs),
                                             otlp.stats().nr_malformed));
    otlp.AddTo(&inputs->records.nccl);
    for (const XidRecord& xid : otlp.xids()) inputs->records.xids.push_back(xid);
  }
  inputs->records.cluster = kubernetes.Records();
  NoteNodes(inputs);
  if (kubernetes.stats().nr_malformed || kubernetes.stats().nr_forgotten)
    inputs->problems.push_back(
        fmt::format("{} objects of Kubernetes lack what all have, {} are more than can be kept",
                    kubernetes.stats().nr_malformed, kubernetes.stats().nr_forgotten));
  return {};
}

}  // namespace slotscope
