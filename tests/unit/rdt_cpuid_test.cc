// SPDX-License-Identifier: MIT
// What CPUID says of RDT monitoring; the same C file as in the module.
#include <gtest/gtest.h>

extern "C" {
#include "kmod/rdt_cpuid.h"
}

#include <slotscope/events.h>

#include <functional>
#include <string>

namespace slotscope {
namespace {

constexpr uint32_t kAllEvents = 7;

// An Ice Lake server as it describes itself: 224 RMIDs, 64 KiB, 24 bits.
ss_rdt_cpuid IceLake() {
  ss_rdt_cpuid cpuid = {};
  cpuid.vendor = SS_VENDOR_INTEL;
  cpuid.family = 6;
  cpuid.model = 106;
  cpuid.stepping = 6;
  cpuid.features.ebx = 1u << 12;
  cpuid.monitoring = {0, 223, 0, 1u << 1};
  cpuid.l3 = {0, 65536, 223, kAllEvents};
  // 12 ways of 64 bytes, 65536 sets; 64 logical CPUs share it.
  cpuid.cache = {3 | 3u << 5 | 63u << 14, 63 | 11u << 22, 65535, 0};
  return cpuid;
}

TEST(RdtCpuid, DescribesTheCounters) {
  ss_rdt_cpuid cpuid = IceLake();
  ss_rdt_caps caps = {};
  ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
  EXPECT_EQ(caps.nr_rmids, 224u);
  EXPECT_EQ(caps.events, 1u << SS_RDT_LLC_OCCUPANCY | 1u << SS_RDT_MBM_TOTAL | 1u << SS_RDT_MBM_LOCAL);
  EXPECT_EQ(caps.unit_bytes, 65536u);
  EXPECT_EQ(caps.width, 24u);
  EXPECT_EQ(caps.has_overflow_bit, 0u);
  EXPECT_EQ(caps.corrected_from, UINT32_MAX);
  EXPECT_EQ(caps.cache_bytes, 48u << 20);
}

TEST(RdtCpuid, SaysWhyNot) {
  const struct {
    const char* why;
    std::function<void(ss_rdt_cpuid*)> change;
  } cases[] = {
      {"no RDT monitoring", [](auto* cpuid) { cpuid->features.ebx = 0; }},
      {"not of its L3 cache", [](auto* cpuid) { cpuid->monitoring.edx = 0; }},
      {"no RMID beside 0", [](auto* cpuid) { cpuid->l3.ecx = 0; }},
      {"no RMID beside 0", [](auto* cpuid) { cpuid->monitoring.ebx = 0; }},
      {"counts nothing", [](auto* cpuid) { cpuid->l3.edx = 0; }},
      {"does not say what", [](auto* cpuid) { cpuid->l3.ebx = 0; }},
      {"vendor is not known", [](auto* cpuid) { cpuid->vendor = SS_VENDOR_OTHER; }},
      {"counts wrongly",
       [](auto* cpuid) {
         cpuid->model = 0x55;
         cpuid->stepping = 4;
       }},
  };
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    c.change(&cpuid);
    ss_rdt_caps caps;
    const char* why = ss_rdt_decode_caps(&cpuid, &caps);
    ASSERT_NE(why, nullptr) << c.why;
    EXPECT_NE(std::string(why).find(c.why), std::string::npos) << why;
  }
}

TEST(RdtCpuid, WidthOfTheCounters) {
  const struct {
    ss_cpu_vendor vendor;
    uint32_t eax;
    uint32_t width;
    bool overflow;
  } cases[] = {
      {SS_VENDOR_INTEL, 0, 24, false},         {SS_VENDOR_INTEL, 8, 32, false},
      {SS_VENDOR_INTEL, 0x80, 62, false},  // a field of eight bits, not seven; and no counter is wider
      {SS_VENDOR_INTEL, 38, 62, false},        {SS_VENDOR_INTEL, 0x100 | 37, 61, true},
      {SS_VENDOR_INTEL, 0x100 | 38, 61, true}, {SS_VENDOR_INTEL, 0xff, 62, false},
      {SS_VENDOR_AMD, 0, 44, false},           {SS_VENDOR_AMD, 20, 44, false},
      {SS_VENDOR_AMD, 24, 48, false},
  };
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.vendor = c.vendor;
    cpuid.l3.eax = c.eax;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    EXPECT_EQ(caps.width, c.width) << c.eax;
    EXPECT_EQ(caps.has_overflow_bit, c.overflow) << c.eax;
  }
}

TEST(RdtCpuid, AsManyRmidsAsBothLeavesAndTheTableHave) {
  const struct {
    uint32_t machine, l3, nr;
  } cases[] = {{223, 223, 224},
               {223, 111, 112},
               {63, 223, 64},
               {1, 1, 2},
               {511, 511, 512},
               {1023, 1023, 512},
               {UINT32_MAX, UINT32_MAX, 512}};
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.monitoring.ebx = c.machine;
    cpuid.l3.ecx = c.l3;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    EXPECT_EQ(caps.nr_rmids, c.nr);
  }
}

TEST(RdtCpuid, SomeServersAreCorrected) {
  const struct {
    uint32_t model, stepping, max_rmid;
    uint32_t from;
    double factor;
  } cases[] = {
      {0x4f, 1, 55, 48, 1.142857},    // Broadwell with 7 units of 8
      {0x55, 7, 143, 128, 1.185255},  // Skylake's successor of the same model
      {0x55, 5, 223, 192, 1.143118},  // the last of the table
      {0x55, 5, 231, UINT32_MAX, 1},  // behind it
      {0x55, 5, 7, UINT32_MAX, 1},    // factor 1
      {0x55, 5, 3, UINT32_MAX, 1},    // in front of it
      {0x6a, 6, 55, UINT32_MAX, 1},   // another model
  };
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.model = c.model;
    cpuid.stepping = c.stepping;
    cpuid.monitoring.ebx = cpuid.l3.ecx = c.max_rmid;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    EXPECT_EQ(caps.corrected_from, c.from) << c.max_rmid;
    EXPECT_NEAR(caps.correction / 1048576.0, c.factor, 1e-6) << c.max_rmid;
  }
}

TEST(RdtCpuid, AmdIsNotCorrected) {
  ss_rdt_cpuid cpuid = IceLake();
  cpuid.vendor = SS_VENDOR_AMD;
  cpuid.model = 0x55;
  cpuid.monitoring.ebx = cpuid.l3.ecx = 143;
  ss_rdt_caps caps;
  ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
  EXPECT_EQ(caps.corrected_from, UINT32_MAX);
}

TEST(RdtCpuid, DomainIsTheApicIdWithoutWhatSharesTheCache) {
  const struct {
    uint32_t nr_sharing, apic_id, domain;
  } cases[] = {{64, 0, 0}, {64, 63, 0}, {64, 64, 1}, {64, 130, 2},   {1, 5, 5},
               {2, 5, 2},  {24, 31, 0}, {24, 32, 1}, {4096, 4095, 0}};
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.cache.eax = 3 | 3u << 5 | (c.nr_sharing - 1) << 14;
    cpuid.apic_id = c.apic_id;
    EXPECT_EQ(ss_rdt_decode_l3(&cpuid), c.domain) << c.nr_sharing << " " << c.apic_id;
  }
}

TEST(RdtCpuid, SubNumaClustersShareRmidsCountsAndCache) {
  const struct {
    uint32_t max_rmid, clusters, nr_rmids, first_of_last;
  } cases[] = {{223, 1, 224, 0},    {223, 2, 112, 112},   {222, 2, 111, 111},  // one is left over
               {1023, 2, 512, 512}, {1919, 3, 512, 1280}, {3, 2, 2, 2}};
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.monitoring.ebx = cpuid.l3.ecx = c.max_rmid;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    ASSERT_EQ(ss_rdt_caps_divide(&caps, c.clusters, true), nullptr);
    EXPECT_EQ(caps.nr_rmids, c.nr_rmids) << c.max_rmid;
    EXPECT_EQ(caps.unit_bytes, 65536u / c.clusters);
    EXPECT_EQ(caps.cache_bytes, (48u << 20) / c.clusters);
    EXPECT_EQ(ss_rdt_first_rmid(&caps, 0), 0u);
    EXPECT_EQ(ss_rdt_first_rmid(&caps, c.clusters - 1), c.first_of_last) << c.max_rmid;
    caps.nr_rmids = 2;  // as the user wants it: the hardware's numbers stay
    EXPECT_EQ(ss_rdt_first_rmid(&caps, c.clusters - 1), c.first_of_last) << c.max_rmid;
  }
}

TEST(RdtCpuid, OnlySomeServersSayHowSubNumaClustersCount) {
  const struct {
    ss_cpu_vendor vendor;
    uint32_t family, model;
    bool may_split;
  } cases[] = {{SS_VENDOR_INTEL, 6, 0x6a, true},
               {SS_VENDOR_INTEL, 6, 0xcf, true},
               {SS_VENDOR_INTEL, 6, 0x55, false},  // Cascade Lake, whose clusters do not
               {SS_VENDOR_INTEL, 15, 0x6a, false},
               {SS_VENDOR_AMD, 6, 0x6a, false}};
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.vendor = c.vendor;
    cpuid.family = c.family;
    cpuid.model = c.model;
    cpuid.stepping = 7;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    EXPECT_EQ(caps.may_split, c.may_split) << c.model;
  }
}

TEST(RdtCpuid, SubNumaClustersThatAreNotForUs) {
  const struct {
    const char* why;
    uint32_t max_rmid, clusters;
    bool is_split;
  } cases[] = {{"no order", 223, 0, true},
               {"not set them up", 223, 2, false},
               {"more sub-NUMA clusters", 2, 2, true},
               {"more sub-NUMA clusters", 223, 113, true}};
  for (const auto& c : cases) {
    ss_rdt_cpuid cpuid = IceLake();
    cpuid.monitoring.ebx = cpuid.l3.ecx = c.max_rmid;
    ss_rdt_caps caps;
    ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
    const char* why = ss_rdt_caps_divide(&caps, c.clusters, c.is_split);
    ASSERT_NE(why, nullptr) << c.why;
    EXPECT_NE(std::string(why).find(c.why), std::string::npos) << why;
  }
}

TEST(RdtCpuid, CpusThatDifferHaveWhatBothHave) {
  ss_rdt_cpuid cpuid = IceLake();
  ss_rdt_caps caps, other;
  ASSERT_EQ(ss_rdt_decode_caps(&cpuid, &caps), nullptr);
  other = caps;
  other.nr_rmids = 100;
  other.events = 1u << SS_RDT_MBM_TOTAL;
  EXPECT_TRUE(ss_rdt_caps_intersect(&caps, &other));
  EXPECT_EQ(caps.nr_rmids, 100u);
  EXPECT_EQ(caps.events, 1u << SS_RDT_MBM_TOTAL);
  const std::function<void(ss_rdt_caps*)> changes[] = {
      [](ss_rdt_caps* one) { one->unit_bytes *= 2; },
      [](ss_rdt_caps* one) { one->width++; },
      [](ss_rdt_caps* one) { one->has_overflow_bit = 1; },
      [](ss_rdt_caps* one) { one->events = 1u << SS_RDT_MBM_LOCAL; },
  };
  for (const auto& change : changes) {
    ss_rdt_caps mine = caps, its = caps;
    change(&its);
    EXPECT_FALSE(ss_rdt_caps_intersect(&mine, &its));
  }
}

}  // namespace
}  // namespace slotscope
