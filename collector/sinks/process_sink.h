// SPDX-License-Identifier: MIT
// Who processes are, as CSV: a row where one is named, is called
// something else, executes something else, or is in another cgroup.
// A segment begins with all that there are, so it can be read without those before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sinks/side_sink.h"

namespace slotscope {

class ProcessSink final : public SideSink {
 public:
  using SideSink::SideSink;

  void WriteHeader(const HeaderLines& lines) override;
  std::string Contents() const override;

 private:
  void Append(const Slot& slot) override;
  void Append(const Slot& slot, const ProcessIdentity& identity);

  std::map<ProcessKey, ProcessIdentity> processes_;
  bool begins_ = false;
  uint64_t nr_rows_ = 0;
};

}  // namespace slotscope
