// SPDX-License-Identifier: MIT
#include "base/text_input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/escape.h"
#include "base/unique_fd.h"

namespace slotscope {
namespace {

constexpr size_t kMaxInput = 1u << 30;
constexpr size_t kMaxLine = 64u << 10;
constexpr size_t kChunk = 1u << 20;

Status Bad(const std::string& path, const std::string& text) {
  return {Exit::kBadInput, fmt::format("{}: {}", EscapeControls(path), text)};
}

Status ForEachChunk(const std::string& path, const std::function<bool(std::string_view)>& on_chunk) {
  UniqueFd opened;
  int fd = STDIN_FILENO;
  if (path != "-") {
    // /dev/kmsg has no end: what is there is all.
    struct stat info;
    const bool is_device = stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
    opened.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | (is_device ? O_NONBLOCK : 0)));
    if (!opened.valid()) return Bad(path, fmt::format("cannot open it: {}", ErrnoText(errno)));
    fd = opened.get();
  }
  const auto chunk = std::make_unique<std::array<char, kChunk>>();
  for (;;) {
    const ssize_t nr = read(fd, chunk->data(), chunk->size());
    if (nr == 0) return {};
    if (nr < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: a record was overwritten
    if (nr < 0 && errno == EAGAIN) return {};
    if (nr < 0) return Bad(path, fmt::format("cannot read it: {}", ErrnoText(errno)));
    if (!on_chunk({chunk->data(), static_cast<size_t>(nr)})) return {};
  }
}

}  // namespace

void LineSplitter::Feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const std::string_view part = bytes.substr(0, newline);
    line_ += part.substr(0, kMaxLine - std::min(line_.size(), kMaxLine));
    if (newline == bytes.npos) break;
    on_line(line_);
    line_.clear();
    bytes.remove_prefix(newline + 1);
  }
}

void LineSplitter::Finish(const OnLine& on_line) {
  if (!line_.empty()) on_line(line_);
  line_.clear();
}

Status ReadInput(const std::string& path, std::string* bytes) {
  bytes->clear();
  bool is_too_large = false;
  Status status = ForEachChunk(path, [&](std::string_view chunk) {
    is_too_large = bytes->size() + chunk.size() > kMaxInput;
    if (!is_too_large) *bytes += chunk;
    return !is_too_large;
  });
  if (is_too_large) return Bad(path, "it is larger than 1 GiB");
  return status;
}

Status ReadLines(const std::string& path, const LineSplitter::OnLine& on_line) {
  LineSplitter lines;
  Status status = ForEachChunk(path, [&](std::string_view chunk) {
    lines.Feed(chunk, on_line);
    return true;
  });
  lines.Finish(on_line);
  return status;
}

int64_t ChangedNs(const std::string& path) {
  struct stat info;
  if (path == "-" ? fstat(STDIN_FILENO, &info) : stat(path.c_str(), &info)) return 0;
  if (!S_ISREG(info.st_mode)) return 0;
  return NsOf(info.st_mtim);
}

}  // namespace slotscope
