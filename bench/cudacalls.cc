// SPDX-License-Identifier: MIT
// cudacalls LIBRARY SECONDS: calls cuCtxSetCurrent() of a (stand-in) libcuda as often as it can, on one
// CPU. Prints the nanoseconds and the number of calls that it took, as pingpong does.
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: cudacalls LIBRARY SECONDS\n");
    return 2;
  }
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    fprintf(stderr, "cudacalls: %s\n", dlerror());
    return 1;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(1, &set);
  sched_setaffinity(0, sizeof(set), &set);
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto create = reinterpret_cast<int (*)(void**, unsigned, int)>(dlsym(library, "cuCtxCreate_v2"));
  const auto set_current = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxSetCurrent"));
  void* context;
  if (!init || !create || !set_current || init(0) || create(&context, 0, 0)) {
    dlclose(library);
    return 1;
  }
  const uint64_t begin_ns = NowNs(), end_ns = begin_ns + static_cast<uint64_t>(atof(argv[2]) * 1e9);
  uint64_t nr_calls = 0, now_ns = begin_ns;
  while (now_ns < end_ns) {
    for (int i = 0; i < 100; i++, nr_calls++) set_current(context);
    now_ns = NowNs();
  }
  printf("%lu %lu\n", now_ns - begin_ns, nr_calls);
  dlclose(library);
  return 0;
}
