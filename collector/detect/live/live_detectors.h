// SPDX-License-Identifier: MIT
// The detectors beside a recording: a thread that looks when something has changed, and writes verdicts
// down.
#pragma once

#include <memory>
#include <string>

#include "base/news.h"
#include "base/status.h"
#include "detect/host/host_recorder.h"
#include "detect/live/live_judge.h"

namespace slotscope {

// Gets what is found, on the thread of the detectors.
struct VerdictListener {
  virtual ~VerdictListener() = default;
  // A line of JSON.
  virtual void OnVerdict(const std::string& line) = 0;
  // Something has begun: an Xid, or what a pattern of that name has found.
  virtual void OnEvent(const std::string& event, const std::string& what) = 0;
};

class LiveDetectors {
 public:
  LiveDetectors();
  ~LiveDetectors();
  LiveDetectors(const LiveDetectors&) = delete;

  // `verdicts`: the file to which they are added, a line each; empty: none. `host` may be null; ranks of
  // this machine are told to it by *news (see RankNoteText()), which say the verdicts, too. Both outlive
  // this.
  // `listener` may be null.
  Status Start(const LiveInputs& inputs, const JudgeOptions& options, const std::string& verdicts,
               HostRecorder* host, News* news, VerdictListener* listener = nullptr);
  // Looks once more, and ends.
  void Stop();

  // Any thread, from Start() on.
  LiveCounts counts() const;
  // After Stop(): Exit::kOutput if not all verdicts are in their file.
  Status status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope
