// SPDX-License-Identifier: MIT
// A process that uses the stand-in CUDA libraries of tests/cuda, and says what it did:
//   proc TGID
//   mem TGID ns bytes               what it holds on all devices after a call that returned at ns
//   active TGID start_ns end_ns     launched at start_ns, waited for until end_ns
//   device TGID device gpu bytes launches   what it did there; gpu is the machine's number
//   sum TGID launches calls         in all: launches that succeeded, calls that are one message each
// They are linked by dlopen(), so that the library's path is the test's own.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <slotscope/cuda_probe.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cuda/library.h"
#include "cuda/watchdog.h"
#include "harness.h"
#include "tests/cuda/standin.h"

namespace slotscope {
namespace {

// Of the libraries that were opened: those with functions to be probed, and all of these.
size_t g_nr_libraries, g_nr_targets;

// In the global scope: the runtime finds its driver there, and we find both. SLOTSCOPE_TEST_LIBRARIES:
// other copies, with the runtime's name behind a colon.
void OpenLibraries() {
  const char* other = std::getenv("SLOTSCOPE_TEST_LIBRARIES");
  std::string folder = other ? other : StandinFolder() + ":libcudart.so.13";
  const std::string runtime = folder.substr(folder.find(':') + 1);
  folder.resize(folder.find(':'));
  for (const std::string& name : {std::string("libcuda.so.1"), runtime}) {
    const std::string path = folder + "/" + name;
    CudaLibrary known;  // as it may be gone soon
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (ReadCudaLibrary(fd.get(), &known).ok() && !known.targets.empty()) {
      g_nr_libraries++;
      g_nr_targets += known.targets.size();
    }
    const void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library) continue;
    std::printf("failed: %s\n", dlerror());
    std::exit(1);
  }
}

// Of the links of programs of that name: how many the newest program has.
size_t NrLinksOfNewest(const std::string& name) {
  std::map<uint32_t, size_t> nr_links;  // by program
  for (uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    const UniqueFd link(bpf_link_get_fd_by_id(id));
    bpf_link_info info = {};
    uint32_t size = sizeof(info);
    if (link.valid() && bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0) nr_links[info.prog_id]++;
  }
  for (auto newest = nr_links.rbegin(); newest != nr_links.rend(); ++newest) {
    const UniqueFd program(bpf_prog_get_fd_by_id(newest->first));
    bpf_prog_info info = {};
    uint32_t size = sizeof(info);
    if (program.valid() && bpf_obj_get_info_by_fd(program.get(), &info, &size) == 0 && info.name == name)
      return newest->second;
  }
  return 0;
}

// Until the newest recorder has probed all that was opened here, and so many others. Links of calls come
// behind those of returns; where one link has all functions of a library there is one for each.
void WaitForProbes(size_t nr_others) {
  const bool is_multi =
      libbpf_find_vmlinux_btf_id("bpf_uprobe_multi_link_attach", BPF_TRACE_FENTRY) >= 0;
  const size_t nr = (is_multi ? g_nr_libraries : g_nr_targets) + nr_others;
  constexpr uint64_t kMostNs = 300'000'000'000;
  for (const uint64_t start_ns = MonotonicNs(); NrLinksOfNewest("ss_cuda_enter") < nr; usleep(20'000)) {
    if (MonotonicNs() - start_ns < kMostNs) continue;
    std::printf("failed: nobody has probed these libraries\n");
    std::exit(1);
  }
}

// A recorder probes before its first slot begins, and its command begins behind that: the command says
// so by this file.
void WaitForFile(const char* path) {
  constexpr uint64_t kMostNs = 300'000'000'000;
  for (const uint64_t start_ns = MonotonicNs(); access(path, F_OK) != 0; usleep(1000)) {
    if (MonotonicNs() - start_ns < kMostNs) continue;
    std::printf("failed: there is no %s\n", path);
    std::exit(1);
  }
}

template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::atomic<uint64_t> g_nr_calls, g_nr_launches;

#define CALL(function, ...) (Find<decltype(function)>(#function)(__VA_ARGS__))

// A call that must succeed, which is a message.
#define MUST(function, ...)                                    \
  do {                                                         \
    if (int error = CALL(function, __VA_ARGS__)) {             \
      std::printf("failed: %s: error %d\n", #function, error); \
      std::fflush(stdout);                                     \
      std::_Exit(1);                                           \
    }                                                          \
    g_nr_calls++;                                              \
  } while (0)

// One that must fail, and changes nothing.
#define MUST_FAIL(function, ...)                           \
  do {                                                     \
    if (CALL(function, __VA_ARGS__) == 0) {                \
      std::printf("failed: %s did not fail\n", #function); \
      std::fflush(stdout);                                 \
      std::_Exit(1);                                       \
    }                                                      \
  } while (0)

void SayMemory(uint64_t bytes) {
  std::printf("mem %d %lu %lu\n", getpid(), MonotonicNs(), bytes);
  usleep(2500);  // so that a slot ends in between
}

void SayEnd() {
  std::printf("sum %d %lu %lu\n", getpid(), g_nr_launches.load(), g_nr_calls.load());
  std::fflush(stdout);
}

const void* const kKernel = &g_nr_calls;
constexpr dim3_c kGrid = {2, 3, 1}, kBlock = {32, 1, 1};

// An emulated machine needs milliseconds for a call: what takes time takes more there.
uint64_t Scaled(uint64_t us) { return IsEmulated() ? 20 * us : us; }

// Of what is active from a launch to a wait: when the first launch had returned, and until when the GPU
// works at least. However long the process is kept from running, it is active in between.
uint64_t g_surely_from_ns = 0, g_surely_to_ns = 0;

// From before the call; `us` is scaled.
void OnLaunched(uint64_t called_ns, uint64_t us) {
  g_nr_launches++;
  if (g_surely_from_ns == 0) g_surely_from_ns = MonotonicNs();
  g_surely_to_ns = std::max(g_surely_to_ns, called_ns + us * 1000);
}

void Launch(CUstream stream, uint64_t us) {
  const uint64_t called_ns = MonotonicNs();
  MUST(__cudaLaunchKernel, kKernel, kGrid, kBlock, nullptr, Scaled(us), stream);
  OnLaunched(called_ns, Scaled(us));
}

// In a page that has not been touched: the probe at the call cannot read it.
template <typename T>
const T* NotPresent(const T& value) {
  const int fd = memfd_create("value", MFD_CLOEXEC);
  if (fd < 0 || write(fd, &value, sizeof(value)) != sizeof(value)) std::abort();
  return static_cast<const T*>(mmap(nullptr, sizeof(value), PROT_READ, MAP_SHARED, fd, 0));
}

// Every kind of memory, in the runtime and in the driver; failures; two devices; contexts and resets.
void UseMemory() {
  void* linear;
  uint64_t held = 0;
  auto add = [&](uint64_t bytes) { SayMemory(held += bytes); };
  MUST(cudaMalloc, &linear, 1000);
  add(1000);
  MUST_FAIL(cudaMalloc, &linear + 0, 2ul << 30);
  MUST_FAIL(cudaMalloc, &linear + 0, 0ul);
  SayMemory(held);
  void *managed, *host, *async;
  MUST(cudaMallocManaged, &managed, 3000, 1u);
  add(3000);
  MUST(cudaMallocHost, &host, 5000);
  add(0);
  MUST(cudaMallocAsync, &async, 7000, nullptr);
  add(7000);
  void* pitched;
  size_t pitch;
  MUST(cudaMallocPitch, &pitched, &pitch, 100, 7);
  add(pitch * 7);
  cudaPitchedPtr_c volume;
  MUST(cudaMalloc3D, &volume, cudaExtent_c{100, 20, 30});
  add(volume.pitch * 600);
  const cudaChannelFormatDesc_c floats = {32, 32, 0, 0, 2};
  CUarray array, mipmapped;
  MUST(cudaMallocArray, &array, NotPresent(floats), 64, 32, 0u);
  add(64 * 32 * 8);
  MUST(cudaMallocMipmappedArray, &mipmapped, &floats, cudaExtent_c{64, 32, 0}, 3u, 0u);
  add((64 * 32 + 32 * 16 + 16 * 8) * 8);
  const CUarray3dDescriptor descriptor = {10, 10, 10, 0x10, 4, 0};
  CUarray driver_array;
  MUST(cuArray3DCreate_v2, &driver_array, &descriptor);
  add(1000 * 8);
  CUmemHandle physical;
  const CUmemProp prop = {1, 0, {1, 1}, {}};
  MUST(cuMemCreate, &physical, 1 << 20, &prop, 0ull);
  add(1 << 20);
  MUST(cuMemMap, 0x10000000ul, 1ul << 20, 0ul, physical, 0ull);
  MUST(cuMemRelease, physical);
  add(0);
  MUST(cudaSetDevice, 1);
  void* other;
  MUST(cudaMalloc, &other, 11000);
  add(11000);
  MUST(cudaFree, linear);  // of device 0
  add(-1000ul);
  MUST_FAIL(cudaFree, linear);
  MUST(cudaFree, managed);
  add(-3000ul);
  MUST(cudaFreeHost, host);
  add(0);
  MUST(cudaFreeAsync, async, nullptr);
  add(-7000ul);
  MUST(cudaFree, pitched);
  add(-(pitch * 7));
  MUST(cudaFree, volume.address);
  add(-(volume.pitch * 600));
  MUST(cudaFreeArray, array);
  add(-(64 * 32 * 8ul));
  MUST(cudaFreeMipmappedArray, mipmapped);
  add(-((64 * 32 + 32 * 16 + 16 * 8) * 8ul));
  MUST(cuMemUnmap, 0x10000000ul, 1ul << 20);
  add(-(1ul << 20));
  CUcontext context;
  CUdeviceptr inside;
  MUST(cuCtxCreate_v2, &context, 0u, 0);
  MUST(cuMemAlloc_v2, &inside, 13000);
  add(13000);
  MUST(cuCtxDestroy_v2, context);
  add(-13000ul);
  MUST(cudaDeviceReset, );  // device 1
  add(-11000ul);
}

// Streams one after the other and at once; what is waited for, and how.
void UseStreams() {
  CUstream streams[3];
  for (CUstream& stream : streams) MUST(cudaStreamCreate, &stream);
  auto active = [](auto&& work) {
    g_surely_from_ns = g_surely_to_ns = 0;
    const uint64_t start_ns = MonotonicNs();
    work();
    std::printf("active %d %lu %lu\n", getpid(), start_ns, MonotonicNs());
    std::printf("surely %d %lu %lu\n", getpid(), g_surely_from_ns, g_surely_to_ns);
    usleep(3000);
  };
  active([&] {
    Launch(streams[0], 4000);
    MUST(cudaStreamSynchronize, streams[0]);
  });
  active([&] {  // overlapping
    Launch(streams[0], 3000);
    Launch(streams[1], 5000);
    MUST(cudaStreamSynchronize, streams[0]);
    MUST(cudaStreamSynchronize, streams[1]);
  });
  active([&] {
    for (CUstream stream : streams) Launch(stream, 2500);
    MUST(cudaDeviceSynchronize, );
  });
  active([&] {  // the default stream waits for the others
    Launch(streams[2], 2500);
    Launch(nullptr, 1500);
    MUST(cudaStreamSynchronize, nullptr);
  });
  active([&] {
    CUevent event;
    MUST(cudaEventCreate, &event);
    g_nr_calls--;  // is no message
    Launch(streams[1], 3500);
    MUST(cudaEventRecord, event, streams[1]);
    MUST_FAIL(cudaEventQuery, event);
    MUST(cudaEventSynchronize, event);
    MUST(cudaEventDestroy, event);
  });
  active([&] {
    int x = 0;
    void* to;
    Launch(nullptr, 3000);
    MUST(cudaMalloc, &to, 64);
    MUST_FAIL(cudaStreamQuery, nullptr);
    MUST(cudaMemcpy, to, &x, sizeof(x), 1);
    MUST(cudaFree, to);
  });
  active([&] {
    const uint64_t called_ns = MonotonicNs();
    MUST(cudaGraphLaunch, reinterpret_cast<void*>(Scaled(3000)), streams[0]);
    OnLaunched(called_ns, Scaled(3000));
    MUST(cudaStreamSynchronize, streams[0]);
  });
  MUST_FAIL(cudaLaunchKernel, nullptr, kGrid, kBlock, nullptr, 0, streams[0]);
  MUST_FAIL(cudaLaunchKernel, kKernel, kGrid, dim3_c{2048, 1, 1}, nullptr, 0, streams[0]);
  void* graph;  // captured launches are not done
  MUST(cudaStreamBeginCapture, streams[0], 0);
  MUST(__cudaLaunchKernel, kKernel, kGrid, kBlock, nullptr, 0, streams[0]);
  MUST(cudaStreamEndCapture, streams[0], &graph);
}

// Every device that it sees, with other amounts on each.
void UseDevices() {
  int nr_devices = 0;
  // As programs do that choose for themselves, before the driver has looked.
  if (const char* chosen = std::getenv("SLOTSCOPE_TEST_CHOOSES"))
    setenv("CUDA_VISIBLE_DEVICES", chosen, 1);
  CALL(cudaGetDeviceCount, &nr_devices);
  for (int device = 0; device < nr_devices; device++) {
    void* memory;
    cudaDeviceProp_c properties = {};
    const uint64_t bytes = 1000 * (static_cast<uint64_t>(device) + 1);
    MUST(cudaSetDevice, device);
    // No message of its own, but one within it.
    if (CALL(cudaGetDeviceProperties, &properties, device)) std::_Exit(1);
    MUST(cudaMalloc, &memory, bytes);
    for (int i = 0; i <= device; i++) Launch(nullptr, 4000);
    MUST(cudaDeviceSynchronize, );
    std::printf("device %d %d %d %lu %d\n", getpid(), device, properties.uuid.bytes[14], bytes,
                device + 1);
    usleep(static_cast<useconds_t>(Scaled(3000)));
  }
}

// As little as can be: a process among hundreds.
void UseLittle() {
  void* memory;
  MUST(cudaMalloc, &memory, 100);
  Launch(nullptr, 0);
  MUST(cudaDeviceSynchronize, );
  MUST(cudaFree, memory);
}

// The first call of all is a launch, in which the runtime sets itself up.
void LaunchFirst() {
  setenv("SLOTSCOPE_STANDIN_RETAIN_US", "30000", 1);
  std::printf("calling %d %lu\n", getpid(), MonotonicNs());
  Launch(nullptr, 3000);
  std::printf("launched %d %lu\n", getpid(), MonotonicNs());
  void* memory;
  MUST(cudaMalloc, &memory, 4096);
  SayMemory(4096);
  MUST(cudaDeviceSynchronize, );
  std::printf("waited %d %lu\n", getpid(), MonotonicNs());
  MUST(cudaFree, memory);
  SayMemory(0);
}

// Many threads, each with its own device, and calls as fast as they go.
void UseThreads(int nr_threads, int nr_rounds) {
  std::vector<std::thread> threads;
  for (int i = 0; i < nr_threads; i++)
    threads.emplace_back([=] {
      MUST(cudaSetDevice, i % 2);
      CUstream stream;
      MUST(cudaStreamCreate, &stream);
      for (int round = 0; round < nr_rounds; round++) {
        void* memory;
        MUST(cudaMalloc, &memory, 100);
        Launch(stream, 0);
        MUST(cudaStreamSynchronize, stream);
        if (round + 1 < nr_rounds) MUST(cudaFree, memory);
      }
    });
  for (std::thread& thread : threads) thread.join();
  SayMemory(static_cast<uint64_t>(nr_threads) * 100);
}

}  // namespace

std::string StandinFolder() {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0) return "";
  return std::string(dirname(path)) + "/standin";
}

// In a child that would go on for ever: a test may end its parent first, and then it must not stay, at
// the highest priority and with the test's pipe in its hands.
void DieWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
}

// A recorder that comes later may begin first.
void WaitForItsFile() {
  if (const char* path = std::getenv("SLOTSCOPE_TEST_WAIT_FOR_FILE")) WaitForFile(path);
}

// Launches as fast as it can on one CPU: alone, then with a rival, then alone again. "rival TGID ns ns"
// says which, and from when to when.
void LaunchBesideRival(uint64_t alone_ms, uint64_t beside_ms) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  setpriority(PRIO_PROCESS, 0, -20);  // whoever else is on that CPU takes a hundredth of it
  void* memory;
  MUST(cudaMalloc, &memory, 960u << 20);  // most of the stand-in's GPU
  std::fflush(stdout);
  WaitForItsFile();
  const auto launch_for = [](uint64_t ms) {
    const uint64_t end_ns = MonotonicNs() + ms * 1'000'000;
    for (uint64_t next_ns = MonotonicNs(); next_ns < end_ns;) {
      Launch(nullptr, 10);
      next_ns = std::max(next_ns, MonotonicNs()) + 100'000;
      while (MonotonicNs() < next_ns) {
      }
    }
  };
  launch_for(alone_ms);
  const uint64_t start_ns = MonotonicNs();
  const pid_t parent = getpid(), rival = fork();
  if (rival == 0) {
    DieWith(parent);
    for (;;) {
    }
  }
  launch_for(beside_ms);
  kill(rival, SIGKILL);
  waitpid(rival, nullptr, 0);
  std::printf("rival %d %llu %llu\n", rival, static_cast<unsigned long long>(start_ns),
              static_cast<unsigned long long>(MonotonicNs()));
  launch_for(100);
  MUST(cudaFree, memory);
}

// Beats the watchdog, and does not, and launches. "seen TGID MIN MAX": launches that a recorder sees for
// sure, and may see. "beat TGID ns": the last heartbeat of one that was killed, in boot time.
class Heart {
 public:
  Heart() : map_(bpf_obj_get(kWatchdogPath)) {
    if (map_ >= 0) return;
    std::printf("failed: cannot open the watchdog\n");
    std::exit(1);
  }
  void Beat(uint64_t boot_ns) const {
    const uint32_t key = 0;
    bpf_map_update_elem(map_, &key, &boot_ns, BPF_ANY);
  }
  uint64_t latest() const {
    const uint32_t key = 0;
    uint64_t boot_ns = 0;
    bpf_map_lookup_elem(map_, &key, &boot_ns);
    return boot_ns;
  }

 private:
  int map_;
};

void LaunchWithAHeart() {
  const Heart heart;
  const auto now = [] { return ClockNs(CLOCK_BOOTTIME); };
  uint64_t nr_sure = 0, nr_maybe = 0;
  // By when it began and ended, against the heartbeats that it may have found: another process beats.
  const auto launch = [&] {
    const uint64_t first_ns = heart.latest(), from_ns = now();
    Launch(nullptr, 10);
    const uint64_t to_ns = now(), last_ns = heart.latest();
    MUST(cudaStreamSynchronize, nullptr);
    const auto is_fresh = [](uint64_t beat_ns, uint64_t ns) {
      return beat_ns == 0 || (ns < beat_ns ? beat_ns - ns : ns - beat_ns) <= SS_CUDA_WATCHDOG_STALE_NS;
    };
    nr_sure += is_fresh(first_ns, from_ns) && is_fresh(first_ns, to_ns) && is_fresh(last_ns, to_ns);
    nr_maybe += is_fresh(first_ns, from_ns) || is_fresh(first_ns, to_ns) || is_fresh(last_ns, to_ns) ||
                last_ns != first_ns;
  };
  void* memory;
  MUST(cudaMalloc, &memory, 1000);
  for (int i = 0; i < 5; i++) launch();  // never armed
  for (int i = 0; i < 20; i++) {         // armed
    heart.Beat(now());
    launch();
  }
  SayMemory(1000);
  // A consumer that dies.
  const pid_t parent = getpid(), consumer = fork();
  if (consumer == 0) {
    DieWith(parent);
    for (;;) {
      heart.Beat(now());
      usleep(10'000);
    }
  }
  for (int i = 0; i < 20; i++) {
    launch();
    usleep(5'000);
  }
  kill(consumer, SIGKILL);
  waitpid(consumer, nullptr, 0);
  const uint64_t beat_ns = heart.latest();
  std::printf("beat %d %lu %lu\n", getpid(), beat_ns, now() - MonotonicNs());
  // What is waited for while nobody looks, and by nobody who waits for the default stream.
  CUstream quiet;
  constexpr unsigned kNonBlocking = 1;
  MUST(cudaStreamCreateWithFlags, &quiet, kNonBlocking);
  std::printf("quiet %d %lu\n", getpid(), reinterpret_cast<uint64_t>(quiet));
  Launch(quiet, 10);
  const bool is_sure = now() < beat_ns + SS_CUDA_WATCHDOG_STALE_NS;
  nr_sure += is_sure;
  nr_maybe++;
  while (now() < beat_ns + 200'000'000) {
    launch();
    usleep(500);
  }
  MUST(cudaStreamSynchronize, quiet);
  heart.Beat(now());  // somebody came in its place
  launch();
  heart.Beat(now());
  Launch(quiet, 10);
  MUST(cudaStreamSynchronize, quiet);
  nr_sure++;
  nr_maybe++;
  usleep(3'000);
  heart.Beat(now() + 3'600'000'000'000);  // another clock's: no heartbeat
  for (int i = 0; i < 5; i++) launch();
  heart.Beat(now());
  launch();
  std::printf("seen %d %lu %lu\n", getpid(), nr_sure, nr_maybe);
  heart.Beat(now());
  MUST(cudaFree, memory);
  heart.Beat(now());
}

// A launch every millisecond, for so many ms: longer than whoever watches needs, and then killed.
namespace {

int LaunchEach(useconds_t pause_us, int ms) {
  OpenLibraries();
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns;) {
    Launch(nullptr, 10);
    usleep(pause_us);
  }
  return 0;
}

}  // namespace

int RunCudaLaunches(int ms) { return LaunchEach(1'000, ms); }

int RunCudaSeldom(int ms) { return LaunchEach(20'000, ms); }

// So many thousand launches, one behind the other, as fast as they are made: "flood TGID launches ns".
int RunCudaFlood(int thousands) {
  OpenLibraries();
  Launch(nullptr, 0);  // with what a first one sets up
  const uint64_t nr = static_cast<uint64_t>(thousands) * 1000, begin_ns = MonotonicNs();
  for (uint64_t i = 1; i < nr; i++) Launch(nullptr, 0);
  std::printf("flood %d %lu %lu\n", getpid(), nr, MonotonicNs() - begin_ns);
  return 0;
}

// Steps of ten launches each, which are waited for; before each it computes for a while. "kernels TGID
// from to launches busy_us": between two moments at which nothing was under way.
int RunCudaTrain(int) {
  constexpr int kNrSteps = 50, kNrLaunches = 10;
  constexpr uint64_t kUs = 200;
  OpenLibraries();
  for (int i = 0; i < 5; i++) {  // what a first one sets up; until its thread is followed
    Launch(nullptr, 0);
    MUST(cudaStreamSynchronize, nullptr);
    usleep(20'000);
  }
  const uint64_t from_ns = MonotonicNs();
  for (int step = 0; step < kNrSteps; step++) {
    for (const uint64_t end_ns = MonotonicNs() + 2'000'000; MonotonicNs() < end_ns;) continue;
    for (int i = 0; i < kNrLaunches; i++) Launch(nullptr, kUs);
    MUST(cudaStreamSynchronize, nullptr);
  }
  std::printf("kernels %d %lu %lu %d %lu\n", getpid(), from_ns, MonotonicNs(), kNrSteps * kNrLaunches,
              kNrSteps * kNrLaunches * Scaled(kUs));
  fflush(stdout);
  usleep(10'000);
  return 0;
}

// Holds 4 MiB for so many ms, and makes no call meanwhile.
int RunCudaHolder(int ms) {
  OpenLibraries();
  void* memory;
  MUST(cudaMalloc, &memory, 4u << 20);
  const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
  while (MonotonicNs() < end_ns) usleep(10'000);
  std::printf("holds %d %u %lu\n", getpid(), 4u << 20, end_ns);
  return 0;
}

namespace {

// Of tests/cuda/hostile_runtime.c: arrays whose format cannot be read, for so many ms.
void MakeUnreadableCalls(int ms, useconds_t pause_us) {
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns;) {
    CUarray array;
    MUST(cudaMallocArray, &array, reinterpret_cast<const cudaChannelFormatDesc_c*>(8), 64, 32, 0u);
    if (pause_us) usleep(pause_us);
  }
}

}  // namespace

int RunUnreadableCuda(int ms) {
  OpenLibraries();
  std::printf("proc %d\n", getpid());
  std::fflush(stdout);
  MakeUnreadableCalls(ms, 1000);
  SayEnd();
  return 0;
}

// As fast as two threads can.
int RunUnreadableCudaFlood(int ms) {
  OpenLibraries();
  std::printf("proc %d\n", getpid());
  std::fflush(stdout);
  std::thread other(MakeUnreadableCalls, ms, 0);
  MakeUnreadableCalls(ms, 0);
  other.join();
  SayEnd();
  return 0;
}

// On CPU 0, for so many ms: threads whose first call is an allocation.
int RunCudaThreads(int ms) {
  OpenLibraries();
  PinTo(0, 0);
  std::printf("proc %d\n", getpid());
  std::fflush(stdout);
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns; usleep(500))
    std::thread([] {
      void* memory;
      MUST(cudaMalloc, &memory, 4096);
      MUST(cudaFree, memory);
    }).join();
  SayEnd();
  return 0;
}

// On CPU 0, for so many ms, when nobody else wants it: in the kernel's storage for tasks, most of the
// time.
int RunStorageHolder(int ms) {
  btf* types = btf__new_empty();
  const int key = btf__add_int(types, "int", 4, BTF_INT_SIGNED);
  const int value = btf__add_int(types, "long", 8, BTF_INT_SIGNED);
  if (btf__load_into_kernel(types) != 0) return 1;
  LIBBPF_OPTS(bpf_map_create_opts, options);
  options.map_flags = BPF_F_NO_PREALLOC;
  options.btf_fd = static_cast<uint32_t>(btf__fd(types));
  options.btf_key_type_id = static_cast<uint32_t>(key);
  options.btf_value_type_id = static_cast<uint32_t>(value);
  const UniqueFd storage(bpf_map_create(BPF_MAP_TYPE_TASK_STORAGE, "held", 4, 8, 0, &options));
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!storage.valid() || !self.valid()) return 1;
  PinTo(0, 0);
  setpriority(PRIO_PROCESS, 0, 19);
  const int task = self.get();
  long turn = 0;
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns; turn++)
    bpf_map_update_elem(storage.get(), &task, &turn, BPF_ANY);
  std::printf("turns %ld\n", turn);
  btf__free(types);
  return 0;
}

namespace {

jmp_buf g_behind;

void JumpOut() { std::longjmp(g_behind, 1); }

void SetWithin(void (*within)()) {
  *static_cast<void (**)()>(dlsym(RTLD_DEFAULT, "hostile_within")) = within;
}

// Calls that never return, and then some memory: from the same place, from below, from above.
__attribute__((noinline)) void AllocateBehindJump(uint64_t* held, size_t bytes, int below) {
  if (below > 0) {
    AllocateBehindJump(held, bytes, below - 1);
    return;
  }
  void* memory;
  MUST(cudaMalloc, &memory, bytes);
  SayMemory(*held += bytes);
}

[[noreturn]] void InCoroutine() {
  SetWithin(nullptr);
  void* memory;
  MUST(cudaMalloc, &memory, 40000);
  SayMemory(7000 + 40000);
  MUST(cudaDeviceSynchronize);
  MUST(cudaMalloc, &memory, 100000);
  SayMemory(7000 + 40000 + 100000);
  SayEnd();
  std::_Exit(0);
}

// Far below the thread's own.
void SwitchAway() {
  alignas(16) static char stack[64u << 10];
  asm volatile("mov %0, %%rsp; call *%1" : : "r"(stack + sizeof(stack)), "r"(&InCoroutine) : "memory");
}

}  // namespace

// Of tests/cuda/hostile_runtime.c: a call that is left by longjmp(), and one on a stack that nobody
// comes back to.
int RunCudaOnManyStacks(int) {
  OpenLibraries();
  std::printf("proc %d\n", getpid());
  uint64_t held = 0;
  AllocateBehindJump(&held, 1000, 0);
  for (int below : {0, 1, 100}) {
    SetWithin(JumpOut);
    if (setjmp(g_behind) == 0) CALL(cudaDeviceSynchronize);
    SetWithin(nullptr);
    usleep(1000);
    AllocateBehindJump(&held, 2000, below);
  }
  SetWithin(SwitchAway);
  CALL(cudaDeviceSynchronize);
  return 1;
}

namespace {

// With so much of the stack above it that nobody has written to.
template <size_t kBytes, typename Fn>
__attribute__((noinline)) void Below(const Fn& fn) {
  char gap[kBytes];
  asm volatile("" : : "r"(gap) : "memory");
  fn();
}

}  // namespace

// Of tests/cuda/hostile_runtime.c: a call that is left by longjmp(), whose return address is still where
// it was when the next one is made below it, so nobody can tell that this is not one of its own.
// "dropped TGID ns": since then it can be told.
int RunCudaBehindJump(int) {
  OpenLibraries();
  std::printf("proc %d\n", getpid());
  uint64_t held = 0;
  AllocateBehindJump(&held, 1000, 0);
  usleep(20'000);
  SetWithin(JumpOut);
  if (setjmp(g_behind) == 0) Below<64u << 10>([] { CALL(cudaDeviceSynchronize); });
  Below<128u << 10>([] {
    SetWithin(nullptr);
    void* memory;
    MUST(cudaMalloc, &memory, 2000);
  });
  CALL(cudaDeviceSynchronize);
  std::printf("dropped %d %lu\n", getpid(), MonotonicNs());
  for (int i = 0; i < 50; i++) usleep(1000);
  SayEnd();
  return 0;
}

// Holds memory, and becomes another program, which computes for so long and uses no GPU.
void HoldAndExec(const char* milliseconds) {
  void* memory;
  MUST(cudaMalloc, &memory, 1000);
  SayMemory(1000);
  SayEnd();
  std::printf("exec %d %lu\n", getpid(), MonotonicNs());
  std::fflush(stdout);
  execl("/proc/self/exe", "live_tests", "--workload", "busy", milliseconds, nullptr);
  std::printf("failed: exec\n");
}

int RunCudaWorkload(int which) {
  OpenLibraries();
  if (const char* wait = std::getenv("SLOTSCOPE_TEST_WAIT_MS"))
    usleep(static_cast<useconds_t>(std::atoi(wait)) * 1000);
  // "1", or one more than others have.
  if (const char* nr = std::getenv("SLOTSCOPE_TEST_WAIT_FOR_PROBES"))
    WaitForProbes(std::strtoul(nr, nullptr, 10) - 1);
  std::printf("proc %d\n", getpid());
  if (which < 0) {  // some memory, and streams when somebody looks
    void* memory;
    MUST(cudaMalloc, &memory, 1000);
    std::fflush(stdout);
    WaitForProbes(0);
    WaitForItsFile();
    UseStreams();
  } else if (which == 0)
    UseMemory();
  else if (which == 1)
    UseStreams();
  else if (which == 2)
    UseDevices();
  else if (which == 3)
    UseLittle();
  else if (which == 4)
    LaunchBesideRival(4300, 2200);
  else if (which == 5)
    LaunchWithAHeart();
  else if (which == 6)
    HoldAndExec("100");
  else if (which == 7)
    LaunchFirst();
  else
    UseThreads(8, which);
  SayEnd();
  return 0;
}

}  // namespace slotscope
