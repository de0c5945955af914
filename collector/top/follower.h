// SPDX-License-Identifier: MIT
// A recording that is read while it is written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "explain/history_reader.h"
#include "top/board.h"
#include "top/second.h"

namespace slotscope {

class Follower {
 public:
  // A folder, or a file that is complete.
  explicit Follower(std::string path) : path_(std::move(path)) {}

  // Reads what has come since; *is_new: something has. Exit::kBadInput: it is none, or damaged; what
  // could be read was.
  Status Poll(bool* is_new);

  const std::string& path() const { return path_; }
  // As of the last Poll().
  const RecordingFacts& facts() const { return facts_; }
  const Board& board() const { return board_; }
  // The second that the board ends with.
  const History& history() const { return history_; }

 private:
  Status ReadNews(const RecordingTables& tables);
  Status ReadPlaces(const RecordingTables& tables);

  std::string path_;
  RecordingFacts facts_;
  Board board_;
  History history_;
  ProcessPlaces places_;
  int64_t slots_from_ns_ = 0, waits_from_ns_ = 0, places_from_ns_ = 0;  // what has not been read yet
  int64_t all_places_ns_ = 0;                                           // when all of them were read
};

// Is that recording being written: was something of it recorded a moment ago?
bool IsBeingWritten(const std::string& path);

// The recording in this folder, else the service's, that somebody writes. Who has just begun to has no
// row for a second or two: that is waited for. Empty: there is none.
std::string FindBeingWritten(const std::function<bool()>& wants_end);

}  // namespace slotscope
