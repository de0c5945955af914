// SPDX-License-Identifier: MIT
#include "cuda/process_maps.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/bounded_file.h"
#include "base/errno_text.h"
#include "base/unique_fd.h"

namespace slotscope {
namespace {

constexpr size_t kMaxMapsBytes = 64u << 20;  // vm.max_map_count allows some 65000 lines

// Takes a number up to `end` from the front of the text.
bool TakeNumber(std::string_view* text, char end, int base, uint64_t* value) {
  const char* const last = text->data() + text->size();
  auto [at, error] = std::from_chars(text->data(), last, *value, base);
  if (error != std::errc() || at == text->data() || at == last || *at != end) return false;
  text->remove_prefix(static_cast<size_t>(at - text->data()) + 1);
  return true;
}

// start-end perms offset major:minor inode path
bool ParseLine(std::string_view line, MappedFile* file) {
  uint64_t start, end, offset, major, minor;
  if (!TakeNumber(&line, '-', 16, &start) || !TakeNumber(&line, ' ', 16, &end)) return false;
  constexpr size_t kPermissions = 4;
  if (line.size() < kPermissions + 1 || line[2] != 'x') return false;
  line.remove_prefix(kPermissions + 1);
  if (!TakeNumber(&line, ' ', 16, &offset) || !TakeNumber(&line, ':', 16, &major) ||
      !TakeNumber(&line, ' ', 16, &minor) || !TakeNumber(&line, ' ', 10, &file->inode))
    return false;
  if (file->inode == 0) return false;
  const size_t path = line.find_first_not_of(' ');
  if (path == line.npos) return false;
  file->dev = major << 32 | minor;
  file->range = fmt::format("{:x}-{:x}", start, end);
  file->path = line.substr(path);
  return true;
}

}  // namespace

std::vector<MappedFile> ParseMaps(std::string_view text) {
  std::vector<MappedFile> files;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    MappedFile file;
    if (ParseLine(text.substr(0, end), &file)) files.push_back(std::move(file));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  auto key = [](const MappedFile& file) { return std::pair(file.dev, file.inode); };
  std::stable_sort(files.begin(), files.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
  auto same = [&](const auto& a, const auto& b) { return key(a) == key(b); };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

Status ReadMaps(int32_t tgid, std::vector<MappedFile>* files) {
  files->clear();
  const std::string path = fmt::format("/proc/{}/maps", tgid);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {Exit::kKernel, fmt::format("cannot open {}: {}", path, ErrnoText(errno))};
  std::string text;
  if (!ReadUpTo(fd.get(), kMaxMapsBytes + 1, &text))
    return {Exit::kKernel, fmt::format("cannot read {}: {}", path, ErrnoText(errno))};
  if (text.size() > kMaxMapsBytes)
    return {Exit::kBadInput, fmt::format("{} is longer than {} bytes", path, kMaxMapsBytes)};
  *files = ParseMaps(text);
  return {};
}

}  // namespace slotscope
