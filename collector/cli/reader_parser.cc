// SPDX-License-Identifier: MIT
#include "cli/reader_parser.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/escape.h"
#include "base/say.h"
#include "base/when.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

constexpr int64_t kAround = 50'000'000;

}  // namespace

po::options_description DescribeReader(ReaderTexts* texts, ReaderOptions* reader) {
  po::options_description options("Which part of the recording");
  options.add_options()("at", Text(&reader->at, "TIME"),
                        "100 ms around it: \"2026-11-22 03:12:07.120\", 03:12:07, -5min (before the "
                        "recording's end), or @ "
                        "and Unix seconds")("since", Text(&reader->since, "TIME"), "from then on")(
      "until", Text(&reader->until, "TIME"), "to then")(
      "tz", Text(&reader->zone, "ZONE"),
      "of times that do not say theirs, and of the answer: Europe/Berlin, UTC, +02:00 (default: the "
      "recorded host's)")("pid", Text(&texts->pid, "LIST"), "these processes")(
      "comm", Text(&texts->comm, "LIST"), "processes of these names")(
      "json", po::bool_switch(&reader->json), "for programs");
  return options;
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
  if (!reader->at.empty() && (!reader->since.empty() || !reader->until.empty()))
    return Usage("--at is 100 ms around a moment, --since and --until are a range: give one of both");
  return {};
}

Status OpenRecording(const ReaderOptions& reader, const std::string& table, RecordingTables* tables) {
  std::string path = reader.path;
  if (path.empty())
    if (Status status = FindRecording(&path); !status.ok()) return status;
  if (Status status = tables->Open(path, table); !status.ok()) return status;
  if (!tables->Has(table))
    return Usage(fmt::format("{} has no table {}; it has slots, and mostly seconds and waits",
                             EscapeName(path), EscapeName(table)));
  if (tables->facts().last_ns == 0)
    return {Exit::kBadInput, fmt::format("{}: there is no row in it yet", EscapeName(path))};
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
    return Usage(fmt::format("the recording is from {} to {} {}, and has nothing {} {}",
                             range->zone.Text(facts.first_ns), range->zone.Text(facts.last_ns),
                             range->zone.name(), is_late ? "from" : "until",
                             range->zone.Text(is_late ? range->range.from_ns : range->range.to_ns)));
  }
  if (range->range.from_ns >= range->range.to_ns)
    return Usage("the range that is asked for ends before it begins: see --since and --until");
  return {};
}

}  // namespace slotscope
