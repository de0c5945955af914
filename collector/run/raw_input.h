// SPDX-License-Identifier: MIT
// What was recorded raw, through the engine: a file, a segment of a recording, or all segments that
// there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "raw/raw_file.h"
#include "run/engine.h"

namespace slotscope {

// What was wrong with it; the rows up to there are good. Sentences, empty where all is well.
struct RawInputEnd {
  std::string error;  // it is damaged, and where
  std::string cut;    // it ends early
};

class RawInput {
 public:
  // Of a recording that has been gone on with the last part is taken, and what follows a gap.
  // Exit::kBadInput if there is nothing that can be read.
  Status Open(const std::string& path);
  // Of the first file.
  const Facts& facts() const { return facts_; }
  // What is left out; empty: nothing.
  const std::string& note() const { return note_; }

  // Feeds all of it to an engine that has seen nothing, and finishes that. Stops early where `failed`.
  // Not ok, see Engine::LoadState(): nothing was done.
  Status ReadAll(Engine* engine, const std::function<bool()>& failed, RawInputEnd* end);
  // The length of slots that an engine for it has to have; 0: any.
  uint64_t slot_ns() const { return Engine::SlotOf(std::as_bytes(std::span(state_))); }

 private:
  Status OpenRecording(const std::string& path);
  Status OpenFirst();
  bool ReadFile(Engine* engine, const std::function<bool()>& failed, RawInputEnd* end);

  std::vector<std::string> paths_;
  size_t next_ = 0;  // of paths_, behind the one that is open
  RawFileReader reader_;
  Facts facts_;
  std::string state_;
  std::string note_;
  std::string unread_;  // a file of the recording that could not be read, and why; empty: there is none
};

}  // namespace slotscope
