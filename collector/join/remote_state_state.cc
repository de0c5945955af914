// SPDX-License-Identifier: MIT
#include "base/state.h"
#include "join/remote_state.h"

namespace slotscope {

template <typename Archive>
void RemoteState::State(Archive& state) {
  state(queued_, processes_, applied_ns_, gone_ns_, pruned_ns_);
  state.Require(queued_.size() <= kMaxQueued);
  state.Plain(stats_);
}

template void RemoteState::State(StateWriter& state);
template void RemoteState::State(StateReader& state);

}  // namespace slotscope
