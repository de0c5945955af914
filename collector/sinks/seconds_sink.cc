// SPDX-License-Identifier: MIT
#include "sinks/seconds_sink.h"

#include <fmt/core.h>

#include <utility>

namespace slotscope {

void SecondsSink::WriteHeader(const HeaderLines& lines) {
  HeaderLines all = lines;
  all.emplace_back("table", "seconds: each row is a sum over the slots of a second of Unix time");
  csv_.WriteHeader(all);
  text_ += std::exchange(lines_.text, {});
  Flush();
}

void SecondsSink::Take(const Slot& second) {
  csv_.OnSlot(second);
  csv_.Flush();
  text_ += std::exchange(lines_.text, {});
}

void SecondsSink::Append(const Slot& slot) {
  const Slot* second;
  if (seconds_.Add(slot, &second)) Take(*second);
}

void SecondsSink::EndSegment() {
  if (const Slot* second = seconds_.Finish()) Take(*second);
}

std::string SecondsSink::Contents() const { return fmt::format("{} rows", csv_.nr_rows()); }

}  // namespace slotscope
