// SPDX-License-Identifier: MIT
// What happens while a ring is written, and is to be looked at later: the minute before it and half a
// minute behind it are kept beyond the ring's limits.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/news.h"
#include "recording/folder.h"
#include "sinks/lines_sink.h"
#include "slots/slot.h"

namespace slotscope {

// Which of them count; a signal always does.
struct TriggerOptions {
  bool straggle = false;
  bool xid = false;
  bool nccl_hang = false;
  uint64_t wait_ns =
      0;  // the longest wait of a process that ended in a slot (LongestWait); 0: no trigger

  bool any() const { return straggle || xid || nccl_hang || wait_ns != 0; }
};

class Incidents {
 public:
  static constexpr int64_t kBeforeNs = 60'000'000'000;
  static constexpr int64_t kBehindNs = 30'000'000'000;
  static constexpr size_t kMaxPerHour = 6;
  static constexpr const char* kColumns = "slot_start_ns,slot_start_unix_ns,event,not_captured,what\n";

  // `events`: the table that gets a row for each that is kept, and for the first of another kind within
  // what is kept.
  Incidents(const TriggerOptions& options, RecordingFolder* folder, LinesSink* events)
      : options_(options), folder_(folder), events_(events) {}

  // Any thread. It counts as of the slot that is written next.
  void Report(const std::string& event, const std::string& what);
  // Writer thread: looks for those that slots show.
  void OnSlot(const Slot& slot);

  std::vector<std::string> TakeNews() { return news_.Take(); }
  // Any thread. Those that were too many, or within what is kept already, and have no row.
  uint64_t nr_captured() const { return nr_captured_.load(std::memory_order_relaxed); }
  uint64_t nr_not_captured() const { return nr_not_captured_.load(std::memory_order_relaxed); }

 private:
  void Capture(const Slot& slot, const std::string& event, const std::string& what);

  TriggerOptions options_;
  RecordingFolder* folder_;
  LinesSink* events_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> reported_;
  std::atomic<bool> any_{false};
  std::atomic<uint64_t> nr_captured_{0};
  std::atomic<uint64_t> nr_not_captured_{0};
  // Writer thread.
  std::deque<int64_t> captured_;  // when, of the last hour
  bool knows_captured_ = false;   // those of recorders before this one are among them
  std::set<std::string> told_;    // kinds, since the last of them
  uint64_t nr_since_ = 0;         // the last row: that have none
  News news_;
};

}  // namespace slotscope
