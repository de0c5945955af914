// SPDX-License-Identifier: MIT
// A time zone, as the system's database has it, or a fixed distance from UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace date {
class time_zone;
}

namespace slotscope {

class Zone {
 public:
  // A moment on a clock on the wall.
  struct Local {
    int year = 1970, month = 1, day = 1;
    int64_t ns = 0;  // since midnight

    bool operator==(const Local&) const = default;
  };

  Zone() = default;  // UTC
  // "Europe/Berlin", "UTC", "Z", "+02:00", "-0730", "+02". Exit::kUsage if there is none.
  static Status Find(std::string_view name, Zone* zone);

  const std::string& name() const { return name_; }
  bool is_utc() const { return !zone_ && offset_s_ == 0; }

  // Exit::kUsage if the clock never showed that, or twice: then with both readings.
  Status UnixNs(const Local& local, int64_t* unix_ns) const;
  Local LocalOf(int64_t unix_ns) const;
  // "2026-11-22 03:12:07.120", in whole milliseconds.
  std::string Text(int64_t unix_ns) const;
  // "03:12:07.120".
  std::string ClockText(int64_t unix_ns) const;

 private:
  int64_t OffsetNs(int64_t unix_ns) const;

  const date::time_zone* zone_ = nullptr;  // null: the distance
  int32_t offset_s_ = 0;
  std::string name_ = "UTC";
};

// The name of this machine's zone; "": it does not say.
std::string HostZoneName();

}  // namespace slotscope
