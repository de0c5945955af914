// SPDX-License-Identifier: MIT
// NVML's answers, by the stand-in library, which is in place before ours is asked for: the loader knows
// libraries by their names.
#include "nvml/nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <libgen.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "nvml/sampler.h"

namespace slotscope {
namespace {

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[4096] = {};
    ASSERT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
    const std::string library = std::string(dirname(path)) + "/standin/libnvidia-ml.so.1";
    // Sanitized builds lie a folder deeper.
    handle_ = dlopen(library.c_str(), RTLD_NOW);
    if (!handle_)
      handle_ = dlopen((std::string(path) + "/../standin/libnvidia-ml.so.1").c_str(), RTLD_NOW);
    ASSERT_TRUE(handle_) << dlerror();
  }
  void TearDown() override {
    for (const char* name : names_) unsetenv(name);
    reinterpret_cast<void (*)()>(dlsym(handle_, "standin_nvml_release"))();  // no thread is left behind
    dlclose(handle_);
  }
  void Set(const char* name, const char* value) {
    setenv(name, value, 1);
    names_.push_back(name);
  }

 private:
  void* handle_ = nullptr;
  std::vector<const char*> names_;
};

TEST_F(NvmlTest, ListsGpus) {
  Nvml nvml;
  ASSERT_TRUE(nvml.Open().ok());
  ASSERT_EQ(nvml.gpus().size(), 2u);
  const GpuDevice& gpu = nvml.gpus()[1];
  EXPECT_EQ(gpu.label(), "1");
  EXPECT_EQ(gpu.uuid, "GPU-51075c09-0102-0304-0506-0708090a0100");
  EXPECT_EQ(gpu.pci, "00000000:02:00.0");
  EXPECT_EQ(gpu.name, "Stand-in 1G");
  EXPECT_EQ(gpu.total_bytes, 1u << 30);
  EXPECT_EQ(gpu.minor, 1);
  EXPECT_FALSE(gpu.divided);
  EXPECT_EQ(nvml.UsedBytes(1), 1u << 29);
}

TEST_F(NvmlTest, ListsInstancesBehindTheirGpu) {
  Set("SLOTSCOPE_STANDIN_MIG", "1");
  Nvml nvml;
  ASSERT_TRUE(nvml.Open().ok());
  ASSERT_EQ(nvml.gpus().size(), 4u);
  EXPECT_TRUE(nvml.gpus()[1].divided);
  EXPECT_EQ(nvml.gpus()[3].label(), "1:1");
  EXPECT_EQ(nvml.gpus()[3].uuid, "MIG-51075c09-0102-0304-0506-0708090a0102");
  EXPECT_EQ(nvml.gpus()[3].pci, nvml.gpus()[1].pci);
  EXPECT_EQ(nvml.gpus()[3].total_bytes, 1u << 28);
  EXPECT_FALSE(nvml.gpus()[3].divided);
  uint64_t ppm;
  EXPECT_FALSE(nvml.SmActive(3, &ppm)) << "it takes two samples";
  EXPECT_TRUE(nvml.SmActive(3, &ppm));
  EXPECT_EQ(ppm, 375'000u);
}

TEST_F(NvmlTest, SmsAreBusySinceTheLastTime) {
  Nvml nvml;
  ASSERT_TRUE(nvml.Open().ok());
  EXPECT_TRUE(nvml.has_sm_active(0));
  uint64_t ppm = 7;
  EXPECT_FALSE(nvml.SmActive(0, &ppm));
  EXPECT_EQ(ppm, 7u);
  for (int i = 0; i < 3; i++) {
    EXPECT_TRUE(nvml.SmActive(0, &ppm));
    EXPECT_EQ(ppm, 375'000u);
  }
}

TEST_F(NvmlTest, OlderGpusHaveNoGpm) {
  Set("SLOTSCOPE_STANDIN_NO_GPM", "1");
  Nvml nvml;
  ASSERT_TRUE(nvml.Open().ok());
  EXPECT_FALSE(nvml.has_sm_active(0));
  uint64_t ppm;
  EXPECT_FALSE(nvml.SmActive(0, &ppm));
}

TEST_F(NvmlTest, ClientsHoweverMany) {
  for (const auto& [text, nr] :
       std::initializer_list<std::pair<const char*, size_t>>{{"0", 0}, {"1", 1}, {"3000", 3000}}) {
    Set("SLOTSCOPE_STANDIN_CLIENTS", text);
    Nvml nvml;
    ASSERT_TRUE(nvml.Open().ok());
    const auto clients = nvml.Clients(0);
    ASSERT_EQ(clients.size(), nr);
    if (nr < 2) continue;
    EXPECT_EQ(clients[0].pid, getpid());
    EXPECT_EQ(clients[0].bytes, 1000u);
    EXPECT_EQ(clients[1].bytes, Nvml::kUnknownBytes);
  }
}

TEST_F(NvmlTest, ADriverThatDoesNotWorkIsASentence) {
  Set("SLOTSCOPE_STANDIN_NVML_ERROR", "9");
  Nvml nvml;
  const Status status = nvml.Open();
  EXPECT_EQ(status.message(), "NVML does not work: Driver Not Loaded (9)");
  EXPECT_TRUE(nvml.gpus().empty());
}

TEST_F(NvmlTest, ADriverThatHangsIsASentence) {
  Set("SLOTSCOPE_STANDIN_NVML_HANG", "init");
  Status status;
  const auto nvml = OpenNvml(&status, std::chrono::milliseconds(50));
  EXPECT_EQ(status.message().substr(0, 21), "NVML does not answer:");
  EXPECT_TRUE(nvml->gpus().empty());
}

TEST_F(NvmlTest, SamplesUntilItIsStopped) {
  Status status;
  ItemQueue items;
  GpuSampler sampler;
  sampler.Start(OpenNvml(&status), &items);
  ASSERT_TRUE(status.ok()) << status.message();
  std::map<uint32_t, size_t> nr;  // by GPU
  bool with_gpm = false;
  while (nr.size() < 2 || !with_gpm) {
    for (const ItemQueue::Entry& entry : items.Take()) {
      ASSERT_EQ(entry.kind, ItemKind::kGpuSample);
      ASSERT_EQ(entry.payload.size(), sizeof(GpuSample));
      GpuSample sample;
      std::memcpy(&sample, entry.payload.data(), sizeof(sample));
      EXPECT_EQ(sample.used_bytes, 1u << 29);
      nr[sample.gpu]++;
      if (!(sample.known & kGpuSampleSmActive)) continue;
      with_gpm = true;
      EXPECT_EQ(sample.sm_active_ppm, 375'000u);
      EXPECT_LT(sample.since_ns, entry.begin_ns);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sampler.Stop();
  items.Take();
  EXPECT_TRUE(items.Take().empty());
}

// Stop() returns.
TEST_F(NvmlTest, ADriverThatHangsLaterDoesNotHangUs) {
  Status status;
  ItemQueue items;
  const auto nvml = OpenNvml(&status);
  ASSERT_TRUE(status.ok());
  Set("SLOTSCOPE_STANDIN_NVML_HANG", "memory");
  GpuSampler sampler;
  sampler.Start(nvml, &items);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  sampler.Stop();
  EXPECT_TRUE(items.Take().empty());
}

TEST_F(NvmlTest, ANameIsAFieldOfAFile) {
  Set("SLOTSCOPE_STANDIN_NAME", "a,\"b\"\x1b[2J");
  Nvml nvml;
  ASSERT_TRUE(nvml.Open().ok());
  EXPECT_EQ(nvml.gpus()[0].name, "a\\x2c\\x22b\\x22\\x1b[2J");
}

}  // namespace
}  // namespace slotscope
