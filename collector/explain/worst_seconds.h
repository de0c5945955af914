// SPDX-License-Identifier: MIT
// Of a recording that is too long to be read by the millisecond: where to look, by its seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "explain/history_reader.h"
#include "explain/stall.h"
#include "recording/reader.h"

namespace slotscope {

// What is read beside a stall, to know what is usual; of a machine that writes very many rows less.
inline constexpr int64_t kContextNs = 10'000'000'000, kLeastContextNs = 1'000'000'000;
// What is read of it at once: a row that is alone in its bin takes some 500 bytes.
inline constexpr uint64_t kMostRows = 4'000'000;

// Rows of slots that a recording with a table of seconds has of that range, more or less. 0: not known.
Status CountRows(const RecordingTables& tables, const UnixRange& range, uint64_t* nr);

// What to read beside a stretch of that length, where so many rows are written in a second.
int64_t ContextOf(int64_t length_ns, double rows_per_s, uint64_t most_rows = kMostRows);

// Seconds in which somebody was held up for longer than is usual for it, or in which much was lost: the
// nr worst, with what is around them, in the order of time and without overlaps.
Status FindWorstSeconds(const RecordingTables& tables, const UnixRange& range,
                        const Selection& selection, size_t nr, std::vector<UnixRange>* ranges,
                        uint64_t most_rows = kMostRows);

}  // namespace slotscope
