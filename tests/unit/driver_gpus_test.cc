// SPDX-License-Identifier: MIT
#include "nvml/driver_gpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temp_folder.h"

namespace slotscope {
namespace {

class DriverGpusTest : public testing::Test {
 protected:
  void Add(const std::string& bus, const std::string& text) const {
    const std::string folder = temp_.At("proc/driver/nvidia/gpus/" + bus);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/information") << text;
  }
  const TempFolder temp_;
};

constexpr const char* kFirst =
    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 10\nGPU UUID: \t GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b\n"
    "Bus Type: \t PCIe\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 5\nGPU Excluded:\t No\n";

TEST_F(DriverGpusTest, AreInTheOrderOfPci) {
  EXPECT_TRUE(ListDriverGpus(temp_.path()).empty());
  Add("0000:62:00.0", "Model: A\nGPU UUID: GPU-not-known-yet\nDevice Minor: 1\n");
  Add("0000:3b:00.0", kFirst);
  Add("0000:99:00.0", "Model: B\nGPU Excluded: Yes\n");
  const auto gpus = ListDriverGpus(temp_.path());
  ASSERT_EQ(gpus.size(), 2u);
  GpuDevice first;
  first.uuid = "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b";
  first.pci = "00000000:3B:00.0";
  first.name = "NVIDIA H200";
  first.minor = 5;
  EXPECT_EQ(gpus[0], first);
  EXPECT_EQ(gpus[1].index, 1u);
  EXPECT_EQ(gpus[1].name, "A");
  EXPECT_EQ(gpus[1].uuid, "") << "nobody has initialized it";
  EXPECT_EQ(gpus[1].minor, 1);
}

TEST_F(DriverGpusTest, OfInstancesTheDriverSaysNothing) {
  Add("0000:3b:00.0", kFirst);
  const std::string capabilities = temp_.At("proc/driver/nvidia/capabilities");
  std::filesystem::create_directories(capabilities + "/mig");
  std::filesystem::create_directories(capabilities + "/gpu5/mig");
  std::ofstream(capabilities + "/mig/config") << "x";
  EXPECT_EQ(ListDriverGpus(temp_.path()).size(), 1u);
  std::filesystem::create_directories(capabilities + "/gpu5/mig/gi1");
  EXPECT_TRUE(ListDriverGpus(temp_.path()).empty());
}

// What is there is read as far as it goes.
TEST_F(DriverGpusTest, AHostileFile) {
  Add("0000:3b:00.0",
      "Model\nDevice Minor: 99999999999\n: x\nGPU UUID:\n\n" + std::string(200'000, 'x'));
  const auto gpus = ListDriverGpus(temp_.path());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].minor, -1);
  EXPECT_EQ(gpus[0].uuid, "");
}

}  // namespace
}  // namespace slotscope
