// SPDX-License-Identifier: MIT
#include "explain/story.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_line.h"
#include "base/rfc3339.h"

namespace slotscope {
namespace {

constexpr uint64_t kLeastShownNs = 500'000;
constexpr size_t kMostShownNeighbors = 4, kMostShownCpus = 4;

// Of a hindrance: its name in JSON, and what a line says of it.
struct Words {
  const char* name;
  const char* line;
};
constexpr std::array<Words, kNrHindrances> kWords = {
    Words{"others", "waited for a CPU while other processes ran"},
    Words{"self", "waited for a CPU while its own threads ran"},
    Words{"throttled", "throttled: the CPU quota of its cgroup was used up"},
    Words{"wakeup", "waited for an idle CPU to wake up"},
    Words{"steal", "waited while the hypervisor ran something else"},
    Words{"unknown", "waited, and the recording does not know for whom"},
    Words{"stopped", "stopped, by SIGSTOP or from a terminal"},
    Words{"traced", "stopped by a debugger or a tracer"},
    Words{"disk", "blocked on a disk"},
    Words{"blocked", "blocked in the kernel: a lock, a vfork, a network file system"},
    Words{"slower", "lost to instructions that took more cycles than usual"},
};

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

std::string MsText(uint64_t ns) {
  return ns < 99'950'000 ? fmt::format("{:.1f}", Ms(ns)) : fmt::format("{:.0f}", Ms(ns));
}

// "8.2 GB/s".
std::string RateText(uint64_t bytes, int64_t ns) {
  return fmt::format("{:.2f} GB/s", static_cast<double>(bytes) / static_cast<double>(ns));
}

// "212 of 340 ms"; of more threads than one it may be more than there is: "612 ms in 340 ms".
std::string Took(const Stall& stall) {
  const auto length = static_cast<uint64_t>(stall.length_ns());
  const uint64_t took = stall.ns[stall.why];
  return fmt::format("{} {} {} ms", MsText(took), took <= length ? "of" : "ms in", MsText(length));
}

// Those who ran instead of it, as far as they did more than usual; else whoever ran longest. More of one
// name are told together.
std::string WhoRan(const Stall& stall) {
  if (stall.neighbors.empty()) return "others";
  const auto unusual = std::find_if(stall.neighbors.begin(), stall.neighbors.end(),
                                    [](const Neighbor& neighbor) { return neighbor.is_unusual; });
  Party who = unusual == stall.neighbors.end() ? stall.neighbors.front().who : unusual->who;
  if (unusual != stall.neighbors.end())
    for (auto more = unusual + 1; more != stall.neighbors.end(); ++more)
      if (more->is_unusual && more->who.name == who.name) who.nr += more->who.nr;
  return who.Text();
}

std::string CpusText(const std::vector<int>& cpus) {
  if (cpus.empty()) return "";
  std::string text = cpus.size() == 1 ? " on CPU" : " on CPUs";
  for (size_t i = 0; i < std::min(cpus.size(), kMostShownCpus); i++) text += fmt::format(" {}", cpus[i]);
  return text + (cpus.size() > kMostShownCpus ? " and others" : "");
}

std::string NeighborLine(const Neighbor& neighbor, const Stall& stall) {
  if (stall.why == kSlower)
    return fmt::format("              {} moved {} of memory, usually {}\n", neighbor.who.Text(),
                       RateText(neighbor.traffic_bytes, stall.length_ns()),
                       RateText(neighbor.usual_traffic_bytes, stall.length_ns()));
  std::string text = fmt::format("   {:>8} ms    {} ran{}", MsText(neighbor.ns), neighbor.who.Text(),
                                 CpusText(neighbor.cpus));
  if (neighbor.is_unusual)
    text += fmt::format("; all its CPU time {} ms, usually {}", MsText(neighbor.cpu_ns),
                        MsText(neighbor.usual_cpu_ns));
  return text + "\n";
}

std::string NeighborLines(const Stall& stall) {
  std::string text;
  size_t nr = 0;
  for (const Neighbor& neighbor : stall.neighbors) {
    if (stall.why != kSlower && neighbor.ns < kLeastShownNs) continue;
    if (stall.why == kSlower && !neighbor.is_unusual) continue;
    if (nr++ == kMostShownNeighbors) return text + "                 and others\n";
    text += NeighborLine(neighbor, stall);
  }
  return text;
}

// "usual: 0.3": in as long a time.
std::string AmountLine(uint64_t ns, uint64_t usual_ns, const char* words, bool has_usual) {
  std::string text = fmt::format("   {:>8} ms  {}", MsText(ns), words);
  if (has_usual) text += fmt::format(" (usual: {})", MsText(usual_ns));
  return text + "\n";
}

std::string Details(const Stall& stall, const StoryContext& context) {
  std::string text;
  if (stall.who.nr == 0) return text;
  // The largest first, and of others who they were.
  std::array<size_t, kNrHindrances> order;
  for (size_t i = 0; i < kNrHindrances; i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return stall.ns[a] > stall.ns[b]; });
  for (size_t why : order) {
    if (stall.ns[why] < kLeastShownNs || (why == kSlower && stall.why != kSlower)) continue;
    text += AmountLine(stall.ns[why], stall.usual_ns[why], kWords[why].line, stall.has_usual);
    if (why == kByOthers || why == kSlower) text += NeighborLines(stall);
  }
  text += AmountLine(stall.cpu_ns, stall.usual_cpu_ns, "ran on a CPU", stall.has_usual);
  if (stall.asleep_ns >= kLeastShownNs) {
    text += fmt::format("   {:>8} ms  asleep until something happened, last since {}\n",
                        MsText(stall.asleep_ns), context.zone.ClockText(stall.asleep_since_ns));
  }
  if (stall.traffic_bytes)
    text += fmt::format("              it moved {} of memory (usual: {})\n",
                        RateText(stall.traffic_bytes, stall.length_ns()),
                        RateText(stall.usual_traffic_bytes, stall.length_ns()));
  return text;
}

std::string AlsoLine(const Stall& stall) {
  if (stall.also.empty()) return "";
  std::string text = "   also held up:";
  size_t column = text.size();
  for (const auto& [who, ns] : stall.also) {
    const std::string one = fmt::format(" {} {} ms", who.Text(), MsText(ns));
    if (column + one.size() > 78) {
      text += "\n                ";
      column = 16;
    }
    text += one + (&who == &stall.also.back().first ? "" : ",");
    column += one.size() + 1;
  }
  return text + "\n";
}

std::string ConfidenceLine(const Stall& stall) {
  return fmt::format(
      "   confidence: {} ({:.1f}% of CPU time lost here, {:.1f}% of its waiting unknown)\n",
      ConfidenceText(stall.confidence()), 100 * stall.lost_share, 100 * stall.unknown_share);
}

std::string Quoted(const std::string& path) {
  const bool is_plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '.' || c == '-' || c == '_';
  });
  if (is_plain) return path;
  std::string text = "'";
  for (char c : path) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// Shows the rows behind a stall.
std::string Command(const Stall& stall, const StoryContext& context) {
  const bool has_waits = stall.who.nr && stall.why < kNrWaitHindrances;
  std::string text =
      fmt::format("slotscope explain {} --rows {}", Quoted(context.path), has_waits ? "waits" : "slots");
  if (stall.who.nr == 1)
    text += fmt::format(" --pid {}", stall.who.tgid);
  else if (stall.who.nr > 1)
    text += fmt::format(" --comm '{}'", stall.who.name);
  return text + fmt::format(" \\\n         --since @{}.{:03} --until @{}.{:03}",
                            stall.from_ns / 1'000'000'000, stall.from_ns / 1'000'000 % 1000,
                            stall.to_ns / 1'000'000'000, stall.to_ns / 1'000'000 % 1000);
}

// "2026-11-27 15:50:23.751 to 15:50:31.770 UTC (8.0 s)".
std::string RangeText(const StoryContext& context) {
  const Zone& zone = context.zone;
  const std::string from = zone.Text(context.from_ns), to = zone.Text(context.to_ns);
  constexpr size_t kDate = 10;
  const bool same_day = from.compare(0, kDate, to, 0, kDate) == 0;
  std::string text = fmt::format("{} to {} {}", from, same_day ? to.substr(kDate + 1) : to, zone.name());
  if (!zone.is_utc()) text += fmt::format(" ({} UTC)", Zone().ClockText(context.from_ns));
  return text;
}

std::string Top(const StoryContext& context) {
  const auto seconds = static_cast<double>(context.to_ns - context.from_ns) / 1e9;
  std::string text = fmt::format("{}{}{}\n{:.1f} s, {} rows; lost: {:.2g}% of CPU time", context.host,
                                 context.host.empty() ? "" : ", ", RangeText(context), seconds,
                                 context.nr_rows, 100 * context.lost_share);
  return text + "\n";
}

std::string Quiet(const StoryContext& context) {
  if (context.is_asked)
    return context.has_selection ? "\nNone of those that are selected ran, waited or was blocked then.\n"
                                 : "\nNobody ran, waited or was blocked then.\n";
  return fmt::format(
      "\nQuiet: {} was held up for longer than is usual for it. Nobody is accused.\n"
      "(--at TIME or --pid PID tells of any time and process, usual or not.)\n",
      context.has_selection ? "none of those that are selected" : "no process");
}

nlohmann::ordered_json PartyJson(const Party& who) {
  nlohmann::ordered_json object = {{"name", who.name}, {"processes", who.nr}};
  if (who.nr == 1) object["pid"] = who.tgid;
  return object;
}

nlohmann::ordered_json StallJson(const Stall& stall, const StoryContext& context) {
  nlohmann::ordered_json object;
  object["from"] = Rfc3339(stall.from_ns);
  object["to"] = Rfc3339(stall.to_ns);
  object["from_unix_ns"] = stall.from_ns;
  object["to_unix_ns"] = stall.to_ns;
  object["sentence"] = Headline(stall);
  object["who"] = stall.who.nr ? PartyJson(stall.who) : nlohmann::ordered_json();
  object["cause"] = stall.who.nr ? kWords[stall.why].name : "lost";
  for (size_t i = 0; i < kNrHindrances; i++) {
    if (i == kSlower && stall.why != kSlower) continue;
    object["ns"][kWords[i].name] = stall.ns[i];
    object["usual_ns"][kWords[i].name] = stall.usual_ns[i];
  }
  object["cpu_ns"] = stall.cpu_ns;
  object["usual_cpu_ns"] = stall.usual_cpu_ns;
  object["asleep_ns"] = stall.asleep_ns;
  object["neighbors"] = nlohmann::ordered_json::array();
  for (const Neighbor& neighbor : stall.neighbors) {
    nlohmann::ordered_json one = PartyJson(neighbor.who);
    one["ran_instead_ns"] = neighbor.ns;
    one["cpus"] = neighbor.cpus;
    one["cpu_ns"] = neighbor.cpu_ns;
    one["usual_cpu_ns"] = neighbor.usual_cpu_ns;
    one["unusual"] = neighbor.is_unusual;
    if (neighbor.traffic_bytes || neighbor.usual_traffic_bytes) {
      one["traffic_bytes"] = neighbor.traffic_bytes;
      one["usual_traffic_bytes"] = neighbor.usual_traffic_bytes;
    }
    object["neighbors"].push_back(std::move(one));
  }
  object["also"] = nlohmann::ordered_json::array();
  for (const auto& [who, ns] : stall.also) {
    nlohmann::ordered_json one = PartyJson(who);
    one["ns"] = ns;
    object["also"].push_back(std::move(one));
  }
  object["lost_share"] = stall.lost_share;
  object["unknown_share"] = stall.unknown_share;
  object["confidence"] = ConfidenceText(stall.confidence());
  object["command"] = Command(stall, context);
  return object;
}

}  // namespace

std::string Headline(const Stall& stall) {
  if (stall.who.nr == 0)
    return fmt::format("the recording lost {:.0f}% of the CPUs' time ({} ms): nobody knows who ran",
                       100 * stall.lost_share, MsText(stall.ns[kByUnknown]));
  const std::string who = stall.who.Text(), took = Took(stall);
  if (stall.ns[stall.why] == 0)
    return fmt::format("{} was not held up in {} ms", who,
                       MsText(static_cast<uint64_t>(stall.length_ns())));
  switch (stall.why) {
    case kByOthers:
      return fmt::format("{} waited {} for a CPU while {} ran", who, took, WhoRan(stall));
    case kBySelf:
      return fmt::format("{} waited {} for a CPU while its own threads ran", who, took);
    case kByQuota:
      return fmt::format("{} was throttled for {}: its cgroup's CPU quota was used up", who, took);
    case kByWakeup:
      return fmt::format("{} waited {} for an idle CPU to wake up", who, took);
    case kBySteal:
      return fmt::format("{} waited {} while the hypervisor ran something else", who, took);
    case kByUnknown:
    case kNrHindrances:
      return fmt::format("{} waited {} for a CPU; the recording does not know for whom", who, took);
    case kStopped:
      return fmt::format("{} was stopped (SIGSTOP) for {}", who, took);
    case kTraced:
      return fmt::format("{} was stopped by a tracer for {}", who, took);
    case kByDisk:
      return fmt::format("{} was blocked on a disk for {}", who, took);
    case kBlocked:
      return fmt::format("{} was blocked in the kernel for {}", who, took);
    case kSlower:
      return fmt::format("{} lost {} to slower memory while {} moved {}", who, took, WhoRan(stall),
                         stall.neighbors.empty()
                             ? "memory"
                             : RateText(stall.neighbors.front().traffic_bytes, stall.length_ns()));
  }
  return who;
}

std::string StoryText(const std::vector<Stall>& stalls, const StoryContext& context) {
  std::string text = Top(context);
  if (stalls.empty()) return text + Quiet(context);
  size_t nr = 0;
  for (const Stall& stall : stalls) {
    text += fmt::format("\n{}. {}  {}\n", ++nr, context.zone.ClockText(stall.from_ns), Headline(stall));
    text += Details(stall, context) + AlsoLine(stall);
    text += ConfidenceLine(stall) + "   rows: " + Command(stall, context) + "\n";
  }
  if (context.nr_found > stalls.size())
    text += fmt::format("\n{} more moments (-n {} shows them)\n", context.nr_found - stalls.size(),
                        context.nr_found);
  return text;
}

std::string StoryJson(const std::vector<Stall>& stalls, const StoryContext& context) {
  nlohmann::ordered_json object;
  object["recording"] = context.path;
  object["host"] = context.host;
  object["time_zone"] = context.zone.name();
  object["from"] = Rfc3339(context.from_ns);
  object["to"] = Rfc3339(context.to_ns);
  object["rows"] = context.nr_rows;
  object["lost_share"] = context.lost_share;
  object["quiet"] = !context.is_asked && stalls.empty();
  object["moments_found"] = context.nr_found;
  object["moments"] = nlohmann::ordered_json::array();
  for (const Stall& stall : stalls) object["moments"].push_back(StallJson(stall, context));
  return JsonLine(object);
}

}  // namespace slotscope
