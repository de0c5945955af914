// SPDX-License-Identifier: MIT
// Groups of perf counters on PMUs that do not exist: what opens is decided here, as the kernel would.
#include "ring/counters.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cerrno>
#include <map>
#include <set>

#include "base/perf_counter.h"

namespace slotscope {
namespace {

// So many counters fit into a group; some events are not known, and those of another PMU join nobody.
struct Pmu {
  size_t room = SIZE_MAX;
  std::set<std::string> absent, of_another_pmu;
  int err = ENOENT;
  std::map<int, std::vector<std::string>> groups;  // by their leader's fd
  size_t nr_calls = 0;

  OpenCounterFn Opener() {
    return [this](const CounterSpec& spec, int, int leader_fd) {
      nr_calls++;
      errno = err;
      if (absent.contains(spec.event)) return UniqueFd();
      errno = EINVAL;  // as validate_group() says it
      if (leader_fd >= 0 &&
          (groups.at(leader_fd).size() >= room || of_another_pmu.contains(spec.event) ||
           of_another_pmu.contains(groups.at(leader_fd).front())))
        return UniqueFd();
      UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      groups[leader_fd >= 0 ? leader_fd : fd.get()].push_back(spec.event);
      return fd;
    };
  }
  std::set<std::vector<std::string>> Groups() const {
    std::set<std::vector<std::string>> all;
    for (const auto& [leader, members] : groups) all.insert(members);
    return all;
  }
};

CounterSpecs Parsed(const std::string& text) {
  CounterSpecs specs;
  EXPECT_TRUE(ParseCounterSpecs(text, &specs).ok()) << text;
  return specs;
}

const std::string kAll =
    "cycles,instructions,llc_misses,llc_references,branches,branch_misses,dtlb_misses,ref_cycles";

TEST(Counters, AllAreInOneGroupIfItHasRoom) {
  Pmu pmu;
  CounterGroups counters(Parsed(kAll), 4, pmu.Opener());
  counters.Probe(2);
  EXPECT_EQ(counters.opened_mask(), (1u << SS_MAX_COUNTERS) - 1);
  EXPECT_EQ(counters.nr_groups(), 1u);
  EXPECT_EQ(counters.nr_more(), static_cast<uint32_t>(SS_MAX_MORE));
  EXPECT_TRUE(counters.notes().empty());
  EXPECT_EQ(counters.nr_map_entries(), 4u * SS_MAX_COUNTERS);
}

TEST(Counters, WhatDoesNotFitMakesAnotherGroup) {
  using Groups = std::set<std::vector<std::string>>;
  const struct {
    size_t room;
    Groups groups;
  } cases[] = {
      {1,
       {{"cycles"},
        {"instructions"},
        {"llc_misses"},
        {"llc_references"},
        {"branches"},
        {"branch_misses"},
        {"dtlb_misses"},
        {"ref_cycles"}}},
      {3,
       {{"cycles", "instructions", "llc_misses"},
        {"llc_references", "branches", "branch_misses"},
        {"dtlb_misses", "ref_cycles"}}},
      {4,
       {{"cycles", "instructions", "llc_misses", "llc_references"},
        {"branches", "branch_misses", "dtlb_misses", "ref_cycles"}}},
      {7,
       {{"cycles", "instructions", "llc_misses", "llc_references", "branches", "branch_misses",
         "dtlb_misses"},
        {"ref_cycles"}}},
  };
  for (const auto& c : cases) {
    Pmu pmu;
    pmu.room = c.room;
    CounterGroups counters(Parsed(kAll), 1, pmu.Opener());
    counters.Probe(0);
    EXPECT_EQ(counters.opened_mask(), (1u << SS_MAX_COUNTERS) - 1) << c.room;
    EXPECT_EQ(counters.nr_groups(), c.groups.size()) << c.room;
    EXPECT_EQ(pmu.Groups(), c.groups) << c.room;
  }
}

TEST(Counters, OneOfAnotherPmuIsAloneAndLeavesNoGap) {
  Pmu pmu;
  pmu.of_another_pmu = {"task-clock"};
  CounterGroups counters(Parsed("cycles,instructions=task-clock,llc_misses"), 1, pmu.Opener());
  counters.Probe(0);
  EXPECT_EQ(counters.nr_groups(), 2u);
  EXPECT_EQ(pmu.Groups(),
            (std::set<std::vector<std::string>>{{"cycles", "llc_misses"}, {"task-clock"}}));
  EXPECT_EQ(counters.nr_more(), 0u);
}

TEST(Counters, WhatCannotBeCountedIsNotedAndTheOthersStillAre) {
  Pmu pmu;
  pmu.absent = {"cycles", "branches"};
  CounterGroups counters(Parsed(kAll), 1, pmu.Opener());
  counters.Probe(0);
  EXPECT_EQ(counters.opened_mask(), 0b11101110u);
  EXPECT_EQ(counters.nr_groups(), 1u) << "the next one leads";
  ASSERT_EQ(counters.notes().size(), 2u);
  EXPECT_NE(counters.notes()[0].find("cycles: this machine cannot count cycles (it has no such counter"),
            std::string::npos)
      << counters.notes()[0];
  Pmu refusing;
  refusing.absent = {"branches"};
  refusing.err = EACCES;
  CounterGroups refused(Parsed("branches"), 1, refusing.Opener());
  refused.Probe(0);
  EXPECT_EQ(refused.opened_mask(), 0u);
  EXPECT_EQ(refused.nr_more(), 2u) << "its column is there, and empty";
  ASSERT_EQ(refused.notes().size(), 1u);
  EXPECT_EQ(refused.notes()[0].find("no such counter"), std::string::npos) << refused.notes()[0];
}

TEST(Counters, OnlyWhatWasAskedForIsTried) {
  Pmu pmu;
  CounterGroups none(Parsed("none"), 1, pmu.Opener());
  none.Probe(0);
  EXPECT_EQ(pmu.nr_calls, 0u);
  CounterGroups one(Parsed("branch_misses=r412e"), 1, pmu.Opener());
  one.Probe(0);
  EXPECT_EQ(pmu.nr_calls, 1u);
  EXPECT_EQ(one.opened_mask(), 1u << 5);
  EXPECT_EQ(one.nr_more(), 3u);
}

TEST(Counters, EachColumnCountsWhatItIsCalled) {
  for (size_t i = 0; i < kPerfCounters.size(); i++) {
    const CounterSpecs specs = Parsed(std::string(kPerfCounters[i].name));
    EXPECT_TRUE(specs[i].wanted);
    EXPECT_EQ(specs[i].type, kPerfCounters[i].type);
    EXPECT_EQ(specs[i].config, kPerfCounters[i].config);
    for (size_t other = 0; other < specs.size(); other++) EXPECT_EQ(specs[other].wanted, other == i);
  }
}

}  // namespace
}  // namespace slotscope
