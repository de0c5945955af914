// SPDX-License-Identifier: MIT
// A process to which something happens, on a machine that does other things as well.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cpu_controller.h"
#include "harness.h"
#include "tests/cuda/standin.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr const char* kVictim = "victim";
// Of all of them: what else this machine does is not to be what happens.
constexpr int kNice = -12;

uint64_t ThreadCpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// Of its own CPU time.
void Work(uint64_t ns) {
  const uint64_t end_ns = ThreadCpuNs() + ns;
  while (ThreadCpuNs() < end_ns) {
  }
}

class Incident {
 public:
  Incident(LiveIncident kind, uint64_t seed)
      : kind_(kind),
        random_(seed),
        cpu_(random_() % NrCpus()),
        begin_ns_(MonotonicNs() + Between(1'100, 1'400) * kMs),
        end_ns_(begin_ns_ + Between(500, 800) * kMs),
        over_ns_(end_ns_ + 900 * kMs),
        work_ns_(Between(2'000, 4'000) * 1000),
        rest_ns_(Between(4'000, 8'000) * 1000),
        controller_(false) {}

  int Run() {
    if (kind_ == kLiveThrottled && !controller_.is_usable()) {
      std::printf("unusable 0\n");
      return 0;
    }
    for (size_t cpu = 0; cpu < NrCpus(); cpu++)
      Start("service", [this, cpu] {
        PinTo(0, cpu);
        WorkInRounds(300'000, 15 * kMs, over_ns_);
      });
    if (kind_ == kLiveLoader) {
      batches_ = static_cast<Batches*>(
          mmap(nullptr, sizeof(Batches), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
      sem_init(&batches_->room, 1, 4);
      sem_init(&batches_->ready, 1, 0);
      Start("loader", [this] { BeLoader(); });
    }
    const pid_t victim = Start(kVictim, [this] { BeVictim(); });
    const char* neighbor = Happen(victim);
    SleepUntil(over_ns_);
    std::printf("incident %d %lu %lu\nneighbor %s\n", victim, begin_ns_, end_ns_, neighbor);
    if (batches_)
      std::printf("no_work %.3f\n",
                  static_cast<double>(batches_->no_work_ns) / static_cast<double>(end_ns_ - begin_ns_));
    int failed = 0, status = 0;
    for (pid_t child : children_) failed += waitpid(child, &status, 0) != child;
    return failed;
  }

 private:
  uint64_t Between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }

  pid_t Start(const char* name, const std::function<void()>& body) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_NAME, name);
      setpriority(PRIO_PROCESS, 0, kNice);
      body();
      _exit(0);
    }
    children_.push_back(pid);
    return pid;
  }

  static void WorkInRounds(uint64_t work_ns, uint64_t rest_ns, uint64_t until_ns) {
    while (MonotonicNs() < until_ns) {
      Work(work_ns);
      usleep(static_cast<useconds_t>(rest_ns / 1000));
    }
  }

  // A training loop, whose GPU works for some ms in each step; of the loader it gets a batch for each.
  void BeTrainer() {
    PinTo(0, kind_ == kLiveLoader ? (cpu_ + 1) % NrCpus() : cpu_);
    for (const char* name : {"/libcuda.so.1", "/libcudart.so.13"}) {
      const void* const library = dlopen((StandinFolder() + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (!library) _exit(1);
    }
    const auto launch =
        reinterpret_cast<decltype(&__cudaLaunchKernel)>(dlsym(RTLD_DEFAULT, "__cudaLaunchKernel"));
    const auto wait =
        reinterpret_cast<decltype(&cudaDeviceSynchronize)>(dlsym(RTLD_DEFAULT, "cudaDeviceSynchronize"));
    usleep(100'000);  // until they are probed
    for (uint64_t waited_ns = MonotonicNs(); MonotonicNs() < over_ns_; waited_ns = MonotonicNs()) {
      if (kind_ == kLiveLoader) {
        sem_wait(&batches_->ready);
        sem_post(&batches_->room);
      }
      Work(kind_ == kLiveLoader ? 300'000 : work_ns_);
      if (batches_) AddNoWork(waited_ns, MonotonicNs());
      launch(&kVictim, dim3_c{1, 1, 1}, dim3_c{32, 1, 1}, nullptr, 100, nullptr);
      usleep(3'000);
      wait();
    }
    if (batches_)
      sem_post(&batches_->room);  // the loader is not to wait for ever, nor it for the loader
  }

  void AddNoWork(uint64_t from_ns, uint64_t to_ns) {
    from_ns = std::max(from_ns, begin_ns_);
    to_ns = std::min(to_ns, end_ns_);
    if (from_ns < to_ns) batches_->no_work_ns += to_ns - from_ns;
  }

  // At most four ahead. Alone it brings more than are taken, and with half of a CPU too few.
  void BeLoader() {
    PinTo(0, cpu_);
    while (MonotonicNs() < over_ns_) {
      sem_wait(&batches_->room);
      Work(1'800'000 + work_ns_ * 3 / 10);
      sem_post(&batches_->ready);
    }
    sem_post(&batches_->ready);
  }

  void BeVictim() {
    if (kind_ == kLiveLauncher || kind_ == kLiveLoader) return BeTrainer();
    if (kind_ == kLiveLock) return BeThreadsWithLock();
    PinTo(0, cpu_);
    if (kind_ != kLiveBlocked) return WorkInRounds(work_ns_, rest_ns_, over_ns_);
    WorkInRounds(work_ns_, rest_ns_, begin_ns_);
    if (vfork() == 0) {  // no signal wakes its parent until it ends
      SleepUntil(end_ns_);
      _exit(0);
    }
    WorkInRounds(work_ns_, rest_ns_, over_ns_);
  }

  // Two of three have CPUs of their own, and wait for the one that shares its CPU with the hog.
  void BeThreadsWithLock() {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 3; i++)
      threads.emplace_back([this, i] {
        PinTo(0, (cpu_ + (i ? 1 : 0)) % NrCpus());
        while (MonotonicNs() < over_ns_) {
          Work(300'000);
          pthread_mutex_lock(&lock);
          Work(i == 0 ? work_ns_ : 200'000);
          pthread_mutex_unlock(&lock);
          usleep(2'000);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

  // On that CPU from the beginning to the end of it.
  void Hog(const char* name, size_t cpu, int nice) {
    Start(name, [this, cpu, nice] {
      PinTo(0, cpu);
      setpriority(PRIO_PROCESS, 0, kNice + nice);
      Spin(end_ns_);
    });
  }

  // Returns who is to be named; "-": nobody.
  const char* Happen(pid_t victim) {
    if (kind_ != kLiveThrottled) SleepUntil(begin_ns_);
    switch (kind_) {
      case kLiveHog:
      case kLiveLauncher:
      case kLiveLoader:
        Hog("hog", cpu_, -static_cast<int>(Between(0, 5)));
        return "hog";
      case kLiveBurst:
        Start("burster", [this] {
          PinTo(0, cpu_);
          while (MonotonicNs() < end_ns_) {
            const uint64_t work_ns = Between(2'000, 5'000) * 1000;
            const pid_t small = fork();
            if (small == 0) {
              prctl(PR_SET_NAME, "small");
              setpriority(PRIO_PROCESS, 0, kNice - 8);
              Work(work_ns);
              _exit(0);
            }
            waitpid(small, nullptr, 0);
          }
        });
        return "small";
      case kLiveThrottled: {
        const std::string free = controller_.Make(controller_.root(), "free", 0);
        const std::string limited = controller_.Make(controller_.root(), "limited", 8);
        controller_.Move(free, victim);
        SleepUntil(begin_ns_);
        controller_.Move(limited, victim);
        SleepUntil(end_ns_);
        controller_.Move(free, victim);
        return "-";
      }
      case kLiveStopped:
        kill(victim, SIGSTOP);
        SleepUntil(end_ns_);
        kill(victim, SIGCONT);
        return "-";
      case kLiveBlocked:
        return "-";
      case kLiveLock:
        Hog("hog", cpu_, -8);
        return "hog";
      case kLiveNoisy:
        for (size_t cpu = 0; cpu < NrCpus(); cpu++)
          for (int i = 0; i < 2; i++) Hog("noisy", cpu, 0);
        return "noisy";
      case kLiveQuiet:
      case kNrLiveIncidents:
        return "-";
    }
    return "-";
  }

  struct Batches {
    sem_t room, ready;
    std::atomic<uint64_t> no_work_ns;  // of the trainer's GPU, from the incident's begin to its end
  };

  const LiveIncident kind_;
  std::mt19937_64 random_;
  const size_t cpu_;
  const uint64_t begin_ns_, end_ns_, over_ns_;
  const uint64_t work_ns_, rest_ns_;
  CpuController controller_;
  std::vector<pid_t> children_;
  Batches* batches_ = nullptr;
};

}  // namespace

int RunIncident(int which) {
  return Incident(static_cast<LiveIncident>(which / 100), static_cast<uint64_t>(which % 100)).Run();
}

}  // namespace slotscope
