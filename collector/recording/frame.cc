// SPDX-License-Identifier: MIT
#include "recording/frame.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/errno_text.h"

namespace slotscope {
namespace {

constexpr uint32_t kZstdMagic = ZSTD_MAGIC_SKIPPABLE_START + 5;
constexpr uint32_t kTag = 0x31585353;  // "SSX1"
constexpr size_t kInFront = offsetof(FrameIndex, tag);

// All of it, or false: the file ends before, or cannot be read.
bool ReadAt(int fd, void* to, size_t size, uint64_t offset) {
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = pread(fd, bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

FrameIndex MakeFrameIndex(FrameKind kind, size_t frame_bytes, size_t text_bytes,
                          const FrameTimes& times) {
  return {kZstdMagic, sizeof(FrameIndex) - kInFront,      kTag,
          kind,       static_cast<uint32_t>(frame_bytes), static_cast<uint32_t>(text_bytes),
          times};
}

bool IsFrameIndex(const FrameIndex& index) {
  return index.zstd_magic == kZstdMagic && index.zstd_size == sizeof(FrameIndex) - kInFront &&
         index.tag == kTag && (index.kind == FrameKind::kHeader || index.kind == FrameKind::kRows) &&
         index.text_bytes <= kMaxFrameText && index.frame_bytes <= ZSTD_COMPRESSBOUND(kMaxFrameText) &&
         index.times.IsPossible();
}

Status FindFrames(int fd, std::vector<FrameAt>* frames, uint64_t* whole_bytes) {
  frames->clear();
  *whole_bytes = 0;
  struct stat info;
  if (fstat(fd, &info)) return {Exit::kBadInput, fmt::format("it cannot be read: {}", ErrnoText(errno))};
  FrameAt frame;
  while (IsFrameAt(fd, *whole_bytes, &frame)) {
    frames->push_back(frame);
    *whole_bytes = frame.end();
  }
  return {};
}

bool IsFrameAt(int fd, uint64_t at_byte, FrameAt* frame) {
  struct stat info;
  frame->offset = at_byte;
  return ReadAt(fd, &frame->index, sizeof(frame->index), at_byte) && IsFrameIndex(frame->index) &&
         fstat(fd, &info) == 0 && frame->end() <= static_cast<uint64_t>(info.st_size);
}

bool FindFrameFrom(int fd, uint64_t at_byte, FrameAt* frame) {
  constexpr size_t kFirstPiece = 4096, kLargestPiece = 1 << 20;
  if (IsFrameAt(fd, at_byte, frame)) return true;
  struct stat info;
  if (fstat(fd, &info)) return false;
  const auto size = static_cast<uint64_t>(info.st_size);
  constexpr std::array<uint32_t, 3> kBegin = {kZstdMagic, sizeof(FrameIndex) - kInFront, kTag};
  const std::string_view begin(reinterpret_cast<const char*>(kBegin.data()), sizeof(kBegin));
  std::string piece;
  size_t most = kFirstPiece;
  while (at_byte + sizeof(FrameIndex) <= size) {
    piece.resize(std::min<uint64_t>(most, size - at_byte));
    if (!ReadAt(fd, piece.data(), piece.size(), at_byte)) return false;
    const size_t found = piece.find(begin);
    if (found != std::string::npos) {
      if (IsFrameAt(fd, at_byte + found, frame)) return true;
      at_byte += found + 1;
      continue;
    }
    at_byte += piece.size() - (begin.size() - 1);  // it may lie across the border
    most = std::min(2 * most, kLargestPiece);
  }
  return false;
}

FrameTimes TimesOf(const std::vector<FrameAt>& frames) {
  FrameTimes times;
  bool any = false;
  for (const FrameAt& frame : frames) {
    if (frame.index.kind != FrameKind::kRows) continue;
    if (!any) times.start_ns = frame.index.times.start_ns;
    times.end_ns = frame.index.times.end_ns;
    times.unix_offset_ns = frame.index.times.unix_offset_ns;
    any = true;
  }
  return times;
}

std::string_view HeaderValue(std::string_view header, std::string_view key) {
  const std::string begin = fmt::format("# {}: ", key);
  for (size_t end; (end = header.find('\n')) != header.npos; header.remove_prefix(end + 1))
    if (header.starts_with(begin)) return header.substr(begin.size(), end - begin.size());
  return {};
}

Status UnpackFrame(int fd, const FrameAt& frame, std::string* text) {
  std::string packed(frame.index.frame_bytes, '\0');
  if (!ReadAt(fd, packed.data(), packed.size(), frame.offset + sizeof(FrameIndex)))
    return {Exit::kBadInput, fmt::format("it cannot be read at byte {}", frame.offset)};
  text->resize(frame.index.text_bytes);
  const size_t size = ZSTD_decompress(text->data(), text->size(), packed.data(), packed.size());
  if (ZSTD_isError(size) || size != text->size())
    return {Exit::kBadInput, fmt::format("it is damaged at byte {}", frame.offset)};
  return {};
}

}  // namespace slotscope
