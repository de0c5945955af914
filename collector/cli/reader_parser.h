// SPDX-License-Identifier: MIT
// The options of every verb that reads a recording: which, which part of it, and whose.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "base/zone.h"
#include "cli/group_parser.h"
#include "explain/history_reader.h"
#include "explain/stall.h"

namespace slotscope {

// As they were given: what a time means is known when the recording is.
struct ReaderOptions {
  std::string path;  // empty: the newest here, else the service's
  std::string at, since, until, zone;
  Selection selection;
  bool json = false;
};

struct ReaderTexts {
  std::string pid, comm, group_by;
  GroupTexts groups;
};

// Which part of a recording was asked for.
struct ReaderRange {
  UnixRange range;       // all of it if none was
  bool has_at = false;   // 100 ms around a stall
  bool is_part = false;  // any of the options
  Zone zone;             // in which times are told
};

// has_json: what it says can be had for programs. group_by: what that option does; null: there is none.
inline constexpr const char* kSpeakBy = "speak of processes by name (default), pod, unit or cgroup";
boost::program_options::options_description DescribeReader(ReaderTexts* texts, ReaderOptions* reader,
                                                           bool has_json = true,
                                                           const char* group_by = kSpeakBy);
// The same without a time: whose rows, and how they are told.
void DescribeWhose(ReaderTexts* texts, ReaderOptions* reader, const char* group_by,
                   boost::program_options::options_description* options);
Status ParseReader(const ReaderTexts& texts, ReaderOptions* reader);

// Opens what is to be read, for one table of it. Exit::kUsage, Exit::kBadInput.
Status OpenRecording(const ReaderOptions& reader, const std::string& table, RecordingTables* tables);
// Who is in the groups that are selected; *places of all. Says on stderr if that is nobody. Nothing is
// read where nobody asks for it and the recording has no such table. Exit::kUsage: it is needed.
// *damage: Exit::kBadInput if some of it cannot be read.
Status FindPlaces(const RecordingTables& tables, const UnixRange& range, Selection* selection,
                  ProcessPlaces* places, Status* damage);
// Of a recording that is open. Exit::kUsage with what is wrong, or with when the recording was.
Status FindRange(const ReaderOptions& reader, const RecordingFacts& facts, ReaderRange* range);

}  // namespace slotscope
