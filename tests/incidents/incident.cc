// SPDX-License-Identifier: MIT
#include "tests/incidents/incident.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <random>

#include "tests/incidents/machine.h"

namespace slotscope {
namespace {

using Step = Machine::Step;
constexpr uint64_t kUs = 1000, kMs = 1'000'000;
constexpr uint64_t kLengthMs = 6000;

class Maker {
 public:
  Maker(IncidentKind kind, uint64_t seed)
      : kind_(kind),
        random_(seed * 1000 + static_cast<uint64_t>(kind)),
        nr_cpus_(static_cast<uint32_t>(2 + Random(5))),
        machine_(nr_cpus_, kind == IncidentKind::kBandwidth || Random(4) == 0),
        cpu_(static_cast<uint32_t>(Random(nr_cpus_))),
        begin_ns_((1500 + Random(2000)) * kMs),
        end_ns_(begin_ns_ + (200 + Random(1000)) * kMs) {}

  Status Make(const std::string& path, Truth* truth) {
    truth->begin_ns = begin_ns_;
    truth->end_ns = end_ns_;
    AddDaemons();
    if (kind_ == IncidentKind::kQuiet) {
      AddQuiet();
    } else {
      victim_name_ = Name({"web", "postgres", "redis-server", "trainer", "envoy"});
      AddIncident(truth);
      AddServices();
    }
    return machine_.Write(path, kLengthMs * kMs);
  }

 private:
  uint64_t Random(uint64_t below) { return random_() % below; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Random(high - low + 1); }
  std::string Name(std::initializer_list<const char*> names) {
    return *(names.begin() + static_cast<std::ptrdiff_t>(Random(names.size())));
  }

  // Runs, then sleeps; each a little longer or shorter.
  Machine::Behavior Periodic(uint64_t run_us, uint64_t sleep_us) {
    return [this, run_us, sleep_us, runs = false](uint64_t) mutable {
      runs = !runs;
      const uint64_t us = runs ? run_us : sleep_us;
      return Step{runs ? Step::kRun : Step::kSleep, (us * 3 / 4 + Random(us / 2 + 1)) * kUs};
    };
  }
  Machine::Behavior Always() {
    return [](uint64_t) { return Step{Step::kRun, 50 * kMs}; };
  }
  // From one time to another, then it ends.
  static Machine::Behavior Until(uint64_t end_ns) {
    return [end_ns](uint64_t now_ns) {
      return now_ns < end_ns ? Step{Step::kRun, 2 * kMs} : Step{Step::kExit, 0};
    };
  }
  static Machine::Behavior Once(uint64_t run_ns) {
    return [run_ns, ran = false](uint64_t) mutable {
      return std::exchange(ran, true) ? Step{Step::kExit, 0} : Step{Step::kRun, run_ns};
    };
  }

  void AddDaemons() {
    for (uint64_t i = 0; i < 15; i++)
      machine_.AddThread(machine_.AddProcess(fmt::format("daemon{}", i)),
                         static_cast<uint32_t>(Random(nr_cpus_)),
                         Periodic(Between(30, 300), Between(50'000, 900'000)));
  }

  // What runs there anyway.
  void AddServices() {
    for (uint32_t cpu = 0; cpu < nr_cpus_; cpu++) {
      machine_.AddThread(machine_.AddProcess(Name({"nginx", "kubelet", "node", "java"})), cpu,
                         Periodic(Between(200, 900), Between(6'000, 20'000)));
      if (cpu != cpu_ && kind_ != IncidentKind::kBandwidth && Random(3) == 0)
        machine_.AddThread(machine_.AddProcess("batch"), cpu, Always());
    }
  }

  // Works in rounds, or all the time.
  int32_t AddVictim() {
    const int32_t tgid = machine_.AddProcess(victim_name_);
    machine_.AddThread(tgid, cpu_,
                       Random(3) ? Periodic(Between(2'000, 6'000), Between(3'000, 12'000)) : Always());
    return tgid;
  }

  void AddIncident(Truth* truth) {
    truth->who = {victim_name_};
    switch (kind_) {
      case IncidentKind::kHog:
        AddVictim();
        AddHog(truth);
        return;
      case IncidentKind::kBurst:
        AddVictim();
        truth->neighbor = Name({"sh", "curl", "check_disk"});
        for (uint64_t at_ns = begin_ns_; at_ns < end_ns_;) {
          const uint64_t run_us = Between(1'000, 5'000);
          machine_.AddThread(machine_.AddProcess(truth->neighbor, at_ns), cpu_, Once(run_us * kUs));
          at_ns += run_us * kUs * Between(8, 12) / 10;
        }
        truth->why = {kByOthers};
        return;
      case IncidentKind::kThrottled: {
        const int32_t tgid = machine_.AddProcess(victim_name_);
        machine_.AddThread(tgid, cpu_, Periodic(Between(3'000, 6'000), Between(3'000, 6'000)));
        machine_.SetQuota(tgid, Between(10, 25) * kMs, {begin_ns_, end_ns_});
        truth->why = {kByQuota};
        return;
      }
      case IncidentKind::kStopped:
        machine_.Stop(AddVictim(), {begin_ns_, end_ns_});
        truth->why = {kStopped};
        return;
      case IncidentKind::kDisk: {
        const int32_t tgid = machine_.AddProcess(victim_name_);
        const uint64_t read_ms = Between(30, 300);
        machine_.AddThread(tgid, cpu_, [this, read_ms, runs = false](uint64_t now_ns) mutable {
          runs = !runs;
          if (runs) return Step{Step::kRun, Between(1'000, 4'000) * kUs};
          if (now_ns >= begin_ns_ && now_ns < end_ns_) return Step{Step::kDisk, read_ms * kMs};
          return Random(4) ? Step{Step::kSleep, Between(2'000, 8'000) * kUs}
                           : Step{Step::kDisk, Between(100, 900) * kUs};
        });
        truth->why = {kByDisk};
        return;
      }
      case IncidentKind::kLock:
        return AddLock(truth);
      case IncidentKind::kNoisy: {
        AddVictim();
        truth->who.push_back("batch");  // it is on one of these CPUs, too
        truth->neighbor = Name({"spark", "ffmpeg", "etl"});
        for (uint32_t cpu = 0; cpu < nr_cpus_; cpu++)
          for (uint64_t i = 0; i < 2; i++)
            machine_.AddThread(machine_.AddProcess(truth->neighbor, begin_ns_), cpu, Until(end_ns_),
                               static_cast<double>(Between(2, 4)));
        truth->why = {kByOthers};
        return;
      }
      case IncidentKind::kLauncher: {
        victim_name_ = "trainer";
        truth->who = {victim_name_};
        AddTrainer(cpu_, Between(4'000, 8'000), nullptr);
        AddHog(truth);
        truth->idle_gpu_of = "its";
        return;
      }
      case IncidentKind::kLoader: {
        victim_name_ = "trainer";
        const auto batches = std::make_shared<int>(0);
        const uint64_t step_us = AddTrainer((cpu_ + 1) % nr_cpus_, Between(200, 900), batches);
        truth->who = {Name({"loader", "dataworker"})};
        AddLoader(truth->who.front(), step_us * Between(4, 7) / 10, batches);
        AddHog(truth);
        truth->idle_gpu_of = victim_name_;
        return;
      }
      case IncidentKind::kBandwidth: {
        const int32_t tgid = machine_.AddProcess(victim_name_);
        machine_.AddThread(tgid, cpu_, Random(2) ? Periodic(6'000, 4'000) : Always());
        machine_.SetTraffic(tgid, 0.5);
        machine_.SetSlower(tgid, 1.4 + static_cast<double>(Random(10)) / 10, {begin_ns_, end_ns_});
        truth->neighbor = Name({"memcpyd", "scrubber", "indexer"});
        const int32_t mover = machine_.AddProcess(truth->neighbor, begin_ns_);
        machine_.AddThread(mover, (cpu_ + 1) % nr_cpus_, Until(end_ns_));
        machine_.SetTraffic(mover, 8);
        truth->why = {kSlower};
        return;
      }
      case IncidentKind::kLossy:
        AddVictim();
        machine_.Lose({begin_ns_, end_ns_});
        truth->who.clear();
        return;
      case IncidentKind::kQuiet:
      case IncidentKind::kNr:
        return;
    }
  }

  void AddHog(Truth* truth) {
    truth->neighbor = Name({"backup", "compactor", "stress", "updatedb"});
    machine_.AddThread(machine_.AddProcess(truth->neighbor, begin_ns_), cpu_, Until(end_ns_),
                       static_cast<double>(Between(2, 5)));
    truth->why = {kByOthers};
  }

  // A training loop: works for so long, launches, waits for its GPU, and for the next batch if somebody
  // makes them. Returns what a step takes, in us.
  uint64_t AddTrainer(uint32_t cpu, uint64_t work_us, const std::shared_ptr<int>& batches) {
    const uint64_t gpu_us = Between(3'000, 8'000);
    machine_.AddLauncher(machine_.AddProcess(victim_name_), cpu,
                         [this, work_us, gpu_us, batches, phase = 0](uint64_t) mutable {
                           switch (phase) {
                             case 0:
                               if (batches && *batches == 0) return Step{Step::kSleep, 200 * kUs};
                               if (batches) --*batches;
                               phase = 1;
                               return Step{Step::kRun, (work_us * 3 / 4 + Random(work_us / 2)) * kUs};
                             case 1:
                               phase = 2;
                               return Step{Step::kLaunch, 0};
                             case 3:  // nobody returns from a call without running
                               phase = 0;
                               return Step{Step::kRun, 40 * kUs};
                             default:
                               phase = 3;
                               return Step{Step::kGpu, (gpu_us * 9 / 10 + Random(gpu_us / 5)) * kUs};
                           }
                         });
    return work_us + gpu_us;
  }

  // At most four ahead.
  void AddLoader(const std::string& name, uint64_t batch_us, const std::shared_ptr<int>& batches) {
    machine_.AddThread(machine_.AddProcess(name), cpu_,
                       [this, batch_us, batches, has_worked = false](uint64_t) mutable {
                         if (std::exchange(has_worked, false)) ++*batches;
                         if (*batches >= 4) return Step{Step::kSleep, 500 * kUs};
                         has_worked = true;
                         return Step{Step::kRun, (batch_us * 3 / 4 + Random(batch_us / 2)) * kUs};
                       });
  }

  // Threads that take turns with a lock; who holds it is kept from its CPU by another thread of its
  // process, or by another process.
  void AddLock(Truth* truth) {
    const int32_t tgid = machine_.AddProcess(victim_name_);
    const auto holder = std::make_shared<int>(-1);
    for (int i = 0; i < 3; i++) {
      machine_.AddThread(tgid, (cpu_ + static_cast<uint32_t>(i)) % nr_cpus_,
                         [this, holder, i, phase = 0](uint64_t) mutable {
                           if (phase == 2) {  // it has it, and gives it back
                             *holder = -1;
                             phase = 0;
                             return Step{Step::kSleep, Between(500, 4'000) * kUs};
                           }
                           if (phase == 0) {
                             phase = 1;
                             return Step{Step::kRun, Between(200, 1'500) * kUs};
                           }
                           if (*holder != -1) return Step{Step::kSleep, 100 * kUs};
                           *holder = i;
                           phase = 2;
                           return Step{Step::kRun, Between(1'000, 3'000) * kUs};
                         });
    }
    const double weight = static_cast<double>(Between(4, 12));
    if (Random(2)) {
      truth->neighbor = "logrotate";
      machine_.AddThread(machine_.AddProcess(truth->neighbor, begin_ns_), cpu_, Until(end_ns_), weight);
      truth->why = {kByOthers};
      return;
    }
    machine_.AddThread(
        tgid, cpu_,
        [this](uint64_t now_ns) {
          if (now_ns < begin_ns_) return Step{Step::kSleep, begin_ns_ - now_ns};
          return now_ns < end_ns_ ? Step{Step::kRun, 2 * kMs} : Step{Step::kExit, 0};
        },
        weight);
    truth->why = {kBySelf};
  }

  void AddQuiet() {
    switch (Random(4)) {
      case 0:
        return;  // daemons alone
      case 1:
        return AddServices();
      case 2:
        return AddBuild();
      default:  // each gets what is its due
        for (int i = 0; i < 2; i++)
          machine_.AddThread(machine_.AddProcess(i ? "sim-a" : "sim-b"), cpu_, Always());
        return AddServices();
    }
  }

  // make -j: compilers of many lengths, one behind the other, on each CPU, and some at once.
  void AddBuild() {
    for (uint32_t cpu = 0; cpu < nr_cpus_; cpu++) {
      machine_.AddThread(machine_.AddProcess("make"), cpu, Periodic(300, 40'000));
      for (uint64_t lane = 0; lane < 1 + Random(2); lane++)
        for (uint64_t at_ns = Random(50) * kMs; at_ns < kLengthMs * kMs;) {
          const uint64_t run_us = Random(5) ? Between(20'000, 300'000) : Between(2'000, 20'000);
          machine_.AddThread(machine_.AddProcess("sh", at_ns), cpu, Once(600 * kUs));
          machine_.AddThread(machine_.AddProcess("cc1", at_ns + kMs), cpu, Once(run_us * kUs));
          machine_.AddThread(machine_.AddProcess("as", at_ns + kMs + run_us * kUs), cpu,
                             Once(run_us * kUs / 10));
          at_ns += run_us * kUs * (lane ? 3 : 1) + run_us * kUs / 7;
        }
    }
    AddServices();
  }

  const IncidentKind kind_;
  std::mt19937_64 random_;
  const uint32_t nr_cpus_;
  Machine machine_;
  const uint32_t cpu_;  // on which it happens
  const uint64_t begin_ns_, end_ns_;
  std::string victim_name_;
};

}  // namespace

const char* IncidentName(IncidentKind kind) {
  constexpr std::array kNames = {"hog",   "burst",    "throttled", "stopped",   "disk",  "lock",
                                 "noisy", "launcher", "loader",    "bandwidth", "lossy", "quiet"};
  return kNames[static_cast<size_t>(kind)];
}

Status MakeIncident(IncidentKind kind, uint64_t seed, const std::string& path, Truth* truth) {
  return Maker(kind, seed).Make(path, truth);
}

}  // namespace slotscope
