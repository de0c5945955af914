// SPDX-License-Identifier: MIT
#include "recording/reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/unique_fd.h"
#include "recording/folder.h"
#include "recording/frame.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

bool Overlaps(const FrameTimes& times, const UnixRange& range) {
  return times.unix_end_ns() > range.from_ns && times.unix_start_ns() < range.to_ns;
}

// One that zstd(1) has made: it has no index, and lines go over its blocks.
Status ReadForeign(int fd, const std::string& path, const RecordingReader::OnText& on_text) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  std::vector<char> packed(ZSTD_DStreamInSize()), text(ZSTD_DStreamOutSize());
  size_t left = 0;
  for (;;) {
    const ssize_t got = read(fd, packed.data(), packed.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return {Exit::kBadInput,
              fmt::format("cannot read {}: {}", EscapeControls(path), ErrnoText(errno))};
    if (got == 0) break;
    ZSTD_inBuffer in = {packed.data(), static_cast<size_t>(got), 0};
    for (bool full = false; in.pos < in.size || full;) {
      ZSTD_outBuffer out = {text.data(), text.size(), 0};
      left = ZSTD_decompressStream(context.get(), &out, &in);
      if (ZSTD_isError(left))
        return {Exit::kBadInput, fmt::format("{} is damaged", EscapeControls(path))};
      on_text({text.data(), out.pos});
      full = out.pos == out.size;
    }
  }
  if (left) return {Exit::kBadInput, fmt::format("{} ends early", EscapeControls(path))};
  return {};
}

}  // namespace

Status FindRecording(std::string* path, std::string_view table) {
  std::error_code error;
  std::pair<bool, fs::file_time_type> best;  // whether it has the table, and when it changed
  path->clear();
  for (fs::directory_iterator it(".", error), end; !error && it != end; it.increment(error)) {
    std::error_code none;  // it may be no recording, or be gone
    const auto changed = fs::last_write_time(it->path() / kManifestName, none);
    if (none) continue;
    const std::string name = it->path().filename().string();
    RecordingReader recording;
    const std::pair one(recording.Open(name).ok() && !recording.FilesOf(table).empty(), changed);
    if (!path->empty() && one <= best) continue;
    best = one;
    *path = name;
  }
  if (best.first) return {};
  RecordingReader of_service;
  if (IsRecording(kServiceRecording) &&
      (path->empty() || (of_service.Open(kServiceRecording).ok() && !of_service.FilesOf(table).empty())))
    *path = kServiceRecording;
  if (!path->empty()) return {};
  return {Exit::kUsage,
          fmt::format("there is no recording in this folder, and none of the service in {} that this "
                      "user may read: name one",
                      kServiceRecording)};
}

bool RecordingReader::IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool RecordingReader::Reads(const std::string& path) {
  return IsFolder(path) || WithoutPart(path).ends_with(".zst");
}

Status RecordingReader::Open(const std::string& path) {
  folder_ = path;
  is_file_ = !IsFolder(path);
  if (is_file_) return {};
  // What it would name is there all the same.
  const Status manifest = ReadManifest(path, &segments_);
  if (!manifest.ok() && !manifest.is_damaged()) return manifest;
  // Twice: a file that gets its name meanwhile may be missed, or be gone under the one that it had.
  for (int i = 0; i < 2; i++)
    if (Status status = AddFiles(); !status.ok()) return status;
  if (segments_.empty() && !manifest.ok()) return manifest;
  if (segments_.empty() && access((path + "/" + kManifestName).c_str(), F_OK))
    return {Exit::kBadInput, fmt::format("{} is no recording: there is no {} in it",
                                         EscapeControls(path), kManifestName)};
  return {};
}

Status RecordingReader::AddFiles() {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    AddFile(it->path().filename().string());
  if (!error) return {};
  return {Exit::kBadInput, fmt::format("cannot read {}: {}", EscapeControls(folder_), error.message())};
}

// One that the manifest does not have (yet).
void RecordingReader::AddFile(const std::string& name) {
  const auto parsed = ParseSegmentName(WithoutPart(name));
  if (!parsed) return;
  if (auto known = segments_.find(parsed->number);
      known != segments_.end() && known->second.files.contains(parsed->table))
    return;
  UniqueFd fd(open((folder_ + "/" + name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  std::vector<FrameAt> frames;
  uint64_t whole_bytes;
  // It may have got its name, or be removed, just now.
  if (!fd.valid() || fstat(fd.get(), &info) || !S_ISREG(info.st_mode) ||
      !FindFrames(fd.get(), &frames, &whole_bytes).ok() || frames.empty())
    return;
  TakeFile(fd.get(), frames, *parsed, {name, whole_bytes}, &segments_[parsed->number]);
}

std::vector<std::string> RecordingReader::FilesOf(std::string_view table, const UnixRange& range) const {
  std::vector<std::string> paths;
  for (const auto& [number, segment] : segments_)
    if (const auto file = segment.files.find(std::string(table));
        file != segment.files.end() && Overlaps(segment.times, range))
      paths.push_back(folder_ + "/" + file->second.name);
  return paths;
}

Status RecordingReader::WhyGone(const std::string& path) const {
  Segments now;
  if (IsHeld(folder_) || !ReadManifest(folder_, &now).ok()) return {};
  const std::string name = fs::path(path).filename().string();
  const auto parsed = ParseSegmentName(WithoutPart(name));
  if (!parsed) return {};
  // A ring removes the oldest ones; on a full disk it may not have been able to write that down.
  bool is_oldest = parsed->number > 1;
  for (const auto& [number, segment] : now) {
    const auto file = segment.files.find(parsed->table);
    if (file == segment.files.end()) continue;
    if (number == parsed->number && !is_oldest)
      return {Exit::kBadInput, fmt::format("{} is missing: {} names it; what is left of the recording "
                                           "was read",
                                           EscapeControls(path), kManifestName)};
    if (number < parsed->number && access((folder_ + "/" + file->second.name).c_str(), F_OK) == 0)
      is_oldest = false;
  }
  return {};
}

Status RecordingReader::Read(std::string_view table, const UnixRange& range,
                             const OnText& on_text) const {
  if (is_file_) return ReadFile(folder_, 0, range, on_text);
  Status first;
  for (const auto& [number, segment] : segments_) {
    const auto file = segment.files.find(std::string(table));
    if (file == segment.files.end() || !Overlaps(segment.times, range)) continue;
    Status status = ReadFile(folder_ + "/" + file->second.name, file->second.bytes, range, on_text);
    if (first.ok()) first = status;
  }
  return first;
}

Status RecordingReader::ReadFile(const std::string& path, uint64_t least_bytes, const UnixRange& range,
                                 const OnText& on_text) const {
  const bool is_part = path.ends_with(kPart);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT && !is_file_ && is_part)
    fd.Reset(open(std::string(WithoutPart(path)).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT && !is_file_) return WhyGone(path);
    return {Exit::kBadInput, fmt::format("cannot read {}: {}", EscapeControls(path), ErrnoText(errno))};
  }
  FrameAt frame;
  const bool begins_well = IsFrameAt(fd.get(), 0, &frame);
  if (is_file_ && !begins_well) return ReadForeign(fd.get(), path, on_text);
  Status status;
  const auto damaged_at = [&](uint64_t byte) {
    if (status.ok()) status = {Exit::kBadInput, fmt::format("it is damaged at byte {}", byte)};
  };
  // A table of JSON lines needs none.
  bool has_header = begins_well && frame.index.kind == FrameKind::kRows;
  uint64_t at_byte = 0;
  std::string text;
  while (FindFrameFrom(fd.get(), at_byte, &frame)) {
    if (frame.offset != at_byte) damaged_at(at_byte);
    at_byte = frame.end();
    const bool is_rows = frame.index.kind == FrameKind::kRows;
    if (is_rows && !Overlaps(frame.index.times, range)) continue;
    if (is_rows && !has_header) {  // nobody knows what is in them
      damaged_at(0);
    } else if (const Status unpacked = UnpackFrame(fd.get(), frame, &text); unpacked.ok()) {
      on_text(text);
      has_header |= !is_rows;
    } else {
      if (status.ok()) status = unpacked;
      at_byte = frame.offset + sizeof(FrameIndex);  // how long it is may be what is damaged
    }
  }
  // One that is being written ends with a frame that is not whole yet.
  struct stat info;
  if (!is_part && fstat(fd.get(), &info) == 0 &&
      (static_cast<uint64_t>(info.st_size) != at_byte || at_byte < least_bytes))
    damaged_at(at_byte);
  if (status.ok()) return {};
  return {Exit::kBadInput, fmt::format("{}: {}", EscapeControls(path), status.message())};
}

}  // namespace slotscope
