// SPDX-License-Identifier: MIT
// What a run leaves behind, live or replayed: slots.csv and the summary.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/part_file.h"
#include "base/status.h"
#include "raw/facts.h"
#include "raw/raw_file.h"
#include "run/options.h"
#include "run/summary.h"
#include "sinks/csv_sink.h"
#include "sinks/side_sink.h"
#include "sinks/top_table.h"
#include "sinks/writer.h"

namespace slotscope {

// Takes the name of a raw file; says so if an unfinished one had to be moved away.
Status OpenRaw(RawFileWriter* file, const std::string& path);

struct SideKind;

class Output {
 public:
  explicit Output(const OutputOptions& options) : options_(options) {}

  // Takes the file name; says so if an unfinished file had to be moved away.
  Status Open();
  // The writer for the pipeline, not started.
  Writer* MakeWriter(const Facts& facts, Writer::Queue queue);
  // The file's header; the writer starts.
  void Begin(const Facts& facts);
  // There is nothing worth keeping.
  void Discard() {
    file_.Discard();
    for (Side& side : sides_) side.file.Discard();
  }
  // What the writer has to say. After MakeWriter().
  std::vector<std::string> TakeNews() { return writer_->TakeNews(); }
  // After the writer's Stop(): the last lines, the summary on stdout. Each file is tried; all but the
  // first error are said here. Exit::kIdentity if the accounting is broken, Exit::kDataLost if --strict
  // says so.
  Status Finish(RunSummary* run);

 private:
  // A file beside slots.csv.
  struct Side {
    std::string path;
    const SideKind* kind;
    PartFile file;
    std::unique_ptr<SideSink> sink;
    Status status;  // after Finish()
  };

  Status CommitSides();

  const OutputOptions& options_;
  PartFile file_;
  std::deque<Side> sides_;  // those that are wanted
  TopTable table_;
  std::unique_ptr<CsvSink> csv_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace slotscope
