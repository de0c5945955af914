// SPDX-License-Identifier: MIT
#include "run/incidents.h"

#include <fmt/core.h>

#include "base/escape.h"
#include "base/rfc3339.h"

namespace slotscope {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr size_t kMaxReported = 100;  // between two slots

// Raw: whatever is said of it is escaped.
std::string NameOf(int32_t tgid, bool named, const Comm& comm) {
  return fmt::format("process {}{}", tgid, named ? fmt::format(" ({})", CommText(comm)) : "");
}

}  // namespace

void Incidents::Report(const std::string& event, const std::string& what) {
  std::lock_guard lock(mutex_);
  if (reported_.size() >= kMaxReported) return;
  reported_.emplace_back(event, what);
  any_.store(true, std::memory_order_release);
}

void Incidents::OnSlot(const Slot& slot) {
  if (any_.load(std::memory_order_acquire)) {
    std::vector<std::pair<std::string, std::string>> reported;
    {
      std::lock_guard lock(mutex_);
      reported = std::exchange(reported_, {});
      any_.store(false, std::memory_order_relaxed);
    }
    for (const auto& [event, what] : reported) Capture(slot, event, what);
  }
  if (options_.straggle)
    for (const StraggleReport& report : slot.straggles)
      if (report.state == StraggleReport::State::kInitial)
        Capture(slot, "straggle",
                fmt::format("{} launches {:.1f}% less than it used to",
                            NameOf(report.process.tgid, report.named, report.comm),
                            static_cast<double>(report.drop_ppm) / 1e4));
  if (options_.wait_ns == 0) return;
  const Row* worst = nullptr;
  uint64_t longest_ns = options_.wait_ns - 1;
  for (const Row& row : slot.rows) {
    if (!IsProcess(row.kind) || LongestWait(slot, row) <= longest_ns) continue;
    worst = &row;
    longest_ns = LongestWait(slot, row);
  }
  if (worst)
    Capture(slot, "wait",
            fmt::format("{} had waited {:.1f} ms for a CPU",
                        NameOf(worst->key.tgid, worst->named, worst->comm),
                        static_cast<double>(longest_ns) / 1e6));
}

void Incidents::Capture(const Slot& slot, const std::string& event, const std::string& what) {
  const int64_t unix_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  // Who is started again and again has no more of them.
  if (!std::exchange(knows_captured_, true))
    for (const auto& [from_ns, to_ns] : folder_->protections()) captured_.push_back(from_ns + kBeforeNs);
  // A clock that was set back must not make an hour that never ends.
  std::erase_if(captured_, [&](int64_t at_ns) { return at_ns > unix_ns || unix_ns - at_ns >= kHourNs; });
  const bool is_kept = !captured_.empty() && unix_ns - captured_.back() < kBehindNs;
  // Of a burst the first of each kind is told.
  if (is_kept ? !told_.insert(event).second : captured_.size() >= kMaxPerHour) {
    nr_since_++;
    nr_not_captured_.fetch_add(1, std::memory_order_relaxed);
    if (is_kept)
      news_.TellFirstOf(fmt::format("within {} {}", event, captured_.back()),
                        fmt::format("{} at {}: it is within what is kept for the previous incident",
                                    event, Rfc3339(unix_ns)));
    else
      news_.TellFirstOf("full", fmt::format("{} at {}: not kept: {} incidents of the last hour already "
                                            "are; further ones are only counted",
                                            event, Rfc3339(unix_ns), kMaxPerHour));
    return;
  }
  events_->Put(fmt::format("{},{},{},{},{}\n", slot.start_ns, unix_ns, event,
                           std::exchange(nr_since_, 0), EscapeName(what)));
  if (is_kept) {  // once for each kind
    folder_->Protect(captured_.back() - kBeforeNs, unix_ns + kBehindNs);
    return;
  }
  nr_captured_.fetch_add(1, std::memory_order_relaxed);
  told_ = {event};
  captured_.push_back(unix_ns);
  folder_->Protect(unix_ns - kBeforeNs, unix_ns + kBehindNs);
  news_.TellEvent(
      fmt::format("incident at {}: {}: {}; the minute before it and half a minute behind it "
                  "are kept",
                  Rfc3339(unix_ns), event, EscapeControls(what)));
}

}  // namespace slotscope
