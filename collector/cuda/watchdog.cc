// SPDX-License-Identifier: MIT
#include "cuda/watchdog.h"

#include <bpf/bpf.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <slotscope/cuda_probe.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/errno_text.h"
#include "base/unique_fd.h"

namespace slotscope {
namespace {

// What is known of a map; all zeros if it is none.
bpf_map_info InfoOf(int map_fd) {
  bpf_map_info info = {};
  uint32_t size = sizeof(info);
  if (map_fd < 0 || bpf_obj_get_info_by_fd(map_fd, &info, &size)) return {};
  return info;
}

// Made like ours: by a recorder that was killed.
bool IsWatchdog(const std::string& path) {
  const bpf_map_info info = InfoOf(UniqueFd(bpf_obj_get(path.c_str())).get());
  return info.type == BPF_MAP_TYPE_ARRAY && info.max_entries == 1 && info.key_size == sizeof(uint32_t) &&
         info.value_size == sizeof(uint64_t);
}

}  // namespace

Status Watchdog::Pin(int map_fd, const std::string& path, News* news) {
  struct statfs info;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (statfs(folder.c_str(), &info) != 0 || info.f_type != BPF_FS_MAGIC)
    return {
        Exit::kKernel,
        fmt::format(
            "{} is no BPF file system, so no heartbeat can reach the watchdog {} (mount -t bpf bpf {})",
            folder, path, folder)};
  if (access(path.c_str(), F_OK) == 0) {
    if (!IsWatchdog(path))
      return {Exit::kOutput, fmt::format("{} is something else than a watchdog; remove it", path)};
    unlink(path.c_str());
  }
  if (bpf_obj_pin(map_fd, path.c_str()))
    return {Exit::kOutput, fmt::format("cannot name the watchdog {}: {}", path, ErrnoText(errno))};
  path_ = path;
  map_fd_ = map_fd;
  news_ = news;
  return {};
}

void Watchdog::Unpin() {
  // Unless another recorder has taken the name since.
  if (!path_.empty() && InfoOf(UniqueFd(bpf_obj_get(path_.c_str())).get()).id == InfoOf(map_fd_).id)
    unlink(path_.c_str());
  path_.clear();
}

void Watchdog::Poll(uint64_t boot_ns) {
  if (path_.empty()) return;
  const uint32_t key = 0;
  uint64_t heartbeat_ns = 0;
  if (bpf_map_lookup_elem(map_fd_, &key, &heartbeat_ns) || heartbeat_ns == 0) {
    polled_ns_ = boot_ns;
    return;
  }
  constexpr uint64_t kStaleNs = SS_CUDA_WATCHDOG_STALE_NS;
  const bool was_bypassed = is_bypassed_;
  is_bypassed_ = ss_cuda_is_stale(heartbeat_ns, boot_ns);
  // Since the last look at most, and not before it was stale.
  if (is_bypassed_ && heartbeat_ns < boot_ns) {
    const uint64_t from_ns = std::max(polled_ns_, heartbeat_ns + kStaleNs);
    bypassed_ns_ += boot_ns - std::min(from_ns, boot_ns);
  } else if (is_bypassed_) {
    bypassed_ns_ += was_bypassed ? boot_ns - polled_ns_ : 0;
  } else if (was_bypassed && heartbeat_ns > polled_ns_) {
    bypassed_ns_ += std::min(heartbeat_ns, boot_ns) - polled_ns_;
  }
  polled_ns_ = boot_ns;
  if (is_bypassed_ == was_bypassed) return;
  if (is_bypassed_) {
    bypassed_before_ns_ = bypassed_ns_;
    news_->Tell(fmt::format("watchdog: no heartbeat for {} ms: CUDA is not observed until there is one",
                            kStaleNs / 1'000'000));
  } else {
    news_->Tell(
        fmt::format("watchdog: a heartbeat came, after {} ms without: CUDA is observed again, and what "
                    "processes hold now is not known",
                    (bypassed_ns_ - bypassed_before_ns_) / 1'000'000));
  }
}

}  // namespace slotscope
