// SPDX-License-Identifier: MIT
// pingpong CPU SECONDS [SWITCHES_PER_S]: two processes on one CPU hand a byte to and fro through pipes,
// as fast as they can or so many times a second. Prints the nanoseconds of CPU time of both, which is
// where the kernel puts a switch, and the number of switches.
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

uint64_t CpuNs(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  return (static_cast<uint64_t>(usage.ru_utime.tv_sec) + static_cast<uint64_t>(usage.ru_stime.tv_sec)) *
             1'000'000'000u +
         (static_cast<uint64_t>(usage.ru_utime.tv_usec) +
          static_cast<uint64_t>(usage.ru_stime.tv_usec)) *
             1000u;
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set)) {
    perror("pingpong: sched_setaffinity");
    exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: pingpong CPU SECONDS [SWITCHES_PER_S]\n");
    return 2;
  }
  const double seconds = atof(argv[2]);
  const double per_second = argc > 3 ? atof(argv[3]) : 0;
  PinTo(atoi(argv[1]));
  int there[2], back[2];
  if (pipe(there) || pipe(back)) return 1;
  char byte = 0;
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    close(there[1]);
    while (read(there[0], &byte, 1) == 1)
      if (write(back[1], &byte, 1) != 1) break;
    _exit(0);
  }
  const uint64_t begin_ns = NowNs(), end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
  uint64_t nr_switches = 0, now_ns = begin_ns;
  while (now_ns < end_ns) {
    // Bursts, so that the clock is not part of what is measured.
    for (int i = 0; i < 50; i++, nr_switches += 2)
      if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    now_ns = NowNs();
    while (per_second > 0 &&
           static_cast<double>(nr_switches) > per_second * static_cast<double>(now_ns - begin_ns) / 1e9)
      now_ns = NowNs();
  }
  close(there[1]);
  waitpid(child, nullptr, 0);
  printf("%llu %llu\n", static_cast<unsigned long long>(CpuNs(RUSAGE_SELF) + CpuNs(RUSAGE_CHILDREN)),
         static_cast<unsigned long long>(nr_switches));
  return 0;
}
