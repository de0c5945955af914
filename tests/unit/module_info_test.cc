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
