// SPDX-License-Identifier: MIT
#include "base/state.h"
#include "straggle/detector.h"

namespace slotscope {

template <typename Archive>
void StraggleDetector::State(Archive& state) {
  state(states_, ticked_ns_, nr_rejected_, nr_episodes_);
}

template void StraggleDetector::State(StateWriter& state);
template void StraggleDetector::State(StateReader& state);

}  // namespace slotscope
