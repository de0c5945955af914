// SPDX-License-Identifier: MIT
// What a run leaves behind, live or replayed: a recording, or slots.csv, and the summary.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/part_file.h"
#include "base/status.h"
#include "base/stream_file.h"
#include "detect/live/live_detectors.h"
#include "raw/facts.h"
#include "raw/raw_file.h"
#include "recording/folder.h"
#include "run/incidents.h"
#include "run/options.h"
#include "run/raw_table.h"
#include "run/rotation.h"
#include "run/summary.h"
#include "sinks/csv_sink.h"
#include "sinks/lines_sink.h"
#include "sinks/period_sink.h"
#include "sinks/side_sink.h"
#include "sinks/top_table.h"
#include "sinks/writer.h"

namespace slotscope {

// Takes the name of a raw file; says so if an unfinished one had to be moved away.
Status OpenRaw(RawFileWriter* file, const std::string& path);

struct SideKind;

class Output final : public VerdictListener {
 public:
  explicit Output(const OutputOptions& options) : options_(options) {}

  // Takes the file name; says so if an unfinished file had to be moved away. Of a folder: looks whether
  // it can be made.
  Status Open();
  // The writer for the pipeline, not started.
  Writer* MakeWriter(const Facts& facts, Writer::Queue queue);
  // Makes the folder, if it is one.
  Status MakeFolder();
  // It is not discarded any more; says which recording it has moved, if one. Until then Discard() moves
  // that back.
  void Stay();
  // Then, if the raw stream is a table of it: where that goes, from a recording that begins at begin_ns.
  // It is not used any more when Finish() is called. Null: it is none.
  Status OpenRawTable(const Facts& facts, uint64_t begin_ns, RawSink** sink);
  // The header; the writer starts. `counts`: what is counted so far, from any thread; null: not known.
  void Begin(const Facts& facts, std::function<RunCounts()> counts = nullptr);
  // Any thread: adds what is counted here; but for rows and slots, which the writer's thread knows.
  void AddTo(RunCounts* counts) const {
    if (raw_table_) counts->nr_unwritten_blocks = raw_table_->nr_dropped();
    if (incidents_) {
      counts->nr_incidents = incidents_->nr_captured();
      counts->nr_uncaptured_incidents = incidents_->nr_not_captured();
    }
  }
  // Any thread: something that is to be kept beyond the ring's limits, and a verdict, a line of JSON.
  void Report(const std::string& event, const std::string& what);
  void OnVerdict(const std::string& line) override;
  // The same as Report(), if it is one of the triggers.
  void OnEvent(const std::string& event, const std::string& what) override;
  // There is nothing worth keeping. Nothing is written any more.
  void Discard();
  // What the writer has to say. After MakeWriter().
  std::vector<std::string> TakeNews();
  // After the writer's Stop(): the last lines, the summary on stdout. Each file is tried; all but the
  // first error are said here. Exit::kIdentity if the accounting is broken, Exit::kDataLost if --strict
  // says so.
  Status Finish(RunSummary* run);

 private:
  // A file beside slots.csv.
  struct Side {
    std::string path;
    const SideKind* kind;
    PartFile file;  // not of a table
    std::unique_ptr<SideSink> sink;
    Status status;  // after Finish()
  };

  OutFile* file();
  Status CommitFile(const HeaderLines& last_lines);
  Status CommitSides();
  std::string WhatWasWritten() const;
  void SaySummary(const RunSummary& run) const;

  const OutputOptions& options_;
  const OutputKind kind_ = KindOf(options_.path);
  PartFile file_;
  StreamFile stream_;
  RecordingFolder folder_;
  std::unique_ptr<Rotation> rotation_;
  std::unique_ptr<RawTable> raw_table_;
  std::unique_ptr<PeriodSink> seconds_, minutes_;
  std::unique_ptr<LinesSink> events_, verdicts_;
  std::unique_ptr<Incidents> incidents_;
  std::deque<Side> sides_;   // files that are wanted
  std::deque<Side> tables_;  // of the folder, beside the rows
  RunTables table_;
  std::string not_measured_;  // columns, with blanks between them
  bool has_selection_ = false;
  std::unique_ptr<CsvSink> csv_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace slotscope
