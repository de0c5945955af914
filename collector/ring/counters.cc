// SPDX-License-Identifier: MIT
#include "ring/counters.h"

#include <bpf/bpf.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/errno_text.h"
#include "base/perf_counter.h"

namespace slotscope {
namespace {

struct NamedEvent {
  std::string_view name;
  uint32_t type;
  uint64_t config;
};

// Beside those of kPerfCounters.
constexpr NamedEvent kNamedEvents[] = {
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
};

constexpr const char* kEventSources = "/sys/bus/event_source/devices/";

std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (err != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// PMU/NAME/ with an event file of the form "event=0x00[,umask=0x00]".
std::optional<NamedEvent> ParsePmuEvent(std::string_view text) {
  size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.size() < slash + 3 || text.back() != '/')
    return std::nullopt;
  std::string pmu(text.substr(0, slash));
  std::string name(text.substr(slash + 1, text.size() - slash - 2));
  if (pmu.find("..") != std::string::npos || name.find('/') != std::string::npos) return std::nullopt;
  auto type = ReadLine(kEventSources + pmu + "/type");
  auto terms = ReadLine(kEventSources + pmu + "/events/" + name);
  if (!type || !terms) return std::nullopt;
  NamedEvent event = {{}, 0, 0};
  event.type = static_cast<uint32_t>(std::stoul(*type));
  std::string_view rest = *terms;
  while (!rest.empty()) {
    std::string_view term = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), term.size() + 1));
    bool is_umask = term.starts_with("umask=0x");
    if (!is_umask && !term.starts_with("event=0x")) return std::nullopt;  // needs the full perf parser
    auto value = ParseHex(term.substr(8));
    if (!value) return std::nullopt;
    event.config |= is_umask ? *value << 8 : *value;
  }
  return event;
}

std::optional<NamedEvent> ParseEvent(std::string_view text) {
  for (const PerfCounter& counter : kPerfCounters)
    if (text == counter.name) return NamedEvent{counter.name, counter.type, counter.config};
  for (const NamedEvent& event : kNamedEvents)
    if (text == event.name) return event;
  if (text.size() > 1 && text[0] == 'r')
    if (auto config = ParseHex(text.substr(1))) return NamedEvent{{}, PERF_TYPE_RAW, *config};
  return ParsePmuEvent(text);
}

}  // namespace

std::string CounterColumns() {
  std::string names;
  for (const PerfCounter& counter : kPerfCounters)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", counter.name);
  return names;
}

UniqueFd OpenCounter(const CounterSpec& spec, int cpu, int leader_fd) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = spec.type;
  attr.config = spec.config;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  attr.disabled = leader_fd < 0;  // members follow their leader
  return UniqueFd(
      static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, leader_fd, PERF_FLAG_FD_CLOEXEC)));
}

Status ParseCounterSpecs(std::string_view text, CounterSpecs* specs) {
  *specs = {};
  if (text == "none") return {};
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    std::string_view name = item.substr(0, item.find('='));
    std::string_view event = name.size() == item.size() ? name : item.substr(name.size() + 1);
    CounterSpec* spec = nullptr;
    for (size_t i = 0; i < kPerfCounters.size(); i++)
      if (name == kPerfCounters[i].name) spec = &(*specs)[i];
    if (!spec)
      return {Exit::kUsage, fmt::format("--events: there is no column '{}'; the columns are {}", name,
                                        CounterColumns())};
    if (spec->wanted) return {Exit::kUsage, fmt::format("--events: the column {} is named twice", name)};
    auto parsed = ParseEvent(event);
    if (!parsed)
      return {Exit::kUsage,
              fmt::format("--events: this machine knows no event '{}'; write a name such as "
                          "cycles or task-clock, rHEX, or PMU/NAME/ as under {}",
                          event, kEventSources)};
    *spec = {true, std::string(event), parsed->type, parsed->config};
  }
  return {};
}

CounterGroups::CounterGroups(const CounterSpecs& specs, size_t nr_cpus, OpenCounterFn open)
    : specs_(specs), open_(std::move(open)), fds_(nr_cpus) {
  for (uint32_t i = SS_NR_COUNTERS; i < SS_MAX_COUNTERS; i++)
    if (specs_[i].wanted) nr_more_ = i + 1 - SS_NR_COUNTERS;
}

// All stay open until every group is known: only then does a group say that it is full.
void CounterGroups::Probe(int cpu) {
  Fds fds;
  for (size_t i = 0; i < specs_.size(); i++) {
    if (!specs_[i].wanted) continue;
    for (size_t leader = 0; leader < i && !fds[i].valid(); leader++) {
      if (!fds[leader].valid() || leader_[leader] != leader) continue;
      fds[i] = open_(specs_[i], cpu, fds[leader].get());
      leader_[i] = leader;
    }
    if (!fds[i].valid()) {  // no group has room, or another PMU counts it
      fds[i] = open_(specs_[i], cpu, -1);
      leader_[i] = i;
      nr_groups_ += fds[i].valid();
    }
    if (fds[i].valid()) {
      opened_ |= 1u << i;
      continue;
    }
    const int err = errno;
    const bool absent = err == ENOENT || err == EOPNOTSUPP;
    notes_.push_back(
        fmt::format("{}: this machine cannot count {} ({}); the column is empty", kPerfCounters[i].name,
                    specs_[i].event,
                    absent ? "it has no such counter, like most virtual machines" : ErrnoText(err)));
  }
}

Status CounterGroups::Open(int cpu, int map_fd) {
  Close(cpu);
  Fds& fds = fds_[static_cast<size_t>(cpu)];
  for (size_t i = 0; i < specs_.size(); i++) {
    if (!(opened_ >> i & 1)) continue;
    fds[i] = open_(specs_[i], cpu, leader_[i] == i ? -1 : fds[leader_[i]].get());
    if (!fds[i].valid())
      return {ExitOfErrno(errno),
              fmt::format("cannot count {} on CPU {}: {}", specs_[i].event, cpu, ErrnoText(errno))};
    const auto key = static_cast<uint32_t>(i * fds_.size() + static_cast<size_t>(cpu));
    const int value = fds[i].get();
    if (bpf_map_update_elem(map_fd, &key, &value, BPF_ANY))
      return {ExitOfErrno(errno), fmt::format("cannot hand the {} counter of CPU {} to eBPF: {}",
                                              specs_[i].event, cpu, ErrnoText(errno))};
  }
  for (size_t i = 0; i < fds.size(); i++)
    if (fds[i].valid() && leader_[i] == i)
      ioctl(fds[i].get(), PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
  return {};
}

void CounterGroups::Close(int cpu) {
  for (UniqueFd& fd : fds_[static_cast<size_t>(cpu)]) fd.Reset();
}

}  // namespace slotscope
