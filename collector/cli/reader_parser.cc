// SPDX-License-Identifier: MIT
#include "cli/reader_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/say.h"
#include "base/scan.h"
#include "base/when.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

constexpr int64_t kAround = 50'000'000;

bool ParseGroupBy(const std::string& text, GroupBy* by) {
  constexpr std::array kNames = {"name", "pod", "unit", "cgroup"};
  const auto found = std::find(kNames.begin(), kNames.end(), text.empty() ? kNames[0] : text);
  if (found == kNames.end()) return false;
  *by = static_cast<GroupBy>(found - kNames.begin());
  return true;
}

// Some of those that there are, for a mistake.
std::string SomeOf(const std::set<std::string>& names) {
  constexpr size_t kMost = 5;
  std::string text;
  size_t nr = 0;
  for (const std::string& name : names) {
    if (nr++ == kMost) return text + " and others";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

template <typename NameIn>
std::string SomeOf(const ProcessPlaces& places, const NameIn& name_in) {
  std::set<std::string> names;
  for (const auto& [process, cgroup] : places.all())
    if (std::string name = name_in(*cgroup); !name.empty()) names.insert(std::move(name));
  return SomeOf(names);
}

std::string WhatThereIs(const GroupFilter& groups, const ProcessPlaces& places) {
  if (!groups.pods.empty())
    return "pods there: " + SomeOf(places, [](const Cgroup& cgroup) {
             return cgroup.pod.empty() ? cgroup.pod_uid : cgroup.pod;
           });
  if (!groups.units.empty())
    return "units there: " + SomeOf(places, [](const Cgroup& cgroup) { return cgroup.unit; });
  return "cgroups there: " + SomeOf(places, [](const Cgroup& cgroup) { return cgroup.path; });
}

// "--pod web, --unit cron.service".
std::string AskedFor(const GroupFilter& groups) {
  std::string text;
  const auto add = [&](const char* option, const std::vector<std::string>& names) {
    if (!names.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", option,
                          EscapeName(fmt::format("{}", fmt::join(names, ","))));
  };
  add("--cgroup", groups.cgroups);
  add("--pod", groups.pods);
  add("--unit", groups.units);
  return text;
}

// Names that hold it, or are held by it, in capitals or not.
std::set<std::string> NamesLike(const std::string& asked, const ProcessPlaces& places) {
  std::set<std::string> like;
  const auto holds = [](const std::string& all, const std::string& part) {
    return part.size() > 1 && Lower(all).find(Lower(part)) != std::string::npos;
  };
  for (const std::string& name : places.names())
    if (holds(name, asked) || holds(asked, name)) like.insert(name);
  return like;
}

void WarnOfNobody(const Selection& selection, const ProcessPlaces& places, const std::string& path) {
  const auto is_there = [&](int32_t pid) {
    return std::any_of(places.all().begin(), places.all().end(),
                       [pid](const auto& process) { return process.first.tgid == pid; });
  };
  for (const int32_t pid : selection.pids)
    if (!is_there(pid))
      Say(stderr,
          "slotscope: --pid {}: no process had this id in that time; slotscope explain {} --rows "
          "processes lists who was there\n",
          pid, path);
  for (const std::string& comm : selection.comms) {
    if (places.names().contains(comm) || places.names().contains(EscapeName(comm))) continue;
    const std::set<std::string> like = NamesLike(comm, places);
    Say(stderr, "slotscope: --comm {}: no process had this name in that time; {}\n", EscapeName(comm),
        like.empty() ? fmt::format("slotscope explain {} --rows processes lists who was there", path)
                     : "names like it: " + SomeOf(like));
  }
}

}  // namespace

po::options_description DescribeReader(ReaderTexts* texts, ReaderOptions* reader, bool has_json,
                                       const char* group_by) {
  po::options_description options("Which part of the recording");
  options.add_options()("at", Text(&reader->at, "TIME"),
                        "100 ms around it: \"2026-11-22 03:12:07.120\", 03:12:07, -5min (before the "
                        "recording's end), or @ "
                        "and Unix seconds")("since", Text(&reader->since, "TIME"), "from then on")(
      "until", Text(&reader->until, "TIME"), "to then");
  DescribeWhose(texts, reader, group_by, &options);
  if (has_json) options.add_options()("json", po::bool_switch(&reader->json), "for programs");
  return options;
}

void DescribeWhose(ReaderTexts* texts, ReaderOptions* reader, const char* group_by,
                   po::options_description* options) {
  options->add_options()("tz", Text(&reader->zone, "ZONE"),
                         "zone of the answer, and of times given without one: Europe/Berlin, UTC, "
                         "+02:00 (default: the recorded host's)")(
      "pid", Text(&texts->pid, "LIST"), "these processes")("comm", Text(&texts->comm, "LIST"),
                                                           "processes of these names");
  DescribeGroups(&texts->groups, options);
  if (group_by) options->add_options()("group-by", Text(&texts->group_by, "WHAT"), group_by);
}

Status ParseReader(const ReaderTexts& texts, ReaderOptions* reader) {
  if (Status status = ParsePids(texts.pid, &reader->selection.pids); !status.ok()) return status;
  // As they are printed, or as they are.
  for (const std::string& item : Split(texts.comm)) {
    reader->selection.comms.push_back(item);
    if (EscapeName(item) != item) reader->selection.comms.push_back(EscapeName(item));
  }
  if (!texts.comm.empty() && reader->selection.comms.empty())
    return Usage(fmt::format("--comm {}: there is no name in it", texts.comm));
  if (Status status = ParseGroups(texts.groups, &reader->selection.groups); !status.ok()) return status;
  if (!ParseGroupBy(texts.group_by, &reader->selection.group_by))
    return Usage(fmt::format("--group-by {}: give name, pod, unit or cgroup", texts.group_by));
  if (!reader->at.empty() && (!reader->since.empty() || !reader->until.empty()))
    return Usage("--at is 100 ms around a moment, --since and --until are a range: give one of both");
  return {};
}

Status OpenRecording(const ReaderOptions& reader, const std::string& table, RecordingTables* tables) {
  std::string path = reader.path;
  if (path.empty())
    if (Status status = FindRecording(&path); !status.ok()) return status;
  if (Status status = tables->Open(path, table); !status.ok()) return status;
  if (tables->LacksManifest())
    Say(stderr, "slotscope: {} has no {}: what is there is read, and nobody knows what is missing\n",
        EscapeName(path), kManifestName);
  if (!tables->Has(table))
    return Usage(fmt::format("{} has no table {}; it has slots, and mostly seconds and waits",
                             EscapeName(path), EscapeName(table)));
  if (tables->facts().last_ns == 0)
    return {Exit::kBadInput, fmt::format("{}: there is no row in it yet", EscapeName(path))};
  return {};
}

Status FindPlaces(const RecordingTables& tables, const UnixRange& range, Selection* selection,
                  ProcessPlaces* places, Status* damage) {
  const bool is_asked_for = selection->groups.any() || selection->group_by != GroupBy::kName;
  if (!tables.Has(kProcessesTable)) {
    if (!is_asked_for) return {};
    return Usage(
        fmt::format("{} has no table processes (an older recording, or a plain file): cgroups, pods and "
                    "units are not known",
                    EscapeName(tables.path())));
  }
  *damage = tables.ReadPlaces(range, places);
  WarnOfNobody(*selection, *places, EscapeName(tables.path()));
  for (const auto& [process, cgroup] : places->all())
    if (selection->groups.Matches(*cgroup)) selection->members.insert(process);
  if (selection->groups.any() && selection->members.empty())
    Say(stderr, "slotscope: {}: no process was in it in that time; {}\n", AskedFor(selection->groups),
        WhatThereIs(selection->groups, *places));
  return {};
}

Status FindRange(const ReaderOptions& reader, const RecordingFacts& facts, ReaderRange* range) {
  *range = {};
  range->range = {facts.first_ns, facts.last_ns};
  if (!reader.zone.empty()) {
    if (Status status = Zone::Find(reader.zone, &range->zone); !status.ok())
      return Usage(fmt::format("--tz: {}", status.message()));
  } else if (!facts.time_zone.empty()) {
    if (Status status = Zone::Find(facts.time_zone, &range->zone); !status.ok())
      Say(stderr, "slotscope: times are in UTC: {}\n", status.message());
  }
  const WhenContext context = {range->zone, facts.first_ns, facts.last_ns};
  int64_t at_ns;
  if (!reader.at.empty()) {
    if (Status status = ParseWhen(reader.at, context, &at_ns); !status.ok())
      return Usage(fmt::format("--at {}", status.message()));
    range->range = {at_ns - kAround, at_ns + kAround};
    range->has_at = true;
  }
  if (!reader.since.empty()) {
    if (Status status = ParseWhen(reader.since, context, &range->range.from_ns); !status.ok())
      return Usage(fmt::format("--since {}", status.message()));
  }
  if (!reader.until.empty()) {
    if (Status status = ParseWhen(reader.until, context, &range->range.to_ns); !status.ok())
      return Usage(fmt::format("--until {}", status.message()));
  }
  range->is_part = range->has_at || !reader.since.empty() || !reader.until.empty();
  if (range->range.from_ns >= facts.last_ns || range->range.to_ns <= facts.first_ns) {
    const bool is_late = range->range.from_ns >= facts.last_ns;
    std::string text = fmt::format(
        "the recording is from {} to {} {}, and has nothing {} {}", range->zone.Text(facts.first_ns),
        range->zone.Text(facts.last_ns), range->zone.name(), is_late ? "behind" : "before",
        range->zone.Text(is_late ? range->range.from_ns : range->range.to_ns));
    // What the ring has kept for longer: the finest that there is.
    for (const auto& coarser : facts.coarser)
      if (coarser.first_ns && range->range.to_ns > coarser.first_ns &&
          range->range.from_ns < facts.first_ns) {
        text += fmt::format("; but {}: slotscope explain --rows {} shows them", coarser.table,
                            coarser.table);
        break;
      }
    return Usage(text);
  }
  if (range->range.from_ns == range->range.to_ns)
    return Usage("--since and --until are the same moment: --at TIME tells of the 100 ms around one");
  if (range->range.from_ns > range->range.to_ns)
    return Usage("the range that is asked for ends before it begins: see --since and --until");
  return {};
}

}  // namespace slotscope
