// SPDX-License-Identifier: MIT
#include "ring/module_info.h"

#include <gtest/gtest.h>
#include <slotscope/events.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/unique_fd.h"

namespace slotscope {
namespace {

TEST(ModuleInfo, TakesKeyValueLinesAndIgnoresOthers) {
  const struct {
    const char* text;
    ModuleInfo info;
  } cases[] = {
      {"", {}},
      {"\n\n", {}},
      {"no colon\n", {}},
      {"colon:but no space\n", {}},
      {"abi: 1\n", {{"abi", "1"}}},
      {"abi: 1", {{"abi", "1"}}},
      {"abi: 1\nbackend: emulated\n", {{"abi", "1"}, {"backend", "emulated"}}},
      {"reason: resctrl: mounted\n", {{"reason", "resctrl: mounted"}}},
      {"empty: \n", {{"empty", ""}}},
      {"junk\nabi: 1\njunk\n", {{"abi", "1"}}},
      {"abi: 1\nabi: 2\n", {{"abi", "1"}}},
  };
  for (const auto& c : cases) EXPECT_EQ(ParseModuleInfo(c.text), c.info) << c.text;
}

TEST(ModuleInfo, SaysWhatRdtCounts) {
  const ModuleInfo good = {{"backend", "hardware"},
                           {"rdt_events", "llc_occupancy mbm_total mbm_local"},
                           {"l3_domain_10", "8-9"},
                           {"l3_domain_2", "0-3,6"}};
  EXPECT_EQ(ParseModuleRdt(good), (RdtShape{{{2, {0, 1, 2, 3, 6}}, {10, {8, 9}}}, true, true, true}));
  const struct {
    const char* what;
    const char* key;
    const char* value;
    RdtShape rdt;
  } cases[] = {
      {"some", "rdt_events", "mbm_total", {{{2, {0, 1, 2, 3, 6}}, {10, {8, 9}}}, false, true, false}},
      {"nothing", "rdt_events", "", {}},
      {"of another kind", "rdt_events", "bandwidth", {}},
      {"emulated", "backend", "emulated", {}},
      {"no list", "l3_domain_2", "many", {}},
      {"a CPU in two", "l3_domain_2", "0-8", {}},
      {"no number", "l3_domain_x", "20", {}},
      {"too large a number", "l3_domain_4294967296", "20", {}},
  };
  for (const auto& c : cases) {
    ModuleInfo info = good;
    info[c.key] = c.value;
    EXPECT_EQ(ParseModuleRdt(info), c.rdt) << c.what;
  }
  EXPECT_EQ(ParseModuleRdt({}), RdtShape());
}

TEST(ModuleInfo, TakesTheAbiOfThisProgram) {
  EXPECT_TRUE(CheckModuleAbi({{"abi", std::to_string(SS_ABI_VERSION)}}).ok());
}

TEST(ModuleInfo, AnotherAbiIsRefusedWithBothNumbers) {
  for (const char* abi : {"77", "0", "", "1 ", "one"}) {
    Status status = CheckModuleAbi({{"abi", abi}});
    EXPECT_EQ(status.code(), Exit::kModule) << abi;
    EXPECT_NE(status.message().find("ABI " + std::string(abi)), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("ABI " + std::to_string(SS_ABI_VERSION)), std::string::npos)
        << status.message();
  }
}

TEST(ModuleInfo, NoAbiIsRefused) {
  Status status = CheckModuleAbi({{"backend", "emulated"}});
  EXPECT_EQ(status.code(), Exit::kModule);
  EXPECT_NE(status.message().find(kModuleInfoPath), std::string::npos) << status.message();
}

TEST(ModuleInfo, AMissingFileMeansThatTheModuleIsNotLoaded) {
  std::string text;
  Status status = ReadModuleFile("/proc/no-such-slotscope/info", &text);
  EXPECT_EQ(status.code(), Exit::kModule);
  for (const char* word : {"/proc/no-such-slotscope/info", "modprobe slotscope", "--source bpf"})
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

TEST(ModuleInfo, ReadsAFileWhole) {
  std::string path = testing::TempDir() + "slotscope-info-XXXXXX";
  UniqueFd fd(mkstemp(path.data()));
  ASSERT_TRUE(fd.valid());
  std::string written(100'000, 'x');
  std::ofstream(path) << written;
  std::string text = "what was there before";
  EXPECT_TRUE(ReadModuleFile(path.c_str(), &text).ok());
  EXPECT_EQ(text, written);
  unlink(path.c_str());
}

}  // namespace
}  // namespace slotscope
