// SPDX-License-Identifier: MIT
// The raw stream as a table of a recording: a segment per minute of Unix time as the others have, that
// begins with what the engine knew. It is ahead of the slots, so its segments are not theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/news.h"
#include "base/status.h"
#include "raw/facts.h"
#include "raw/raw_file.h"
#include "raw/raw_sink.h"
#include "recording/folder.h"
#include "recording/table.h"
#include "run/rotation.h"

namespace slotscope {

class RawTable final : public RawSink {
 public:
  // The folder is opened before Begin().
  RawTable(RecordingFolder* folder, const RotationOptions& options)
      : folder_(folder), options_(options) {}

  // Before the recording, whose clock is `begin_ns` now.
  Status Begin(const Facts& facts, uint64_t slot_ns, uint64_t begin_ns);
  bool WantsSegment(const RawMoment& now) override;
  Status BeginSegment(std::string_view state, const RawMoment& now) override;
  Status WriteItems(std::span<const std::byte> items, const RawMoment& now) override;
  // After the last block.
  Status Finish();

  // Any thread.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  // Any thread; all after Finish(). Blocks that could not be written.
  uint64_t nr_dropped() const { return nr_dropped_.load(std::memory_order_relaxed); }

 private:
  int64_t BorderAfter(int64_t unix_ns) const;
  Status Open(std::string_view state, const RawMoment& now);
  Status EndFrame();
  void OnGap(const Status& why);
  Status EndSegment();
  void CommitFile();

  RecordingFolder* folder_;
  RotationOptions options_;
  Facts facts_;
  Table table_{std::string(kRawTable), "raw", Table::Contents::kBytes};
  std::unique_ptr<RawEncoder> encoder_;
  Segment segment_;  // its times grow
  FrameTimes frame_;
  uint64_t bytes_before_ = 0;
  bool open_ = false;
  bool asked_ = false;            // for another segment
  uint64_t nr_frame_blocks_ = 0;  // that are on their way to the file
  std::atomic<uint64_t> nr_dropped_{0};
  News news_;
  // Merge thread, and what it is asked for.
  int64_t border_unix_ns_ = 0;
  std::atomic<bool> wants_{false};
};

}  // namespace slotscope
