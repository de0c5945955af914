// SPDX-License-Identifier: MIT
#include "track/cgroup.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace slotscope {
namespace {

constexpr size_t kIdLength = 64;    // of a container's id, in hexadecimal
constexpr size_t kHashLength = 32;  // of the "uid" of a pod that the kubelet itself starts
// Where the other uids have a dash; systemd's names of slices have '_' there, as '-' has a meaning.
constexpr std::array<size_t, 4> kDashes = {8, 13, 18, 23};
constexpr size_t kUidLength = 36;

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool TakeSuffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

// Behind the last of these.
std::string_view Behind(std::string_view text, std::string_view separators) {
  return text.substr(text.find_last_of(separators) + 1);
}

// "0123...", "docker-0123....scope", and "x.slice:cri-containerd:0123...", which containerd makes where
// it takes a name of systemd's for a path. "crio-conmon-0123....scope" only watches a container.
std::string_view ContainerIn(std::string_view name) {
  constexpr std::string_view kLxc = "lxc.payload.";
  if (name.starts_with(kLxc)) return name.substr(kLxc.size());
  TakeSuffix(&name, ".scope");
  const std::string_view id = Behind(name, "-:");
  if (id.size() != kIdLength || !IsHex(id)) return {};
  const std::string_view before = name.substr(0, name.size() - id.size());
  return before.ends_with("conmon-") ? std::string_view() : id;
}

// "podUID", and "kubepods-burstable-podUID.slice".
std::string PodIn(std::string_view name) {
  constexpr std::string_view kPod = "pod";
  name = name.substr(0, name.find(':'));
  TakeSuffix(&name, ".slice");
  for (const size_t length : {kUidLength, kHashLength}) {
    if (name.size() < kPod.size() + length) continue;
    std::string uid(name.substr(name.size() - length));
    std::string_view before = name.substr(0, name.size() - length);
    if (!TakeSuffix(&before, kPod) || !(before.empty() || before.ends_with('-'))) continue;
    if (length == kUidLength) {
      if (!std::all_of(kDashes.begin(), kDashes.end(),
                       [&](size_t at) { return uid[at] == '-' || uid[at] == '_'; }))
        continue;
      for (const size_t at : kDashes) uid[at] = '0';
      if (!IsHex(uid)) continue;
      for (const size_t at : kDashes) uid[at] = '-';
    } else if (!IsHex(uid)) {
      continue;
    }
    return uid;
  }
  return {};
}

bool IsSlice(std::string_view name) { return name.ends_with(".slice"); }

// systemd puts a '_' in front of a name that could be taken for a file of the kernel's.
std::string_view UnitIn(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  for (const std::string_view kind : {".service", ".scope", ".socket", ".mount", ".swap"})
    if (name.size() > kind.size() && name.ends_with(kind)) return name;
  return {};
}

}  // namespace

Cgroup ParseCgroup(std::string_view path) {
  Cgroup cgroup;
  cgroup.path = path;
  bool in_slices = true;  // of systemd's, from the root on: what comes behind them is its unit
  std::string_view above;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name.empty()) continue;
    if (std::string pod = PodIn(name); !pod.empty()) cgroup.pod_uid = std::move(pod);
    std::string_view container = ContainerIn(name);
    if (container.empty() && above == "lxc") container = name;
    if (!container.empty()) cgroup.container_id = container;
    if (in_slices && !IsSlice(name)) {
      cgroup.unit = UnitIn(name);
      in_slices = false;
    }
    above = name;
  }
  return cgroup;
}

}  // namespace slotscope
