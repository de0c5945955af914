// SPDX-License-Identifier: MIT
// Processes whose lives are known. Each workload prints what it did: "proc TGID" for each process that
// must have exactly one RMID, "truth TGID cpu_ns run_delay_ns voluntary involuntary" with the kernel's
// own numbers. They use raw system calls where a library would start threads behind our back.
#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "harness.h"

namespace slotscope {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::printf("failed: %s: %s\n", what, strerror(errno));
  std::fflush(stdout);
  _exit(1);
}

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set)) Fail("sched_setaffinity");
}

void SleepUs(uint64_t us) {
  timespec time = {static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000 * 1000)};
  nanosleep(&time, nullptr);
}

uint64_t CpuNs() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

// Computes, and makes no system call.
void Loop(int count) {
  for (int i = 0; i < count; i++) asm volatile("" : : "r"(i));
}

void Burn(uint64_t cpu_ns) {
  uint64_t end_ns = CpuNs() + cpu_ns;
  while (CpuNs() < end_ns) Loop(10'000);
}

// Forks, runs `body` in the child and prints the child as a process.
template <typename Body>
pid_t Start(Body body) {
  std::fflush(stdout);
  pid_t pid = fork();
  if (pid < 0) Fail("fork");
  if (pid == 0) {
    body();
    _exit(0);
  }
  std::printf("proc %d\n", pid);
  return pid;
}

void Reap(pid_t pid) {
  if (waitpid(pid, nullptr, 0) != pid) Fail("waitpid");
}

uint64_t StatusField(pid_t pid, const char* key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  uint64_t value = 0;
  while (file >> word)
    if (word == key) {
      file >> value;
      break;
    }
  return value;
}

// The last a child does whose end ReapWithTruth() awaits: what it did is in slots that ended well before
// its numbers are read, however late a tick is.
void RestBeforeTheEnd() { usleep(60'000); }

// Waits until the child is a zombie, prints the kernel's numbers of its life, and reaps it.
void ReapWithTruth(pid_t pid) {
  siginfo_t info;
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT)) Fail("waitid");
  uint64_t cpu_ns = 0, run_delay_ns = 0;
  const uint64_t read_ns = MonotonicNs();  // what it does from here on may not be in what is read
  std::ifstream("/proc/" + std::to_string(pid) + "/schedstat") >> cpu_ns >> run_delay_ns;
  std::printf("truth %d %lu %lu %lu %lu %lu\n", pid, cpu_ns, run_delay_ns,
              StatusField(pid, "voluntary_ctxt_switches:"),
              StatusField(pid, "nonvoluntary_ctxt_switches:"), read_ns);
  Reap(pid);
}

void StartThreads(int count, void* (*body)(void*)) {
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    if (pthread_create(&thread, &attr, body, nullptr)) Fail("pthread_create");
  }
}

void* SleepForever(void*) {
  for (;;) pause();
}

void* Spin(void*) {
  for (;;) Loop(1'000'000);
}

void* SleepThenExit(void*) {
  SleepUs(20'000);
  return nullptr;
}

void* ExecTrue(void*) {
  SleepUs(5'000);
  execl("/proc/self/exe", "exec-by-thread", "--workload", "nothing", nullptr);
  Fail("exec");
}

int Simple(int) {
  Reap(Start([] { Burn(2'000'000); }));
  return 0;
}

int LeaderExitsFirst(int) {
  Reap(Start([] {
    StartThreads(2, SleepThenExit);
    syscall(SYS_exit, 0);  // this thread only: the leader
  }));
  return 0;
}

int ExecByThread(int) {
  Reap(Start([] {
    StartThreads(3, SleepForever);
    StartThreads(1, ExecTrue);
    for (;;) pause();
  }));
  return 0;
}

int ExecByLeader(int) {
  Reap(Start([] {
    StartThreads(3, SleepForever);
    SleepUs(5'000);
    execl("/proc/self/exe", "exec-by-leader", "--workload", "nothing", nullptr);
    Fail("exec");
  }));
  return 0;
}

// An executable that exec refuses only after the other threads are gone: its one segment lies outside
// user space. The kernel kills the process.
std::string MakeBrokenProgram() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_entry = 0x400000;
  header.e_phoff = sizeof(header);
  header.e_ehsize = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment = {};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_X;
  segment.p_vaddr = 0xffff800000000000;
  segment.p_filesz = segment.p_memsz = segment.p_align = 4096;
  std::string image(8192, 0);
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + sizeof(header), &segment, sizeof(segment));
  char path[] = "/tmp/slotscope-broken.XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, image.data(), image.size()) != static_cast<ssize_t>(image.size()) ||
      fchmod(fd, 0700))
    Fail("mkstemp");
  close(fd);
  return path;
}

std::string g_broken_program;

void* ExecBroken(void*) {
  SleepUs(2'000);
  execl(g_broken_program.c_str(), "broken", nullptr);
  Fail("exec");
}

// The thread has the leader's pid by then, but no exec ever happened.
int ExecFails(int count) {
  g_broken_program = MakeBrokenProgram();
  for (int i = 0; i < count; i++) {
    pid_t pid = Start([] {
      StartThreads(2, SleepForever);
      StartThreads(1, ExecBroken);
      for (;;) pause();
    });
    int status;
    if (waitpid(pid, &status, 0) != pid) Fail("waitpid");
    if (!WIFSIGNALED(status)) Fail("the broken program was not refused late");
  }
  unlink(g_broken_program.c_str());
  return 0;
}

int Zombie(int) {
  pid_t pid = Start([] {});
  SleepUs(100'000);
  Reap(pid);
  return 0;
}

// Lets a traced process and its threads go on at each of their stops, until all are gone; at the stop
// number `kill_at` the process is killed.
void Trace(pid_t pid, int kill_at) {
  int status, nr_stops = 0;
  for (pid_t stopped; (stopped = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) continue;
    if (++nr_stops == kill_at) kill(pid, SIGKILL);
    ptrace(PTRACE_SETOPTIONS, stopped, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT);
    ptrace(PTRACE_CONT, stopped, nullptr, nullptr);
  }
}

// Traced and stopped at every turn: once to its end, its leader going first; once killed at a stop.
int Traced(int) {
  auto body = [] {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) Fail("ptrace");
    raise(SIGSTOP);
    StartThreads(2, SleepThenExit);
    raise(SIGSTOP);
    syscall(SYS_exit, 0);
  };
  Trace(Start(body), 0);
  Trace(Start(body), 3);
  return 0;
}

int KillThreads(int spin) {
  int ready[2];
  if (pipe(ready)) Fail("pipe");
  pid_t pid = Start([&] {
    StartThreads(100, spin ? Spin : SleepForever);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    for (;;) pause();
  });
  char byte;
  if (read(ready[0], &byte, 1) != 1) Fail("read");
  kill(pid, SIGKILL);
  Reap(pid);
  return 0;
}

int Vfork(int) {
  std::fflush(stdout);
  pid_t pid = vfork();
  if (pid == 0) _exit(0);
  Reap(pid);
  std::printf("proc %d\n", pid);
  std::fflush(stdout);
  pid = vfork();
  if (pid == 0) {
    execl("/proc/self/exe", "vfork-exec", "--workload", "nothing", nullptr);
    _exit(1);
  }
  Reap(pid);
  std::printf("proc %d\n", pid);
  return 0;
}

// A group exit while another thread tears down a large address space.
int GroupExit(int) {
  Reap(Start([] {
    size_t size = 64u << 20;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Fail("mmap");
    memset(memory, 1, size);
    StartThreads(3, Spin);
    SleepUs(3'000);
    _exit(0);
  }));
  return 0;
}

// The same pid again and again, each time before the last one may be off its CPU.
int Reborn(int count) {
  pid_t tgid = 0;
  std::fflush(stdout);
  for (int i = 0; i < count; i++) {
    clone_args args = {};
    args.exit_signal = SIGCHLD;
    pid_t set_tid = tgid;
    if (tgid) {
      args.set_tid = reinterpret_cast<uint64_t>(&set_tid);
      args.set_tid_size = 1;
    }
    auto pid = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
    if (pid < 0 && tgid && errno == EEXIST) {  // still there, or somebody else's now
      i--;
      if (kill(tgid, 0) == 0) tgid = 0;
      continue;
    }
    if (pid < 0) Fail("clone3");
    if (pid == 0) _exit(0);
    tgid = pid;
    Reap(pid);
    std::printf("proc %d\n", pid);
  }
  return 0;
}

int IoUring(int) {
  int ready[2];
  if (pipe(ready)) Fail("pipe");
  pid_t pid = Start([&] {
    io_uring_params params = {};
    params.flags = IORING_SETUP_SQPOLL;
    params.sq_thread_idle = 1000;
    long fd = syscall(SYS_io_uring_setup, 8, &params);
    char answer = fd >= 0 ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    Burn(5'000'000);
    SleepUs(5'000);
  });
  char answer;
  if (read(ready[0], &answer, 1) != 1) Fail("read");
  if (answer == 'y') std::printf("sqpoll %d\n", pid);
  Reap(pid);
  return 0;
}

int ManyShort(int count) {
  for (int i = 0; i < count; i++) Reap(Start([] {}));
  return 0;
}

// As short as a life can be.
int ManyShortest(int count) {
  std::fflush(stdout);
  std::vector<pid_t> pids;
  for (int i = 0; i < count; i++) {
    pid_t pid = vfork();
    if (pid < 0) Fail("vfork");
    if (pid == 0) _exit(0);
    Reap(pid);
    pids.push_back(pid);
  }
  for (pid_t pid : pids) std::printf("proc %d\n", pid);
  return 0;
}

// Processes that share their parent's memory, which are born and gone in a tenth of the time: to copy
// the page tables of a test program takes milliseconds.
class LightForks {
 public:
  explicit LightForks(size_t most) : stacks_(most, std::vector<char>(kStackBytes)) {
    for (auto& stack : stacks_) free_.push_back(&stack);
  }

  // With a life that sleeps for that long. REQUIRES: fewer than `most` are there.
  void Start(int us) {
    std::vector<char>* const stack = free_.back();
    free_.pop_back();
    const pid_t pid = clone(
        [](void* sleep_us) {
          if (sleep_us) SleepUs(static_cast<unsigned>(reinterpret_cast<uintptr_t>(sleep_us)));
          _exit(0);
          return 0;
        },
        stack->data() + stack->size(), CLONE_VM | SIGCHLD,
        reinterpret_cast<void*>(static_cast<uintptr_t>(us)));
    if (pid < 0) Fail("clone");
    used_[pid] = stack;
  }
  // Any child; one of another kind is none of ours.
  void OnReaped(pid_t pid) {
    const auto at = used_.find(pid);
    if (at == used_.end()) return;
    free_.push_back(at->second);
    used_.erase(at);
  }

 private:
  static constexpr size_t kStackBytes = 16384;
  std::vector<std::vector<char>> stacks_;
  std::vector<std::vector<char>*> free_;
  std::map<pid_t, std::vector<char>*> used_;
};

// `count` forks by four parents at once, one of eight with memory of its own; children live for up to
// some milliseconds.
int Storm(int count) {
  std::vector<pid_t> parents;
  for (int p = 0; p < 4; p++)
    parents.push_back(Start([=] {
      unsigned seed = static_cast<unsigned>(p) + 1;
      constexpr int kMost = 64;
      LightForks light(kMost + 1);
      int nr_running = 0;
      for (int i = 0; i < count / 4; i++) {
        const int us = i % 32 <= 1 ? 3'000 : 0;
        if (i % 8 != 0) {
          light.Start(us);
        } else if (const pid_t pid = fork(); pid == 0) {
          if (us) SleepUs(us);
          _exit(0);
        } else if (pid < 0) {
          Fail("fork");
        }
        nr_running++;
        if (rand_r(&seed) % 8 != 0 && nr_running <= kMost) continue;
        for (;;) {
          const pid_t pid = waitpid(-1, nullptr, nr_running > kMost ? 0 : WNOHANG);
          if (pid <= 0) break;
          light.OnReaped(pid);
          if (--nr_running == 0) break;
        }
      }
      while (waitpid(-1, nullptr, 0) > 0) {
      }
    }));
  for (pid_t pid : parents) Reap(pid);
  return 0;
}

// `count` processes alive at once, then all gone. None of them is idle for so long that it would lose
// its RMID.
int Crowd(int count) {
  int hold[2];
  if (pipe(hold)) Fail("pipe");
  std::vector<pid_t> pids;
  for (int i = 0; i < count; i++)
    pids.push_back(Start([&] {
      close(hold[1]);
      Burn(1'000'000);
      pollfd parent = {hold[0], POLLIN, 0};
      while (poll(&parent, 1, 400) == 0) continue;  // until the parent closes its end
      Burn(1'000'000);
    }));
  SleepUs(50'000);
  close(hold[1]);
  for (pid_t pid : pids) Reap(pid);
  return 0;
}

// `count` processes that live as long as we do, which is until we are killed. Each runs once per period;
// 0: never again.
int Stay(int count, uid_t uid, useconds_t period_us) {
  for (int i = 0; i < count; i++)
    Start([&] {
      if (uid && setresuid(uid, uid, uid)) _exit(1);
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the user clears it
      while (period_us) usleep(period_us);
      pause();
    });
  std::printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}

int Sleepers(int count) { return Stay(count, 0, 0); }
// Of another user, and never asleep for a second.
int Nappers(int count) { return Stay(count, 1000, 500'000); }
int RootsNappers(int count) { return Stay(count, 0, 500'000); }

// So many that sleep, then six that work beside them; and one more when all are gone.
int FullTable(int count) {
  const auto work = [] {
    for (const uint64_t end_ns = MonotonicNs() + 200'000'000; MonotonicNs() < end_ns;) Loop(100'000);
    RestBeforeTheEnd();
  };
  std::vector<pid_t> sleepers;
  for (int i = 0; i < count; i++) sleepers.push_back(Start([] { pause(); }));
  std::vector<pid_t> beside;
  for (int i = 0; i < 6; i++) beside.push_back(Start(work));
  for (pid_t pid : beside) ReapWithTruth(pid);
  for (pid_t pid : sleepers) kill(pid, SIGKILL);
  for (pid_t pid : sleepers) Reap(pid);
  ReapWithTruth(Start(work));
  return 0;
}

// One process of `count` threads that sleep until we are killed.
int Threads(int count) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  for (int i = 1; i < count; i++) {
    pthread_t thread;
    const int error = pthread_create(
        &thread, &attributes, [](void*) -> void* { return pause(), nullptr; }, nullptr);
    if (error) {
      errno = error;
      Fail("pthread_create");
    }
  }
  std::printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}

// Computes, says who it is, and ends.
int Busy(int milliseconds) {
  std::printf("busy %d\n", getpid());
  fflush(stdout);
  Burn(static_cast<uint64_t>(milliseconds) * 1'000'000);
  return 0;
}

// The same, and once more for as long when a signal comes.
int BusyAgain(int milliseconds) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Busy(milliseconds);
  int signal;
  sigwait(&set, &signal);
  Burn(static_cast<uint64_t>(milliseconds) * 1'000'000);
  return 0;
}

int BusyUser(int milliseconds) { return setresuid(1000, 1000, 1000) ? 1 : Busy(milliseconds); }

// With nothing but CAP_PERFMON the module's files can be opened, and without not.
int OpenAsPerfmon(int) {
  const char* const kFiles[] = {"/proc/slotscope/rmids", "/proc/slotscope/info"};
  if (prctl(PR_SET_KEEPCAPS, 1) || setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
    Fail("setresuid");
  for (const uint32_t high : {1u << (CAP_PERFMON - 32), 0u}) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct data[2] = {{0, 0, 0}, {high, high, 0}};
    if (syscall(SYS_capset, &header, data)) Fail("capset");
    for (const char* path : kFiles) {
      const int fd = open(path, O_RDONLY | O_CLOEXEC);
      if ((fd >= 0) != (high != 0) || (fd < 0 && errno != EPERM)) Fail(path);
    }
  }
  return 0;
}

// Three computing processes on one CPU with shares of about 1/7, 2/7 and 4/7 of it, by their weights:
// high ones, so that this machine's other processes take little.
int Shares(int milliseconds) {
  int cpu = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) - 1;
  std::vector<pid_t> pids;
  for (int lower : {6, 3, 0})
    pids.push_back(Start([=] {
      Pin(cpu);
      errno = 0;
      if (nice(lower - 5) == -1 && errno) _exit(1);
      prctl(PR_SET_NAME, ("share" + std::to_string(lower)).c_str());
      const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(milliseconds) * 1'000'000;
      while (MonotonicNs() < end_ns) Loop(100'000);
      RestBeforeTheEnd();
    }));
  for (pid_t pid : pids) ReapWithTruth(pid);
  return 0;
}

// Two processes on one CPU that wake each other `rounds` times.
std::array<pid_t, 2> StartPingPong(int cpu, int rounds) {
  int there[2], back[2];
  if (pipe(there) || pipe(back)) Fail("pipe");
  auto play = [=](int in, int out, bool first) {
    Pin(cpu);
    char byte = 'b';
    if (first && write(out, &byte, 1) != 1) _exit(1);
    for (int i = 0; i < rounds; i++) {
      if (read(in, &byte, 1) != 1) _exit(1);
      if ((!first || i + 1 < rounds) && write(out, &byte, 1) != 1) _exit(1);
    }
    RestBeforeTheEnd();
  };
  pid_t ping = Start([&] { play(back[0], there[1], true); });
  pid_t pong = Start([&] { play(there[0], back[1], false); });
  return {ping, pong};
}

int PingPong(int rounds) {
  for (pid_t pid : StartPingPong(static_cast<int>(NrCpus()) - 1, rounds)) ReapWithTruth(pid);
  return 0;
}

// On each CPU.
int PingPongs(int rounds) {
  std::vector<pid_t> pids;
  for (size_t cpu = 0; cpu < NrCpus(); cpu++)
    for (pid_t pid : StartPingPong(static_cast<int>(cpu), rounds)) pids.push_back(pid);
  for (pid_t pid : pids) Reap(pid);
  return 0;
}

int Rename(int) {
  Reap(Start([] {
    prctl(PR_SET_NAME, "a,b\"c\\d\n\x1b[2J");
    Burn(5'000'000);
  }));
  return 0;
}

// As an unprivileged user might, to fill the buffers that all share.
int RenameFlood(int count) {
  Reap(Start([=] {
    for (int i = 0; i < count; i++) prctl(PR_SET_NAME, fmt::format("flood{}", i).c_str());
    prctl(PR_SET_NAME, "at last");
    Burn(300'000'000);
  }));
  return 0;
}

void* RenameMyself(void*) {
  prctl(PR_SET_NAME, "a thread's");
  return nullptr;
}

// A file that is called as CUDA's runtime; -1 if it cannot be made.
int OpenLibrary() {
  const int fd = open("libcudart.so.99", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
  return fd < 0 || ftruncate(fd, 4096) ? -1 : fd;
}

// It is mapped to execute from it again and again, for so many ms.
int MapFlood(int ms) {
  const int fd = OpenLibrary();
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns;) {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED) return 1;
    munmap(page, 4096);
  }
  return 0;
}

// It stays where it is, and may be executed from again and again: the kernel tells of that, too.
int ProtectFlood(int ms) {
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, OpenLibrary(), 0);
  if (page == MAP_FAILED) return 1;
  for (const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(ms) * 1'000'000;
       MonotonicNs() < end_ns;)
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC) || mprotect(page, 4096, PROT_READ)) return 1;
  return 0;
}

// So many copies of a library are mapped, each a file of its own; until it is killed.
int LibraryCopies(int nr) {
  const int library = open((StandinFolder() + "/libcuda.so.1").c_str(), O_RDONLY | O_CLOEXEC);
  const off_t size = lseek(library, 0, SEEK_END);
  for (int i = 0; i < nr; i++) {
    const int fd = memfd_create(fmt::format("x/libcuda.so.{}", i).c_str(), MFD_CLOEXEC);
    off_t at = 0;
    if (sendfile(fd, library, &at, static_cast<size_t>(size)) != size) return 1;
    const void* const mapped =
        mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) return 1;
    close(fd);
  }
  pause();
  return 0;
}

// So many sparse files of the name of a CUDA library are mapped, each with as many names as one is read
// of; until it is killed.
int HeavyLibraries(int nr) {
  for (int i = 0; i < nr; i++) {
    const int fd = memfd_create(fmt::format("x/libcuda.so.{}", i).c_str(), MFD_CLOEXEC);
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shoff = 4096;
    Elf64_Shdr sections[6] = {};
    header.e_shnum = static_cast<Elf64_Half>(std::size(sections));
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = 1u << 20;
    sections[1].sh_size = 255u << 20;
    for (size_t at = 2; at < std::size(sections); at++) {
      sections[at].sh_type = SHT_SYMTAB;
      sections[at].sh_offset = 8192;
      sections[at].sh_size = 100 * sizeof(Elf64_Sym);
      sections[at].sh_entsize = sizeof(Elf64_Sym);
      sections[at].sh_link = 1;
    }
    if (ftruncate(fd, 300 << 20) || pwrite(fd, &header, sizeof(header), 0) < 0 ||
        pwrite(fd, sections, sizeof(sections), static_cast<off_t>(header.e_shoff)) < 0)
      return 1;
    const void* const page = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED) return 1;
    close(fd);
  }
  pause();
  return 0;
}

// A process is named by its leader.
int RenameThread(int) {
  Reap(Start([] {
    prctl(PR_SET_NAME, "the leader's");
    StartThreads(3, RenameMyself);
    Burn(20'000'000);
  }));
  return 0;
}

// As a container's runtime runs a command for `kubectl exec`: $COMMAND, in the group $CGROUP, with
// another host name, and in pid, mount and cgroup namespaces of its own.
int RunInContainer(int) {
  const char* const command = std::getenv("COMMAND");
  const char* const group = std::getenv("CGROUP");
  if (!command || !group) Fail("COMMAND and CGROUP");
  std::ofstream procs(std::string(group) + "/cgroup.procs");
  if (!(procs << getpid() << std::flush)) Fail("cgroup.procs");
  if (unshare(CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWCGROUP)) Fail("unshare");
  const pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) {
    const std::string name = "exec-x7k2p";
    if (sethostname(name.c_str(), name.size())) Fail("sethostname");
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) Fail("mount /");
    if (mount("proc", "/proc", "proc", 0, nullptr)) Fail("mount /proc");
    execl("/bin/sh", "sh", "-c", command, nullptr);
    Fail("/bin/sh");
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) Fail(command);
  return WEXITSTATUS(status);
}

int Nothing(int) {
  Burn(1'000'000);
  return 0;
}

struct Workload {
  const char* name;
  int (*run)(int);
};

constexpr Workload kWorkloads[] = {
    {"cuda", RunCudaWorkload},
    {"cuda-unreadable", RunUnreadableCuda},
    {"cuda-threads", RunCudaThreads},
    {"storage-holder", RunStorageHolder},
    {"cuda-launches", RunCudaLaunches},
    {"cuda-seldom", RunCudaSeldom},
    {"cuda-holder", RunCudaHolder},
    {"cuda-flood", RunCudaFlood},
    {"cuda-stacks", RunCudaOnManyStacks},
    {"cuda-jump", RunCudaBehindJump},
    {"cuda-unreadable-flood", RunUnreadableCudaFlood},
    {"cuda-gaps", RunGaps},
    {"cuda-train", RunCudaTrain},
    {"cuda-launcher", RunLauncher},
    {"heavy-libraries", HeavyLibraries},
    {"library-copies", LibraryCopies},
    {"map-flood", MapFlood},
    {"protect-flood", ProtectFlood},
    {"simple", Simple},
    {"leader-exits-first", LeaderExitsFirst},
    {"exec-by-thread", ExecByThread},
    {"exec-fails", ExecFails},
    {"exec-by-leader", ExecByLeader},
    {"zombie", Zombie},
    {"traced", Traced},
    {"kill-threads", KillThreads},
    {"vfork", Vfork},
    {"group-exit", GroupExit},
    {"reborn", Reborn},
    {"io-uring", IoUring},
    {"many-short", ManyShort},
    {"many-shortest", ManyShortest},
    {"storm", Storm},
    {"crowd", Crowd},
    {"sleepers", Sleepers},
    {"full-table", FullTable},
    {"nappers", Nappers},
    {"roots-nappers", RootsNappers},
    {"threads", Threads},
    {"busy", Busy},
    {"busy-user", BusyUser},
    {"busy-again", BusyAgain},
    {"open-as-perfmon", OpenAsPerfmon},
    {"shares", Shares},
    {"wait-threads", RunWaitingThreads},
    {"wait-mix", RunWaitingMix},
    {"wait-load", RunWaitLoad},
    {"quota", RunUnderQuota},
    {"states", RunStates},
    {"incident", RunIncident},
    {"wanderer", RunWanderer},
    {"ping-pong", PingPong},
    {"ping-pongs", PingPongs},
    {"rename", Rename},
    {"rename-flood", RenameFlood},
    {"rename-thread", RenameThread},
    {"in-container", RunInContainer},
    {"nothing", Nothing},
};

}  // namespace

int RunWorkloadHere(int argc, char** argv) {
  for (const Workload& workload : kWorkloads)
    if (std::string(argv[0]) == workload.name) return workload.run(argc > 1 ? std::atoi(argv[1]) : 0);
  std::printf("there is no workload %s\n", argv[0]);
  return 2;
}

}  // namespace slotscope
