// SPDX-License-Identifier: MIT
#include "run/capabilities.h"

#include <algorithm>

namespace slotscope {
namespace {

// Of a recording that somebody starts by hand, where no unit has made folders and limits for it: files
// in a user's folder, a socket's group, rings beyond the limit of locked memory, threads that must not
// wait, a port below 1024, signals for a command that has changed its user, and the kernel's log.
constexpr std::array kByHand = {CAP_DAC_OVERRIDE,     CAP_CHOWN, CAP_IPC_LOCK, CAP_SYS_NICE,
                                CAP_NET_BIND_SERVICE, CAP_KILL,  CAP_SYSLOG};

template <typename Capabilities>
bool Has(const Capabilities& capabilities, int one) {
  return std::find(capabilities.begin(), capabilities.end(), one) != capabilities.end();
}

}  // namespace

void DropCapabilities(bool needs_admin) {
  if (capng_get_caps_process() != 0) return;
  constexpr auto kAll = static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE);
  for (int one = 0; one <= CAP_LAST_CAP; one++)
    if (!Has(kRecordingCapabilities, one) && !Has(kByHand, one) &&
        !(needs_admin && one == CAP_SYS_ADMIN))
      capng_update(CAPNG_DROP, kAll, static_cast<unsigned>(one));
  (void)capng_apply(CAPNG_SELECT_CAPS);  // it fails only where there is nothing to be dropped
}

}  // namespace slotscope
