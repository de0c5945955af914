// SPDX-License-Identifier: MIT
// A recording's complete segments into the tables of a ClickHouse server, each row once.
//
// What waits is what is in the recording and not in the server's table `batches`: nothing is kept beside
// the two. A table's segment is a batch. Its blocks are put in one behind the other, and each only after
// a question whether it is there already: whoever was killed, or lost the answer, goes on where that
// was. A request of which nobody knows what became may be carried out later, and another shipper may
// send the same: what was entered is counted again later, and rows that are there twice are made one.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "recording/frame.h"
#include "recording/manifest.h"
#include "recording/reader.h"
#include "ship/block.h"
#include "ship/click_house.h"

namespace slotscope {

struct ShipOptions {
  // Of rows of milliseconds: all, or those of segments that the recording protects as incidents.
  // Seconds, and who processes are, are always shipped.
  bool only_incidents = false;
  uint64_t max_waiting_bytes = 0;  // on the disk; what is older is given up. 0: no limit
};

// Since it was opened. (What the server has entered without being able to say so is not counted.)
struct ShipStats {
  uint64_t nr_batches = 0;  // that were put in, or were in
  uint64_t nr_rows = 0;     // of them
  uint64_t sent_bytes = 0;
  uint64_t nr_there = 0;      // blocks that were there already
  uint64_t nr_given_up = 0;   // batches that waited for too long, see max_waiting_bytes
  uint64_t nr_removed = 0;    // batches that the recording removed while they waited
  uint64_t nr_damaged = 0;    // batches of which some rows could not be read
  uint64_t nr_missing = 0;    // batches whose file nobody but the manifest knows
  uint64_t nr_refused = 0;    // batches with a row that the server's table cannot have
  uint64_t nr_malformed = 0;  // lines that are no rows
};

// What is complete in the recording, and not shipped yet.
struct Backlog {
  size_t nr_batches = 0;
  uint64_t bytes = 0;          // on the disk
  int64_t oldest_unix_ns = 0;  // when the end of the first of them was recorded; 0: there is none
  bool is_known = false;       // the server has said what it has: else it may be less
};

class Shipper {
 public:
  using OnNews = std::function<void(const std::string&)>;
  using OnProgress = std::function<void(const ShipStats&, const Backlog&)>;

  // Which all outlive it. `on_news`: sentences for people. `on_progress`: once it is known
  // what waits, after each look and each batch.
  Shipper(std::string path, const ShipOptions& options, ClickHouse* server, OnNews on_news,
          OnProgress on_progress = {})
      : path_(std::move(path)),
        options_(options),
        server_(server),
        on_news_(std::move(on_news)),
        on_progress_(std::move(on_progress)) {}

  // Looks into the recording, and ships what waits. An answer of the server's that is not kYes: nothing
  // is lost, and this may be called again. *status: what cannot be read, or has no place there, waits;
  // the rest is shipped.
  Reply ShipAll(Status* status);

  const ShipStats& stats() const { return stats_; }
  // After ShipAll().
  const Backlog& backlog() const { return backlog_; }
  bool is_readable() const { return is_readable_; }  // the recording
  bool has_asked() const { return has_asked_; }      // the server, for anything
  // A file was not there: whoever looks again sees whether it was only given another name.
  bool wants_another_look() const { return !missing_.empty(); }
  // A segment that is being written.
  bool has_open_segment() const { return has_open_segment_; }

 private:
  // What a table of the server gets of a segment.
  struct Batch {
    uint64_t name = 0;
    std::string table, each, path;
    uint64_t bytes = 0;
    uint64_t disk_bytes = 0;  // the same, but 0 for all but one batch of a file
    bool is_of_milliseconds = false;
    bool is_json = false;
    // Of its segment, which the recording may have no more.
    std::string host, boot_id;
    uint64_t number = 0;
    FrameTimes times;
  };
  // The tables and days of which rows are there twice.
  using Days = std::vector<std::pair<std::string_view, uint32_t>>;  // 20261128
  enum class Done { kNo, kYes };

  Status OpenRecording();
  Reply Begin();
  void FindWaiting();
  void TellProgress(size_t nr_batches, const Batch* oldest);
  Reply EnterRemoved();
  Reply IsEntered(const Batch& batch, bool* is_entered);
  Reply GiveUp();
  Reply ShipWaiting(Status* status);
  Reply Ship(const Batch& batch, Status* status, Done* done);
  Reply ShipBlock(const ServerTable& table, const Batch& batch, const BlockMaker::Block& block);
  Reply CountRows(const std::string& table, const std::string& where, uint64_t* nr_distinct);
  Reply Settle();
  Reply FindTwice(int64_t since_s, Days* days);
  Reply FindTwiceIn(std::string_view table, const std::string& host, int64_t since_s, Days* days);
  void Doubt(const Batch& batch);
  Reply Enter(const Batch& batch, std::string_view state, uint64_t nr_rows);

  std::string path_;
  ShipOptions options_;
  ClickHouse* server_;
  OnNews on_news_;
  OnProgress on_progress_;
  ShipStats stats_;
  std::vector<ServerTable> tables_;    // empty: it is not known which the server has
  std::unordered_set<uint64_t> done_;  // batches of what the recording has
  RecordingReader reader_;
  Intervals protections_;
  bool is_held_ = false;                  // by a recorder
  std::vector<Batch> waiting_;            // in the order in which they are shipped
  std::vector<Batch> removed_;            // from the recording, and not entered yet
  std::unordered_set<uint64_t> missing_;  // batches whose file was not there when it was looked for
  std::unordered_set<uint64_t> absent_;   // and that were entered so: it may come back
  // What was entered is counted again some minutes later, twice: the oldest of it, Unix time in s, since
  // it was counted last, and before.
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::max();
  int64_t entered_since_s_ = kNothing, counted_since_s_ = kNothing, doubted_since_s_ = kNothing;
  uint64_t next_count_ns_ = 0;      // MonotonicNs()
  uint64_t doubtful_until_ns_ = 0;  // a request may be carried out until then
  std::vector<std::string> hosts_;  // in the recording
  Backlog backlog_;                 // of waiting_
  bool has_open_segment_ = false;
  bool is_readable_ = false, has_asked_ = false;  // by the last ShipAll()
  std::unordered_set<std::string> told_;          // sentences that are said once
};

// The name of a batch: of which host, boot, table and segment it is, and of how many bytes.
uint64_t BatchName(const Segment& segment, std::string_view table, uint64_t bytes);

}  // namespace slotscope
