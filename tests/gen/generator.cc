// SPDX-License-Identifier: MIT
#include "tests/gen/generator.h"

#include <fmt/core.h>
#include <linux/perf_event.h>
#include <slotscope/interval.h>

#include <algorithm>
#include <cstring>

#include "base/perf_counter.h"

namespace slotscope {
namespace {

constexpr uint64_t kStartNs = 1'000'000'000'000;  // after some boot
constexpr int64_t kUnixOffsetNs = 1'700'000'000'000'000'000;
constexpr uint64_t kRoundNs = 5'000'000;
constexpr uint64_t kDrainNs = 1'000;       // a drain takes this long
constexpr uint64_t kWriteNs = 2'000;       // from a timestamp to the ring, at most, as a rule
constexpr uint64_t kInvertedNs = 900'000;  // below the merge's grace
constexpr uint64_t kLateNs = 100'000'000;  // some are later than the window, some are not
constexpr uint64_t kMaxStallNs = 300'000'000;
constexpr uint64_t kMaxOfflineNs = 150'000'000;
constexpr uint64_t kDumpPeriodNs = 50'000'000;
constexpr size_t kMaxItemBytes = 64u << 10;
constexpr uint32_t kIdle = 0;

constexpr const char* kComms[] = {"bash",
                                  "postgres",
                                  "python3",
                                  "java",
                                  "nginx",
                                  "kworker x",
                                  "a,b\"c\\",
                                  "\xc3\xa9t\xc3\xa9\n",
                                  "0123456789abcde",
                                  "",
                                  "make",
                                  "cc1plus"};

std::span<const std::byte> BytesOf(const auto& value, size_t size) {
  return {reinterpret_cast<const std::byte*>(&value), size};
}

}  // namespace

Generator::Generator(const GeneratorOptions& options)
    : options_(options),
      random_(options.seed),
      rdt_({options.nr_cpus, options.nr_l3_domains, options.rdt_skipped_ppm, options.rdt_failed_ppm,
            options.wrap}),
      cpus_(options.nr_cpus),
      now_ns_(kStartNs),
      end_ns_(kStartNs + options.duration_ms * 1'000'000),
      unix_offset_ns_(kUnixOffsetNs) {
  facts_.host = "nowhere";
  facts_.boot_id = fmt::format("seed {}", options.seed);
  facts_.kernel = "none";
  facts_.source = "gen";
  facts_.source_reason = "a machine that does not exist";
  facts_.backend = rdt_.on() ? "hardware" : "emulated";
  facts_.backend_reason = rdt_.on() ? "RDT is generated" : "no RDT is generated";
  facts_.rdt = rdt_.Shape();
  facts_.tick = fmt::format("at the slot border, up to {} ns late", options.tick_jitter_ns);
  facts_.events.resize(SS_NR_COUNTERS + options.nr_more);
  for (size_t i = options.no_counters ? SS_NR_COUNTERS : 0; i < facts_.events.size(); i++)
    facts_.events[i] = kPerfCounters[i].name;
  for (uint64_t cpu = 0; cpu < options.nr_cpus; cpu++)
    facts_.present_cpus.push_back(static_cast<int>(cpu));
  facts_.nr_streams = options.nr_cpus;
  facts_.has_waits = options.waits;
  facts_.has_quota = options.waits;
  facts_.has_steal = options.waits;
  facts_.has_states = options.waits;
  facts_.unix_offset_ns = unix_offset_ns_;
  ss_rmid_fifo_init(&fifo_, static_cast<uint32_t>(options.nr_rmids), SS_RMID_LIMBO_NS);
  if (options.wrap) {
    for (uint32_t& generation : fifo_.generation) generation = UINT32_MAX - 2;
    fifo_.seq = UINT64_MAX - 50;
  }
}

void Generator::Put(ItemKind kind, uint64_t stream, uint64_t begin_ns, uint64_t end_ns,
                    std::span<const std::byte> payload, uint16_t flags) {
  ItemHeader header = {
      kind,     flags, static_cast<uint32_t>(stream), static_cast<uint32_t>(payload.size()), 0,
      begin_ns, end_ns};
  auto bytes = BytesOf(header, sizeof(header));
  items_.insert(items_.end(), bytes.begin(), bytes.end());
  items_.insert(items_.end(), payload.begin(), payload.end());
}

bool Generator::Next(Block* block) {
  block->Clear();
  while (taken_ == items_.size()) {
    items_.clear();
    taken_ = 0;
    if (ended_) return false;
    if (!started_)
      Start();
    else if (now_ns_ < end_ns_)
      Round();
    else
      End();
  }
  while (taken_ < items_.size()) {
    ItemHeader header;
    std::memcpy(&header, items_.data() + taken_, sizeof(header));
    if (block->room() < sizeof(header) + header.size) break;
    block->Append(header, {items_.data() + taken_ + sizeof(header), header.size});
    taken_ += sizeof(header) + header.size;
  }
  return true;
}

Generator::Process Generator::MakeProcess(uint64_t ts_ns, bool kernel) {
  Process process;
  process.tgid = next_tgid_++;
  process.start_time_ns = ts_ns - Random(1'000);
  process.begins_ns = ts_ns;
  process.flags = kernel ? SS_MEASURE_KTHREAD : 0;
  const char* comm = kernel ? "kworker/0:1" : kComms[Random(std::size(kComms))];
  std::memcpy(process.comm, comm, std::min<size_t>(strlen(comm), SS_COMM_LEN - 1));
  return process;
}

ss_task_meta Generator::MetaOf(const Process& process, uint32_t flags) const {
  ss_task_meta meta = {};
  meta.start_time_ns = process.start_time_ns;
  meta.tgid = process.tgid;
  meta.ppid = 1;
  meta.rmid = process.rmid;
  meta.generation = process.generation;
  meta.flags = flags | (process.flags & SS_MEASURE_KTHREAD ? SS_TASK_KTHREAD : 0);
  std::memcpy(meta.comm, process.comm, sizeof(meta.comm));
  return meta;
}

ss_rmid_event Generator::RmidEventOf(const Process& process) const {
  ss_rmid_event event = {};
  event.start_time_ns = process.start_time_ns;
  event.seq = fifo_.seq;
  event.tgid = process.tgid;
  event.rmid = process.rmid;
  event.generation = process.generation;
  return event;
}

void Generator::Start() {
  started_ = true;
  processes_.push_back({});  // idle
  processes_[kIdle].flags = SS_MEASURE_IDLE;
  for (uint64_t i = 0; i < options_.nr_kthreads; i++) {
    kernel_.push_back(static_cast<uint32_t>(processes_.size()));
    processes_.push_back(MakeProcess(now_ns_ - 1'000'000, true));
  }
  for (uint64_t i = 0; i < options_.nr_processes; i++) {
    Process process = MakeProcess(now_ns_ - 1'000'000, false);
    __u64 ts_ns = now_ns_ - 1'000'000;
    if (int rmid = ss_rmid_fifo_alloc(&fifo_, &ts_ns); rmid > 0) {
      process.rmid = static_cast<uint32_t>(rmid);
      process.generation = fifo_.generation[rmid];
    }
    user_.push_back(static_cast<uint32_t>(processes_.size()));
    processes_.push_back(process);
  }
  for (uint32_t cpu = 0; cpu < options_.nr_cpus - options_.nr_missing_cpus; cpu++) Plug(cpu, now_ns_);
  Dump(now_ns_);
}

// A state dump, as a source takes it.
void Generator::Dump(uint64_t ts_ns) {
  wants_dump_ = false;
  next_dump_ns_ = ts_ns + kDumpPeriodNs;
  std::vector<std::byte> messages;
  auto append = [&](auto message, uint16_t type) {
    message.hdr = {ts_ns, type, sizeof(message), 0};
    auto bytes = BytesOf(message, sizeof(message));
    messages.insert(messages.end(), bytes.begin(), bytes.end());
    nr_messages_++;
  };
  auto flush = [&](size_t at_least) {
    if (messages.size() <= at_least) return;
    Put(ItemKind::kDump, options_.nr_cpus, ts_ns, ts_ns + kDrainNs, messages);
    messages.clear();
  };
  Put(ItemKind::kDumpBegin, options_.nr_cpus, ts_ns);
  for (const auto* alive : {&kernel_, &user_}) {
    for (uint32_t index : *alive) {
      const Process& process = processes_[index];
      append(MetaOf(process, SS_TASK_EXISTING), SS_TASK_META);
      if (process.rmid) append(RmidEventOf(process), SS_RMID_EXISTING);
      flush(4096);
    }
  }
  flush(0);
  Put(ItemKind::kDumpEnd, options_.nr_cpus, ts_ns + kDrainNs);
}

void Generator::Round() {
  const uint64_t from_ns = now_ns_;
  uint64_t length_ns = kRoundNs + Random(kRoundNs / 10);
  if (Happens(options_.stalls_per_s, length_ns)) length_ns += Random(kMaxStallNs);
  now_ns_ = std::min(end_ns_, from_ns + length_ns);
  if (Happens(options_.clock_steps_per_s, length_ns)) {
    unix_offset_ns_ += static_cast<int64_t>(Random(20'000'000'000)) - 10'000'000'000;
    Put(ItemKind::kClock, 0, from_ns, static_cast<uint64_t>(unix_offset_ns_));
  }
  FollowHotplug(from_ns, now_ns_);
  GiveLife(from_ns, now_ns_);
  RunCpus(from_ns, now_ns_);
  // Nobody runs those who died any more.
  for (uint32_t index : dying_) free_.push_back(index);
  dying_.clear();
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++)
    if (cpus_[cpu].online && !IsStalled(&cpus_[cpu], now_ns_)) Drain(cpu, now_ns_);
  Put(ItemKind::kRoundEnd, 0, 0);
  if (wants_dump_ && now_ns_ >= next_dump_ns_) Dump(now_ns_);
}

// The rest of what is on its way, and the source's own counters.
void Generator::End() {
  ended_ = true;
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++) {
    if (!cpus_[cpu].online) continue;
    Cpu& last = cpus_[cpu];
    std::erase_if(last.records,
                  [&](const Record& record) { return record.message.hdr.ts_ns > now_ns_; });
    FillRing(&last, now_ns_ + kLateNs + kInvertedNs);
    Drain(cpu, now_ns_);
  }
  SourceLosses losses;
  losses.nr_failed_allocs = nr_failed_allocs_;
  Put(ItemKind::kLosses, 0, now_ns_, 0, BytesOf(losses, sizeof(losses)));
  Put(ItemKind::kRoundEnd, 0, 0);
}

uint32_t Generator::OnlineCpu() {
  for (;;)
    if (auto cpu = static_cast<uint32_t>(Random(cpus_.size())); cpus_[cpu].online) return cpu;
}

// Births and deaths of a round, in the order of time, as the allocator sees them.
void Generator::GiveLife(uint64_t from_ns, uint64_t until_ns) {
  std::vector<std::pair<uint64_t, bool>> events;  // when; a birth?
  uint64_t expected = options_.births_per_s * (until_ns - from_ns);
  uint64_t nr_pairs = expected / 1'000'000'000 + (Random(1'000'000'000) < expected % 1'000'000'000);
  for (uint64_t i = 0; i < nr_pairs; i++) {
    events.emplace_back(from_ns + 1 + Random(until_ns - from_ns), true);
    events.emplace_back(from_ns + 1 + Random(until_ns - from_ns), false);
  }
  std::sort(events.begin(), events.end());
  for (auto [ts_ns, birth] : events) {
    if (birth)
      Birth(ts_ns);
    else if (user_.size() > 1)
      Death(ts_ns);
  }
  for (uint32_t index : user_) Exec(&processes_[index], until_ns);
}

void Generator::Birth(uint64_t born_ns) {
  __u64 ts_ns = born_ns;
  Process process = MakeProcess(ts_ns, false);
  const uint32_t cpu = OnlineCpu();
  ss_rmid_event event = RmidEventOf(process);
  if (int rmid = ss_rmid_fifo_alloc(&fifo_, &ts_ns); rmid > 0) {
    process.rmid = static_cast<uint32_t>(rmid);
    process.generation = fifo_.generation[rmid];
    Emit(cpu, SS_RMID_ALLOC, ts_ns, RmidEventOf(process));
  } else {
    nr_failed_allocs_++;
    event.reason = rmid;
    Emit(cpu, SS_RMID_ALLOC_FAILED, ts_ns, event);
  }
  Emit(cpu, SS_TASK_META, ts_ns, MetaOf(process, SS_TASK_BIRTH));
  if (Random(4)) process.execs_ns = ts_ns + Random(3'000'000);  // most exec soon, and get another name
  uint32_t index = static_cast<uint32_t>(processes_.size());
  if (free_.empty()) {
    processes_.push_back(process);
  } else {
    index = free_.back();
    free_.pop_back();
    processes_[index] = process;
  }
  user_.push_back(index);
}

// If its time has come by then.
void Generator::Exec(Process* process, uint64_t until_ns) {
  if (process->execs_ns == 0 || process->execs_ns > until_ns) return;
  const char* comm = kComms[Random(std::size(kComms))];
  std::memset(process->comm, 0, sizeof(process->comm));
  std::memcpy(process->comm, comm, strlen(comm));
  Emit(OnlineCpu(), SS_TASK_META, std::exchange(process->execs_ns, 0), MetaOf(*process, SS_TASK_EXEC));
}

void Generator::Death(uint64_t ts_ns) {
  size_t at = Random(user_.size());
  const uint32_t index = user_[at];
  Process& process = processes_[index];
  if (process.begins_ns >= ts_ns) return;  // born in this round; another time
  user_[at] = user_.back();
  user_.pop_back();
  process.dies_ns = ts_ns;
  dying_.push_back(index);
  const uint32_t cpu = OnlineCpu();
  Exec(&process, ts_ns);
  if (process.rmid) {
    __u64 freed_ns = ts_ns;
    ss_rmid_fifo_free(&fifo_, process.rmid, &freed_ns);
    Emit(cpu, SS_RMID_FREE, freed_ns, RmidEventOf(process));
    rdt_.Freed(process.rmid, process.generation, freed_ns);
  } else {
    ss_task_meta meta = MetaOf(process, SS_TASK_EXIT);
    std::memset(meta.comm, 0, sizeof(meta.comm));
    Emit(cpu, SS_TASK_META, ts_ns, meta);
  }
}

void Generator::FollowHotplug(uint64_t from_ns, uint64_t until_ns) {
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++)
    if (!cpus_[cpu].online && cpus_[cpu].offline_until_ns && cpus_[cpu].offline_until_ns < until_ns)
      Plug(cpu, std::max(from_ns, cpus_[cpu].offline_until_ns));
  if (!Happens(options_.hotplugs_per_s, until_ns - from_ns)) return;
  auto nr_online = std::count_if(cpus_.begin(), cpus_.end(), [](const Cpu& cpu) { return cpu.online; });
  if (nr_online < 2) return;
  uint32_t cpu = OnlineCpu();
  if (cpus_[cpu].at_ns < from_ns) Unplug(cpu, from_ns);
}

void Generator::Unplug(uint32_t index, uint64_t ts_ns) {
  Cpu& cpu = cpus_[index];
  RunCpu(index, ts_ns);
  Measure(index, ts_ns, false);
  if (Random(2)) {  // the kernel module says so, the eBPF source does not
    ss_cpu_state state = {};
    Emit(index, SS_CPU_STATE, ts_ns, state);
  }
  Drain(index, ts_ns + kWriteNs);
  cpu.records.clear();  // what was not in the ring by then is nowhere
  cpu.ring.clear();
  cpu.nr_lost = 0;
  cpu.online = false;
  cpu.offline_until_ns = ts_ns + 1 + Random(kMaxOfflineNs);
  Put(ItemKind::kOffline, index, ts_ns + kWriteNs);
}

void Generator::Plug(uint32_t index, uint64_t ts_ns) {
  Cpu& cpu = cpus_[index];
  cpu.online = true;
  cpu.at_ns = ts_ns;
  cpu.next_switch_ns = ts_ns + 1 + Random(2'000'000'000 / options_.switches_per_s);
  cpu.next_tick_ns = ts_ns - ts_ns % SS_TICK_PERIOD_NS + SS_TICK_PERIOD_NS;
  cpu.running = kIdle;
  cpu.seq = options_.wrap ? UINT32_MAX - 20 : 0;
  Put(ItemKind::kOnline, index, ts_ns);
  Put(ItemKind::kExpected, index, ts_ns);
  ss_cpu_state state = {};
  state.online = 1;
  Emit(index, SS_CPU_STATE, ts_ns, state);
}

// One after the other; where they share RDT counters, in steps that are short enough for a tick to read
// what the others' processes did.
void Generator::RunCpus(uint64_t from_ns, uint64_t until_ns) {
  const uint64_t step_ns = rdt_.on() ? SS_TICK_PERIOD_NS / 4 : until_ns - from_ns;
  for (uint64_t at_ns = from_ns; at_ns < until_ns;) {
    at_ns = std::min(at_ns + step_ns, until_ns);
    for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++)
      if (cpus_[cpu].online) RunCpu(cpu, at_ns);
  }
}

// A CPU's share of the work of its domain.
void Generator::ReadRdt(uint32_t index, uint64_t ts_ns) {
  const uint64_t domain = rdt_.DomainOf(index);
  uint64_t part = 0, nr_parts = 0;
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++) {
    if (!cpus_[cpu].online || rdt_.DomainOf(cpu) != domain) continue;
    if (cpu < index) part++;
    nr_parts++;
  }
  for (const ss_rdt_sample& sample : rdt_.Read(domain, part, nr_parts, ts_ns, &random_))
    Emit(index, SS_RDT_SAMPLE, ts_ns, sample);
}

void Generator::RunCpu(uint32_t index, uint64_t until_ns) {
  Cpu& cpu = cpus_[index];
  for (;;) {
    // Whoever dies is switched out for the last time then.
    uint64_t switch_ns =
        std::min(cpu.next_switch_ns, std::max(cpu.at_ns, processes_[cpu.running].dies_ns));
    uint64_t next_ns = std::min(switch_ns, cpu.next_tick_ns);
    if (next_ns > until_ns) return;
    if (next_ns == switch_ns) {
      Measure(index, next_ns, false);
      SwitchIn(&cpu);
      continue;
    }
    Measure(index, next_ns, true);
    if (rdt_.on()) ReadRdt(index, next_ns);
    ss_tick tick = {};
    tick.due_ns = next_ns - next_ns % SS_TICK_PERIOD_NS;
    Emit(index, SS_TICK, next_ns, tick);
    cpu.next_tick_ns = tick.due_ns + SS_TICK_PERIOD_NS + Random(options_.tick_jitter_ns + 1);
  }
}

void Generator::FillCounters(ss_measure* measure) {
  uint64_t duration_ns = measure->hdr.ts_ns - measure->start_ns;
  if (options_.no_counters || duration_ns == 0) return;
  const uint64_t cycles = duration_ns * 3 + Random(1'000);
  measure->counters[SS_CYCLES] = {cycles, duration_ns, duration_ns};
  measure->counters[SS_INSTRUCTIONS] = {cycles / 2 + Random(cycles), duration_ns, duration_ns};
  measure->counters[SS_LLC_MISSES] = {Random(duration_ns / 50 + 1), duration_ns, duration_ns};
  switch (Random(256)) {
    case 0:  // multiplexed
      for (ss_counter& counter : measure->counters) counter.running_ns = Random(duration_ns + 1);
      break;
    case 1:  // one had no room on the PMU
      measure->counters[Random(SS_NR_COUNTERS)].running_ns = 0;
      break;
    case 2:
      if (options_.wrap) measure->counters[Random(SS_NR_COUNTERS)].delta = UINT64_MAX - Random(1'000);
      break;
    default:
      break;
  }
}

void Generator::FillMore(ss_long_measure* measure) {
  const uint64_t duration_ns = measure->measure.hdr.ts_ns - measure->measure.start_ns;
  if (duration_ns == 0) return;
  for (uint64_t i = 0; i < options_.nr_more; i++) {
    // Each in a group of its own.
    const uint64_t running_ns = Random(64) ? duration_ns : Random(duration_ns + 1);
    measure->more[i] = {Random(duration_ns * (i + 1)), duration_ns, running_ns};
    if (options_.wrap && Random(256) == 0) measure->more[i].delta = UINT64_MAX - Random(1'000);
  }
}

void Generator::Measure(uint32_t index, uint64_t ts_ns, bool tick) {
  Cpu& cpu = cpus_[index];
  const Process& process = processes_[cpu.running];
  ss_measure measure = {};
  measure.hdr.ts_ns = ts_ns;  // Emit() fills the rest
  measure.start_ns = cpu.at_ns;
  measure.start_time_ns = process.start_time_ns;
  measure.tgid = process.tgid;
  measure.next_tgid = process.tgid;
  measure.seq = cpu.seq++;
  measure.rmid = process.rmid;
  measure.generation = process.generation;
  measure.flags = process.flags | SS_INTERVAL_HAS | (tick ? SS_MEASURE_TICK : 0);
  if (Chance(options_.unknown_ppm)) measure.flags |= SS_MEASURE_UNKNOWN;
  measure.wait_ns = std::exchange(cpu.wait_ns, 0);
  if (options_.waits && measure.wait_ns) {
    if (Random(64) == 0) measure.wait_ns *= Random(64);  // some are longer than slots are open
    if (Random(8)) {
      measure.flags |= SS_MEASURE_ONE_WAIT;
      if (Random(4) == 0) measure.cut_ns = static_cast<uint32_t>(measure.wait_ns / 7);
    }
  }
  if (options_.waits && Random(8) == 0 && !(measure.flags & SS_MEASURE_IDLE)) TellWaits(index, measure);
  measure.switches = tick ? (Random(16) == 0) : 1 + (Random(16) == 0);
  if (measure.switches) measure.preemptions = static_cast<uint32_t>(Random(measure.switches + 1));
  if (options_.waits) {
    measure.migrations = measure.seq % 5 == 0;
    if (measure.seq % 7 == 0)  // now and then more than can be
      measure.stolen_ns = static_cast<uint32_t>((ts_ns - measure.start_ns) * (1 + measure.seq % 5) / 4);
    if (!tick) measure.flags |= (1 + measure.seq % 7) << SS_MEASURE_LEFT_SHIFT;
  }
  FillCounters(&measure);
  if (rdt_.on() && process.rmid)
    rdt_.Ran(rdt_.DomainOf(index),
             {process.rmid, process.generation, process.begins_ns, process.dies_ns}, ts_ns - cpu.at_ns,
             &random_);
  cpu.at_ns = ts_ns;
  if (options_.nr_more == 0 || Random(256) == 0) {  // the latter from a program that knows no more
    Emit(index, SS_MEASURE, ts_ns, measure);
    return;
  }
  ss_long_measure long_measure = {measure, {}};
  FillMore(&long_measure);
  Emit(index, SS_MEASURE, ts_ns, long_measure,
       sizeof(measure) + options_.nr_more * sizeof(long_measure.more[0]));
}

// What the measure of its process does not tell.
void Generator::TellWaits(uint32_t index, const ss_measure& measure) {
  const uint64_t now_ns = measure.hdr.ts_ns;
  ss_wait wait = {};
  wait.end_ns = Random(2) ? now_ns : measure.start_ns;
  wait.wait_ns = Random(3'000'000) * (Random(64) ? 1 : 40);
  wait.start_time_ns = measure.start_time_ns;
  wait.tgid = measure.tgid;
  wait.queue_cpu = static_cast<uint32_t>(Random(options_.nr_cpus));
  switch (Random(8)) {
    case 6:
    case 7:  // as of a batch that was this measure, in which somebody else ran
      if (now_ns == measure.start_ns) return;
      wait.start_ns = measure.start_ns;
      wait.end_ns = now_ns;
      wait.queue_cpu = index;
      wait.flags = Random(3) == 0 ? SS_WAIT_FAR : Random(2) ? SS_WAIT_FOR : SS_WAIT_IDLE;
      if (wait.flags == SS_WAIT_FAR) wait.start_ns -= Random(300'000);
      wait.ran_tgid = processes_[user_[Random(user_.size())]].tgid;
      wait.ran_start_time_ns = 7;
      break;
    case 0:
      if (now_ns == measure.start_ns) return;
      wait.flags = SS_WAIT_OWN;
      wait.start_ns = measure.start_ns;
      wait.end_ns = now_ns;
      break;
    case 1:
      wait.flags = SS_WAIT_HIDDEN;
      break;
    case 2:
      wait.flags = SS_WAIT_PHANTOM;
      break;
    case 3:
      wait.flags = SS_WAIT_MOVED;
      break;
    case 4:  // throttled in the midst of it, or from before it on
      wait.flags = SS_WAIT_QUOTA;
      if (Random(4) == 0) wait.cut_ns = static_cast<uint32_t>(wait.wait_ns / 5);
      wait.start_ns = wait.end_ns - wait.wait_ns / (1 + Random(4)) - 1;
      wait.throttled_until_ns = wait.end_ns - Random(wait.wait_ns + 1);
      break;
    default:
      if (Random(4) == 0) wait.cut_ns = static_cast<uint32_t>(wait.wait_ns / 3);
  }
  Emit(index, SS_WAIT, now_ns, wait);
}

void Generator::SwitchIn(Cpu* cpu) {
  cpu->running = ChooseProcess(cpu->at_ns);
  if (cpu->running != kIdle && Random(4) == 0) cpu->wait_ns = Random(4'000'000);
  uint64_t mean_ns = 1'000'000'000 / options_.switches_per_s;
  // Now and then the next one follows in the same nanosecond.
  cpu->next_switch_ns = cpu->at_ns + (Random(512) ? 1 + Random(2 * mean_ns) : 0);
}

uint32_t Generator::ChooseProcess(uint64_t ts_ns) {
  uint64_t die = Random(16);
  if (die == 0) return kIdle;
  if (die == 1 && !kernel_.empty()) return kernel_[Random(kernel_.size())];
  // Half of the time one of the few that are busy.
  size_t nr = Random(2) ? user_.size() : std::max<size_t>(1, user_.size() / 8);
  uint32_t index = user_[Random(nr)];
  return processes_[index].begins_ns <= ts_ns ? index : kIdle;
}

template <typename Message>
void Generator::Emit(uint32_t index, uint16_t type, uint64_t ts_ns, const Message& message,
                     size_t size) {
  Cpu& cpu = cpus_[index];
  if (Chance(options_.lost_ppm)) {
    cpu.nr_lost++;
    wants_dump_ = true;
    return;
  }
  Record record;
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  record.visible_ns = ts_ns;
  if (Chance(options_.inverted_ppm))
    record.visible_ns += Random(kInvertedNs);
  else if (Chance(options_.late_ppm))
    record.visible_ns += Random(kLateNs);
  record.order = nr_written_++;
  record.size = static_cast<uint32_t>(size);
  std::memcpy(static_cast<void*>(&record.message), &message, sizeof(message));
  record.message.hdr = {ts_ns, type, static_cast<uint16_t>(size), index};
  if (Chance(options_.malformed_ppm)) Spoil(&record);
  nr_messages_++;
  cpu.records.push_back(record);
}

// Nonsense of many kinds.
void Generator::Spoil(Record* record) {
  ss_any_message& message = record->message;
  switch (Random(6)) {
    case 0:
      message.hdr.type = static_cast<uint16_t>(10 + Random(1000));  // unknown, nearly always
      break;
    case 1:
      message.hdr.size = static_cast<uint16_t>(Random(UINT16_MAX));
      break;
    case 2:
      message.hdr.cpu++;
      break;
    case 3:
      message.hdr.ts_ns = now_ns_ + 3'600'000'000'000;  // from the future
      break;
    case 4:
      record->size = 24;
      message.hdr.size = 24;
      break;
    default:
      message.measure.start_ns = message.hdr.ts_ns + 1;
      message.hdr.type = SS_MEASURE;
      message.hdr.size = sizeof(ss_measure);
      record->size = sizeof(ss_measure);
  }
}

// Moves to the ring what is visible by until_ns, in that order.
void Generator::FillRing(Cpu* cpu, uint64_t until_ns) {
  auto& records = cpu->records;
  auto earlier = [](const Record& a, const Record& b) {
    return a.visible_ns != b.visible_ns ? a.visible_ns < b.visible_ns : a.order < b.order;
  };
  if (!std::is_sorted(records.begin(), records.end(), earlier))
    std::sort(records.begin(), records.end(), earlier);
  auto append = [&](const auto& value, size_t size) {
    auto bytes = BytesOf(value, size);
    cpu->ring.insert(cpu->ring.end(), bytes.begin(), bytes.end());
  };
  auto at = records.begin();
  for (; at != records.end() && at->visible_ns <= until_ns; ++at) {
    if (cpu->nr_lost) {
      perf_event_header header = {PERF_RECORD_LOST, 0, sizeof(header) + 16};
      const uint64_t body[2] = {0, std::exchange(cpu->nr_lost, 0)};
      append(header, sizeof(header));
      append(body, sizeof(body));
    }
    // The kernel pads so that the record is a multiple of 8 long, and counts the padding as data.
    const uint32_t raw_size = at->size + 4;
    perf_event_header header = {PERF_RECORD_SAMPLE, 0,
                                static_cast<uint16_t>(sizeof(header) + sizeof(raw_size) + raw_size)};
    const uint32_t padding = 0;
    append(header, sizeof(header));
    append(raw_size, sizeof(raw_size));
    append(at->long_measure, at->size);
    append(padding, sizeof(padding));
  }
  records.erase(records.begin(), at);
}

// Is its ring left alone in this round? After a stall it is drained at least once.
bool Generator::IsStalled(Cpu* cpu, uint64_t ts_ns) {
  if (cpu->stalled_until_ns > ts_ns) return true;
  if (std::exchange(cpu->stalled_until_ns, 0) != 0) return false;
  if (Happens(options_.cpu_stalls_per_s, kRoundNs)) cpu->stalled_until_ns = ts_ns + Random(kMaxStallNs);
  return cpu->stalled_until_ns > ts_ns;
}

void Generator::Drain(uint32_t index, uint64_t ts_ns) {
  Cpu& cpu = cpus_[index];
  FillRing(&cpu, ts_ns);
  std::span<const std::byte> rest(cpu.ring);
  do {
    size_t size = 0;
    while (size < rest.size()) {
      perf_event_header header;
      std::memcpy(&header, rest.data() + size, sizeof(header));
      if (size + header.size > kMaxItemBytes) break;
      size += header.size;
    }
    uint16_t flags = size < rest.size() ? kItemMore : 0;
    Put(ItemKind::kRecords, index, ts_ns, ts_ns + kDrainNs, rest.first(size), flags);
    rest = rest.subspan(size);
  } while (!rest.empty());
  cpu.ring.clear();
}

}  // namespace slotscope
