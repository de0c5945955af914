// SPDX-License-Identifier: MIT
// The options of every verb that reads a recording: which, which part of it, and whose.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "base/zone.h"
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
  std::string pid, comm;
};

// Which part of a recording was asked for.
struct ReaderRange {
  UnixRange range;       // all of it if none was
  bool has_at = false;   // 100 ms around a stall
  bool is_part = false;  // any of the options
  Zone zone;             // in which times are told
};

boost::program_options::options_description DescribeReader(ReaderTexts* texts, ReaderOptions* reader);
Status ParseReader(const ReaderTexts& texts, ReaderOptions* reader);

// Opens what is to be read, for one table of it. Exit::kUsage, Exit::kBadInput.
Status OpenRecording(const ReaderOptions& reader, const std::string& table, RecordingTables* tables);
// Of a recording that is open. Exit::kUsage with what is wrong, or with when the recording was.
Status FindRange(const ReaderOptions& reader, const RecordingFacts& facts, ReaderRange* range);

}  // namespace slotscope
