// SPDX-License-Identifier: MIT
// Xids in kernel logs: of /dev/kmsg, dmesg in its forms, journalctl in its forms, and syslog.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/inputs/timestamp.h"
#include "detect/inputs/xid.h"

namespace slotscope {

// An Xid of a node.
struct XidRecord {
  Moment when;
  LogClock clock = LogClock::kLine;
  std::string node;
  std::string uid;  // names the line
  int32_t code = 0;
  std::string bus;  // "": not said
  std::optional<int32_t> pid;
  std::string process;
  std::string message;
};

struct KernelLogStats {
  uint64_t nr_lines = 0;
  bool has_kernel_lines = false;  // some line looks like one of a kernel log
  uint64_t nr_xids = 0;
  uint64_t nr_malformed = 0;     // look like an Xid, and are none that we know
  uint64_t nr_without_time = 0;  // Xids that cannot be placed
  uint64_t nr_without_node = 0;  // Xids that are taken to be of the default node
};

class KernelLogReader {
 public:
  // Lines that do not say of which node they are are of `node`.
  KernelLogReader(const LogTimeOptions& times, std::string node)
      : times_(times), node_(std::move(node)) {}

  // The Xid in a line, if there is one. A line without a usable time is of receipt_ns (Unix time), if
  // that is given; else its clock is kNone.
  std::optional<XidRecord> OnLine(std::string_view line, std::optional<int64_t> receipt_ns = {});

  LogTimeReader& times() { return times_; }
  const KernelLogStats& stats() const { return stats_; }

 private:
  struct Line {
    std::string_view text;  // the driver's words
    std::optional<LogTime> time;
    std::string host;
    std::string uid;
  };
  std::optional<XidRecord> Take(const Line& line, std::optional<int64_t> receipt_ns);
  std::optional<XidRecord> OnJournal(std::string_view line, std::optional<int64_t> receipt_ns);

  LogTimeReader times_;
  std::string node_;
  KernelLogStats stats_;
};

}  // namespace slotscope
