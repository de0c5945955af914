// SPDX-License-Identifier: MIT
// What scripts/gpu_check.sh records on a machine with a GPU. gpu_check MODE, which prints lines "KEY PID VALUES...":
//   memory     mem ns bytes used    it holds so many bytes after a call that returned at ns; by cudaMemGetInfo the device's use
//                                   has grown by so many
//   streams    active from to us    launched at from, waited for until to (ns); by CUDA's events the kernels took so long
//   first      the same of both, but that the first call of all is a launch
//   spin S     one kernel after the other for S seconds
//   launches N ns N                 of N launches of an empty kernel, in batches
//   gaps KIND  gaps ran waited rest 0: what it did between a wait for the GPU and the next launch, in ns, by the kernel's clocks:
//              1 computes, 0 sleeps
//              idle us: what by CUDA's events no kernel of it ran in, from the first to the last
//   exported   same different       what the driver gives the runtime by name is, or is not, what it exports by that name
//              uuid                 of device 0
// and at the end: sum launches
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("failed: %s: %s (%d)\n", what, cudaGetErrorString(error), static_cast<int>(error));
  std::fflush(stdout);
  std::_Exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}
#define MUST(call) Check(call, #call)

void MustFail(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  std::printf("failed: %s did not fail\n", what);
  std::exit(1);
}
#define MUST_FAIL(call) MustFail(call, #call)

uint64_t g_nr_launches;

__global__ void Empty() {}

// By the GPU's own clock.
__global__ void Spin(uint64_t ns) {
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < ns);
}

void Launch(cudaStream_t stream, uint64_t us, dim3 grid = dim3(1)) {
  Spin<<<grid, 32, 0, stream>>>(us * 1000);
  MUST(cudaGetLastError());
  g_nr_launches++;
}

uint64_t UsedBytes() {
  size_t free_bytes, all_bytes;
  MUST(cudaMemGetInfo(&free_bytes, &all_bytes));
  return all_bytes - free_bytes;
}

void UseMemory() {
  MUST(cudaFree(nullptr));  // makes the context, whose memory is the driver's own
  const uint64_t before = UsedBytes();
  uint64_t held = 0;
  const auto say = [&](uint64_t more) {
    held += more;
    const uint64_t ns = NowNs();
    usleep(2500);  // so that a slot ends in between
    std::printf("mem %d %lu %lu %ld\n", getpid(), ns, held, static_cast<long>(UsedBytes() - before));
  };
  say(0);
  constexpr uint64_t kMiB = 1 << 20;
  void *linear, *managed, *host, *async, *pitched;
  MUST(cudaMalloc(&linear, 100 * kMiB));
  say(100 * kMiB);
  MUST_FAIL(cudaMalloc(&host, 1ull << 50));
  say(0);
  MUST(cudaMallocHost(&host, 64 * kMiB));
  say(0);
  MUST(cudaMallocAsync(&async, 200 * kMiB, nullptr));
  MUST(cudaStreamSynchronize(nullptr));
  say(200 * kMiB);
  size_t pitch;
  MUST(cudaMallocPitch(&pitched, &pitch, 1000, 100000));
  say(pitch * 100000);
  cudaPitchedPtr volume;
  MUST(cudaMalloc3D(&volume, make_cudaExtent(1000, 200, 300)));
  say(volume.pitch * 200 * 300);
  cudaArray_t array;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float2>();
  MUST(cudaMallocArray(&array, &floats, 4096, 4096));
  say(4096ull * 4096 * 8);
  MUST(cudaMallocManaged(&managed, 300 * kMiB));
  say(300 * kMiB);  // counts as the device's; the driver moves it there when it is used
  MUST(cudaMemset(managed, 1, 300 * kMiB));
  MUST(cudaDeviceSynchronize());
  say(0);
  MUST(cudaFree(managed));
  say(0 - 300 * kMiB);
  MUST(cudaFreeArray(array));
  say(-(4096ull * 4096 * 8));
  MUST(cudaFree(volume.ptr));
  say(-(volume.pitch * 200 * 300));
  MUST(cudaFree(pitched));
  say(-(pitch * 100000));
  MUST(cudaFreeAsync(async, nullptr));
  MUST(cudaStreamSynchronize(nullptr));
  say(0 - 200 * kMiB);
  MUST(cudaFreeHost(host));
  say(0);
  MUST(cudaFree(linear));
  say(0 - 100 * kMiB);
  MUST(cudaMalloc(&linear, 50 * kMiB));
  say(50 * kMiB);
  MUST(cudaDeviceReset());
}

template <typename Work>
void Active(cudaStream_t stream, Work&& work) {
  cudaEvent_t begin, end;
  MUST(cudaEventCreate(&begin));
  MUST(cudaEventCreate(&end));
  MUST(cudaDeviceSynchronize());
  usleep(3000);
  const uint64_t from_ns = NowNs();
  MUST(cudaEventRecord(begin, stream));
  work();
  const uint64_t to_ns = NowNs();
  MUST(cudaEventRecord(end, stream));
  MUST(cudaEventSynchronize(end));
  float ms;
  MUST(cudaEventElapsedTime(&ms, begin, end));
  std::printf("active %d %lu %lu %ld\n", getpid(), from_ns, to_ns, static_cast<long>(ms * 1000));
  MUST(cudaEventDestroy(begin));
  MUST(cudaEventDestroy(end));
  usleep(3000);
}

void UseStreams() {
  cudaStream_t streams[3];
  for (cudaStream_t& stream : streams) MUST(cudaStreamCreate(&stream));
  Launch(nullptr, 1);  // what is loaded with the first one
  MUST(cudaDeviceSynchronize());
  Active(streams[0], [&] {
    Launch(streams[0], 4000);
    MUST(cudaStreamSynchronize(streams[0]));
  });
  Active(streams[0], [&] {
    Launch(streams[0], 3000);
    Launch(streams[1], 3000);
    MUST(cudaStreamSynchronize(streams[0]));
    MUST(cudaStreamSynchronize(streams[1]));
  });
  Active(nullptr, [&] {
    for (cudaStream_t stream : streams) Launch(stream, 2500);
    MUST(cudaDeviceSynchronize());
  });
  Active(nullptr, [&] {
    Launch(streams[2], 2500);
    Launch(nullptr, 1500);
    MUST(cudaStreamSynchronize(nullptr));
  });
  Active(streams[1], [&] {
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    Launch(streams[1], 3500);
    MUST(cudaEventRecord(event, streams[1]));
    MUST_FAIL(cudaEventQuery(event));
    MUST(cudaEventSynchronize(event));
    MUST(cudaEventDestroy(event));
  });
  void* to;
  Active(nullptr, [&] {
    int x = 0;
    Launch(nullptr, 3000);
    MUST(cudaMalloc(&to, 64));
    MUST(cudaMemcpy(to, &x, sizeof(x), cudaMemcpyHostToDevice));
  });
  MUST(cudaFree(to));
  Spin<<<1, 4096>>>(1);  // too many threads
  MUST_FAIL(cudaGetLastError());
  // A captured launch is not done; a graph's is, once per launch of the graph.
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  Spin<<<1, 32, 0, streams[0]>>>(2'000'000);
  MUST(cudaStreamEndCapture(streams[0], &graph));
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  Active(streams[0], [&] {
    MUST(cudaGraphLaunch(exec, streams[0]));
    g_nr_launches++;
    MUST(cudaStreamSynchronize(streams[0]));
  });
}

void LaunchFirst() {
  Launch(nullptr, 3000);
  void* memory;
  MUST(cudaMalloc(&memory, 1 << 20));
  std::printf("mem %d %lu %d\n", getpid(), NowNs(), 1 << 20);
  MUST(cudaDeviceSynchronize());
  usleep(5000);
  Active(nullptr, [&] {
    Launch(nullptr, 3000);
    MUST(cudaDeviceSynchronize());
  });
  MUST(cudaFree(memory));
}

void SpinFor(double seconds) {
  cudaDeviceProp properties;
  MUST(cudaGetDeviceProperties(&properties, 0));
  const dim3 all(static_cast<unsigned>(properties.multiProcessorCount) * 2);
  const uint64_t end_ns = NowNs() + static_cast<uint64_t>(seconds * 1e9);
  while (NowNs() < end_ns) {
    Launch(nullptr, 20000, all);
    MUST(cudaDeviceSynchronize());
  }
}

void LaunchMany(uint64_t nr) {
  for (int i = 0; i < 1000; i++) Empty<<<1, 1>>>();
  MUST(cudaDeviceSynchronize());
  g_nr_launches += 1000 + nr;
  uint64_t sum_ns = 0;
  for (uint64_t done = 0; done < nr;) {
    const uint64_t begin_ns = NowNs();
    for (int i = 0; i < 500 && done < nr; i++, done++) Empty<<<1, 1>>>();
    sum_ns += NowNs() - begin_ns;
    MUST(cudaDeviceSynchronize());  // a full queue would be what is measured
  }
  std::printf("launches %d %lu %lu\n", getpid(), sum_ns, nr);
}

void UseGaps(bool computes) {
  constexpr int kNr = 100;
  constexpr uint64_t kKernelUs = 500, kGapNs = 5000000;
  struct Ran {
    uint64_t ran_ns, waited_ns;
  };
  const auto now_ran = [] {
    Ran now = {0, 0};
    FILE* const file = std::fopen("/proc/self/schedstat", "r");
    if (!file || std::fscanf(file, "%lu %lu", &now.ran_ns, &now.waited_ns) != 2) std::exit(1);
    std::fclose(file);
    timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);  // of the last tick's the file would be
    now.ran_ns = static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
    return now;
  };
  cudaEvent_t begins[kNr], ends[kNr];
  for (int i = 0; i < kNr; i++) {
    MUST(cudaEventCreate(&begins[i]));
    MUST(cudaEventCreate(&ends[i]));
  }
  Launch(nullptr, 1);
  MUST(cudaDeviceSynchronize());
  uint64_t all_ns = 0, ran_ns = 0, waited_ns = 0;
  for (int i = 0; i < kNr; i++) {
    const uint64_t from_ns = NowNs();
    const Ran before = now_ran();
    if (computes)
      while (NowNs() < from_ns + kGapNs) continue;
    else
      usleep(kGapNs / 1000);
    const Ran after = now_ran();
    all_ns += NowNs() - from_ns;
    ran_ns += after.ran_ns - before.ran_ns;
    waited_ns += after.waited_ns - before.waited_ns;
    MUST(cudaEventRecord(begins[i]));
    Launch(nullptr, kKernelUs);
    MUST(cudaEventRecord(ends[i]));
    MUST(cudaDeviceSynchronize());
  }
  std::printf("gaps %d %lu %lu %lu 0\n", getpid(), ran_ns, waited_ns, all_ns - ran_ns - waited_ns);
  double idle_ms = 0;
  for (int i = 1; i < kNr; i++) {
    float ms;
    MUST(cudaEventElapsedTime(&ms, ends[i - 1], begins[i]));
    idle_ms += ms;
  }
  std::printf("idle %d %.0f\n", getpid(), idle_ms * 1000);
}

// Names as the runtime asks for them, and as the driver exports them.
void CompareAddresses() {
  static const char* const kNames[][2] = {
      {"cuLaunchKernel", "cuLaunchKernel"},       {"cuLaunchKernelEx", "cuLaunchKernelEx"},
      {"cuMemAlloc", "cuMemAlloc_v2"},            {"cuMemFree", "cuMemFree_v2"},
      {"cuMemAllocAsync", "cuMemAllocAsync"},     {"cuMemFreeAsync", "cuMemFreeAsync"},
      {"cuMemAllocManaged", "cuMemAllocManaged"}, {"cuStreamSynchronize", "cuStreamSynchronize"},
      {"cuCtxSynchronize", "cuCtxSynchronize"},   {"cuEventSynchronize", "cuEventSynchronize"},
      {"cuGraphLaunch", "cuGraphLaunch"},         {"cuDeviceGetUuid", "cuDeviceGetUuid_v2"},
      {"cuMemCreate", "cuMemCreate"},             {"cuCtxSetCurrent", "cuCtxSetCurrent"}};
  MUST(cudaFree(nullptr));
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  using GetAddress = int (*)(const char*, void**, int, uint64_t, int*);
  const auto get = driver ? reinterpret_cast<GetAddress>(dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
  unsigned same = 0, different = 0;
  for (const auto& name : kNames) {
    void* given = nullptr;
    void* const exported = driver ? dlsym(driver, name[1]) : nullptr;
    if (!get || get(name[0], &given, 12000, 0, nullptr) != 0 || !given || !exported) continue;
    (given == exported ? same : different)++;
    if (given != exported) std::printf("other %d %s\n", getpid(), name[0]);
  }
  std::printf("exported %d %u %u\n", getpid(), same, different);
  cudaDeviceProp properties;
  MUST(cudaGetDeviceProperties(&properties, 0));
  std::printf("uuid %d GPU-", getpid());
  for (int i = 0; i < 16; i++)
    std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                static_cast<unsigned char>(properties.uuid.bytes[i]));
  std::printf("\nname %d %s\n", getpid(), properties.name);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  const double number = argc > 2 ? std::atof(argv[2]) : 0;
  std::printf("proc %d\n", getpid());
  if (!std::strcmp(mode, "memory"))
    UseMemory();
  else if (!std::strcmp(mode, "streams"))
    UseStreams();
  else if (!std::strcmp(mode, "first"))
    LaunchFirst();
  else if (!std::strcmp(mode, "spin"))
    SpinFor(number);
  else if (!std::strcmp(mode, "launches"))
    LaunchMany(static_cast<uint64_t>(number));
  else if (!std::strcmp(mode, "gaps"))
    UseGaps(number != 0);
  else if (!std::strcmp(mode, "exported"))
    CompareAddresses();
  else
    return 2;
  std::printf("sum %d %lu\n", getpid(), g_nr_launches);
  return 0;
}
