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

class LiveDetectors {
 public:
  LiveDetectors();
  ~LiveDetectors();
  LiveDetectors(const LiveDetectors&) = delete;

  // `verdicts`: the file to which they are added, a line each; empty: none. `host` may be null; ranks of
  // this machine are told to it by *news (see RankNoteText()), which say the verdicts, too. Both outlive
  // this.
  Status Start(const LiveInputs& inputs, const JudgeOptions& options, const std::string& verdicts,
               HostRecorder* host, News* news);
  // Looks once more, and ends.
  void Stop();

  // Any thread, from Start() on.
  LiveCounts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope
