// SPDX-License-Identifier: MIT
#include "sinks/side_sink.h"

#include <fmt/core.h>

#include <iterator>

namespace slotscope {

void SideSink::OnSlot(const Slot& slot) {
  Append(slot);
  if (text_.size() >= kBufferBytes) Flush();
}

void SideSink::Flush() {
  if (status_.ok() && !text_.empty()) status_ = file_->Write(text_);
  text_.clear();
}

Status SideSink::Finish() {
  EndSegment();
  Flush();
  return status_;
}

void SideSink::WriteCsvHeader(const HeaderLines& lines, std::string_view columns) {
  for (const auto& [key, value] : lines)
    fmt::format_to(std::back_inserter(text_), "# {}: {}\n", key, value);
  text_ += columns;
  Flush();
}

}  // namespace slotscope
