// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "check/line.h"
#include "check/machine.h"
#include "check/trial.h"
#include "temp_folder.h"

namespace slotscope {
namespace {

using State = CheckLine::State;

// A machine that is made of files.
class Machine {
 public:
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    folder_.Write("root" + path, text);
  }
  void MakeFolder(const std::string& path) { std::filesystem::create_directories(root() + path); }
  std::string root() const { return folder_.At("root"); }

 private:
  TempFolder folder_;
};

constexpr const char* kRdtCpu = "processor\t: 0\nflags\t\t: fpu cqm_llc cqm_occup_llc cqm_mbm_total\n";

TEST(Check, AKernelNeedsTypesAndMayBeLockedDown) {
  Machine machine;
  EXPECT_EQ(CheckKernel(machine.root(), "6.1").state, State::kNo) << "it has no BTF";
  EXPECT_NE(CheckKernel(machine.root(), "6.1").remedy, "");
  machine.Put("/sys/kernel/btf/vmlinux", "types");
  EXPECT_EQ(CheckKernel(machine.root(), "6.1").state, State::kYes);
  machine.Put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
  EXPECT_EQ(CheckKernel(machine.root(), "6.1").state, State::kYes);
  machine.Put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  EXPECT_EQ(CheckKernel(machine.root(), "6.1").state, State::kPartly);
  machine.Put("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  EXPECT_EQ(CheckKernel(machine.root(), "6.1").state, State::kNo);
}

TEST(Check, RdtIsReadByTheModuleUnlessSomebodyElseDoes) {
  Machine machine;
  machine.Put("/proc/cpuinfo", "flags\t: fpu cqm_mbm_totally\n");
  EXPECT_EQ(CheckRdt(machine.root()).state, State::kNo) << "another word";
  EXPECT_EQ(CheckModule(machine.root()).remedy, "") << "it would measure nothing more";
  machine.Put("/proc/cpuinfo", kRdtCpu);
  EXPECT_EQ(CheckRdt(machine.root()).state, State::kPartly);
  EXPECT_NE(CheckModule(machine.root()).remedy, "");
  machine.Put("/proc/slotscope/info",
              "abi: 4\nbackend: hardware\nbackend_reason: RDT\nrdt_events: mbm_total\n"
              "l3_domain_0: 0-3\n");
  EXPECT_EQ(CheckModule(machine.root()).state, State::kYes) << CheckModule(machine.root()).what;
  EXPECT_EQ(CheckRdt(machine.root()).state, State::kYes);
  machine.Put("/proc/mounts", "proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0\n");
  for (const char* folder : {"info/L3_MON", "mon_data", "mon_groups/theirs", "jobs"})
    machine.MakeFolder(std::string("/sys/fs/resctrl/") + folder);
  EXPECT_EQ(CheckRdt(machine.root()).state, State::kPartly);
  EXPECT_NE(CheckRdt(machine.root()).what.find("with 2 groups"), std::string::npos)
      << CheckRdt(machine.root()).what;
  machine.Put("/proc/slotscope/info", "abi: 4711\n");
  EXPECT_EQ(CheckModule(machine.root()).state, State::kNo) << "it speaks another ABI";
}

TEST(Check, AClockThatIsSlowToReadIsSaid) {
  Machine machine;
  const std::string path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  machine.Put(path, "tsc\n");
  EXPECT_EQ(CheckClock(machine.root(), "").state, State::kYes);
  EXPECT_EQ(CheckClock(machine.root(), "").what, "tsc");
  machine.Put(path, "hpet\n");
  EXPECT_EQ(CheckClock(machine.root(), "").state, State::kPartly);
}

TEST(Check, ADriverIsLookedForWhereTheRecorderDoes) {
  Machine machine;
  EXPECT_EQ(CheckCudaDriver(machine.root()).state, State::kNo);
  machine.Put("/dev/nvidiactl", "");
  EXPECT_EQ(CheckCudaDriver(machine.root()).state, State::kYes);
}

TEST(Check, WhatIsNotCountedHasItsReason) {
  Trial trial;
  trial.facts.notes = {"cycles: this machine cannot count cycles (no PMU); the column is empty"};
  EXPECT_EQ(CheckCounters(trial).state, State::kNo);
  EXPECT_EQ(CheckCounters(trial).what, "this machine cannot count cycles (no PMU)");
  trial.facts.events = {"", "instructions", "llc_misses"};
  EXPECT_EQ(CheckCounters(trial).state, State::kPartly);
  trial.facts.events[0] = "cycles";
  EXPECT_EQ(CheckCounters(trial).state, State::kYes);
  EXPECT_EQ(CheckCounters(trial).what, "cycles, instructions, llc_misses");
}

TEST(Check, WhatElseTheSourceSaysIsThereOnce) {
  Trial trial;
  trial.facts.notes = {"cycles: none", "GPUs are not observed: none", "isolated CPUs are not watched"};
  const CheckLines lines = CheckNotes(trial);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].what, "isolated CPUs are not watched");
}

TEST(Check, CausesThatAreNotToldApartAreNamed) {
  Trial trial;
  EXPECT_EQ(CheckWaits(trial).state, State::kNo);
  trial.facts.has_waits = true;
  EXPECT_EQ(CheckWaits(trial).state, State::kPartly);
  EXPECT_NE(CheckWaits(trial).what.find("waits for a quota count as waits for whoever ran"),
            std::string::npos)
      << CheckWaits(trial).what;
  trial.facts.has_quota = trial.facts.has_steal = true;
  EXPECT_EQ(CheckWaits(trial).state, State::kYes);
}

TEST(Check, OnePercentLostIsTooMuch) {
  Trial trial;
  trial.facts.present_cpus = {0, 1};
  EXPECT_EQ(CheckLosses(trial).state, State::kNo) << "no slot";
  trial.counts.accounting.nr_slots = 1000;
  trial.counts.accounting.slots_ns = 1'000'000'000;
  trial.counts.accounting.lost_ns = 19'900'000;  // of 2 s
  EXPECT_EQ(CheckLosses(trial).state, State::kYes) << CheckLosses(trial).what;
  trial.counts.accounting.lost_ns = 20'000'000;
  EXPECT_EQ(CheckLosses(trial).state, State::kPartly);
  trial.counts.accounting.lost_ns = 0;
  trial.counts.merge.nr_lost = 1;
  EXPECT_EQ(CheckLosses(trial).state, State::kPartly);
  trial.counts.merge.nr_lost = 0;
  EXPECT_EQ(CheckLosses(trial).state, State::kYes);
  trial.counts.slots.nr_late_pieces = 1;
  EXPECT_EQ(CheckLosses(trial).state, State::kPartly) << "as any counter of a loss";
}

// Headers are once per segment, which a trial has one of in some seconds.
TEST(Check, ATrialsHeaderIsNotCountedForEachSecond) {
  EXPECT_DOUBLE_EQ(BytesPerSecond(3000, 12000, 4000, 2), 1000);
  EXPECT_DOUBLE_EQ(BytesPerSecond(3000, 0, 0, 2), 0);
  EXPECT_DOUBLE_EQ(BytesPerSecond(3000, 12000, 4000, 0), 0);
}

TEST(Check, TheRingReachesAsFarAsItsBytes) {
  Trial trial;
  trial.fine_bytes_per_s = 90'000;
  trial.coarse_bytes_per_s = 10'000;
  const std::string what = CheckRing(trial, 10'000'000'000, "/var/lib/slotscope").what;
  // 10 GB / 100 kB/s; a fifth of it by 90 kB/s; a half by 10 kB/s.
  EXPECT_NE(
      what.find(": the last 6 h to the millisecond, the last 6 days to the second, and more to the "
                "minute, at 100.0 kB/s as just now (until it is full, 28 h "),
      std::string::npos)
      << what;
}

// What was not measured is no number.
TEST(Check, ATrialThatWasTooShortSaysSo) {
  EXPECT_NE(CheckCost({}).what.find("not measured"), std::string::npos);
  EXPECT_NE(CheckRing({}, 1 << 30, "/var/lib/slotscope").what.find("not known"), std::string::npos);
  Trial trial;
  trial.cost_percent = 0.5;
  trial.seconds = 3;
  EXPECT_TRUE(CheckCost(trial).what.starts_with("0.5% of 0 CPUs")) << CheckCost(trial).what;
}

TEST(Check, LinesAreBrokenAtBlanks) {
  const CheckLines lines = {
      {"perf counters", State::kNo, std::string(40, 'a') + " " + std::string(40, 'b') + " c", "do it"},
      {"cost", State::kSize, "2%", ""},
      {"word", State::kYes, std::string(200, 'x'), ""}};
  const std::string text = CheckText(lines, 80);
  EXPECT_TRUE(text.starts_with("no      perf counters aaaa")) << text;
  EXPECT_NE(text.find("a\n                      bbbb"), std::string::npos) << text;
  EXPECT_NE(text.find("b c\n                      -> do it\n        cost          2%\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(std::string(200, 'x') + "\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace slotscope
