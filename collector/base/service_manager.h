// SPDX-License-Identifier: MIT
// What a service manager wants to know (systemd's sd_notify protocol: a datagram of lines).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/unique_fd.h"

namespace slotscope {

class ServiceManager {
 public:
  // Takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment: they are ours, and not those of a
  // command that we start. Without them nobody is told anything.
  void Open();

  void Ready() const { Tell("READY=1"); }
  void Stopping() const { Tell("STOPPING=1"); }
  // A line for `systemctl status`.
  void Status(std::string_view text) const;
  // To be called once a second or so. `progress`: a number that is another one each time if all is
  // well. The manager ends whoever has not said that for the time that it has set.
  void Poll(uint64_t now_ns, uint64_t progress);

 private:
  void Tell(std::string_view text) const;

  UniqueFd socket_;
  uint64_t period_ns_ = 0;  // half of what it has set; 0: it does not watch
  uint64_t told_ns_ = 0;
  uint64_t progress_ = 0;  // as of then
};

}  // namespace slotscope
