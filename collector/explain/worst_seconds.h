// SPDX-License-Identifier: MIT
// Of a recording that is too long to be read by the millisecond: where to look, by its seconds.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "explain/history_reader.h"
#include "explain/stall.h"
#include "recording/reader.h"

namespace slotscope {

// What is read beside a stall, to know what is usual.
inline constexpr int64_t kContextNs = 10'000'000'000;

// Seconds in which somebody was held up for longer than is usual for it, or in which much was lost: the
// nr worst, with what is around them, in the order of time and without overlaps.
Status FindWorstSeconds(const RecordingTables& tables, const UnixRange& range,
                        const Selection& selection, size_t nr, std::vector<UnixRange>* ranges);

}  // namespace slotscope
