// SPDX-License-Identifier: MIT
#include "ring/pod_logs.h"

#include <dirent.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace slotscope {
namespace {

// A node has some hundred pods; a line must find room in an item.
constexpr size_t kMaxBytes = 128u << 10;

// None of the three has a '_' in it. Empty: it is none of a pod's.
std::string LineOf(std::string_view folder) {
  const size_t first = folder.find('_'), last = folder.rfind('_');
  if (first == 0 || first == std::string_view::npos || last <= first + 1 || last + 1 == folder.size())
    return {};
  if (folder.find_first_of(" \n") != std::string_view::npos) return {};
  std::string line(folder.substr(last + 1));
  line += ' ';
  line += folder.substr(0, first);
  line += '/';
  line += folder.substr(first + 1, last - first - 1);
  return line + '\n';
}

}  // namespace

PodLogs::PodLogs(std::string folder) : folder_(std::move(folder)) {
  UniqueFd events(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  constexpr uint32_t kWhat = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR;
  if (events.valid() && inotify_add_watch(events.get(), folder_.c_str(), kWhat) >= 0)
    events_ = std::move(events);
}

bool PodLogs::Take(std::string* lines) {
  if (!events_.valid()) return false;
  bool any = !std::exchange(looked_, true);
  std::array<char, 4096> events;
  while (read(events_.get(), events.data(), events.size()) > 0) any = true;
  if (!any) return false;
  std::vector<std::string> found;
  size_t size = 0;
  DIR* const entries = opendir(folder_.c_str());
  while (const dirent* entry = entries ? readdir(entries) : nullptr) {
    std::string line = LineOf(entry->d_name);
    if ((size += line.size()) > kMaxBytes) break;
    if (!line.empty()) found.push_back(std::move(line));
  }
  if (entries) closedir(entries);
  std::sort(found.begin(), found.end());
  std::string all;
  for (const std::string& line : found) all += line;
  if (all == lines_) return false;
  *lines = lines_ = std::move(all);
  return true;
}

}  // namespace slotscope
