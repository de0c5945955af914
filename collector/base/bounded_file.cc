// SPDX-License-Identifier: MIT
#include "base/bounded_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/errno_text.h"
#include "base/unique_fd.h"

namespace slotscope {

bool ReadUpTo(int fd, size_t max_bytes, std::string* bytes) {
  char piece[64 << 10];
  while (bytes->size() < max_bytes) {
    const ssize_t got = read(fd, piece, std::min(sizeof(piece), max_bytes - bytes->size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    bytes->append(piece, static_cast<size_t>(got));
  }
  return true;
}

std::string ReadProcFile(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes;
  if (!fd.valid() || !ReadUpTo(fd.get(), max_bytes, &bytes)) return {};
  return bytes;
}

bool ForEachProcLine(const std::string& path, size_t max_bytes,
                     const std::function<bool(std::string_view line)>& fn) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  constexpr size_t kPieceBytes = 64u << 10, kMaxLineBytes = 1u << 20;
  std::string text;
  for (size_t nr_read = 0; nr_read < max_bytes;) {
    const size_t before = text.size();
    if (!ReadUpTo(fd.get(), before + std::min(kPieceBytes, max_bytes - nr_read), &text)) return false;
    if (text.size() == before) {
      if (!text.empty()) fn(text);
      return true;
    }
    nr_read += text.size() - before;
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      if (!fn(std::string_view(text).substr(begin, end - begin))) return true;
    text.erase(0, begin);
    if (text.size() > kMaxLineBytes) return false;
  }
  return true;
}

Status ReadWholeFile(const std::string& path, size_t max_bytes, std::string* bytes) {
  bytes->clear();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd.valid() && errno == ELOOP) return {Exit::kBadInput, "it is a link"};
  if (!fd.valid()) return {Exit::kBadInput, fmt::format("cannot open it: {}", ErrnoText(errno))};
  struct stat info;
  if (fstat(fd.get(), &info) || !S_ISREG(info.st_mode))
    return {Exit::kBadInput, "it is no regular file"};
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > max_bytes)
    return {Exit::kBadInput, fmt::format("it is larger than {} MiB", max_bytes >> 20)};
  bytes->reserve(size);
  if (!ReadUpTo(fd.get(), size, bytes))
    return {Exit::kBadInput, fmt::format("it cannot be read: {}", ErrnoText(errno))};
  return bytes->size() == size ? Status() : Status{Exit::kBadInput, "it was cut while it was read"};
}

}  // namespace slotscope
