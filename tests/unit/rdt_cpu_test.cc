// SPDX-License-Identifier: MIT
// What a CPU does about RDT at a switch and in its tick; the same C file as in the module, on a machine
// of software: four CPUs in two L3 domains, whose clock goes on with each access to an MSR.
#include <gtest/gtest.h>

extern "C" {
#include "kmod/rdt_cpu.h"
}

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace slotscope {
namespace {

constexpr uint32_t kNrCpus = 4;
constexpr uint32_t kNrDomains = 2;
constexpr uint32_t kNrRmids = 200;
constexpr uint32_t kUnitBytes = 64;
constexpr uint64_t kMask = (1u << 24) - 1;
constexpr uint64_t kMs = 1000000;
constexpr uint64_t kAccessNs = 100;
constexpr uint64_t kLong = 10 * kMs;
constexpr uint64_t kForeignEvtsel = 7ull << 32 | 2;
constexpr int kGp = -5;

uint32_t DomainOf(uint32_t cpu) { return cpu / 2; }

struct Access {
  uint32_t cpu;
  uint32_t msr;
  bool is_write;
  uint64_t value;
};

// Who has an RMID, as kmod/rmid.c keeps it.
struct Life {
  uint32_t generation = 0;
  bool live = false;
  uint64_t alloc_ns = 0, freed_ns = 0, prev_freed_ns = 0;
};

struct Machine {
  struct Cpu {
    uint64_t pqr = 0;
    uint64_t evtsel = kForeignEvtsel;
  };

  std::array<Cpu, kNrCpus> cpus;
  uint64_t units[kNrDomains][SS_RMID_CAPACITY] = {};        // of all traffic; half of it is local
  uint64_t units_read[kNrDomains][SS_RMID_CAPACITY] = {};   // when the total was read last
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> truth;  // units by RMID and generation
  uint64_t now_ns = kMs;
  uint64_t status_bits = 0;  // of each value
  uint32_t cpu = 0;          // that runs the code
  uint32_t nr_rmids = kNrRmids;
  // Sub-NUMA clusters: the domains are those of one L3 cache, and QM_EVTSEL counts the RMIDs through.
  uint32_t nr_clusters = 1;
  std::array<Life, SS_RMID_CAPACITY> lives;
  std::set<std::pair<uint32_t, bool>> refused;  // msr, is it a write
  std::set<const __u64*> no_claims;             // words whose bits are somebody else's
  std::function<void(uint32_t rmid)> while_reading;
  std::vector<Access> accesses;
  std::vector<std::pair<uint32_t, uint32_t>> reads;  // cpu, RMID: of each value
  std::set<uint32_t> events;                         // that were ever selected
  std::vector<ss_rdt_sample> samples;
  std::span<const ss_rdt_cpu> using_rdt;  // what the CPUs keep

  void Advance(uint64_t ns) {
    now_ns += ns;
    for (uint32_t i = 0; i < kNrCpus; i++) {  // one unit per ns, of each CPU
      const auto rmid = static_cast<uint32_t>(cpus[i].pqr);
      units[DomainOf(i)][rmid] += ns;
      if (rmid) truth[{rmid, lives[rmid].generation}] += ns;
    }
  }

  uint64_t Value(uint32_t rmid, uint32_t event) {
    uint32_t domain = DomainOf(cpu);
    if (nr_clusters > 1) {  // whichever CPU asks
      domain = rmid / nr_rmids;
      rmid %= nr_rmids;
    }
    reads.emplace_back(cpu, rmid);
    switch (event) {
      case SS_RDT_MBM_TOTAL:
        units_read[domain][rmid] = units[domain][rmid];
        return units[domain][rmid] & kMask;
      case SS_RDT_MBM_LOCAL:
        return units[domain][rmid] / 2 & kMask;
      default:
        return rmid;
    }
  }
};

// Of the test that runs: the module's operations have no context.
Machine* machine;

int ReadMsr(__u32 msr, __u64* value) {
  Machine& m = *machine;
  m.Advance(kAccessNs);
  if (m.refused.count({msr, false})) return kGp;
  Machine::Cpu& cpu = m.cpus[m.cpu];
  switch (msr) {
    case SS_MSR_PQR_ASSOC:
      *value = cpu.pqr;
      break;
    case SS_MSR_QM_EVTSEL:
      *value = cpu.evtsel;
      break;
    case SS_MSR_QM_CTR: {
      const auto rmid = static_cast<uint32_t>(cpu.evtsel >> 32);
      if (auto hook = std::exchange(m.while_reading, nullptr)) hook(rmid);
      *value = m.status_bits | m.Value(rmid, static_cast<uint32_t>(cpu.evtsel & 0xff));
      break;
    }
    default:
      return kGp;
  }
  m.accesses.push_back({m.cpu, msr, false, *value});
  return 0;
}

int WriteMsr(__u32 msr, __u64 value) {
  Machine& m = *machine;
  m.Advance(kAccessNs);
  if (m.refused.count({msr, true})) return kGp;
  Machine::Cpu& cpu = m.cpus[m.cpu];
  switch (msr) {
    case SS_MSR_PQR_ASSOC:
      if (static_cast<uint32_t>(value) >= m.nr_rmids) return kGp;
      cpu.pqr = value;
      break;
    case SS_MSR_QM_EVTSEL:
      if (value >> 32 >= m.nr_rmids * m.nr_clusters) return kGp;
      cpu.evtsel = value;
      if (value != kForeignEvtsel) m.events.insert(static_cast<uint32_t>(value));
      break;
    default:
      return kGp;
  }
  m.accesses.push_back({m.cpu, msr, true, value});
  return 0;
}

__u64 NowNs() { return machine->now_ns; }

void Owner(__u32 rmid, ss_rdt_owner* owner) {
  const Life& life = machine->lives[rmid];
  *owner = {life.generation, life.live, life.alloc_ns, life.live ? life.prev_freed_ns : life.freed_ns,
            life.live ? 0 : life.prev_freed_ns};
}

void Emit(ss_rdt_sample* sample) {
  sample->hdr.cpu = machine->cpu;
  machine->samples.push_back(*sample);
}

bool Claim(__u64* word, __u32 bit) {
  if (machine->no_claims.count(word) || *word >> bit & 1) return false;
  *word |= 1ull << bit;
  return true;
}

void Unclaim(__u64* word, __u32 bit) {
  EXPECT_TRUE(*word >> bit & 1) << "nobody had it";
  *word &= ~(1ull << bit);
}

bool IsLeaving(const ss_rdt_shared* shared, __u32 rmid, __u64 now_ns) {
  return std::any_of(machine->using_rdt.begin(), machine->using_rdt.end(), [&](const ss_rdt_cpu& cpu) {
    return cpu.shared == shared && ss_rdt_cpu_is_leaving(&cpu, rmid, now_ns);
  });
}

const ss_rdt_ops kOps = {ReadMsr, WriteMsr, NowNs, Owner, Emit, Claim, Unclaim, IsLeaving};

using Totals = std::set<std::pair<uint32_t, uint32_t>>;  // RMID, status

class RdtCpu : public testing::Test {
 protected:
  RdtCpu() {
    machine = &machine_;
    machine_.using_rdt = cpus_;
    for (uint32_t i = 0; i < kNrCpus; i++) machine_.cpus[i].pqr = Closid(i) << 32;
    SetUpDomains(kNrRmids, 1u << SS_RDT_LLC_OCCUPANCY | 1u << SS_RDT_MBM_TOTAL | 1u << SS_RDT_MBM_LOCAL);
  }
  ~RdtCpu() override { machine = nullptr; }

  static uint64_t Closid(uint32_t cpu) { return 3 + cpu; }

  void SetUpDomains(uint32_t nr_rmids, uint32_t events, uint32_t nr_clusters = 1) {
    machine_.nr_rmids = nr_rmids;
    machine_.nr_clusters = nr_clusters;
    ss_rdt_caps caps = {};
    caps.nr_rmids = caps.nr_hardware_rmids = nr_rmids * nr_clusters;
    caps.nr_clusters = 1;
    caps.events = events;
    caps.unit_bytes = kUnitBytes * nr_clusters;
    caps.width = 24;
    caps.corrected_from = UINT32_MAX;
    caps.cache_bytes = 1u << 20;
    ASSERT_EQ(ss_rdt_caps_divide(&caps, nr_clusters, true), nullptr);
    for (uint32_t domain = 0; domain < kNrDomains; domain++) {
      shared_[domain] = {};
      ss_rdt_domain_init(&shared_[domain].domain, domain, domain % nr_clusters, &caps);
    }
  }

  void On(uint32_t cpu) { machine_.cpu = cpu; }
  void Reset(uint32_t cpu) { machine_.cpus[cpu].pqr = Closid(cpu) << 32; }
  ss_rdt_trouble Begin(uint32_t cpu) {
    On(cpu);
    return ss_rdt_cpu_begin(&cpus_[cpu], &kOps, &shared_[DomainOf(cpu)]);
  }
  void BeginAll() {
    for (uint32_t i = 0; i < kNrCpus; i++) ASSERT_EQ(Begin(i), SS_RDT_NO_TROUBLE);
  }
  void End(uint32_t cpu) {
    On(cpu);
    ss_rdt_cpu_end(&cpus_[cpu], &kOps);
  }
  // `late_ns` after its clock was read.
  void Run(uint32_t cpu, uint32_t rmid, uint64_t late_ns = 0) {
    On(cpu);
    ss_rdt_cpu_run(&cpus_[cpu], &kOps, rmid, machine_.now_ns - late_ns);
  }
  // So much of a millisecond has passed.
  void IntoTheNextSlot(uint64_t ns) { machine_.Advance(kMs - machine_.now_ns % kMs + ns); }
  void Leave(uint32_t cpu) {
    ss_rdt_cpu_leave(&cpus_[cpu]);
    ss_rdt_cpu_left(&cpus_[cpu], machine_.now_ns);
  }
  ss_rdt_trouble Check(uint32_t cpu) {
    On(cpu);
    return ss_rdt_cpu_check(&cpus_[cpu], &kOps);
  }
  // Which RMIDs it read, each once for all its events, but for those of the sweep.
  std::vector<uint32_t> Read(uint32_t cpu, uint64_t budget_ns = kLong) {
    On(cpu);
    const size_t first = machine_.samples.size();
    ss_rdt_cpu_read(&cpus_[cpu], &kOps, budget_ns);
    std::vector<uint32_t> rmids;
    for (size_t i = first; i < machine_.samples.size(); i++)
      if (machine_.samples[i].event == SS_RDT_LLC_OCCUPANCY) rmids.push_back(machine_.samples[i].rmid);
    return rmids;
  }

  void Alloc(uint32_t rmid) {
    Life& life = machine_.lives[rmid];
    life = {life.generation + 1, true, machine_.now_ns, 0, life.freed_ns};
    life.freed_ns = life.prev_freed_ns;
  }
  void Free(uint32_t rmid) {
    machine_.lives[rmid].live = false;
    machine_.lives[rmid].freed_ns = machine_.now_ns;
  }
  void AllocAll() {
    for (uint32_t rmid = 1; rmid < machine_.nr_rmids; rmid++) Alloc(rmid);
  }
  // Until each RMID has a base in each domain.
  void SweepAll() {
    for (uint32_t i = 0; i < machine_.nr_rmids; i++)
      for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) Read(cpu);
  }
  // All CPUs use RDT, all RMIDs have owners and bases.
  void SetUpOwners() {
    AllocAll();
    BeginAll();
    SweepAll();
    machine_.samples.clear();
  }
  // CPU 0 is taken away in a switch from that RMID, whose process has ended by its clock.
  void StayInASwitch(uint32_t rmid) {
    SetUpOwners();
    Run(0, rmid);
    Read(0);
    Leave(0);
    machine_.Advance(SS_RDT_LONG_NS + kMs);
    machine_.samples.clear();
  }
  // The CPU is taken away in each of the next reads of a value.
  void TakeAway(int times) {
    if (times == 0) return;
    machine_.while_reading = [this, times](uint32_t) {
      machine_.Advance(5 * kMs);
      TakeAway(times - 1);
    };
  }
  // RMID and status of the totals among the samples since it was asked last.
  Totals TotalsSaid(const std::set<uint32_t>& rmids) {
    Totals all;
    for (const ss_rdt_sample& sample : std::exchange(machine_.samples, {}))
      if (sample.event == SS_RDT_MBM_TOTAL && rmids.count(sample.rmid))
        all.insert({sample.rmid, sample.status});
    return all;
  }

  std::vector<uint64_t> Writes(uint32_t msr) const {
    std::vector<uint64_t> values;
    for (const Access& access : machine_.accesses)
      if (access.msr == msr && access.is_write) values.push_back(access.value);
    return values;
  }
  size_t NrReads(uint32_t cpu, uint32_t rmid) const {
    return static_cast<size_t>(
        std::count(machine_.reads.begin(), machine_.reads.end(), std::pair(cpu, rmid)));
  }
  uint64_t NrLeft(uint32_t domain) const {
    uint64_t nr = 0;
    for (__u64 word : shared_[domain].left) nr += static_cast<uint64_t>(__builtin_popcountll(word));
    return nr;
  }

  Machine machine_;
  std::array<ss_rdt_shared, kNrDomains> shared_ = {};
  std::array<ss_rdt_cpu, kNrCpus> cpus_ = {};
};

using Rmids = std::vector<uint32_t>;

// ---- PQR_ASSOC.

TEST_F(RdtCpu, BeginsUnderRmid0WithTheClosidThatIsThere) {
  machine_.cpus[1].pqr = 9ull << 32;
  ASSERT_EQ(Begin(1), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(machine_.cpus[1].pqr, 9ull << 32);
  EXPECT_EQ(cpus_[1].closid, 9u);
  EXPECT_EQ(Check(1), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(cpus_[1].nr_adopted, 0u);
}

TEST_F(RdtCpu, DoesNotBeginWhereSomebodysRmidIs) {
  machine_.cpus[1].pqr = 9ull << 32 | 17;
  EXPECT_EQ(Begin(1), SS_RDT_FOREIGN_WRITER);
  EXPECT_EQ(cpus_[1].shared, nullptr);
  EXPECT_TRUE(Writes(SS_MSR_PQR_ASSOC).empty());
  Run(1, 3);
  EXPECT_EQ(machine_.cpus[1].pqr, 9ull << 32 | 17);
}

TEST_F(RdtCpu, WritesAnRmidOnlyWhenItChanges) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  machine_.accesses.clear();
  for (uint32_t rmid : {0u, 3u, 3u, 4u, 4u, 4u, 0u, 0u, 3u}) Run(0, rmid);
  const uint64_t closid = Closid(0) << 32;
  EXPECT_EQ(Writes(SS_MSR_PQR_ASSOC),
            (std::vector<uint64_t>{closid | 3, closid | 4, closid | 0, closid | 3}));
  EXPECT_EQ(machine_.accesses.size(), 8u);  // a look at the CLOSID before each, and nothing else
  EXPECT_EQ(cpus_[0].nr_programmed, 4u);
}

TEST_F(RdtCpu, AClosidThatIsSetBetweenTwoTicksSurvivesASwitch) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 4);
  machine_.cpus[0].pqr = 77ull << 32 | 4;
  Run(0, 5);
  EXPECT_EQ(machine_.cpus[0].pqr, 77ull << 32 | 5);
  EXPECT_EQ(cpus_[0].nr_adopted, 1u);
}

TEST_F(RdtCpu, AForeignRmidIsSeenByTheSwitchAndStays) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 4);
  machine_.cpus[0].pqr = Closid(0) << 32 | 9;
  EXPECT_EQ(ss_rdt_cpu_run(&cpus_[0], &kOps, 5, machine_.now_ns), SS_RDT_FOREIGN_WRITER);
  EXPECT_EQ(machine_.cpus[0].pqr, Closid(0) << 32 | 9);
  End(0);
  EXPECT_EQ(machine_.cpus[0].pqr, Closid(0) << 32 | 9);
}

TEST_F(RdtCpu, AdoptsAClosidThatSomebodyChanged) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 3);
  machine_.cpus[0].pqr = 77ull << 32 | 3;
  EXPECT_EQ(Check(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(cpus_[0].nr_adopted, 1u);
  Run(0, 4);
  EXPECT_EQ(machine_.cpus[0].pqr, 77ull << 32 | 4);
  EXPECT_EQ(Check(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(cpus_[0].nr_adopted, 1u);
  Run(0, 0);
  EXPECT_EQ(machine_.cpus[0].pqr, 77ull << 32);
}

TEST_F(RdtCpu, FindsAForeignWriter) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 3);
  const size_t before = Writes(SS_MSR_PQR_ASSOC).size();
  for (uint64_t rmid : {0, 4}) {
    machine_.cpus[0].pqr = Closid(0) << 32 | rmid;
    EXPECT_EQ(Check(0), SS_RDT_FOREIGN_WRITER) << rmid;
  }
  machine_.cpus[0].pqr = 99ull << 32 | 4;
  EXPECT_EQ(Check(0), SS_RDT_FOREIGN_WRITER);
  EXPECT_EQ(Writes(SS_MSR_PQR_ASSOC).size(), before);  // looks, and does not touch
}

TEST_F(RdtCpu, EndsUnderRmid0WithTheClosidThatIsThereAndTouchesNothingAfterThat) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 3);
  machine_.cpus[0].pqr = 55ull << 32 | 3;  // nobody has looked since
  End(0);
  EXPECT_EQ(machine_.cpus[0].pqr, 55ull << 32);
  machine_.accesses.clear();
  const uint64_t now_ns = machine_.now_ns;
  Run(0, 4);
  Run(0, 0);
  machine_.cpus[0].pqr = 55ull << 32 | 9;
  EXPECT_EQ(Check(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(Read(0), Rmids());
  End(0);
  EXPECT_TRUE(machine_.accesses.empty());
  EXPECT_EQ(machine_.now_ns, now_ns);
  EXPECT_EQ(machine_.cpus[0].pqr, 55ull << 32 | 9);
}

TEST_F(RdtCpu, BeginsAgainAfterItEnded) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 30);
  End(0);
  machine_.cpus[0].pqr = 8ull << 32;  // as after a suspend
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(machine_.cpus[0].pqr, 8ull << 32);
  EXPECT_EQ(Read(0), Rmids{30});  // what ran before is not forgotten
  Run(0, 30);
  EXPECT_EQ(machine_.cpus[0].pqr, 8ull << 32 | 30);
  EXPECT_EQ(Check(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(Read(0), Rmids{30});
}

TEST_F(RdtCpu, IsNotUsedBeforeItBegan) {
  machine_.cpus[0].pqr = 7;
  Run(0, 3);
  EXPECT_EQ(Check(0), SS_RDT_NO_TROUBLE);
  EXPECT_EQ(Read(0), Rmids());
  End(0);
  EXPECT_TRUE(machine_.accesses.empty());
  EXPECT_EQ(machine_.cpus[0].pqr, 7u);
}

// ---- Refusals.

TEST_F(RdtCpu, IsNotUsedIfItRefusesTheAssociation) {
  for (bool is_write : {false, true}) {
    machine_.refused = {{SS_MSR_PQR_ASSOC, is_write}};
    EXPECT_EQ(Begin(0), SS_RDT_REFUSED);
    EXPECT_EQ(cpus_[0].shared, nullptr);
    machine_.refused.clear();
    Run(0, 3);
    EXPECT_EQ(machine_.cpus[0].pqr, Closid(0) << 32);
  }
}

TEST_F(RdtCpu, SaysThatTheAssociationIsRefusedLater) {
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  machine_.refused = {{SS_MSR_PQR_ASSOC, false}};
  EXPECT_EQ(Check(0), SS_RDT_REFUSED);
  machine_.accesses.clear();
  End(0);  // which CLOSID there is, is not known
  EXPECT_TRUE(machine_.accesses.empty());
}

TEST_F(RdtCpu, WithoutASelectorNothingIsReadOrForgotten) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 30);
  machine_.refused = {{SS_MSR_QM_EVTSEL, false}};
  machine_.accesses.clear();
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_TRUE(machine_.accesses.empty());
  Run(0, 0);
  machine_.refused.clear();
  EXPECT_EQ(Read(0), Rmids{30});
}

TEST_F(RdtCpu, ARefusedReadIsAnErrorOfEachEvent) {
  const std::pair<uint32_t, bool> cases[] = {{SS_MSR_QM_EVTSEL, true}, {SS_MSR_QM_CTR, false}};
  uint64_t nr_errors = 0;
  for (const auto& refused : cases) {
    AllocAll();
    Reset(0);
    ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
    cpus_[0].sweep = 100;
    machine_.samples.clear();
    Run(0, 30);
    machine_.refused = {refused};
    EXPECT_EQ(Read(0), Rmids{30});
    machine_.refused.clear();
    ASSERT_EQ(machine_.samples.size(), 3u);
    for (const ss_rdt_sample& sample : machine_.samples) EXPECT_EQ(sample.status, SS_RDT_ERROR);
    nr_errors += 3 * 3;  // with those of the sweep
    EXPECT_EQ(cpus_[0].stats.nr_errors, nr_errors);
    EXPECT_EQ(machine_.cpus[0].evtsel, kForeignEvtsel);
  }
}

TEST_F(RdtCpu, ACpuThatAssignsCountersSaysThatOneIsUnassigned) {
  const struct {
    uint32_t assignable;
    uint32_t status;
  } cases[] = {{0, SS_RDT_UNAVAILABLE}, {SS_RDT_ASSIGNABLE, SS_RDT_UNASSIGNED}};
  AllocAll();
  machine_.status_bits = 1ull << 62;
  for (const auto& c : cases) {
    cpus_[0].assignable = c.assignable;
    Reset(0);
    ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
    machine_.samples.clear();
    Run(0, 30);
    Read(0);
    EXPECT_EQ(machine_.samples.size(), 3u);
    for (const ss_rdt_sample& sample : machine_.samples) EXPECT_EQ(sample.status, c.status);
  }
}

// ---- Who is read, and when.

TEST_F(RdtCpu, RestoresTheSelector) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  for (uint64_t budget_ns : {uint64_t{0}, uint64_t{1}, kAccessNs + 1, 20 * kAccessNs, kLong}) {
    for (uint32_t rmid = 1; rmid < 20; rmid++) Run(0, rmid);
    Run(0, 0);
    machine_.accesses.clear();
    Read(0, budget_ns);
    EXPECT_EQ(machine_.cpus[0].evtsel, kForeignEvtsel) << budget_ns;
    ASSERT_FALSE(machine_.accesses.empty());
    EXPECT_EQ(machine_.accesses.front().msr, SS_MSR_QM_EVTSEL);  // saved before anything is selected
    EXPECT_FALSE(machine_.accesses.front().is_write);
  }
}

TEST_F(RdtCpu, SelectsOnlyTheEventsThatAreAnnounced) {
  for (uint32_t events = 1; events < 8; events++) {
    SetUpDomains(kNrRmids, events << 1);
    machine_.events.clear();
    machine_.samples.clear();
    AllocAll();
    Reset(0);
    ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
    Run(0, 30);
    Read(0);
    std::set<uint32_t> announced;
    for (uint32_t event : {SS_RDT_LLC_OCCUPANCY, SS_RDT_MBM_TOTAL, SS_RDT_MBM_LOCAL})
      if (events << 1 >> event & 1) announced.insert(event);
    EXPECT_EQ(machine_.events, announced);
    std::set<uint32_t> emitted;
    for (const ss_rdt_sample& sample : machine_.samples)
      if (sample.rmid == 30) emitted.insert(sample.event);
    EXPECT_EQ(emitted, announced);
  }
}

TEST_F(RdtCpu, SamplesSayWhoReadThem) {
  BeginAll();
  AllocAll();
  Run(2, 30);
  machine_.Advance(kMs);
  Read(2);
  ASSERT_EQ(machine_.samples.size(), 3u);
  for (const ss_rdt_sample& sample : machine_.samples) {
    EXPECT_EQ(sample.hdr.cpu, 2u);
    EXPECT_EQ(sample.domain, 1u);
    EXPECT_EQ(sample.rmid, 30u);
    EXPECT_EQ(sample.generation, 1u);
  }
}

TEST_F(RdtCpu, WhatRanIsReadInTheNextTickAndOnceMoreAfterItRanLast) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 30);
  Run(0, 31);
  Run(0, 32);
  EXPECT_EQ(Read(0), (Rmids{30, 31, 32}));
  EXPECT_EQ(Read(0), Rmids{32});  // it runs on
  EXPECT_EQ(Read(0), Rmids{32});
  Run(0, 0);
  EXPECT_EQ(Read(0), Rmids{32});
  EXPECT_EQ(Read(0), Rmids());
}

TEST_F(RdtCpu, WhatRanOnTwoCpusIsReadByBothOfThem) {
  AllocAll();
  BeginAll();
  Run(0, 30);
  Run(1, 30);
  machine_.Advance(kMs);
  Run(0, 0);
  EXPECT_EQ(Read(0), Rmids{30});
  machine_.Advance(kMs);
  Run(1, 0);
  EXPECT_EQ(Read(1), Rmids{30});  // behind the last run
  EXPECT_EQ(machine_.units_read[0][30], machine_.units[0][30]);
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_EQ(Read(1), Rmids());
  EXPECT_EQ(Read(2), Rmids());
}

TEST_F(RdtCpu, WhatRanInTwoDomainsIsReadInBoth) {
  AllocAll();
  BeginAll();
  Run(1, 30);
  Run(1, 0);
  Run(2, 30);
  Run(2, 0);
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_EQ(Read(3), Rmids());
  EXPECT_EQ(Read(1), Rmids{30});
  EXPECT_EQ(Read(2), Rmids{30});
}

TEST_F(RdtCpu, CountsReadsOfRmids) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 30);
  Read(0);
  EXPECT_EQ(cpus_[0].stats.nr_reads, 1u + 2);  // the sweep
  EXPECT_EQ(machine_.reads.size(), 3 * cpus_[0].stats.nr_reads);
}

TEST_F(RdtCpu, Rmid0IsNeverRead) {
  SetUpDomains(5, 1u << SS_RDT_MBM_TOTAL);
  AllocAll();
  BeginAll();
  for (uint32_t i = 0; i < 50; i++) {
    Run(i % kNrCpus, i % 5);
    Run(i % kNrCpus, 0);
    Read(i % kNrCpus);
  }
  for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) {
    EXPECT_EQ(NrReads(cpu, 0), 0u);
    EXPECT_GT(NrReads(cpu, 1), 0u);
  }
}

// ---- The budget.

TEST_F(RdtCpu, StopsInTimeAndLeavesTheRestToTheDomain) {
  const uint64_t one_ns = 6 * kAccessNs;  // three events, each selected and read
  for (uint64_t budget_ns : {uint64_t{0}, uint64_t{1}, one_ns, 3 * one_ns, 5 * one_ns + 1}) {
    SCOPED_TRACE(budget_ns);
    SetUpDomains(kNrRmids, 7 << 1);
    cpus_ = {};
    AllocAll();
    BeginAll();
    for (uint32_t rmid = 60; rmid < 70; rmid++) Run(0, rmid);
    Run(0, 0);
    const uint64_t begin_ns = machine_.now_ns;
    const size_t nr_read = Read(0, budget_ns).size();
    EXPECT_LE(machine_.now_ns - begin_ns, budget_ns + one_ns + 2 * kAccessNs);
    EXPECT_LE(nr_read, 6u);
    EXPECT_GE(nr_read, budget_ns / one_ns);
    EXPECT_EQ(cpus_[0].stats.nr_skipped, 10 - nr_read);
    EXPECT_EQ(NrLeft(0), 10 - nr_read);
    EXPECT_EQ(Read(2), Rmids());  // of another domain
    EXPECT_EQ(Read(1).size(), 10 - nr_read);
    EXPECT_EQ(NrLeft(0), 0u);
    EXPECT_EQ(Read(0), Rmids());
    EXPECT_EQ(Read(1), Rmids());
    for (uint32_t rmid = 60; rmid < 70; rmid++)
      EXPECT_EQ(machine_.units_read[0][rmid], machine_.units[0][rmid]) << rmid;
  }
}

TEST_F(RdtCpu, ReadsLaterWhatItLeftItself) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  for (uint32_t rmid = 60; rmid < 70; rmid++) Run(0, rmid);
  Run(0, 0);
  std::multiset<uint32_t> read;
  for (int tick = 0; tick < 10; tick++)
    for (uint32_t rmid : Read(0, 13 * kAccessNs)) read.insert(rmid);
  std::multiset<uint32_t> all;
  for (uint32_t rmid = 60; rmid < 70; rmid++) all.insert(rmid);
  EXPECT_EQ(read, all);
  EXPECT_EQ(NrLeft(0), 0u);
}

TEST_F(RdtCpu, WhatIsLeftToLastInOneTickIsFirstInAnother) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  std::set<uint32_t> read;
  for (int tick = 0; tick < 8; tick++) {
    for (uint32_t rmid : {1u, 70u, 130u, 195u}) Run(0, rmid);
    Run(0, 0);
    for (uint32_t rmid : Read(0, kAccessNs + 1)) read.insert(rmid);  // time for one
  }
  EXPECT_EQ(read, (std::set<uint32_t>{1, 70, 130, 195}));
}

TEST_F(RdtCpu, WithoutTimeNothingIsSwept) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Read(0, 0);
  EXPECT_TRUE(machine_.reads.empty());
}

// ---- The CPU is taken away between a clock and what it is the time of.

TEST_F(RdtCpu, AReadThatTookLongIsBegunAnew) {
  SetUpOwners();
  Run(0, 30);
  Read(0);
  machine_.Advance(kMs);
  machine_.samples.clear();
  uint64_t back_ns = 0;
  machine_.while_reading = [&](uint32_t) {
    machine_.Advance(5 * kMs);
    back_ns = machine_.now_ns;
  };
  EXPECT_EQ(Read(0), Rmids{30});
  EXPECT_EQ(cpus_[0].stats.nr_slow_reads, 1u);
  for (const ss_rdt_sample& sample : machine_.samples) {
    if (sample.event != SS_RDT_MBM_TOTAL) continue;
    EXPECT_GE(sample.hdr.ts_ns, back_ns);
    EXPECT_EQ(sample.status, SS_RDT_OK);
    // As many bytes as time, but for the accesses.
    EXPECT_NEAR(static_cast<double>(sample.value) / kUnitBytes,
                static_cast<double>(sample.hdr.ts_ns - sample.since_ns), 20.0 * kAccessNs);
  }
}

TEST_F(RdtCpu, ATimeThatIsJustNotLongIsFine) {
  AllocAll();
  BeginAll();
  Run(0, 30);
  const uint64_t rest_ns = 6 * kAccessNs;  // three events, each selected and read
  machine_.while_reading = [&](uint32_t) { machine_.Advance(SS_RDT_SLOW_NS - rest_ns); };
  Read(0);
  EXPECT_EQ(cpus_[0].stats.nr_slow_reads, 0u);
  machine_.while_reading = [&](uint32_t) { machine_.Advance(SS_RDT_SLOW_NS - rest_ns + 1); };
  Read(0);
  EXPECT_EQ(cpus_[0].stats.nr_slow_reads, 1u);
}

// Somebody else may have got it meanwhile.
TEST_F(RdtCpu, AReadThatTookLongAsksAgainWhoseTheRmidIs) {
  SetUpOwners();
  Run(0, 30);
  Run(0, 0);
  machine_.while_reading = [&](uint32_t rmid) {
    Free(rmid);
    machine_.Advance(5 * kMs);
    Alloc(rmid);
  };
  Read(0);
  ASSERT_FALSE(machine_.samples.empty());
  for (const ss_rdt_sample& sample : machine_.samples) {
    EXPECT_EQ(sample.generation, 2u);
    if (sample.event != SS_RDT_LLC_OCCUPANCY) {
      EXPECT_EQ(sample.status, SS_RDT_BASELINE);
    }
  }
}

constexpr int kAgain = 4;  // three events, and one again

TEST_F(RdtCpu, AReadThatTookLongTwiceIsForLater) {
  SetUpOwners();
  Run(0, 30);
  Run(0, 0);
  TakeAway(kAgain);
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_EQ(shared_[0].domain.rmids[30].claimed, 0u);
  EXPECT_EQ(Read(0), Rmids{30});  // all of it, from the last good read on
  EXPECT_EQ(Read(0), Rmids());
}

// From so far in front of a border to so far behind it.
struct Reach {
  uint64_t before_ns, behind_ns;
  bool doubts_before, doubts_next, is_slow;
};

class RdtCpuReach : public RdtCpu, public testing::WithParamInterface<Reach> {};

TEST_P(RdtCpuReach, ASwitchThatReachesIntoAnotherSlotMakesADeltaDoubtful) {
  const auto& [before_ns, behind_ns, doubts_before, doubts_next, is_slow] = GetParam();
  SetUpOwners();
  Run(0, 30);
  IntoTheNextSlot(1000);
  Read(0);
  machine_.samples.clear();
  IntoTheNextSlot(behind_ns - 2 * kAccessNs);
  Run(0, 31, before_ns + behind_ns - 2 * kAccessNs);
  EXPECT_EQ(cpus_[0].stats.nr_slow_switches, is_slow);
  machine_.Advance(kMs);
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, doubts_before ? SS_RDT_PARTIAL : SS_RDT_OK},
                                          {31, doubts_next ? SS_RDT_PARTIAL : SS_RDT_OK}}));
  EXPECT_EQ(cpus_[0].stats.doubted_bytes[0] > 0, doubts_before || doubts_next);
  machine_.Advance(kMs);
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{31, SS_RDT_OK}}));
}

constexpr uint64_t kMuch = SS_RDT_SLOW_NS;
INSTANTIATE_TEST_SUITE_P(Switches, RdtCpuReach,
                         testing::Values(Reach{kMuch / 2, kMuch / 4, false, false, false},
                                         Reach{kMuch, kMuch, false, false, true},
                                         Reach{1000, kMuch + 1, true, false, true},
                                         Reach{kMuch + 1, 1000, false, true, true},
                                         Reach{kMuch + 1, kMuch + 1, true, true, true},
                                         Reach{5 * kMs, 2000, true, true, true}));

TEST_F(RdtCpu, WhoeverReadsFirstFindsTheDoubt) {
  SetUpOwners();
  Run(0, 30);
  IntoTheNextSlot(2 * kMuch);
  Run(0, 31, 4 * kMuch);
  machine_.Advance(kMs);
  Run(1, 31);
  Read(1);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{31, SS_RDT_PARTIAL}}));
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_PARTIAL}, {31, SS_RDT_OK}}));
  EXPECT_EQ(shared_[0].domain.rmids[0].claimed, 0u);
}

// What was counted for 30 meanwhile stands in a slot in which it ran.
TEST_F(RdtCpu, ASwitchThatTookLongWithinItsSlotIsNoDoubt) {
  SetUpOwners();
  Run(0, 30);
  IntoTheNextSlot(0);
  Read(0);
  machine_.samples.clear();
  machine_.Advance(kMs / 2);
  Run(0, 31, kMs / 4);
  EXPECT_EQ(cpus_[0].stats.nr_slow_switches, 1u);
  IntoTheNextSlot(kMuch / 2);
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_OK}, {31, SS_RDT_OK}}));
  EXPECT_EQ(cpus_[0].stats.doubted_bytes[0], 0u);
}

// The delta began in a slot in which 30 ran for longer, and would stand there.
TEST_F(RdtCpu, ASwitchThatTookLongIsADoubtIfTheDeltaBeganBeforeItsSlot) {
  SetUpOwners();
  Run(0, 30);
  IntoTheNextSlot(kMs / 2);
  Run(0, 31, kMs / 4);
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_PARTIAL}, {31, SS_RDT_OK}}));
}

// It ran up to a border, and has no time in the slot behind it.
TEST_F(RdtCpu, ASwitchOnABorderIsOfTheSlotBefore) {
  SetUpOwners();
  Run(0, 30);
  IntoTheNextSlot(0);
  Read(0);
  machine_.samples.clear();
  IntoTheNextSlot(2 * kMuch);
  Run(0, 31, 2 * kMuch);
  Read(0);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_PARTIAL}, {31, SS_RDT_OK}}));
}

TEST_F(RdtCpu, ADoubtSurvivesAReadThatTookLong) {
  SetUpOwners();
  IntoTheNextSlot(0);
  Run(0, 30, SS_RDT_SLOW_NS + 1);
  Run(0, 0);
  TakeAway(kAgain);
  Read(0);
  Read(0);
  ASSERT_FALSE(machine_.samples.empty());
  EXPECT_EQ(machine_.samples.front().status, SS_RDT_PARTIAL);
}

// It counts for 30, whose process is gone, and cannot say so yet.
TEST_F(RdtCpu, WhoReadsLooksForACpuThatLeaves) {
  StayInASwitch(30);
  Run(1, 30);
  Read(1);
  EXPECT_EQ(TotalsSaid({30}), (Totals{{30, SS_RDT_PARTIAL}}));
  // From the read on to the end of the switch it goes on.
  machine_.Advance(kMs);
  Run(0, 31, SS_RDT_LONG_NS + 2 * kMs);
  Read(1);
  EXPECT_EQ(TotalsSaid({30}), (Totals{{30, SS_RDT_PARTIAL}}));
  Run(1, 31);
  Read(1);
  machine_.samples.clear();
  machine_.Advance(SS_RDT_LONG_NS + kMs);
  Run(1, 30);
  Read(1);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_OK}, {31, SS_RDT_OK}}));
}

// Since when CPU 0 leaves, and what a CPU says that reads at a border and so much: a delta of more than
// the slot.
struct Leaving {
  uint64_t before_ns, behind_ns;
  bool has_clock;
  ss_rdt_status status;
};

class RdtCpuLeaving : public RdtCpu, public testing::WithParamInterface<Leaving> {};

TEST_P(RdtCpuLeaving, IsADoubtIfItReachesIntoAnotherSlotOrMay) {
  const Leaving& leaving = GetParam();
  SetUpOwners();
  Run(0, 30);
  Read(0);
  machine_.Advance(SS_RDT_LONG_NS);
  IntoTheNextSlot(kMs - leaving.before_ns);
  if (leaving.has_clock)
    Leave(0);
  else
    ss_rdt_cpu_leave(&cpus_[0]);
  machine_.Advance(leaving.before_ns + leaving.behind_ns);
  machine_.samples.clear();
  Run(1, 30);
  Read(1);
  EXPECT_EQ(TotalsSaid({30}), (Totals{{30, leaving.status}}));
}

INSTANTIATE_TEST_SUITE_P(Cpus, RdtCpuLeaving,
                         testing::Values(Leaving{kMuch / 2, 0, true, SS_RDT_OK},
                                         Leaving{900'000, 0, true, SS_RDT_PARTIAL},
                                         Leaving{1000, kMuch / 2, true, SS_RDT_OK},
                                         Leaving{1000, 2 * kMuch, true, SS_RDT_PARTIAL},
                                         Leaving{1000, kMs, true, SS_RDT_PARTIAL},
                                         Leaving{1000, kMuch / 2, false, SS_RDT_PARTIAL}));

TEST_F(RdtCpu, TheSweepLooksForACpuThatLeaves) {
  StayInASwitch(30);
  const uint64_t doubted = cpus_[1].stats.doubted_bytes[0];
  cpus_[1].sweep = 29;
  Read(1);
  EXPECT_EQ(TotalsSaid({30}), (Totals{{30, SS_RDT_PARTIAL}}));
  EXPECT_GT(cpus_[1].stats.doubted_bytes[0], doubted);
}

// It is back while somebody reads: then its own doubt is seen.
TEST_F(RdtCpu, ACpuThatHasLeftWhileItIsReadIsDoubted) {
  StayInASwitch(30);
  Run(1, 30);
  machine_.while_reading = [&](uint32_t) {
    Run(0, 31, SS_RDT_LONG_NS + kMs);
    On(1);
  };
  Read(1);
  EXPECT_EQ(TotalsSaid({30}), (Totals{{30, SS_RDT_PARTIAL}}));
}

TEST_F(RdtCpu, LeavingIsNoDoubtForOthersNorForWhatWasReadJustNow) {
  SetUpOwners();
  Run(0, 30);
  Run(1, 31);
  Run(2, 32);  // of another domain
  machine_.Advance(SS_RDT_LONG_NS + kMs);
  Read(0);
  Read(1);
  Read(2);
  Leave(0);
  machine_.Advance(kMs);
  machine_.samples.clear();
  Run(1, 30);
  Read(1);
  EXPECT_EQ(TotalsSaid({30, 31}), (Totals{{30, SS_RDT_OK}, {31, SS_RDT_OK}}));
  machine_.Advance(SS_RDT_LONG_NS + kMs);
  Run(3, 30);
  Run(1, 31);
  Read(1);
  Read(2);
  EXPECT_EQ(TotalsSaid({31, 32}), (Totals{{31, SS_RDT_OK}, {32, SS_RDT_OK}}));
}

// ---- Claims.

TEST_F(RdtCpu, AnRmidThatAnotherCpuReadsIsReadLater) {
  AllocAll();
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  Run(0, 30);
  Run(0, 31);
  Run(0, 0);
  __u64& claimed = shared_[0].domain.rmids[30].claimed;
  claimed = 1;
  EXPECT_EQ(Read(0), Rmids{31});
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_EQ(NrReads(0, 30), 0u);
  EXPECT_EQ(claimed, 1u);  // it is not ours to give back
  claimed = 0;
  EXPECT_EQ(Read(0), Rmids{30});
  EXPECT_EQ(Read(0), Rmids());
  EXPECT_EQ(claimed, 0u);
}

TEST_F(RdtCpu, AnRmidThatWasLeftAndIsClaimedStaysLeft) {
  AllocAll();
  BeginAll();
  Run(0, 30);
  Run(0, 0);
  EXPECT_EQ(Read(0, 0), Rmids());
  machine_.no_claims = {&shared_[0].domain.rmids[30].claimed};
  EXPECT_EQ(Read(1), Rmids());
  EXPECT_EQ(NrLeft(0), 1u);
  machine_.no_claims.clear();
  EXPECT_EQ(Read(1), Rmids{30});
  EXPECT_EQ(NrLeft(0), 0u);
}

TEST_F(RdtCpu, TheSweepPassesOverWhatIsClaimed) {
  SetUpDomains(6, 1u << SS_RDT_MBM_TOTAL);
  ASSERT_EQ(Begin(0), SS_RDT_NO_TROUBLE);
  shared_[0].domain.rmids[2].claimed = 1;
  for (int tick = 0; tick < 10; tick++) Read(0);
  EXPECT_EQ(NrReads(0, 2), 0u);
  for (uint32_t rmid : {1u, 3u, 4u, 5u}) EXPECT_EQ(NrReads(0, rmid), 4u) << rmid;
}

TEST_F(RdtCpu, TwoCpusDoNotReadOneRmidAtOnce) {
  AllocAll();
  BeginAll();
  for (uint32_t cpu : {0u, 1u}) {
    Run(cpu, 30);
    Run(cpu, 31);
    Run(cpu, 0);
  }
  uint32_t first = 0;
  Rmids other;
  machine_.while_reading = [&](uint32_t rmid) {
    first = rmid;
    other = Read(1);
    EXPECT_EQ(NrReads(1, rmid), 0u);
    EXPECT_EQ(machine_.cpus[0].evtsel >> 32, rmid);
    On(0);
  };
  Read(0);
  EXPECT_EQ(first, 30u);
  EXPECT_EQ(other, Rmids{31});
  EXPECT_EQ(Read(1), Rmids{30});  // not forgotten
  EXPECT_EQ(Read(1), Rmids());
  for (const ss_rdt_rmid& one : shared_[0].domain.rmids) EXPECT_EQ(one.claimed, 0u);
}

// ---- The sweep.

TEST_F(RdtCpu, TheSweepReachesAllRmidsInTurn) {
  for (uint32_t nr_rmids : {2u, 3u, 20u, kNrRmids, SS_RMID_CAPACITY}) {
    SCOPED_TRACE(nr_rmids);
    SetUpDomains(nr_rmids, 1u << SS_RDT_MBM_TOTAL);
    machine_.reads.clear();
    BeginAll();
    for (uint32_t tick = 0; tick < nr_rmids / 2 + 1; tick++)  // two RMIDs each
      for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) Read(cpu);
    for (uint32_t domain = 0; domain < kNrDomains; domain++) {
      std::map<uint32_t, uint32_t> nr;
      for (const auto& [cpu, rmid] : machine_.reads) nr[rmid] += DomainOf(cpu) == domain;
      EXPECT_EQ(nr.size(), nr_rmids - 1);
      uint32_t least = UINT32_MAX, most = 0;
      for (const auto& [rmid, times] : nr) {
        EXPECT_TRUE(rmid > 0 && rmid < nr_rmids) << rmid;
        least = std::min(least, times);
        most = std::max(most, times);
      }
      EXPECT_GE(least, 1u);
      EXPECT_LE(most - least, 2u);  // of two CPUs
    }
  }
  EXPECT_TRUE(machine_.samples.empty());  // nobody has them
}

TEST_F(RdtCpu, AfterTheSweepAnOwnerHasItsFirstBytes) {
  BeginAll();
  Run(3, 0);
  SweepAll();
  Alloc(30);
  const uint64_t alloc_ns = machine_.now_ns;
  Run(3, 30);
  machine_.Advance(kMs);
  Run(3, 0);
  ASSERT_EQ(Read(3), Rmids{30});
  for (const ss_rdt_sample& sample : machine_.samples) {
    if (sample.event != SS_RDT_MBM_TOTAL) continue;
    EXPECT_EQ(sample.status, SS_RDT_OK);
    EXPECT_EQ(sample.since_ns, alloc_ns);
    EXPECT_EQ(sample.value, machine_.units[1][30] * kUnitBytes);
    EXPECT_GE(sample.value, kMs * kUnitBytes);
  }
}

// ---- Any run.

// Processes that come, go, and run wherever there is a CPU.
class Switching {
 public:
  Switching(uint64_t seed, std::function<void(uint32_t, uint32_t)> run) : random(seed), run_(run) {}

  uint64_t Below(uint64_t n) { return random() % n; }
  void Switch(uint32_t cpu, uint32_t rmid) {
    running[cpu] = rmid;
    run_(cpu, rmid);
  }

  std::mt19937_64 random;
  std::array<uint32_t, kNrCpus> running = {};

 private:
  std::function<void(uint32_t, uint32_t)> run_;
};

class RdtCpuAnyRun : public RdtCpu, public testing::WithParamInterface<uint32_t> {};  // clusters

INSTANTIATE_TEST_SUITE_P(Clusters, RdtCpuAnyRun, testing::Values(1, kNrDomains));

TEST_P(RdtCpuAnyRun, NoByteIsLostWhateverRunsWhere) {
  SetUpDomains(24, 7 << 1, GetParam());
  BeginAll();
  SweepAll();
  AllocAll();
  machine_.samples.clear();
  Switching s(1, [&](uint32_t cpu, uint32_t rmid) { Run(cpu, rmid); });
  std::set<std::pair<uint32_t, uint32_t>> ran;
  for (int tick = 0; tick < 4000; tick++) {
    for (uint64_t i = s.Below(12); i > 0; i--) {
      const auto cpu = static_cast<uint32_t>(s.Below(kNrCpus));
      const auto rmid = static_cast<uint32_t>(s.Below(5) ? s.Below(machine_.nr_rmids) : 0);
      s.Switch(cpu, rmid);
      if (rmid) ran.insert({DomainOf(cpu), rmid});
      machine_.Advance(s.Below(kMs / 6));
      for (uint32_t j = 0; j < kNrCpus; j++)
        ASSERT_EQ(machine_.cpus[j].pqr, Closid(j) << 32 | s.running[j]);
    }
    for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) {
      ASSERT_EQ(Check(cpu), SS_RDT_NO_TROUBLE);
      Read(cpu, s.Below(40) * kAccessNs);
      ASSERT_EQ(machine_.cpus[cpu].evtsel, kForeignEvtsel);
    }
  }
  // Those that ran last are read once more, and no CPU is in a hurry.
  for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) Run(cpu, 0);
  for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) Read(cpu);

  std::map<std::pair<uint32_t, uint32_t>, uint64_t> total, local;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> until_ns;
  for (const ss_rdt_sample& sample : machine_.samples) {
    const std::pair key(sample.domain, sample.rmid);
    if (sample.event == SS_RDT_LLC_OCCUPANCY) continue;
    ASSERT_EQ(sample.status, SS_RDT_OK);
    (sample.event == SS_RDT_MBM_TOTAL ? total : local)[key] += sample.value;
    if (sample.event != SS_RDT_MBM_TOTAL) continue;
    ASSERT_TRUE(!until_ns.count(key) || sample.since_ns == until_ns[key]);
    until_ns[key] = sample.hdr.ts_ns;
  }
  uint64_t nr_skipped = 0, nr_unattributed = 0;
  for (const ss_rdt_cpu& cpu : cpus_) {
    nr_skipped += cpu.stats.nr_skipped;
    nr_unattributed += cpu.stats.nr_unattributed;
    EXPECT_EQ(cpu.stats.nr_errors, 0u);
  }
  EXPECT_GT(nr_skipped, 1000u) << "the budget never bit";
  EXPECT_EQ(nr_unattributed, 0u);
  EXPECT_EQ(ran.size(), kNrDomains * (machine_.nr_rmids - 1));
  for (const auto& [domain, rmid] : ran) {
    const uint64_t units = machine_.units[domain][rmid];
    EXPECT_EQ(machine_.units_read[domain][rmid], units) << "ran after it was read last";
    EXPECT_EQ((total[{domain, rmid}]), units * kUnitBytes) << domain << " " << rmid;
    EXPECT_EQ((local[{domain, rmid}]), units / 2 * kUnitBytes) << domain << " " << rmid;
    EXPECT_GT(units, kMask) << "never went round";
  }
}

TEST_P(RdtCpuAnyRun, NoByteIsLostWhoeverComesAndGoes) {
  SetUpDomains(24, 1u << SS_RDT_MBM_TOTAL, GetParam());
  BeginAll();
  SweepAll();
  machine_.samples.clear();
  Switching s(2, [&](uint32_t cpu, uint32_t rmid) { Run(cpu, rmid); });
  for (int tick = 0; tick < 4000; tick++) {
    for (uint64_t i = s.Below(12); i > 0; i--) {
      const auto rmid = static_cast<uint32_t>(1 + s.Below(machine_.nr_rmids - 1));
      const Life& life = machine_.lives[rmid];
      const bool runs = std::count(s.running.begin(), s.running.end(), rmid) > 0;
      if (!life.live && machine_.now_ns - life.freed_ns >= SS_RMID_LIMBO_NS)
        Alloc(rmid);
      else if (life.live && !runs && s.Below(8) == 0)
        Free(rmid);
      if (life.live)
        s.Switch(static_cast<uint32_t>(s.Below(kNrCpus)), rmid);
      else
        s.Switch(static_cast<uint32_t>(s.Below(kNrCpus)), 0);
      machine_.Advance(s.Below(kMs / 6));
    }
    for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) {
      ASSERT_EQ(Check(cpu), SS_RDT_NO_TROUBLE);
      Read(cpu, s.Below(40) * kAccessNs);
    }
  }
  for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) s.Switch(cpu, 0);
  for (uint32_t cpu = 0; cpu < kNrCpus; cpu++) Read(cpu);

  uint64_t given = 0, unattributed = 0, counted = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> given_to;
  for (const ss_rdt_sample& sample : machine_.samples) {
    if (sample.status != SS_RDT_OK) continue;
    given += sample.value;
    given_to[{sample.rmid, sample.generation}] += sample.value;
  }
  for (const ss_rdt_cpu& cpu : cpus_) unattributed += cpu.stats.unattributed_bytes[0];
  for (const auto& domain : machine_.units)
    for (uint32_t rmid = 1; rmid < machine_.nr_rmids; rmid++) counted += domain[rmid] * kUnitBytes;
  EXPECT_EQ(given + unattributed, counted);
  EXPECT_GT(unattributed, 0u);
  EXPECT_LT(unattributed, counted / 10);
  EXPECT_GT(machine_.truth.size(), 100u);
  for (const auto& [key, bytes] : given_to)
    EXPECT_LE(bytes, machine_.truth[key] * kUnitBytes) << key.first << " " << key.second;
}

}  // namespace
}  // namespace slotscope
