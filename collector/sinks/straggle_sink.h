// SPDX-License-Identifier: MIT
// Who straggles, with the evidence: a JSON object per line, one for each second of an episode and one
// when it is over.
#pragma once

#include <cstdint>
#include <string>

#include "sinks/side_sink.h"

namespace slotscope {

class StraggleSink final : public SideSink {
 public:
  using SideSink::SideSink;

  // JSON has no comments: the header's lines are the first object.
  void WriteHeader(const HeaderLines& lines) override;
  std::string Contents() const override;

 private:
  void Append(const Slot& slot) override;

  uint64_t nr_lines_ = 0;
};

}  // namespace slotscope
