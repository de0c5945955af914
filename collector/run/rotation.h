// SPDX-License-Identifier: MIT
// Where the segments of a recording end and begin: what its sinks write goes to its tables, a frame a
// second or so, and a segment per minute of Unix time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/news.h"
#include "base/status.h"
#include "raw/facts.h"
#include "recording/folder.h"
#include "recording/table.h"
#include "run/counts.h"
#include "run/incidents.h"
#include "sinks/csv_sink.h"
#include "sinks/side_sink.h"
#include "sinks/writer.h"

namespace slotscope {

struct RotationOptions {
  uint64_t segment_ns = 60'000'000'000;
  uint64_t max_bytes = 0;  // of a segment; 0: no limit
  // The disk may be full for a while: the oldest segments go, and if there are none, what comes is
  // dropped and counted. If not, a write that fails ends the recording.
  bool goes_on = false;
};

class Rotation final : public SlotBorder {
 public:
  static constexpr uint64_t kFrameNs = 1'000'000'000;
  static constexpr int64_t kNsPerS = 1'000'000'000;

  // The folder is opened before Begin().
  Rotation(RecordingFolder* folder, const RotationOptions& options);

  // The tables, before the first slot. Each is the sink's file.
  Table* slots_file() { return &slots_.table; }
  Table* AddSide(const std::string& name, const std::string& extension,
                 Table::Contents contents = Table::Contents::kLines);
  void SetSinks(CsvSink* csv, std::vector<SideSink*> sides);  // in the order of AddSide()
  void SetIncidents(Incidents* incidents) { incidents_ = incidents; }
  // What the header says of all segments, and what is counted so far, from any thread; null: not known.
  void Begin(const Facts& facts, HeaderLines header, uint64_t slot_ns,
             std::function<RunCounts()> counts);

  Status Before(const Slot& slot) override;
  // After the last slot: the sink's last lines come into a segment, also if there was no slot.
  void BeforeLastLines();
  Status Finish();

  // Any thread.
  std::vector<std::string> TakeNews() { return news_.Take(); }

 private:
  template <typename Sink>
  struct Written {
    Table table;
    Sink* sink = nullptr;
    Written(const std::string& name, const std::string& extension, Table::Contents contents)
        : table(name, extension, contents) {}
  };
  // A process that is a rank, as a note says it.
  struct Rank {
    std::string note;
    uint64_t ended_ns = 0;  // when that was told; 0: it lives
  };
  static constexpr size_t kMaxRanks = 1024;
  // What has hung is noticed long after some of its processes have ended.
  static constexpr uint64_t kEndedRankNs = 3'600'000'000'000;

  bool IsBorder(const Slot& slot) const;
  void OnNote(const std::string& note, uint64_t now_ns);
  void BeginSegment(const FrameTimes& at);
  Status EndFrame();
  Status EndSegment();
  void EndSides();
  Status TryWrite();
  void OnGap(const Status& why);
  void CommitFiles();
  uint64_t bytes() const;
  std::string GapText() const;
  HeaderLines HeaderOf() const;

  RecordingFolder* folder_;
  RotationOptions options_;
  HeaderLines header_;
  int64_t unix_offset_ns_ = 0;  // when it began
  std::function<RunCounts()> counts_;
  Written<CsvSink> slots_;
  std::deque<Written<SideSink>> sides_;
  Segment segment_;  // its times grow
  bool open_ = false;
  bool full_ = false;  // it has max_bytes
  FrameTimes frame_;
  uint64_t nr_frame_slots_ = 0;
  uint64_t rows_before_ = 0;       // of the frame
  uint64_t bytes_before_ = 0;      // of the segment
  std::map<int32_t, Rank> ranks_;  // they hold in the next segment as well, by tgid
  bool has_gap_ = false;           // since something could be written
  uint64_t nr_gap_slots_ = 0;      // that were dropped in it
  FrameTimes gap_;
  std::string gap_reason_;
  Incidents* incidents_ = nullptr;
  News news_;
};

}  // namespace slotscope
