// SPDX-License-Identifier: MIT
// A process that launches (into the stand-in CUDA libraries), and does something else for a while before
// each launch: "gaps TGID ran waited rest throttled", in ns, by the kernel's clocks, of all the time
// between a wait for the GPU and the next launch. The last of them is of what it waited; of one that is
// stopped it is of its rest, and for how long it was.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "base/clock.h"
#include "cpu_controller.h"
#include "harness.h"
#include "tests/cuda/standin.h"

namespace slotscope {
namespace {

constexpr uint64_t kGapNs = 20'000'000;
constexpr int kNrGaps = 20, kNrSlowGaps = 5;
constexpr size_t kSector = 4096, kBlock = 16u << 20;

struct Schedstat {
  uint64_t ran_ns = 0, waited_ns = 0;
};

// What it has run stands there as of the last tick; of that the clock knows more.
Schedstat Now() {
  Schedstat now;
  std::ifstream("/proc/self/schedstat") >> now.ran_ns >> now.waited_ns;
  now.ran_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
  return now;
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Stops its parent for a gap when it reads a byte, and adds to *stopped_ns for how long it was, by its
// state in /proc.
pid_t StartStopper(int* go, uint64_t* stopped_ns) {
  int ends[2];
  Require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  const pid_t parent = getpid(), child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[1]);
    for (char byte; read(ends[0], &byte, 1) == 1;) {
      kill(parent, SIGSTOP);
      while (StateOf(parent) != 'T') continue;
      const uint64_t from_ns = MonotonicNs();
      SleepUntil(from_ns + kGapNs);
      *stopped_ns += MonotonicNs() - from_ns;
      kill(parent, SIGCONT);
    }
    _exit(0);
  }
  close(ends[0]);
  *go = ends[1];
  return child;
}

// On that CPU there is always somebody else who wants it.
pid_t StartHog(size_t cpu) {
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "gap-hog");
    PinTo(0, cpu);
    for (;;) {
    }
  }
  PinTo(0, cpu);
  return child;
}

void OpenLibraries() {
  // Its runtime would find it twice, if it were in the folder of the recorder's own libraries.
  const char* const other = std::getenv("SLOTSCOPE_TEST_LIBRARIES");
  std::string folder = other ? other : StandinFolder() + ":libcudart.so.13";
  folder.resize(folder.find(':'));
  for (const char* name : {"/libcuda.so.1", "/libcudart.so.13"})
    Require(dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL), "dlopen");
  usleep(100'000);  // until they are probed
  std::printf("proc %d\n", getpid());
}

}  // namespace

int RunLauncher(int rounds) {
  setenv("SLOTSCOPE_STANDIN_LAUNCH_US", "2000", 1);
  OpenLibraries();
  const auto launch = Find<decltype(__cudaLaunchKernel)>("__cudaLaunchKernel");
  const auto cpu_ns = [] { return ClockNs(CLOCK_THREAD_CPUTIME_ID); };
  uint64_t in_calls_ns = 0, from_ns = 0;
  for (int i = 0; i <= rounds; i++) {
    const uint64_t begin_ns = cpu_ns();
    Require(launch(&kGapNs, dim3_c{1, 1, 1}, dim3_c{32, 1, 1}, nullptr, 100, nullptr) == 0, "launch");
    const uint64_t end_ns = cpu_ns();
    // Of a first one what it sets up is not its own.
    if (i == 0) from_ns = end_ns - 2'000'000;
    in_calls_ns += i == 0 ? 2'000'000 : end_ns - begin_ns;
    while (cpu_ns() < end_ns + 1'000'000) continue;
  }
  std::printf("launcher %d %lu %lu\n", getpid(), cpu_ns() - from_ns, in_calls_ns);
  return 0;
}

int RunGaps(int which) {
  OpenLibraries();
  const auto launch = Find<decltype(__cudaLaunchKernel)>("__cudaLaunchKernel");
  const auto wait = Find<decltype(cudaDeviceSynchronize)>("cudaDeviceSynchronize");
  const auto retain = Find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  int go = -1;
  pid_t helper = 0;
  auto* const stopped_ns = static_cast<uint64_t*>(
      mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Require(stopped_ns != MAP_FAILED, "mmap");
  if (which == kGapStopped) helper = StartStopper(&go, stopped_ns);
  if (which == kGapBesideHog) helper = StartHog(NrCpus() - 1);
  std::unique_ptr<CpuController> controller;
  std::string group;
  if (which == kGapThrottled) {
    controller = std::make_unique<CpuController>(false);
    if (!controller->is_usable()) controller = std::make_unique<CpuController>(true);
    Require(controller->is_usable(), "a cpu controller");
    group = controller->Make(controller->root(), "gaps", 10);
    Require(controller->Enter(group), "the group");
  }
  int disk = which == kGapOnDisk ? open("/dev/nullb0", O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
  const bool is_slow = which == kGapThrottled || disk >= 0;
  alignas(kSector) static char block[kBlock];
  const size_t read_bytes = disk >= 0 ? kSector : kBlock;
  if (which == kGapOnDisk && disk < 0) {  // the one that is there, of which much is read
    disk = open("gap-disk", O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    Require(write(disk, block, kBlock) == kBlock && fsync(disk) == 0, "a file");
  }
  const auto launch_and_wait = [&] {
    Require(launch(&kGapNs, dim3_c{1, 1, 1}, dim3_c{32, 1, 1}, nullptr, 100, nullptr) == 0, "launch");
    Require(wait() == 0, "synchronize");
  };
  launch_and_wait();  // with what a first one sets up
  if (which == kGapInCall) setenv("SLOTSCOPE_STANDIN_RETAIN_US", "20000", 1);
  uint64_t all_ns = 0, throttled_ns = 0;
  Schedstat sum;
  const uint64_t begun_ns = MonotonicNs(), ran_before_ns = Now().ran_ns;
  for (int i = 0; i < (is_slow ? kNrSlowGaps : kNrGaps); i++) {
    const uint64_t from_ns = MonotonicNs();
    const uint64_t throttled_before_ns = controller ? controller->ThrottledNs(group) : 0;
    const Schedstat before = Now();
    CUcontext context;
    switch (which) {
      case kGapNeverWaits:
        launch(&kGapNs, dim3_c{1, 1, 1}, dim3_c{32, 1, 1}, nullptr, 100, nullptr);
        [[fallthrough]];
      case kGapSpins:
      case kGapBesideHog:
        while (MonotonicNs() < from_ns + kGapNs) continue;
        break;
      case kGapSleeps:
        usleep(kGapNs / 1000);
        break;
      case kGapStopped:
        Require(write(go, "x", 1) == 1, "write");
        while (MonotonicNs() < from_ns + kGapNs / 2) usleep(1000);  // it is stopped on the way
        break;
      case kGapThrottled:
        // Where one ends is far from where its quota of 10 ms does: what comes there is in no gap.
        while (ClockNs(CLOCK_PROCESS_CPUTIME_ID) < before.ran_ns + 21'000'000) continue;
        break;
      case kGapOnDisk:
        do Require(pread(disk, block, read_bytes, 0) == static_cast<ssize_t>(read_bytes), "the disk");
        while (MonotonicNs() < from_ns + kGapNs);
        break;
      default:
        Require(retain(&context, 0) == 0, "retain");
    }
    const Schedstat after = Now();
    all_ns += MonotonicNs() - from_ns;
    sum.ran_ns += after.ran_ns - before.ran_ns;
    sum.waited_ns += after.waited_ns - before.waited_ns;
    if (controller) throttled_ns += controller->ThrottledNs(group) - throttled_before_ns;
    if (which != kGapNeverWaits) launch_and_wait();
  }
  // One that never waits launches all the time, and what it does is told between its gaps, too.
  if (which == kGapNeverWaits) sum.ran_ns = Now().ran_ns - ran_before_ns;
  std::printf("window %d %lu %lu\n", getpid(), begun_ns, MonotonicNs());
  // What comes now is in no gap.
  launch(&kGapNs, dim3_c{1, 1, 1}, dim3_c{32, 1, 1}, nullptr, 100, nullptr);
  if (controller) Require(controller->Enter(controller->root()), "the group above");
  std::printf("gaps %d %lu %lu %lu %lu\n", getpid(), sum.ran_ns, sum.waited_ns,
              all_ns - std::min(all_ns, sum.ran_ns + sum.waited_ns),
              which == kGapStopped ? std::atomic_ref(*stopped_ns).load() : throttled_ns);
  if (helper) kill(helper, SIGKILL);
  return 0;
}

}  // namespace slotscope
