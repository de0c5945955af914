// SPDX-License-Identifier: MIT
#include "detect/inputs/kernel_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/scan.h"
#include "detect/inputs/json_tree.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {
namespace {

constexpr size_t kMaxHost = 253;
constexpr size_t kMaxPrefix = 1024;
constexpr int64_t kMaxDriftNs = 60'000'000'000;
constexpr int64_t kLookedAtNs = 1'100'000'000;

// "6,3964,206764307,-;": priority and facility, sequence, microseconds, flags.
struct KmsgPrefix {
  int64_t priority = 0, sequence = 0, us = 0;
};
std::optional<KmsgPrefix> ParseKmsgPrefix(std::string_view prefix) {
  if (prefix.empty() || prefix.front() < '0' || prefix.front() > '9') return {};
  const size_t end = prefix.find(';');
  if (end == prefix.npos || prefix.find(' ') < end) return {};
  prefix = prefix.substr(0, end);
  KmsgPrefix kmsg;
  for (int64_t* field : {&kmsg.priority, &kmsg.sequence, &kmsg.us}) {
    const size_t comma = prefix.find(',');
    const auto number = NumberOf<int64_t>(prefix.substr(0, comma));
    if (comma == prefix.npos || !number) return {};
    *field = *number;
    prefix.remove_prefix(comma + 1);
  }
  return kmsg;
}

// What stands before " kernel: ".
std::string HostOf(std::string_view prefix) {
  const size_t kernel = prefix.find(" kernel: ");
  if (kernel == prefix.npos) return {};
  prefix = prefix.substr(0, kernel);
  const size_t blank = prefix.rfind(' ');
  const std::string_view host = blank == prefix.npos ? prefix : prefix.substr(blank + 1);
  if (host.empty() || host.size() > kMaxHost || host.find_first_of("[]():") != host.npos) return {};
  return std::string(host);
}

// "trainer[4711]: " at the end of what syslog writes: a program quotes the kernel.
bool IsOfProgram(std::string_view prefix) {
  size_t end = prefix.find("]: ");
  while (end != prefix.npos) {
    size_t begin = end;
    while (begin > 0 && prefix[begin - 1] >= '0' && prefix[begin - 1] <= '9') begin--;
    if (begin < end && begin >= 2 && prefix[begin - 1] == '[' && prefix[begin - 2] != ' ') return true;
    end = prefix.find("]: ", end + 1);
  }
  return false;
}

// "user  :warn  : " of dmesg -x, "<12>" of dmesg -r: a program has written it there.
bool IsOfOtherFacility(std::string_view prefix) {
  if (prefix.starts_with('<') && prefix.find('>') != prefix.npos) {
    const auto priority = NumberOf<int64_t>(prefix.substr(1, prefix.find('>') - 1));
    return priority && *priority >> 3 != 0;
  }
  const size_t colon = prefix.find(':');
  if (colon == prefix.npos || prefix.find(": ", colon + 1) == prefix.npos) return false;
  std::string_view facility = prefix.substr(0, colon);
  while (facility.ends_with(' ')) facility.remove_suffix(1);
  for (std::string_view known :
       {"user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
        "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"})
    if (facility == known) return true;
  return false;
}

// Of whatever is in it. Not for lines that are cut out of a log: they have the driver's words.
bool IsOfKernelLog(std::string_view line) {
  if (ParseKmsgPrefix(line) || FindXid(line) != line.npos || line.starts_with("kern ")) return true;
  if (line.starts_with('{')) return line.find("\"_TRANSPORT\"") != line.npos;
  if (line.find("kernel: ") != line.npos || line.find(" kern: ") != line.npos) return true;
  LogTimeOptions any;
  any.boot_ns = 0;
  any.year = 2000;
  return LogTimeReader(any).Find(line.substr(0, 64)).has_value();
}

// Of a line of a journal: is MESSAGE a list? Who writes one may put blanks anywhere.
bool HasMessageInBytes(std::string_view line) {
  constexpr std::string_view kKey = "\"MESSAGE\"";
  size_t at = line.find(kKey);
  if (at == line.npos) return false;
  for (at += kKey.size(); at < line.size(); at++)
    if (line[at] != ' ' && line[at] != ':' && line[at] != '\t') return line[at] == '[';
  return false;
}

}  // namespace

std::optional<XidRecord> KernelLogReader::OnLine(std::string_view line,
                                                 std::optional<int64_t> receipt_ns) {
  stats_.nr_lines++;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!stats_.has_kernel_lines) stats_.has_kernel_lines = IsOfKernelLog(line);
  if (line.starts_with('{')) return OnJournal(line, receipt_ns);
  const size_t at = FindXid(line);
  if (at == line.npos || line.starts_with(' ')) return {};  // a blank: a property of the line before
  const std::string_view prefix = line.substr(0, std::min(at, kMaxPrefix));
  Line found = {line.substr(at), {}, HostOf(prefix), {}};
  if (const auto kmsg = ParseKmsgPrefix(prefix)) {
    // The kernel does not let programs write lines of facility 0: the others are not the driver's.
    if (kmsg->priority >> 3 != 0) return {};
    found.time = times_.SinceBoot(kmsg->us);
    found.uid = fmt::format("kmsg-{}", kmsg->sequence);
  } else {
    if (IsOfProgram(prefix) || IsOfOtherFacility(prefix)) return {};
    found.time = times_.Find(prefix);
  }
  return Take(found, receipt_ns);
}

std::optional<XidRecord> KernelLogReader::OnJournal(std::string_view line,
                                                    std::optional<int64_t> receipt_ns) {
  // Most lines of a journal are about other things.
  if (line.find("NVRM") == line.npos && !HasMessageInBytes(line)) return {};
  ValueTree tree;
  ValueTree::Index root;
  if (!ParseJson(line, &tree, &root).ok()) {
    stats_.nr_malformed++;
    return {};
  }
  const auto text_of = [&](std::string_view key) {
    const auto found = tree.Find(root, key);
    return found ? tree.Text(*found).value_or("") : std::string_view();
  };
  // Programs may log what they want, the kernel's own lines are marked.
  if (text_of("_TRANSPORT") != "kernel") return {};
  if (const auto facility = text_of("SYSLOG_FACILITY"); !facility.empty() && facility != "0") return {};
  std::string message(text_of("MESSAGE"));
  if (message.empty())  // a list of bytes, if they are no UTF-8
    if (const auto list = tree.Find(root, "MESSAGE"))
      for (ValueTree::Index item : tree.List(*list))
        message += static_cast<char>(tree.Integer(item).value_or('?'));
  const size_t at = FindXid(message);
  if (at == message.npos) return {};
  Line found = {std::string_view(message).substr(at), {}, {}, std::string(text_of("__CURSOR"))};
  if (const auto host = text_of("_HOSTNAME"); host.size() <= kMaxHost) found.host = host;
  if (const auto us = NumberOf<int64_t>(text_of("__REALTIME_TIMESTAMP"));
      us && *us > 0 && *us < INT64_MAX / 1000) {
    // That is when the journal got it, which may be much later, as at the boot.
    int64_t delay_us = 0;
    const auto got_us = NumberOf<int64_t>(text_of("__MONOTONIC_TIMESTAMP"));
    const auto source_us = NumberOf<int64_t>(text_of("_SOURCE_MONOTONIC_TIMESTAMP"));
    if (got_us && source_us && *source_us > 0 && *got_us > *source_us && *got_us - *source_us < *us)
      delay_us = *got_us - *source_us;
    found.time = LogTime{{(*us - delay_us) * 1000, 1000}, LogClock::kLine};
  }
  return Take(found, receipt_ns);
}

std::optional<XidRecord> KernelLogReader::Take(const Line& line, std::optional<int64_t> receipt_ns) {
  std::optional<Xid> xid = ParseXid(line.text);
  if (!xid) {
    stats_.nr_malformed++;
    return {};
  }
  stats_.nr_xids++;
  std::optional<LogTime> time = line.time;
  // What counts from the boot drifts: where it came just now, that is its time; looked at now and then.
  if (receipt_ns && (!time || (time->clock == LogClock::kBoot &&
                               std::abs(*receipt_ns - time->when.begin_ns) < kMaxDriftNs)))
    time = LogTime{{*receipt_ns - kLookedAtNs, kLookedAtNs}, LogClock::kReceipt};
  if (!time) {
    stats_.nr_without_time++;
    time = LogTime{{}, LogClock::kNone};
  }
  if (line.host.empty()) stats_.nr_without_node++;
  const std::string& node = line.host.empty() ? node_ : line.host;
  return XidRecord{time->when,
                   time->clock,
                   node,
                   line.uid.empty() ? fmt::format("{}-line-{}", node, stats_.nr_lines) : line.uid,
                   xid->code,
                   std::move(xid->bus),
                   xid->pid,
                   std::move(xid->process),
                   std::move(xid->message)};
}

}  // namespace slotscope
