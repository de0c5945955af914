// SPDX-License-Identifier: MIT
#include "explain/story.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_line.h"
#include "base/rfc3339.h"
#include "base/scan.h"
#include "slots/column.h"

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
    Words{"throttled", "throttled: its cgroup's CPU quota was used up"},
    Words{"wakeup", "waited for an idle CPU to wake up"},
    Words{"steal", "waited while the hypervisor ran something else"},
    Words{"unknown", "waited, and the recording does not know for whom"},
    Words{"stopped", "stopped (SIGSTOP, a terminal, the freezer)"},
    Words{"traced", "stopped by a debugger or a tracer"},
    Words{"disk", "blocked on a disk"},
    Words{"blocked", "blocked in the kernel (a lock, a vfork, NFS)"},
    Words{"slower", "lost to instructions that took more cycles"},
    Words{"gpu_starved", ""},  // GpuLines()
};
// Of a moment of another kind nobody asked for these.
constexpr bool IsOfItsOwn(size_t why) { return why >= kSlower; }

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

std::string MsText(uint64_t ns) {
  return ns < 99'950'000 ? fmt::format("{:.1f}", Ms(ns)) : fmt::format("{:.0f}", Ms(ns));
}

// "8.2 GB/s".
std::string RateText(uint64_t bytes, int64_t ns) {
  return fmt::format("{:.2f} GB/s", static_cast<double>(bytes) / static_cast<double>(ns));
}

// "212 of 340 ms"; of more threads than one it may be more than there is: "612 ms in 340 ms".
std::string Took(uint64_t took, const Stall& stall) {
  const auto length = static_cast<uint64_t>(stall.length_ns());
  return fmt::format("{} {} {} ms", MsText(took), took <= length ? "of" : "ms in", MsText(length));
}
std::string Took(const Stall& stall) { return Took(stall.ns[stall.why], stall); }

// Those who did more than usual, if that is most of it; else whoever ran longest. More of one name are
// told together.
std::string WhoRan(const Stall& stall) {
  if (stall.neighbors.empty()) return "others";
  const bool has_unusual = stall.HasUnusualNeighbor();
  const auto first = std::find_if(stall.neighbors.begin(), stall.neighbors.end(),
                                  [&](const auto& one) { return one.is_unusual || !has_unusual; });
  Party who = first->who;
  for (auto more = first + 1; more != stall.neighbors.end(); ++more)
    if (more->is_unusual == first->is_unusual && more->who.name == who.name) who.nr += more->who.nr;
  return who.Text();
}

std::string CpusText(const std::vector<int>& cpus) {
  if (cpus.empty()) return "";
  std::string text = cpus.size() == 1 ? " on CPU" : " on CPUs";
  for (size_t i = 0; i < std::min(cpus.size(), kMostShownCpus); i++) text += fmt::format(" {}", cpus[i]);
  return text + (cpus.size() > kMostShownCpus ? " and others" : "");
}

std::string NeighborLine(const Neighbor& neighbor, const Stall& stall) {
  if (stall.why == kSlower) {
    std::string text = fmt::format("                {} moved {}", neighbor.who.Text(),
                                   RateText(neighbor.traffic_bytes, stall.length_ns()));
    if (neighbor.has_usual)
      text += fmt::format(", usually {}", RateText(neighbor.usual_traffic_bytes, stall.length_ns()));
    return text + "\n";
  }
  std::string text = fmt::format("   {:>8} ms    while {} ran{}", MsText(neighbor.ns),
                                 neighbor.who.Text(), CpusText(neighbor.cpus));
  if (neighbor.is_unusual && !neighbor.has_rows)
    text += " (its CPU time was not recorded)";
  else if (neighbor.is_unusual)
    text += fmt::format(" ({}CPU time {} ms, usually {})",
                        neighbor.of_name.empty() ? "" : neighbor.of_name + ": ", MsText(neighbor.cpu_ns),
                        MsText(neighbor.usual_cpu_ns));
  return text + "\n";
}

// What is less than a twentieth of it matters to nobody.
bool IsLittle(uint64_t ns, uint64_t of_ns) { return ns < kLeastShownNs || ns < of_ns / 20; }

std::string NeighborLines(const Stall& stall) {
  std::string text;
  size_t nr = 0;
  for (const Neighbor& neighbor : stall.neighbors) {
    if (stall.why == kSlower ? !neighbor.is_unusual : IsLittle(neighbor.ns, stall.ns[kByOthers]))
      continue;
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

// What the thread that launches did while its GPU had no work.
constexpr std::pair<GpuValue, const char*> kThreadDid[] = {
    {kNoWorkAsleep, "slept"},
    {kNoWorkInCudaWait, "slept in a call of CUDA"},
    {kNoWorkRan, "ran"},
    {kNoWorkWaited, "waited for a CPU"},
    {kNoWorkThrottled, "throttled"},
    {kNoWorkDisk, "waited for a disk"},
    {kNoWorkStopped, "was stopped"},
    {kNoWorkUnknown, "not known"},
};

// "18% of that in calls of CUDA".
std::string InCallsText(uint64_t in_calls_ns, uint64_t ran_ns) {
  return fmt::format("{:.0f}% of that in calls of CUDA", 100 * Ms(in_calls_ns) / Ms(ran_ns));
}

std::string GpuLines(const Stall& stall) {
  const GpuTimes& gpu = stall.gpu;
  if (!stall.launches) return "";
  std::string text;
  if (stall.never_waits) {
    text =
        "                it never waited for all that it had launched: when its GPU had no work is not "
        "visible from the host\n";
  } else if (!(stall.gpu_known >> kGpuNoWork & 1)) {
    text = "                when its GPU had no work is not known: calls of CUDA were lost\n";
  } else {
    text = AmountLine(gpu[kGpuNoWork], stall.usual_no_work_ns, "at least, its GPU had no work of it",
                      stall.has_usual);
    std::string did;
    for (const auto& [value, words] : kThreadDid)
      if (!IsLittle(gpu[value], gpu[kGpuNoWork]))
        did += fmt::format("{} {} {}", did.empty() ? "" : ",", words, MsText(gpu[value]));
    if (!did.empty()) text += fmt::format("                its launching thread:{}\n", did);
  }
  // As fast as it launches at all.
  if (gpu[kLauncherRan] * 2 > static_cast<uint64_t>(stall.length_ns()))
    text += fmt::format("   {:>8} ms  its launching thread ran, {}\n", MsText(gpu[kLauncherRan]),
                        InCallsText(gpu[kLauncherInCalls], gpu[kLauncherRan]));
  return text;
}

std::string StarvedLines(const Stall& stall) {
  std::string text;
  for (const StarvedGpu& one : stall.starved)
    text += AmountLine(
        one.no_work_ns, one.usual_no_work_ns,
        fmt::format("at least, the GPU of {} had no work: its thread slept", one.who.Text()).c_str(),
        stall.has_usual);
  if (stall.nr_more_starved)
    text += fmt::format("                and {} more GPUs had none\n", stall.nr_more_starved);
  return text;
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
    if (IsLittle(stall.ns[why], stall.ns[stall.why]) || why == kStarved ||
        (IsOfItsOwn(why) && why != stall.why))
      continue;
    text += AmountLine(stall.ns[why], stall.usual_ns[why], kWords[why].line, stall.has_usual);
    if (why == kByOthers || why == kSlower) text += NeighborLines(stall);
  }
  text += GpuLines(stall) + StarvedLines(stall);
  text += AmountLine(stall.cpu_ns, stall.usual_cpu_ns, "ran on a CPU", stall.has_usual);
  if (stall.asleep_ns >= kLeastShownNs) {
    text += fmt::format("   {:>8} ms  asleep", MsText(stall.asleep_ns));
    if (stall.asleep_since_ns)
      text += fmt::format(", last for long since {}", context.zone.ClockText(stall.asleep_since_ns));
    text += "\n";
  }
  if (stall.traffic_bytes) {
    text += fmt::format("                it moved {} of memory",
                        RateText(stall.traffic_bytes, stall.length_ns()));
    if (stall.has_usual)
      text += fmt::format(" (usual: {})", RateText(stall.usual_traffic_bytes, stall.length_ns()));
    text += "\n";
  }
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
  std::string text = fmt::format("   confidence: {} ({:.1f}% of CPU time lost here",
                                 ConfidenceText(stall.confidence()), 100 * stall.lost_share);
  if (!stall.has_waits) return text + "; waiting was not measured)\n";
  return text + fmt::format(", {:.1f}% of its waiting unknown{})\n", 100 * stall.unknown_share,
                            stall.waits_on
                                ? ";\n               it still waited at the end: who ran there is named"
                            : stall.guesses
                                ? ";\n               part of it was told late: who ran there is named"
                                : "");
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

std::string AtText(int64_t unix_ns) {
  return fmt::format("@{}.{:03}", unix_ns / 1'000'000'000, unix_ns / 1'000'000 % 1000);
}

// That selects a place by the name that Groups gave it.
std::string PlaceOption(std::string_view name) {
  for (const auto& [word, option] : {std::pair("pod ", "pod "), std::pair("container ", "cgroup ")})
    if (TakeText(&name, word)) return option + Quoted(std::string(name));
  return (name.starts_with('/') ? "cgroup " : "unit ") + Quoted(std::string(name));
}

// Shows the rows behind a stall. Who stood still has some on both sides only.
std::string Command(const Stall& stall, const StoryContext& context, const char* between) {
  const bool is_waiting = stall.who.nr && stall.why < kNrWaitHindrances;
  std::string text = fmt::format("slotscope explain {} --rows {}", Quoted(context.path),
                                 is_waiting && context.has_waits_table ? "waits" : "slots");
  if (stall.who.is_place)
    text += fmt::format(" --{}", PlaceOption(stall.who.name));
  else if (stall.who.nr == 1)
    text += fmt::format(" --pid {}", stall.who.tgid);
  else if (stall.who.nr > 1 && !stall.who.is_kernel)
    text += fmt::format(" --comm {}", Quoted(stall.who.name));
  const int64_t more_ns = is_waiting ? 0 : kBinNs;
  return text + between +
         fmt::format("--since {} --until {}", AtText(stall.from_ns - more_ns),
                     AtText(std::max(stall.to_ns + more_ns, stall.told_until_ns)));
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
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
  const int64_t length_ns = context.to_ns - context.from_ns;
  std::string text =
      fmt::format("{}{}{}\n{:.1f} s of {}", context.host, context.host.empty() ? "" : ", ",
                  RangeText(context), seconds(length_ns), context.path);
  // Less than two thirds: only the worst seconds and what is around them.
  if (context.read_ns * 3 < length_ns * 2)
    text += fmt::format(", {:.0f} of them to the millisecond", seconds(context.read_ns));
  text +=
      fmt::format(": {} rows; lost: {:.2g}% of CPU time\n", context.nr_rows, 100 * context.lost_share);
  if (context.is_damaged) text += "Some of that time could not be read: what follows is of the rest.\n";
  if (!context.has_waits && context.nr_rows)
    text += "Waiting was not measured (--no-waits, or an older recording).\n";
  if (!context.has_states && context.nr_rows)
    text += "Why processes did not run was not measured (an older recording).\n";
  if (context.told == StoryContext::Told::kWhatWas && context.nr_found)
    text += "No moment was worse than usual. Who was held up most in all of that time:\n";
  return text;
}

std::string Quiet(const StoryContext& context) {
  if (context.nr_rows == 0)
    return context.is_damaged ? "\nNothing of it could be read.\n" : "\nNothing was recorded then.\n";
  if (context.told != StoryContext::Told::kWorst)
    return !context.has_selection ? "\nNobody was held up then.\n"
           : context.is_part
               ? "\nNo selected process has a row in that time. (An earlier --since shows what was "
                 "before.)\n"
               : "\nNo selected process has a row in this recording.\n";
  const std::string usual = UsualSentence(context);
  return fmt::format(
      "\n{} {} was held up for longer than usual. Nobody is accused.\n{}"
      "(--at TIME or --pid PID tells of any time and process, usual or not.)\n",
      context.is_damaged ? "In what could be read" : "Quiet:",
      context.has_selection ? "none of those that are selected" : "no process",
      usual.empty() ? usual : usual + "\n");
}

// At most 80 columns, broken at blanks.
std::string Wrapped(const std::string& line, size_t indent) {
  constexpr size_t kWidth = 80;
  std::string text, rest = line;
  while (rest.size() > kWidth) {
    const size_t at = rest.rfind(' ', kWidth);
    if (at == rest.npos || at <= indent) break;
    text += rest.substr(0, at) + "\n";
    rest = std::string(indent, ' ') + rest.substr(at + 1);
  }
  return text + rest + "\n";
}

std::string WrappedLines(const std::string& text, size_t indent) {
  std::string wrapped;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    wrapped += Wrapped(text.substr(at, end - at), indent);
  }
  return wrapped;
}

nlohmann::ordered_json PartyJson(const Party& who) {
  nlohmann::ordered_json object = {{"name", who.name}, {"processes", who.nr}};
  if (who.nr == 1) object["pid"] = who.tgid;
  if (!who.place.empty()) object["in"] = who.place;
  return object;
}

// What was not measured is null.
nlohmann::ordered_json IfKnown(bool is_known, uint64_t number) {
  return is_known ? nlohmann::ordered_json(number) : nlohmann::ordered_json();
}

// "; its GPU had no work for at least 198.0 ms of that", or that of another one.
std::string GpuClause(const Stall& stall) {
  if (const uint64_t ns = stall.idle_gpu_ns())
    return fmt::format("; its GPU had no work for at least {} ms of that", MsText(ns));
  if (stall.starved.empty()) return "";
  const StarvedGpu& worst = stall.starved.front();
  return fmt::format("; meanwhile the GPU of {} had no work for at least {} ms{}", worst.who.Text(),
                     MsText(worst.no_work_ns),
                     stall.has_usual ? fmt::format(" (usual: {})", MsText(worst.usual_no_work_ns)) : "");
}

std::string StarvedText(const Stall& stall) {
  const GpuTimes& gpu = stall.gpu;
  const GpuValue by = StarvedBy(gpu);
  // Of all of it, unless that is nearly all.
  const std::string share =
      gpu[by] * 20 >= gpu[kGpuNoWork] * 19 ? ": " : fmt::format("; for {} ms of that ", MsText(gpu[by]));
  const std::string begin = fmt::format("the GPU of {} had no work for at least {}{}", stall.who.Text(),
                                        Took(gpu[kGpuNoWork], stall), share);
  switch (by) {
    case kNoWorkAsleep:
      return begin + "the thread that launches slept, not in CUDA and not for a disk";
    case kNoWorkInCudaWait:
      return begin + "the thread that launches slept in a call of CUDA";
    case kNoWorkRan:
      return begin + "the thread that launches ran, " +
             InCallsText(gpu[kNoWorkInCalls], gpu[kNoWorkRan]);
    default:
      return begin + "what the thread that launches did is not known";
  }
}

std::string WhatHappened(const Stall& stall) {
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
      return fmt::format("{} was stopped (SIGSTOP or frozen) for {}", who, took);
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
    case kStarved:
      return StarvedText(stall);
  }
  return who;
}

}  // namespace

std::string Headline(const Stall& stall) { return WhatHappened(stall) + GpuClause(stall); }

std::string UsualSentence(const StoryContext& context) {
  if (context.usual_waiting.empty()) return "";
  std::string text = "Usual here:";
  for (const UsualWaiting& one : context.usual_waiting)
    text += fmt::format("{} {} waited for a CPU {:.0f}% of the time in which {} wanted one",
                        &one == &context.usual_waiting.front() ? "" : ",", one.who.Text(),
                        100 * one.share(), one.who.nr == 1 ? "it" : "they");
  return text + ".";
}

std::vector<std::string> DetailLines(const Stall& stall, const StoryContext& context) {
  const std::string text = Details(stall, context) + AlsoLine(stall);
  std::vector<std::string> lines;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
  }
  return lines;
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
    if (IsOfItsOwn(i) && i != stall.why) continue;
    const bool is_measured =
        i < kNrWaitHindrances ? context.has_waits : IsOfItsOwn(i) || context.has_states;
    object["ns"][kWords[i].name] = IfKnown(is_measured, stall.ns[i]);
    object["usual_ns"][kWords[i].name] = IfKnown(is_measured && stall.has_usual, stall.usual_ns[i]);
  }
  object["cpu_ns"] = stall.cpu_ns;
  object["usual_cpu_ns"] = IfKnown(stall.has_usual, stall.usual_cpu_ns);
  object["asleep_ns"] = stall.asleep_ns;
  // The rest of the columns of a GPU, by their names; of a process that never waits for its GPU when
  // that had no work is not known.
  for (size_t i = kGpuNoWork; i < kNrGpuValues; i++)
    object[ColumnName(RowPart::kGpu, i)] =
        IfKnown((stall.gpu_known >> i & 1) && (i >= kLauncherRan || !stall.never_waits), stall.gpu[i]);
  object["usual_gpu_no_work_ns"] =
      IfKnown(stall.launches && stall.has_usual && !stall.never_waits, stall.usual_no_work_ns);
  object["starved_gpus"] = nlohmann::ordered_json::array();
  for (const StarvedGpu& one : stall.starved) {
    nlohmann::ordered_json gpu = PartyJson(one.who);
    gpu["gpu_no_work_ns"] = one.no_work_ns;
    gpu["usual_gpu_no_work_ns"] = one.usual_no_work_ns;
    object["starved_gpus"].push_back(std::move(gpu));
  }
  object["neighbors"] = nlohmann::ordered_json::array();
  for (const Neighbor& neighbor : stall.neighbors) {
    nlohmann::ordered_json one = PartyJson(neighbor.who);
    one["ran_instead_ns"] = neighbor.ns;
    one["cpus"] = neighbor.cpus;
    one["cpu_ns"] = IfKnown(neighbor.has_rows, neighbor.cpu_ns);
    one["usual_cpu_ns"] = IfKnown(neighbor.has_rows && neighbor.has_usual, neighbor.usual_cpu_ns);
    one["unusual"] = neighbor.is_unusual;
    if (!neighbor.of_name.empty()) one["of_name"] = neighbor.of_name;
    if (neighbor.traffic_bytes || neighbor.usual_traffic_bytes) {
      one["traffic_bytes"] = neighbor.traffic_bytes;
      one["usual_traffic_bytes"] = IfKnown(neighbor.has_usual, neighbor.usual_traffic_bytes);
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
  object["waits_on"] = stall.waits_on;
  object["guesses"] = stall.guesses;
  object["confidence"] = ConfidenceText(stall.confidence());
  object["command"] = Command(stall, context, " ");
  return object;
}

std::string StoryText(const std::vector<Stall>& stalls, const StoryContext& context) {
  std::string text = WrappedLines(Top(context), 2);
  if (stalls.empty()) return text + WrappedLines(Quiet(context), 0);
  size_t nr = 0;
  for (const Stall& stall : stalls) {
    text += "\n" + Wrapped(fmt::format("{}. {}  {}", ++nr, context.zone.ClockText(stall.from_ns),
                                       Headline(stall)),
                           3);
    text += WrappedLines(Details(stall, context), 17) + AlsoLine(stall) + ConfidenceLine(stall);
    if (context.told == StoryContext::Told::kWorst && stall.from_ns < context.from_ns)
      text += "   it began in front of the range that was asked for\n";
    if (context.told == StoryContext::Told::kWorst && stall.to_ns > context.to_ns)
      text += "   it went on behind the range that was asked for\n";
    text += "   rows: " + Command(stall, context, " \\\n         ") + "\n";
  }
  if (const size_t more = context.nr_found - stalls.size())
    text += fmt::format("\n{} more moment{} (-n {} shows them)\n", more, more == 1 ? "" : "s",
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
  object["read_ns"] = context.read_ns;
  object["waits_measured"] = context.has_waits;
  object["damaged"] = context.is_damaged;
  object["quiet"] = !context.is_damaged && context.told != StoryContext::Told::kAt &&
                    (stalls.empty() || context.told == StoryContext::Told::kWhatWas);
  object["usual_waiting"] = nlohmann::ordered_json::array();
  for (const UsualWaiting& one : context.usual_waiting) {
    nlohmann::ordered_json of = PartyJson(one.who);
    of["waited_ns"] = one.waited_ns;
    of["cpu_ns"] = one.cpu_ns;
    object["usual_waiting"].push_back(std::move(of));
  }
  object["moments_found"] = context.nr_found;
  object["moments"] = nlohmann::ordered_json::array();
  for (const Stall& stall : stalls) object["moments"].push_back(StallJson(stall, context));
  return JsonLine(object);
}

}  // namespace slotscope
