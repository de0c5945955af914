// SPDX-License-Identifier: MIT
// One table of a recording that is being written: what its sink writes becomes frames, in a file per
// segment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/out_file.h"
#include "base/part_file.h"
#include "base/status.h"
#include "recording/frame.h"

struct ZSTD_CCtx_s;

namespace slotscope {

class Table final : public OutFile {
 public:
  // Frames of lines end where a line does. Sums are lines of all the time since those before them, maybe
  // many frames ago.
  enum class Contents { kLines, kSums, kBytes };
  Table(std::string name, std::string extension, Contents contents = Contents::kLines);
  ~Table() override;
  Table(const Table&) = delete;

  const std::string& name() const { return name_; }

  // A segment begins, in a folder. What is written from here to EndHeader() is its header; there is no
  // file before something comes behind that.
  void Begin(const std::string& folder, uint64_t number, int64_t unix_s);
  void EndHeader();

  using OutFile::Write;
  // Is kept until the frame ends: nothing can go wrong.
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override;
  // All of the segments, and what is kept.
  uint64_t size() const override { return size_ + text_.size(); }
  // Since the last frame.
  size_t nr_kept() const { return text_.size(); }

  // What was written since the last frame goes to the file. After an error it is still kept: this may be
  // called again, or DropFrame().
  Status EndFrame(const FrameTimes& times);
  void DropFrame();

  // The segment ends: its file, which is to be committed; null if it has none.
  std::unique_ptr<PartFile> TakeFile();

 private:
  void Pack(FrameKind kind, std::string_view text, const FrameTimes& times);
  Status WritePacked();

  std::string name_, extension_;
  Contents contents_;
  std::string path_;                  // of this segment
  std::optional<uint64_t> since_ns_;  // of sums: the frame that had some last
  std::string header_;                // of this segment, until it is in the file
  std::string text_;                  // lines of the frame that is being filled
  std::string packed_;                // frames to be written
  std::unique_ptr<PartFile> file_;
  ZSTD_CCtx_s* context_;
  uint64_t size_ = 0;
};

}  // namespace slotscope
