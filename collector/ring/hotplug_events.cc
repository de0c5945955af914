// SPDX-License-Identifier: MIT
#include "ring/hotplug_events.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <fstream>

namespace slotscope {
namespace {

constexpr uint32_t kOfKernel = 1;  // the group of what the kernel itself says
// What a message begins with, "online@/devices/system/cpu/cpu3" and "offline@...".
constexpr uint32_t kOnline = 0x6f6e6c69, kOffline = 0x6f66666c;

// Events are told in networks that belong to the machine's own users, not to those of a container.
bool IsToldOfDevices() {
  uint64_t first = 1, first_outside = 1, nr = 0;
  std::ifstream("/proc/self/uid_map") >> first >> first_outside >> nr;
  return first == 0 && first_outside == 0 && nr == UINT32_MAX;
}

}  // namespace

UniqueFd OpenHotplugEvents() {
  if (!IsToldOfDevices()) return {};
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
