// SPDX-License-Identifier: MIT
#include "nvml/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <future>
#include <thread>
#include <utility>

#include "base/escape.h"
#include "nvml/driver_gpus.h"

namespace slotscope {
namespace {

// NVML's own names without their prefix; types as its ABI has them.
using Handle = void*;
using Return = int;
constexpr Return kSuccess = 0, kInsufficientSize = 7;
constexpr unsigned kTextBytes = 96;
constexpr unsigned kMaxGpus = 256, kMaxInstances = 16;  // our own limits; of instances there are 7

struct Memory {
  uint64_t total, free, used;
};
struct Memory2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};
struct PciInfo {  // _v3
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {  // _v3
  unsigned pid;
  uint64_t used_bytes;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && sizeof(PciInfo) == 68);

struct GpmSupport {
  unsigned version;
  unsigned is_supported;
};
struct GpmMetric {
  unsigned id;
  Return status;
  double value;
  const char *short_name, *long_name, *unit;
};
// The library's has more metrics, and their number grows; it looks at the first nr_metrics.
struct GpmMetricsGet {
  unsigned version;
  unsigned nr_metrics;
  Handle sample1, sample2;
  std::array<GpmMetric, 512> metrics;
};
constexpr unsigned kGpmVersion = 1, kGpmSmUtil = 2;

template <typename T>
constexpr unsigned VersionOf(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | version << 24;
}

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool initialized = false;
  // Needed.
  Return (*Init)();
  Return (*Shutdown)();
  const char* (*ErrorString)(Return);
  Return (*GetCount)(unsigned*);
  Return (*GetHandleByIndex)(unsigned, Handle*);
  Return (*GetUuid)(Handle, char*, unsigned);
  Return (*GetName)(Handle, char*, unsigned);
  Return (*GetMemoryInfo)(Handle, Memory*);
  // Null in older ones.
  Return (*GetMemoryInfo2)(Handle, Memory2*);
  Return (*GetPciInfo)(Handle, PciInfo*);
  Return (*GetMinorNumber)(Handle, unsigned*);
  Return (*GetProcesses)(Handle, unsigned*, ProcessInfo*);
  Return (*GetMigMode)(Handle, unsigned*, unsigned*);
  Return (*GetMaxInstances)(Handle, unsigned*);
  Return (*GetInstance)(Handle, unsigned, Handle*);
  Return (*GetGpuInstanceId)(Handle, unsigned*);
  Return (*GpmQuerySupport)(Handle, GpmSupport*);
  Return (*GpmSampleAlloc)(Handle*);
  Return (*GpmSampleFree)(Handle);
  Return (*GpmSampleGet)(Handle, Handle);
  Return (*GpmMigSampleGet)(Handle, unsigned, Handle);
  Return (*GpmMetricsGet)(slotscope::GpmMetricsGet*);

  ~Library() {
    if (initialized) Shutdown();
    if (handle) dlclose(handle);
  }
  template <typename F>
  bool Load(F* function, const char* name) {
    *function = reinterpret_cast<F>(dlsym(handle, name));
    return *function != nullptr;
  }
  // The name of the first function that is needed and missing, or null.
  const char* LoadAll();
};

const char* Nvml::Library::LoadAll() {
  const char* missing = nullptr;
  const auto need = [&](auto* function, const char* name) {
    if (!Load(function, name) && !missing) missing = name;
  };
  need(&Init, "nvmlInit_v2");
  need(&Shutdown, "nvmlShutdown");
  need(&ErrorString, "nvmlErrorString");
  need(&GetCount, "nvmlDeviceGetCount_v2");
  need(&GetHandleByIndex, "nvmlDeviceGetHandleByIndex_v2");
  need(&GetUuid, "nvmlDeviceGetUUID");
  need(&GetName, "nvmlDeviceGetName");
  need(&GetMemoryInfo, "nvmlDeviceGetMemoryInfo");
  Load(&GetMemoryInfo2, "nvmlDeviceGetMemoryInfo_v2");
  Load(&GetPciInfo, "nvmlDeviceGetPciInfo_v3");
  Load(&GetMinorNumber, "nvmlDeviceGetMinorNumber");
  Load(&GetProcesses, "nvmlDeviceGetComputeRunningProcesses_v3");
  Load(&GetMigMode, "nvmlDeviceGetMigMode");
  Load(&GetMaxInstances, "nvmlDeviceGetMaxMigDeviceCount");
  Load(&GetInstance, "nvmlDeviceGetMigDeviceHandleByIndex");
  Load(&GetGpuInstanceId, "nvmlDeviceGetGpuInstanceId");
  Load(&GpmQuerySupport, "nvmlGpmQueryDeviceSupport");
  Load(&GpmSampleAlloc, "nvmlGpmSampleAlloc");
  Load(&GpmSampleFree, "nvmlGpmSampleFree");
  Load(&GpmSampleGet, "nvmlGpmSampleGet");
  Load(&GpmMigSampleGet, "nvmlGpmMigSampleGet");
  Load(&GpmMetricsGet, "nvmlGpmMetricsGet");
  return missing;
}

struct Nvml::Device {
  Handle handle = nullptr;
  Handle parent = nullptr;  // of an instance
  unsigned gpu_instance = 0;
  Handle previous = nullptr, next = nullptr;  // samples of GPM
  bool has_previous = false;
};

Nvml::Nvml() = default;

Nvml::~Nvml() {
  for (Device& device : devices_)
    for (Handle sample : {device.previous, device.next})
      if (sample) library_->GpmSampleFree(sample);
}

Status Nvml::Open() {
  library_ = std::make_unique<Library>();
  library_->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library_->handle)
    return {Exit::kKernel, "there is no libnvidia-ml.so.1 (it comes with NVIDIA's driver)"};
  if (const char* missing = library_->LoadAll())
    return {Exit::kKernel,
            fmt::format("libnvidia-ml.so.1 has no {}: is it older than CUDA 11?", missing)};
  unsigned nr_gpus = 0;
  Return error = library_->Init();
  library_->initialized = error == kSuccess;
  if (!error) error = library_->GetCount(&nr_gpus);
  if (error) {
    const char* text = library_->ErrorString(error);
    return {Exit::kKernel,
            fmt::format("NVML does not work: {} ({})", EscapeName(text ? text : ""), error)};
  }
  for (unsigned i = 0; i < std::min(nr_gpus, kMaxGpus); i++) {
    Device device;
    if (library_->GetHandleByIndex(i, &device.handle)) continue;  // it may be broken; the others are not
    GpuDevice gpu;
    gpu.index = i;
    Describe(&device, &gpu);
    unsigned minor;
    if (library_->GetMinorNumber && !library_->GetMinorNumber(device.handle, &minor))
      gpu.minor = static_cast<int32_t>(minor);
    PciInfo pci = {};
    if (library_->GetPciInfo && !library_->GetPciInfo(device.handle, &pci))
      gpu.pci = EscapeName({pci.bus_id, strnlen(pci.bus_id, sizeof(pci.bus_id))});
    unsigned mode = 0, pending = 0;
    gpu.divided =
        library_->GetMigMode && !library_->GetMigMode(device.handle, &mode, &pending) && mode == 1;
    gpus_.push_back(gpu);
    devices_.push_back(device);
    if (gpu.divided) ListInstances(gpus_.size() - 1);
  }
  return {};
}

void Nvml::ListInstances(size_t of) {
  const Handle parent = devices_[of].handle;
  unsigned nr = 0;
  if (!library_->GetMaxInstances || !library_->GetInstance || library_->GetMaxInstances(parent, &nr))
    return;
  for (unsigned i = 0; i < std::min(nr, kMaxInstances); i++) {
    Device device;
    device.parent = parent;
    if (library_->GetInstance(parent, i, &device.handle)) continue;
    GpuDevice gpu;
    gpu.index = gpus_[of].index;
    gpu.minor = gpus_[of].minor;
    gpu.pci = gpus_[of].pci;
    gpu.instance = static_cast<int32_t>(i);
    if (library_->GetGpuInstanceId) library_->GetGpuInstanceId(device.handle, &device.gpu_instance);
    Describe(&device, &gpu);
    gpus_.push_back(std::move(gpu));
    devices_.push_back(device);
  }
}

void Nvml::Describe(Device* device, GpuDevice* gpu) {
  char text[kTextBytes] = {};
  if (!library_->GetUuid(device->handle, text, sizeof(text) - 1)) gpu->uuid = EscapeName(text);
  if (!library_->GetName(device->handle, text, sizeof(text) - 1)) gpu->name = EscapeName(text);
  Memory memory;
  if (!library_->GetMemoryInfo(device->handle, &memory)) gpu->total_bytes = memory.total;
  PrepareGpm(device);
}

void Nvml::PrepareGpm(Device* device) {
  if (!library_->GpmQuerySupport || !library_->GpmSampleAlloc || !library_->GpmSampleFree ||
      !library_->GpmSampleGet || !library_->GpmMetricsGet ||
      (device->parent && !library_->GpmMigSampleGet))
    return;
  GpmSupport support = {kGpmVersion, 0};
  // Of an instance it is its GPU that is asked.
  if (library_->GpmQuerySupport(device->parent ? device->parent : device->handle, &support) ||
      !support.is_supported)
    return;
  if (library_->GpmSampleAlloc(&device->previous)) device->previous = nullptr;
  if (library_->GpmSampleAlloc(&device->next)) device->next = nullptr;
}

uint64_t Nvml::UsedBytes(size_t index) {
  const Handle handle = devices_[index].handle;
  // The newer one leaves out what the driver keeps for itself.
  Memory2 memory2 = {VersionOf<Memory2>(2), 0, 0, 0, 0};
  if (library_->GetMemoryInfo2 && !library_->GetMemoryInfo2(handle, &memory2)) return memory2.used;
  Memory memory;
  return library_->GetMemoryInfo(handle, &memory) ? kUnknownBytes : memory.used;
}

std::vector<GpuClient> Nvml::Clients(size_t index) {
  std::vector<GpuClient> clients;
  if (!library_->GetProcesses) return clients;
  std::vector<ProcessInfo> processes(64);
  Return error = kInsufficientSize;
  auto nr = static_cast<unsigned>(processes.size());
  for (int attempt = 0; attempt < 4 && error == kInsufficientSize; attempt++) {
    processes.resize(std::min<size_t>(std::max<size_t>(nr, processes.size()) * 2, 65536));
    nr = static_cast<unsigned>(processes.size());
    error = library_->GetProcesses(devices_[index].handle, &nr, processes.data());
  }
  if (error) return clients;
  for (unsigned i = 0; i < std::min<size_t>(nr, processes.size()); i++)
    clients.push_back({static_cast<int32_t>(processes[i].pid), processes[i].used_bytes});
  return clients;
}

void Nvml::ListDriver() { driver_gpus_ = ListDriverGpus(); }

std::shared_ptr<Nvml> OpenNvml(Status* status, std::chrono::milliseconds timeout) {
  auto nvml = std::make_shared<Nvml>();
  auto opened = std::make_shared<std::promise<Status>>();
  std::future<Status> future = opened->get_future();
  std::thread([nvml, opened] {
    Status opening = nvml->Open();
    if (!opening.ok()) nvml->ListDriver();
    opened->set_value(std::move(opening));
  }).detach();
  if (future.wait_for(timeout) == std::future_status::ready) {
    *status = future.get();
    return nvml;
  }
  *status = {Exit::kKernel, "NVML does not answer: does the driver hang? (nvidia-smi should say more)"};
  return std::make_shared<Nvml>();  // the other one is in use
}

bool Nvml::has_sm_active(size_t index) const { return devices_[index].previous && devices_[index].next; }

bool Nvml::SmActive(size_t index, uint64_t* ppm) {
  Device& device = devices_[index];
  if (!has_sm_active(index)) return false;
  const Return error = device.parent
                           ? library_->GpmMigSampleGet(device.parent, device.gpu_instance, device.next)
                           : library_->GpmSampleGet(device.handle, device.next);
  if (error) return false;
  bool known = false;
  if (device.has_previous) {
    auto get = std::make_unique<GpmMetricsGet>();
    get->version = kGpmVersion;
    get->nr_metrics = 1;
    get->sample1 = device.previous;
    get->sample2 = device.next;
    get->metrics[0].id = kGpmSmUtil;
    const GpmMetric& metric = get->metrics[0];
    known = library_->GpmMetricsGet(get.get()) == kSuccess && metric.status == kSuccess &&
            std::isfinite(metric.value) && metric.value >= 0 && metric.value <= 100;
    if (known) *ppm = static_cast<uint64_t>(metric.value * 10'000);
  }
  std::swap(device.previous, device.next);
  device.has_previous = true;
  return known;
}

}  // namespace slotscope
