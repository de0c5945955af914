// SPDX-License-Identifier: MIT
// A segment of a table is a file of zstd frames, each of them whole lines and readable by itself. In
// front of each stands a frame that zstd skips: how long the next one is, and from when. So a reader
// finds a moment without unpacking what is before it, and what a killed recorder left is good up to the
// last frame that is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace slotscope {

// Which slots: [start_ns, end_ns) of CLOCK_MONOTONIC; the Unix time of one is that + unix_offset_ns.
struct FrameTimes {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  int64_t unix_offset_ns = 0;

  // Times that a machine can have: sums of them are numbers.
  bool IsPossible() const {
    constexpr int64_t kMaxNs = (int64_t{1} << 62) - 1;  // 146 years
    return start_ns <= end_ns && end_ns <= kMaxNs && unix_offset_ns <= kMaxNs &&
           unix_offset_ns >= -kMaxNs;
  }
  // REQUIRES: IsPossible().
  int64_t unix_start_ns() const { return static_cast<int64_t>(start_ns) + unix_offset_ns; }
  int64_t unix_end_ns() const { return static_cast<int64_t>(end_ns) + unix_offset_ns; }
  bool operator==(const FrameTimes&) const = default;
};

enum class FrameKind : uint32_t {
  kHeader = 1,  // comments and the names of columns: to be read before any other. Its times are zeros
  kRows = 2,
};

// In the file, little endian.
struct FrameIndex {
  uint32_t zstd_magic;  // of a frame to be skipped
  uint32_t zstd_size;   // of what follows
  uint32_t tag;         // ours
  FrameKind kind;
  uint32_t frame_bytes;  // of the next frame
  uint32_t text_bytes;   // and of what is in it
  FrameTimes times;
};
static_assert(sizeof(FrameIndex) == 48);

// The largest text of a frame that a reader takes; a writer makes smaller ones.
inline constexpr uint32_t kMaxFrameText = 16u << 20;

FrameIndex MakeFrameIndex(FrameKind kind, size_t frame_bytes, size_t text_bytes,
                          const FrameTimes& times);
// False: it is none.
bool IsFrameIndex(const FrameIndex& index);

// One frame of a file, and where its index is.
struct FrameAt {
  uint64_t offset;
  FrameIndex index;

  uint64_t end() const { return offset + sizeof(FrameIndex) + index.frame_bytes; }
};

// Those of an open segment, up to the first that is not whole. *whole_bytes: where that begins. A file
// without any frame of ours has none, and 0 whole bytes.
Status FindFrames(int fd, std::vector<FrameAt>* frames, uint64_t* whole_bytes);

// Is there a whole one at that byte?
bool IsFrameAt(int fd, uint64_t at_byte, FrameAt* frame);

// The first whole one that begins at that byte or behind it, where damage may be in front of it.
// False: there is none.
bool FindFrameFrom(int fd, uint64_t at_byte, FrameAt* frame);

// Of all rows in them: the first's start and the last's end, and the last's offset; zeros if there are
// none.
FrameTimes TimesOf(const std::vector<FrameAt>& frames);

// What "# key: value" says in a header, or nothing.
std::string_view HeaderValue(std::string_view header, std::string_view key);

// The text of a frame. Exit::kBadInput if it is damaged.
Status UnpackFrame(int fd, const FrameAt& frame, std::string* text);

}  // namespace slotscope
