// SPDX-License-Identifier: MIT
#include "sinks/process_sink.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

#include "base/escape.h"

namespace slotscope {

void ProcessSink::WriteHeader(const HeaderLines& lines) {
  WriteCsvHeader(lines,
                 "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,ppid,comm,kind,executable,"
                 "arguments,cgroup,container_id,pod_uid,pod,unit\n");
  begins_ = true;
}

void ProcessSink::Append(const Slot& slot, const ProcessIdentity& identity) {
  static const Cgroup kUnknown;
  const Cgroup& cgroup = identity.cgroup ? *identity.cgroup : kUnknown;
  const auto name = [](const std::shared_ptr<const std::string>& text) {
    return text ? EscapeName(*text) : "";
  };
  fmt::format_to(std::back_inserter(text_), "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", slot.start_ns,
                 static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns, identity.key.tgid,
                 identity.key.start_time_ns, identity.ppid ? std::to_string(identity.ppid) : "",
                 EscapeName(CommText(identity.comm)), identity.kernel ? "kernel" : "user",
                 name(identity.executable), name(identity.arguments), EscapeName(cgroup.path),
                 EscapeName(cgroup.container_id), cgroup.pod_uid, EscapeName(cgroup.pod),
                 EscapeName(cgroup.unit));
  nr_rows_++;
}

void ProcessSink::Append(const Slot& slot) {
  for (const ProcessIdentity& one : slot.identities) {
    if (one.gone) {
      processes_.erase(one.key);
      continue;
    }
    processes_[one.key] = one;
    if (!begins_) Append(slot, one);
  }
  if (std::exchange(begins_, false))
    for (const auto& [key, one] : processes_) Append(slot, one);
}

std::string ProcessSink::Contents() const { return fmt::format("{} rows", nr_rows_); }

}  // namespace slotscope
