// SPDX-License-Identifier: MIT
// What vm-guest.sh measures with. In a guest whose clock counts instructions (QEMU -icount), nanoseconds
// are instructions; elsewhere they are only nanoseconds.
//
//   instructions switch N      two processes hand a byte to and fro, N switches
//   instructions compute N     a loop of N turns; nothing but interrupts comes in between
//   instructions life N        N processes are born (by vfork) and die, one after the other
//   instructions hold P T      P processes of T threads each sleep, until standard input ends
//   instructions empty TYPE    a BPF program that does nothing is at sched_switch, until input ends
//
// TYPE is raw_tracepoint or tracepoint.
//
// The first three print "NANOSECONDS N", the others "ready".
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

[[noreturn]] void Fail(const char* what) {
  perror(what);
  exit(1);
}

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

void Print(uint64_t begin_ns, int count) {
  printf("%llu %d\n", static_cast<unsigned long long>(NowNs() - begin_ns), count);
}

void Switch(int count) {
  int there[2], back[2];
  char byte = 0;
  if (pipe(there) || pipe(back)) Fail("pipe");
  pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) {
    close(there[1]);
    while (read(there[0], &byte, 1) == 1)
      if (write(back[1], &byte, 1) != 1) break;
    _exit(0);
  }
  auto play = [&](int rounds) {
    for (int i = 0; i < rounds; i++)
      if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) Fail("pipe");
  };
  play(100);  // caches, lazily made page tables
  const uint64_t begin_ns = NowNs();
  play(count / 2);
  Print(begin_ns, count);
  close(there[1]);
  waitpid(child, nullptr, 0);
}

void Compute(int count) {
  const uint64_t begin_ns = NowNs();
  for (int i = 0; i < count; i++) asm volatile("" : : "r"(i));
  Print(begin_ns, count);
}

void Life(int count) {
  const uint64_t begin_ns = NowNs();
  for (int i = 0; i < count; i++) {
    pid_t child = vfork();
    if (child < 0) Fail("vfork");
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
  }
  Print(begin_ns, count);
}

void UntilInputEnds() {
  puts("ready");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

void* Sleep(void*) {
  for (;;) pause();
}

void Hold(int nr_processes, int nr_threads) {
  int end[2], ready[2];
  if (pipe(end) || pipe(ready)) Fail("pipe");
  for (int i = 0; i < nr_processes; i++) {
    pid_t child = fork();
    if (child < 0) Fail("fork");
    if (child > 0) continue;
    close(end[1]);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 32768);
    for (int t = 1; t < nr_threads; t++) {
      pthread_t thread;
      if (pthread_create(&thread, &attr, Sleep, nullptr)) Fail("pthread_create");
    }
    char byte = 0;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    if (read(end[0], &byte, 1) < 0) _exit(1);  // until the parent is gone
    _exit(0);
  }
  char byte;
  for (int i = 0; i < nr_processes; i++)
    if (read(ready[0], &byte, 1) != 1) Fail("read");
  UntilInputEnds();
  close(end[1]);
  while (wait(nullptr) > 0) {
  }
}

void Empty(const char* type) {
  const bool raw = !strcmp(type, "raw_tracepoint");
  const bpf_insn program[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  int fd = bpf_prog_load(raw ? BPF_PROG_TYPE_RAW_TRACEPOINT : BPF_PROG_TYPE_TRACEPOINT, "empty", "GPL",
                         program, sizeof(program) / sizeof(program[0]), nullptr);
  if (fd < 0) Fail("bpf_prog_load");
  if (raw) {
    if (bpf_raw_tracepoint_open("sched_switch", fd) < 0) Fail("bpf_raw_tracepoint_open");
  } else {
    perf_event_attr attr = {};
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.size = sizeof(attr);
    std::ifstream("/sys/kernel/tracing/events/sched/sched_switch/id") >> attr.config;
    auto event = static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
    if (event < 0) Fail("perf_event_open (is tracefs mounted?)");
    if (ioctl(event, PERF_EVENT_IOC_SET_BPF, fd) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
      Fail("PERF_EVENT_IOC");
  }
  UntilInputEnds();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 2 ? argv[1] : "";
  if (!strcmp(what, "switch")) {
    Switch(atoi(argv[2]));
  } else if (!strcmp(what, "compute")) {
    Compute(atoi(argv[2]));
  } else if (!strcmp(what, "life")) {
    Life(atoi(argv[2]));
  } else if (!strcmp(what, "hold") && argc > 3) {
    Hold(atoi(argv[2]), atoi(argv[3]));
  } else if (!strcmp(what, "empty")) {
    Empty(argv[2]);
  } else {
    fprintf(stderr, "usage: instructions switch|compute|life N | hold PROCESSES THREADS | empty TYPE\n");
    return 2;
  }
  return 0;
}
