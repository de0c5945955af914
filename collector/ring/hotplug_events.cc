// SPDX-License-Identifier: MIT
#include "ring/hotplug_events.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace slotscope {
namespace {

constexpr uint32_t kOfKernel = 1;  // the group of what the kernel itself says
// What a message begins with, "online@/devices/system/cpu/cpu3" and "offline@...".
constexpr uint32_t kOnline = 0x6f6e6c69, kOffline = 0x6f66666c;

bool IsFirstNetwork() {
  // Events are told in the network of the machine only.
  std::array<char, 64> ours = {}, first = {};
  return readlink("/proc/self/ns/net", ours.data(), ours.size() - 1) > 0 &&
         readlink("/proc/1/ns/net", first.data(), first.size() - 1) > 0 && ours == first;
}

}  // namespace

UniqueFd OpenHotplugEvents() {
  if (!IsFirstNetwork()) return {};
  UniqueFd fd(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  // Devices come and go all the time: only these wake us.
  std::array<sock_filter, 5> code = {
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOnline, 1, 0),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOffline, 0, 1), BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
       BPF_STMT(BPF_RET | BPF_K, 0)}};
  const sock_fprog filter = {static_cast<unsigned short>(code.size()), code.data()};
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kOfKernel;
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)))
    return {};
  return fd;
}

void TakeHotplugEvents(int fd) {
  std::array<char, 4096> message;
  while (recv(fd, message.data(), message.size(), 0) > 0) continue;
}

}  // namespace slotscope
