// SPDX-License-Identifier: MIT
// A machine that does not exist: its CPUs, processes and RMIDs, what its rings would hold, and what goes
// wrong on the way. The same options give the same bytes, on any machine.
#pragma once

#include <slotscope/rmid_fifo.h>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "raw/facts.h"
#include "ring/item.h"
#include "tests/gen/rdt_model.h"

namespace slotscope {

// All numbers have one type, so that a table can name them (see cli/options.cc).
struct GeneratorOptions {
  uint64_t seed = 1;
  uint64_t nr_cpus = 2;
  uint64_t nr_missing_cpus = 0;  // present, but never online
  uint64_t duration_ms = 1000;
  uint64_t nr_processes = 200;  // alive at a time; about half of them run often
  uint64_t nr_kthreads = 8;
  uint64_t nr_rmids = 512;
  uint64_t switches_per_s = 5000;  // and CPU
  uint64_t births_per_s = 100;     // and as many deaths
  uint64_t tick_jitter_ns = 20'000;
  uint64_t lost_ppm = 0;
  uint64_t inverted_ppm = 0;  // written behind later ones, within the grace of the merge
  uint64_t late_ppm = 0;      // written up to 100 ms later
  uint64_t malformed_ppm = 0;
  uint64_t unknown_ppm = 0;  // measures in which a switch was missed
  uint64_t stalls_per_s = 0;
  uint64_t cpu_stalls_per_s = 0;
  uint64_t hotplugs_per_s = 0;
  uint64_t clock_steps_per_s = 0;
  uint64_t nr_l3_domains = 0;    // 0: no RDT
  uint64_t rdt_skipped_ppm = 0;  // counters that a tick has no time for
  uint64_t rdt_failed_ppm = 0;   // reads that give no value
  bool wrap = false;  // sequence numbers and generations begin just before they wrap, and so do counters
  bool no_counters = false;
  uint64_t nr_more = 0;  // perf counters behind a measure
  bool waits = false;    // single waits are told
};

class Generator {
 public:
  explicit Generator(const GeneratorOptions& options);

  const Facts& facts() const { return facts_; }
  // The next items. False: it is over.
  bool Next(Block* block);
  // Written so far, lost ones not among them.
  uint64_t nr_messages() const { return nr_messages_; }

 private:
  struct Process {
    int32_t tgid = 0;
    uint64_t start_time_ns = 0;
    uint32_t rmid = 0;
    uint32_t generation = 0;
    uint32_t flags = 0;             // SS_MEASURE_* of its measures
    uint64_t begins_ns = 0;         // it may run from here
    uint64_t dies_ns = UINT64_MAX;  // to here
    uint64_t execs_ns = 0;          // 0: it does not, or has
    char comm[SS_COMM_LEN] = {};
  };
  // A record on its way into a ring.
  struct Record {
    uint64_t visible_ns;  // when it is there
    uint32_t order;       // of writing, where that is equal
    uint32_t size;        // of the message
    union {
      ss_any_message message;
      ss_long_measure long_measure;
    };
  };
  struct Cpu {
    bool online = false;
    uint64_t at_ns = 0;  // measured up to here
    uint64_t next_switch_ns = 0;
    uint64_t next_tick_ns = 0;
    uint64_t wait_ns = 0;  // of who was switched in
    uint32_t running = 0;  // index into processes_
    uint32_t seq = 0;
    uint64_t stalled_until_ns = 0;  // its ring is not drained
    uint64_t offline_until_ns = 0;
    uint64_t nr_lost = 0;         // not yet told
    std::vector<Record> records;  // not yet in the ring
    std::vector<std::byte> ring;
  };

  uint64_t Random(uint64_t below) { return below ? random_() % below : 0; }
  bool Chance(uint64_t ppm) { return ppm && random_() % 1'000'000 < ppm; }
  // How often something that happens per_s times a second happens in `ns`.
  bool Happens(uint64_t per_s, uint64_t ns) { return Random(1'000'000'000) < per_s * ns; }

  Process MakeProcess(uint64_t ts_ns, bool kernel);
  void Start();
  void Round();
  void End();
  void GiveLife(uint64_t from_ns, uint64_t until_ns);
  void Birth(uint64_t born_ns);
  void Death(uint64_t ts_ns);
  void Exec(Process* process, uint64_t until_ns);
  void Dump(uint64_t ts_ns);
  void FollowHotplug(uint64_t from_ns, uint64_t until_ns);
  void Unplug(uint32_t cpu, uint64_t ts_ns);
  void Plug(uint32_t cpu, uint64_t ts_ns);
  void RunCpus(uint64_t from_ns, uint64_t until_ns);
  void RunCpu(uint32_t cpu, uint64_t until_ns);
  void ReadRdt(uint32_t cpu, uint64_t ts_ns);
  void Measure(uint32_t cpu, uint64_t ts_ns, bool tick);
  void TellWaits(uint32_t cpu, const ss_measure& measure);
  void SwitchIn(Cpu* cpu);
  uint32_t ChooseProcess(uint64_t ts_ns);
  void FillCounters(ss_measure* measure);
  void FillMore(ss_long_measure* measure);
  uint32_t OnlineCpu();
  template <typename Message>
  void Emit(uint32_t cpu, uint16_t type, uint64_t ts_ns, const Message& message,
            size_t size = sizeof(Message));
  void Spoil(Record* record);
  void FillRing(Cpu* cpu, uint64_t until_ns);
  bool IsStalled(Cpu* cpu, uint64_t ts_ns);
  void Drain(uint32_t cpu, uint64_t ts_ns);
  void Put(ItemKind kind, uint64_t stream, uint64_t begin_ns, uint64_t end_ns = 0,
           std::span<const std::byte> payload = {}, uint16_t flags = 0);
  ss_task_meta MetaOf(const Process& process, uint32_t flags) const;
  ss_rmid_event RmidEventOf(const Process& process) const;

  GeneratorOptions options_;
  std::mt19937_64 random_;
  Facts facts_;
  ss_rmid_fifo fifo_;
  RdtModel rdt_;
  std::vector<Process> processes_;  // [0] is idle
  std::vector<uint32_t> user_;      // alive, by index
  std::vector<uint32_t> kernel_;
  std::vector<uint32_t> free_;   // entries of the dead
  std::vector<uint32_t> dying_;  // in this round
  std::vector<Cpu> cpus_;
  std::vector<std::byte> items_;  // made and not yet taken
  size_t taken_ = 0;              // bytes of items_
  uint64_t now_ns_;
  uint64_t end_ns_;
  uint64_t next_dump_ns_ = 0;
  int64_t unix_offset_ns_;
  int32_t next_tgid_ = 1000;
  uint32_t nr_written_ = 0;
  uint64_t nr_messages_ = 0;
  uint64_t nr_failed_allocs_ = 0;
  bool wants_dump_ = false;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace slotscope
