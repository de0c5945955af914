// SPDX-License-Identifier: MIT
// Which GPUs a process sees. Indices are of the list: GPU 0, GPU 1, GPU 2 with instances 2:0 and 2:1,
// GPU 3.
#include "nvml/visible.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace slotscope {
namespace {

GpuDevice Gpu(uint32_t index, const std::string& name, const std::string& uuid, int32_t instance = -1) {
  GpuDevice gpu;
  gpu.index = index;
  gpu.instance = instance;
  gpu.name = name;
  gpu.uuid = uuid;
  gpu.minor = static_cast<int32_t>(index) + 10;
  return gpu;
}

std::vector<GpuDevice> Alike() {
  return {Gpu(0, "H", "GPU-aa00"), Gpu(1, "H", "GPU-aa11"), Gpu(2, "H", "GPU-bb22")};
}
std::vector<GpuDevice> Unlike() { return {Gpu(0, "H", "GPU-aa00"), Gpu(1, "A", "GPU-aa11")}; }
std::vector<GpuDevice> Divided() {
  std::vector<GpuDevice> gpus = {Gpu(0, "H", "GPU-aa00"), Gpu(1, "H", "GPU-aa11"),
                                 Gpu(1, "H 1g", "MIG-cc00", 0), Gpu(1, "H 1g", "MIG-cc11", 1)};
  gpus[1].divided = true;
  return gpus;
}

using Gpus = std::vector<int32_t>;

TEST(GpuVisible, AsCudaReadsIt) {
  constexpr const char* kUnset = nullptr;
  const struct {
    const char* what;
    std::vector<GpuDevice> gpus;
    const char* visible;
    const char* order;
    std::optional<Gpus> expected;
  } cases[] = {
      {"all", Alike(), kUnset, "", Gpus{0, 1, 2}},
      {"none", Alike(), "", "", Gpus{}},
      {"-1", Alike(), "-1", "", Gpus{}},
      {"one", Alike(), "2", "", Gpus{2}},
      {"in its own order", Alike(), "2,0", "", Gpus{2, 0}},
      {"with blanks", Alike(), " 1 , 2 ", "", Gpus{1, 2}},
      {"up to one that is not there", Alike(), "1,3,0", "", Gpus{1}},
      {"up to a word", Alike(), "1,none,0", "", Gpus{1}},
      {"NoDevFiles, as a batch system says it", Alike(), "NoDevFiles", "", Gpus{}},
      {"one twice", Alike(), "1,1", "", Gpus{}},
      {"too large a number", Alike(), "1,99999999999999999999999", "", Gpus{1}},
      {"by UUID", Alike(), "GPU-bb22,GPU-aa00", "", Gpus{2, 0}},
      {"by the beginning of one", Alike(), "GPU-b", "", Gpus{2}},
      {"by the beginning of two", Alike(), "GPU-aa", "", Gpus{}},
      {"by one of nobody", Alike(), "GPU-ff,0", "", Gpus{}},
      {"a comma at the end", Alike(), "1,", "", Gpus{1}},
      {"the fastest first, of unlike ones", Unlike(), kUnset, "", std::nullopt},
      {"the same, numbers", Unlike(), "0", "FASTEST_FIRST", std::nullopt},
      {"the same, UUIDs", Unlike(), "GPU-aa11", "", Gpus{1}},
      {"unlike ones by their place", Unlike(), kUnset, "PCI_BUS_ID", Gpus{0, 1}},
      {"an instance, by UUID", Divided(), "MIG-cc11", "", Gpus{3}},
      {"an instance, as it was once written", Divided(), "MIG-GPU-aa11/1/0", "", std::nullopt},
      {"a GPU with instances, by UUID", Divided(), "GPU-aa11", "", std::nullopt},
      {"whatever the driver chooses", Divided(), kUnset, "PCI_BUS_ID", std::nullopt},
      {"no GPU", {}, kUnset, "", Gpus{}},
  };
  for (const auto& c : cases) {
    GpuView view;
    if (c.visible) view.visible_devices = c.visible;
    view.device_order = c.order;
    EXPECT_EQ(VisibleGpus(c.gpus, view), c.expected) << c.what;
  }
}

TEST(GpuVisible, AContainerHasItsDevicesOnly) {
  GpuView view;
  view.minors = {11, 12};
  EXPECT_EQ(VisibleGpus(Alike(), view), (Gpus{1, 2}));
  view.visible_devices = "1";
  EXPECT_EQ(VisibleGpus(Alike(), view), (Gpus{2}));
  view.visible_devices.reset();
  view.minors = {10};
  EXPECT_EQ(VisibleGpus(Unlike(), view), (Gpus{0})) << "of one there is but one order";
  view.minors = {99};
  EXPECT_EQ(VisibleGpus(Alike(), view), Gpus{});
  view.minors = {11};
  auto gpus = Divided();
  gpus.pop_back();
  EXPECT_EQ(VisibleGpus(gpus, view), (Gpus{2})) << "the only instance";
}

TEST(GpuVisible, OneIsOneWhicheverItIs) {
  const struct {
    std::optional<std::string> visible_devices;
    std::vector<int32_t> minors;
    bool one;
  } cases[] = {{std::nullopt, {3}, true}, {std::nullopt, {0, 1}, false},
               {std::nullopt, {}, false}, {"1", {0, 1}, true},
               {" GPU-5 ", {}, true},     {"0,1", {0}, false},
               {"", {0}, false},          {"-1", {0}, false},
               {"none", {0}, false},      {"NoDevFiles", {0}, false}};
  for (const auto& c : cases)
    EXPECT_EQ(SeesOneGpu({c.visible_devices, "", c.minors}), c.one)
        << c.visible_devices.value_or("not set");
}

TEST(GpuVisible, OfAnEnvironment) {
  const struct {
    std::string text;
    std::optional<std::string> visible;
    const char* order;
  } cases[] = {
      {"", std::nullopt, ""},
      {std::string("A=1\0CUDA_VISIBLE_DEVICES=1,2\0B=\0", 33), "1,2", ""},
      {std::string("CUDA_VISIBLE_DEVICES=\0", 22), "", ""},
      {std::string("CUDA_VISIBLE_DEVICES=1\0CUDA_VISIBLE_DEVICES=2\0", 46), "1", ""},
      {std::string("CUDA_VISIBLE_DEVICES\0CUDA_DEVICE_ORDER=PCI_BUS_ID", 49), std::nullopt,
       "PCI_BUS_ID"},
      {std::string("\0\0\0=\0=CUDA_VISIBLE_DEVICES=3\0XCUDA_VISIBLE_DEVICES=3", 53), std::nullopt, ""},
      {std::string("CUDA_VISIBLE_DEVICES=5"), "5", ""},
  };
  for (const auto& c : cases) {
    GpuView view;
    ParseGpuEnvironment(c.text, &view);
    EXPECT_EQ(view.visible_devices, c.visible) << c.text;
    EXPECT_EQ(view.device_order, c.order) << c.text;
  }
}

TEST(GpuVisible, OfAProcess) {
  (void)ReadGpuView(getpid());
  const GpuView nobody = ReadGpuView(0x7fffffff);
  EXPECT_FALSE(nobody.visible_devices);
  EXPECT_TRUE(nobody.minors.empty());
}

TEST(GpuUuid, AsItLiesInMemory) {
  GpuUuid uuid;
  EXPECT_TRUE(ParseGpuUuid("GPU-00112233-4455-6677-8899-aAbBcCdDeEfF", &uuid));
  EXPECT_EQ(uuid, (GpuUuid{0x7766554433221100, 0xffeeddccbbaa9988}));
  GpuUuid instance;
  EXPECT_TRUE(ParseGpuUuid("MIG-00112233-4455-6677-8899-aabbccddeeff", &instance));
  EXPECT_EQ(instance, uuid);
  for (const char* bad :
       {"", "GPU-", "GPU-00112233-4455-6677-8899-aabbccddeef",
        "GPU-00112233-4455-6677-8899-aabbccddeeff0", "GPU-0011223344556677-8899-aabb-ccddeeff-",
        "XPU-00112233-4455-6677-8899-aabbccddeeff", "GPU-0011223g-4455-6677-8899-aabbccddeeff",
        "MIG-GPU-00112233-4455-6677-8899-aabbccddeeff/1/0"})
    EXPECT_FALSE(ParseGpuUuid(bad, &uuid)) << bad;
}

}  // namespace
}  // namespace slotscope
