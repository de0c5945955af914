// SPDX-License-Identifier: MIT
#include "sinks/wait_sink.h"

#include <fmt/core.h>

#include <iterator>
#include <string_view>

#include "base/escape.h"

namespace slotscope {
namespace {

constexpr std::string_view kColumns =
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,cause,ran_tgid,ran_start_time_ns,ran_comm,"
    "cpu,ns,waits,wait_start_ns,wait_until_ns,earlier_cause\n";

std::string NumberOrNone(uint64_t number, uint64_t none) {
  return number == none ? "" : std::to_string(number);
}

}  // namespace

void WaitSink::WriteHeader(const HeaderLines& lines) { WriteCsvHeader(lines, kColumns); }

void WaitSink::Append(const Slot& slot) {
  const auto unix_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  for (const WaitDetail& one : slot.wait_details) {
    fmt::format_to(std::back_inserter(text_), "{},{},{},{},{},{},", slot.start_ns, unix_ns,
                   one.waiter.tgid, NumberOrNone(one.waiter.start_time_ns, 0),
                   EscapeName(CommText(one.waiter_comm)),
                   kWaitCauseNames[one.is_earlier() ? kWaitEarlier : one.cause]);
    if (one.has_ran())
      fmt::format_to(std::back_inserter(text_), "{},{},{}", one.ran.tgid,
                     NumberOrNone(one.ran.start_time_ns, 0), EscapeName(CommText(one.ran_comm)));
    else
      fmt::format_to(std::back_inserter(text_), ",,{}", EscapeName(CommText(one.ran_comm)));
    fmt::format_to(std::back_inserter(text_), ",{},{},{},{},{},{}\n",
                   NumberOrNone(one.cpu, WaitDetail::kNoCpu), one.ns, NumberOrNone(one.nr, 0),
                   NumberOrNone(one.start_ns, 0), NumberOrNone(one.until_ns, 0),
                   one.is_earlier() ? kWaitCauseNames[one.cause] : "");
    nr_rows_++;
  }
}

std::string WaitSink::Contents() const { return fmt::format("{} rows", nr_rows_); }

}  // namespace slotscope
