// SPDX-License-Identifier: MIT
#include "cuda/process_maps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <utility>

#include "base/bounded_file.h"
#include "base/errno_text.h"

namespace slotscope {
namespace {

// vm.max_map_count allows some 65000 lines. They are read a piece at a time: libraries stand at the end.
constexpr size_t kMaxMapsBytes = 64u << 20;

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

// Each file once, by its first mapping.
class Files {
 public:
  void Add(std::string_view line) {
    MappedFile file;
    if (ParseLine(line, &file)) by_key_.try_emplace({file.dev, file.inode}, std::move(file));
  }
  std::vector<MappedFile> Take() {
    std::vector<MappedFile> files;
    for (auto& [key, file] : by_key_) files.push_back(std::move(file));
    return files;
  }

 private:
  std::map<std::pair<uint64_t, uint64_t>, MappedFile> by_key_;
};

}  // namespace

std::vector<MappedFile> ParseMaps(std::string_view text) {
  Files files;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    files.Add(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return files.Take();
}

Status ReadMaps(int32_t tgid, std::vector<MappedFile>* mapped) {
  mapped->clear();
  const std::string path = fmt::format("/proc/{}/maps", tgid);
  Files files;
  const auto add = [&](std::string_view line) {
    files.Add(line);
    return true;
  };
  if (!ForEachProcLine(path, kMaxMapsBytes, add))
    return {Exit::kKernel, fmt::format("cannot read {}: {}", path, ErrnoText(errno))};
  *mapped = files.Take();
  return {};
}

}  // namespace slotscope
