// SPDX-License-Identifier: MIT
#include "ship/ship_metrics.h"

namespace slotscope {
namespace {

double Seconds(int64_t unix_ns) { return static_cast<double>(unix_ns) / 1e9; }

}  // namespace

void ShipMeter::OnProgress(const ShipStats& stats, const Backlog& backlog) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  backlog_ = backlog;
}

void ShipMeter::OnRound(const ShipRound& round, int64_t unix_ns) {
  const std::lock_guard lock(mutex_);
  is_readable_ = round.is_readable;
  if (round.has_answered) has_answered_ = round.has_answered;
  // Who was not asked had nothing to be asked for.
  if (round.is_readable && round.is_whole && round.has_answered.value_or(true))
    success_unix_ns_ = unix_ns;
}

Families ShipMeter::families() const {
  const std::lock_guard lock(mutex_);
  Families to;
  to.Counter("slotscope_ship_rows_total", "Rows that the database has by this shipper.", stats_.nr_rows);
  to.Counter("slotscope_ship_sent_bytes_total", "What it was sent, packed.", stats_.sent_bytes);
  // Of a damaged or refused one a part is there.
  const auto count = [](uint64_t nr) { return static_cast<double>(nr); };
  const uint64_t nr_whole = stats_.nr_batches - stats_.nr_damaged - stats_.nr_refused;
  to.CounterOf("slotscope_ship_batches_total", "Tables of segments, by what became of them.", "outcome",
               {{"shipped", count(nr_whole)},
                {"damaged", count(stats_.nr_damaged)},
                {"refused", count(stats_.nr_refused)},
                {"removed", count(stats_.nr_removed + stats_.nr_missing)},
                {"given_up", count(stats_.nr_given_up)}});
  to.Counter("slotscope_ship_malformed_lines_total", "Lines of them that are no rows.",
             stats_.nr_malformed);
  if (backlog_.is_known) {
    to.Gauge("slotscope_ship_waiting_batches", "Those that are complete, and not shipped yet.",
             static_cast<double>(backlog_.nr_batches));
    to.Gauge("slotscope_ship_waiting_bytes", "Their size on the disk.",
             static_cast<double>(backlog_.bytes));
    if (backlog_.nr_batches)
      to.Gauge("slotscope_ship_oldest_waiting_timestamp_seconds",
               "When the end of the oldest of them was recorded. Not there: none waits.",
               Seconds(backlog_.oldest_unix_ns));
  }
  if (is_readable_)
    to.Gauge("slotscope_ship_recording_readable", "1: the recording could be read the last time.",
             *is_readable_);
  if (has_answered_)
    to.Gauge("slotscope_ship_server_answers",
             "1: the server has done what it was asked the last time that it was asked for anything.",
             *has_answered_);
  if (success_unix_ns_)
    to.Gauge("slotscope_ship_last_success_timestamp_seconds",
             "When all that was complete had been shipped the last time.", Seconds(success_unix_ns_));
  return to;
}

}  // namespace slotscope
