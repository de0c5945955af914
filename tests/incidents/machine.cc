// SPDX-License-Identifier: MIT
#include "tests/incidents/machine.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/perf_counter.h"
#include "ring/item.h"
#include "run/output.h"

namespace slotscope {
namespace {

constexpr uint64_t kTickNs = 1'000'000;
constexpr uint64_t kSliceNs = 3'000'000;
constexpr uint64_t kPeriodNs = 100'000'000;
constexpr uint64_t kLaunchNs = 5'000;
constexpr uint64_t kRoundNs = 2'000'000;
constexpr double kCyclesPerNs = 3, kCyclesPerInstruction = 0.8;

void Append(std::vector<std::byte>* bytes, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes->insert(bytes->end(), from, from + size);
}

}  // namespace

Machine::Machine(uint32_t nr_cpus, bool has_counters) : has_counters_(has_counters), cpus_(nr_cpus) {
  facts_.host = "incident";
  facts_.boot_id = "simulated";
  facts_.kernel = "none";
  facts_.source = "gen";
  facts_.source_reason = "a machine that does not exist";
  facts_.backend = "emulated";
  facts_.tick = "at the slot border";
  if (has_counters)
    for (size_t i = 0; i < SS_NR_COUNTERS; i++) facts_.events[i] = kPerfCounters[i].name;
  std::vector<int> cpus;
  for (uint32_t cpu = 0; cpu < nr_cpus; cpu++) cpus.push_back(static_cast<int>(cpu));
  facts_.present_cpus = cpus;
  if (has_counters) {
    facts_.backend = "hardware";
    facts_.rdt.domains = {{0, cpus}};
    facts_.rdt.has_mbm_total = true;
  }
  facts_.nr_streams = nr_cpus;
  facts_.has_waits = facts_.has_quota = facts_.has_states = true;
  facts_.unix_offset_ns = 1'790'000'000'000'000'000;
}

int32_t Machine::AddProcess(const std::string& name, uint64_t begin_ns) {
  Process process;
  process.tgid = kFirstTgid + static_cast<int32_t>(processes_.size());
  process.name = name.substr(0, SS_COMM_LEN - 1);
  process.begin_ns = kBeginNs + begin_ns;
  processes_.push_back(std::move(process));
  return processes_.back().tgid;
}

void Machine::AddThread(int32_t tgid, uint32_t cpu, Behavior behavior, double weight) {
  Thread thread;
  thread.process = static_cast<size_t>(tgid - kFirstTgid);
  thread.cpu = cpu;
  thread.behavior = std::move(behavior);
  thread.weight = weight;
  thread.wakes_ns = Of(tgid).begin_ns;
  Of(tgid).nr_threads++;
  threads_.push_back(std::move(thread));
}

void Machine::AddLauncher(int32_t tgid, uint32_t cpu, Behavior behavior) {
  AddThread(tgid, cpu, std::move(behavior));
  threads_.back().launches = true;
  facts_.gpu = "uprobes";
  facts_.has_turns = true;
}

void Machine::SetQuota(int32_t tgid, uint64_t quota_ns, const Time& time) {
  Of(tgid).quota_ns = quota_ns;
  Of(tgid).quota_time = time;
}

void Machine::SetSlower(int32_t tgid, double times, const Time& time) {
  Of(tgid).slower = times;
  Of(tgid).slower_time = time;
}

bool Machine::IsStopped(const Process& process) const {
  return std::any_of(process.stopped.begin(), process.stopped.end(),
                     [&](const Time& time) { return IsIn(time, now_ns_); });
}

// ---- what the rings hold

void Machine::Tell(uint32_t index, uint16_t type, const void* message, size_t size) {
  Cpu& cpu = cpus_[index];
  if (std::any_of(lost_.begin(), lost_.end(), [&](const Time& time) { return IsIn(time, now_ns_); })) {
    cpu.nr_lost++;
    return;
  }
  if (cpu.nr_lost) {
    perf_event_header header = {PERF_RECORD_LOST, 0, sizeof(header) + 16};
    const uint64_t body[2] = {0, std::exchange(cpu.nr_lost, 0)};
    Append(&cpu.ring, &header, sizeof(header));
    Append(&cpu.ring, body, sizeof(body));
  }
  std::vector<std::byte> bytes;
  Append(&bytes, message, size);
  const ss_hdr hdr = {now_ns_, type, static_cast<uint16_t>(size), index};
  std::memcpy(bytes.data(), &hdr, sizeof(hdr));
  const auto raw_size = static_cast<uint32_t>(size + 4);
  const perf_event_header header = {PERF_RECORD_SAMPLE, 0,
                                    static_cast<uint16_t>(sizeof(header) + sizeof(raw_size) + raw_size)};
  const uint32_t padding = 0;
  Append(&cpu.ring, &header, sizeof(header));
  Append(&cpu.ring, &raw_size, sizeof(raw_size));
  Append(&cpu.ring, bytes.data(), size);
  Append(&cpu.ring, &padding, sizeof(padding));
}

void Machine::TellMeasure(uint32_t index, bool is_tick, ss_left how) {
  Cpu& cpu = cpus_[index];
  ss_measure measure = {};
  measure.start_ns = cpu.since_ns;
  measure.seq = cpu.seq++;
  measure.switches = is_tick ? 0 : 1;
  const uint64_t ran_ns = now_ns_ - cpu.since_ns;
  if (cpu.running == kIdle) {
    measure.flags = SS_MEASURE_IDLE;
  } else {
    Process& process = processes_[threads_[cpu.running].process];
    measure.tgid = measure.next_tgid = process.tgid;
    measure.start_time_ns = process.begin_ns;
    if (has_counters_) {
      measure.rmid = static_cast<uint32_t>(process.tgid - kFirstTgid + 1);
      measure.generation = 1;
    }
    if (const uint64_t wait_ns = std::exchange(cpu.wait_ns, 0)) {
      measure.wait_ns = wait_ns;
      measure.flags |= SS_MEASURE_ONE_WAIT;
    }
    measure.preemptions = !is_tick && how == SS_LEFT_RUNNABLE;
    if (!is_tick) measure.flags |= static_cast<uint32_t>(how) << SS_MEASURE_LEFT_SHIFT;
    const double slower = IsIn(process.slower_time, now_ns_) ? process.slower : 1;
    if (has_counters_ && ran_ns) {
      const auto cycles = static_cast<double>(ran_ns) * kCyclesPerNs;
      measure.counters[SS_CYCLES] = {static_cast<uint64_t>(cycles), ran_ns, ran_ns};
      measure.counters[SS_INSTRUCTIONS] = {
          static_cast<uint64_t>(cycles / (kCyclesPerInstruction * slower)), ran_ns, ran_ns};
      process.bytes += static_cast<double>(ran_ns) * process.bytes_per_ns;
    }
  }
  if (is_tick) measure.flags |= SS_MEASURE_TICK;
  cpu.since_ns = now_ns_;
  Tell(index, SS_MEASURE, &measure, sizeof(measure));
}

void Machine::TellBirth(uint32_t cpu, Process* process) {
  process->is_told = true;
  if (has_counters_) {
    ss_rmid_event event = {};
    event.start_time_ns = process->begin_ns;
    event.seq = static_cast<uint64_t>(process->tgid);
    event.tgid = process->tgid;
    event.rmid = static_cast<uint32_t>(process->tgid - kFirstTgid + 1);
    event.generation = 1;
    Tell(cpu, SS_RMID_ALLOC, &event, sizeof(event));
  }
  ss_task_meta meta = {};
  meta.start_time_ns = process->begin_ns;
  meta.tgid = process->tgid;
  meta.ppid = 1;
  if (has_counters_) {
    meta.rmid = static_cast<uint32_t>(process->tgid - kFirstTgid + 1);
    meta.generation = 1;
  }
  std::memcpy(meta.comm, process->name.data(), process->name.size());
  meta.flags = SS_TASK_BIRTH;
  Tell(cpu, SS_TASK_META, &meta, sizeof(meta));
  meta.flags = SS_TASK_EXEC;
  Tell(cpu, SS_TASK_META, &meta, sizeof(meta));
}

void Machine::TellEnd(uint32_t cpu, const Process& process) {
  if (has_counters_) {
    ss_rmid_event event = {};
    event.start_time_ns = process.begin_ns;
    event.seq = static_cast<uint64_t>(process.tgid) + 1'000'000;
    event.tgid = process.tgid;
    event.rmid = static_cast<uint32_t>(process.tgid - kFirstTgid + 1);
    event.generation = 1;
    Tell(cpu, SS_RMID_FREE, &event, sizeof(event));
    return;
  }
  ss_task_meta meta = {};
  meta.start_time_ns = process.begin_ns;
  meta.tgid = process.tgid;
  meta.flags = SS_TASK_EXIT;
  Tell(cpu, SS_TASK_META, &meta, sizeof(meta));
}

void Machine::TellTick(uint32_t cpu) {
  TellMeasure(cpu, true, SS_LEFT_NOT);
  if (cpu == 0 && has_counters_) TellTraffic(cpu);
  ss_tick tick = {};
  tick.due_ns = now_ns_ - now_ns_ % kTickNs;
  Tell(cpu, SS_TICK, &tick, sizeof(tick));
}

void Machine::TellTraffic(uint32_t cpu) {
  for (Process& process : processes_) {
    if (!process.is_told) continue;
    ss_rdt_sample sample = {};
    sample.since_ns = std::max(traffic_since_ns_, process.begin_ns);
    sample.value = static_cast<uint64_t>(std::exchange(process.bytes, 0));
    sample.rmid = static_cast<uint32_t>(process.tgid - kFirstTgid + 1);
    sample.generation = 1;
    sample.event = SS_RDT_MBM_TOTAL;
    Tell(cpu, SS_RDT_SAMPLE, &sample, sizeof(sample));
  }
  traffic_since_ns_ = now_ns_;
}

void Machine::TellTurn(const Thread& thread, uint32_t turn, ss_left left) {
  if (!thread.launches || !thread.is_begun) return;
  const Process& process = processes_[thread.process];
  ss_cuda_turn message = {};
  message.start_time_ns = process.begin_ns;
  message.tgid = message.tid = process.tgid;
  message.turn = turn;
  message.left = static_cast<uint32_t>(left);
  message.op = thread.in_call_since_ns ? SS_CUDA_STREAM_DONE : 0;
  Tell(thread.cpu, SS_CUDA_TURN, &message, sizeof(message));
}

void Machine::TellCall(const Thread& thread, ss_cuda_op op, uint64_t since_ns) {
  const Process& process = processes_[thread.process];
  ss_cuda_call call = {};
  call.start_ns = since_ns;
  call.start_time_ns = process.begin_ns;
  call.tgid = call.tid = process.tgid;
  call.op = op;
  Tell(thread.cpu, SS_CUDA_CALL, &call, sizeof(call));
}

// ---- the scheduler

// What it does next; what takes no time is done.
Machine::Step Machine::Ask(Thread* thread) {
  for (;;) {
    if (const uint64_t since_ns = std::exchange(thread->in_call_since_ns, 0))
      TellCall(*thread, SS_CUDA_STREAM_DONE, since_ns);
    const Step step = thread->behavior(now_ns_ - kBeginNs);
    if (step.what == Step::kGpu) thread->in_call_since_ns = now_ns_;
    if (step.what != Step::kLaunch) return step;
    if (!std::exchange(thread->is_begun, true)) {
      TellCall(*thread, SS_CUDA_INIT, now_ns_);
      TellTurn(*thread, SS_TURN_RUNS);
    }
    TellCall(*thread, SS_CUDA_LAUNCH, now_ns_ - kLaunchNs);
  }
}

// Of those who run and wait there.
double Machine::LeastVirtual(const Cpu& cpu) const {
  double least = threads_[cpu.running].virtual_ns;
  for (size_t other : cpu.queue) least = std::min(least, threads_[other].virtual_ns);
  return least;
}

void Machine::Queue(size_t index) {
  Thread& thread = threads_[index];
  Cpu& cpu = cpus_[thread.cpu];
  thread.queued_ns = now_ns_;
  thread.throttled_from_ns = 0;
  cpu.queue.push_back(index);
  // Whoever slept, or is new, has no more than a slice to its credit.
  thread.virtual_ns = std::max(thread.virtual_ns, cpu.virtual_ns - static_cast<double>(kSliceNs));
}

void Machine::WakeThreads() {
  for (size_t i = 0; i < threads_.size(); i++) {
    Thread& thread = threads_[i];
    Process& process = processes_[thread.process];
    // A signal wakes whoever sleeps, so that it stops.
    const bool is_told_to_stop =
        process.is_told && thread.wakes_ns != kNever && !thread.is_stopped && IsStopped(process);
    if (is_told_to_stop) thread.left_ns = std::max(thread.left_ns, kStepNs);
    if (thread.wakes_ns > now_ns_ && !is_told_to_stop) continue;
    if (!process.is_told) TellBirth(thread.cpu, &process);
    if (thread.is_stopped && IsStopped(process)) continue;
    thread.is_stopped = false;
    thread.wakes_ns = kNever;
    if (thread.left_ns == 0) {
      const Step step = Ask(&thread);
      if (step.what != Step::kRun) {
        thread.wakes_ns = step.what == Step::kExit ? kNever : now_ns_ + step.ns;
        continue;
      }
      thread.left_ns = step.ns;
    }
    Queue(i);
    TellTurn(thread, SS_TURN_WOKEN);
  }
}

void Machine::Leave(uint32_t index, ss_left how) {
  TellMeasure(index, false, how);
  const size_t left = std::exchange(cpus_[index].running, kIdle);
  TellTurn(threads_[left], SS_TURN_LEFT, how);
  if (how == SS_LEFT_RUNNABLE) Queue(left);
}

// Of who waits: the one that had least. Those who are throttled stay.
void Machine::SwitchIn(uint32_t index) {
  Cpu& cpu = cpus_[index];
  auto best = cpu.queue.end();
  for (auto it = cpu.queue.begin(); it != cpu.queue.end(); ++it) {
    Thread& thread = threads_[*it];
    const Process& process = processes_[thread.process];
    if (IsThrottled(process)) {
      if (thread.throttled_from_ns == 0) thread.throttled_from_ns = now_ns_;
      thread.throttled_until_ns = process.throttled_until_ns;
      continue;
    }
    if (best == cpu.queue.end() || thread.virtual_ns < threads_[*best].virtual_ns) best = it;
  }
  if (best == cpu.queue.end()) return;
  if (cpu.running == kIdle && cpu.since_ns < now_ns_) TellMeasure(index, false, SS_LEFT_NOT);
  cpu.running = *best;
  cpu.queue.erase(best);
  cpu.ran_since_ns = now_ns_;
  Thread& thread = threads_[cpu.running];
  TellTurn(thread, SS_TURN_RUNS);
  const uint64_t wait_ns = now_ns_ - thread.queued_ns;
  if (thread.throttled_from_ns == 0) {
    cpu.wait_ns = wait_ns;
    return;
  }
  const Process& process = processes_[thread.process];
  ss_wait wait = {};
  wait.start_ns = thread.throttled_from_ns;
  wait.end_ns = now_ns_;
  wait.wait_ns = wait_ns;
  wait.start_time_ns = process.begin_ns;
  wait.tgid = process.tgid;
  wait.queue_cpu = index;
  wait.flags = SS_WAIT_QUOTA;
  if (has_counters_) wait.rmid = static_cast<uint32_t>(process.tgid - kFirstTgid + 1);
  wait.throttled_until_ns = std::min(thread.throttled_until_ns, now_ns_);
  Tell(index, SS_WAIT, &wait, sizeof(wait));
}

// The running thread has run for as long as it was told.
void Machine::FinishStep(uint32_t index) {
  Thread& thread = threads_[cpus_[index].running];
  const Step step = Ask(&thread);
  switch (step.what) {
    case Step::kRun:
      thread.left_ns = step.ns;
      return;
    case Step::kExit: {
      thread.wakes_ns = kNever;
      Process& process = processes_[thread.process];
      Leave(index, SS_LEFT_ENDED);
      if (--process.nr_threads == 0) TellEnd(index, process);
      return;
    }
    case Step::kSleep:
    case Step::kDisk:
    case Step::kGpu:
      thread.wakes_ns = now_ns_ + step.ns;
      Leave(index, step.what == Step::kDisk ? SS_LEFT_DISK : SS_LEFT_ASLEEP);
      return;
    case Step::kLaunch:  // Ask() has done that
      return;
  }
}

void Machine::Run(uint32_t index) {
  Cpu& cpu = cpus_[index];
  if (cpu.running != kIdle) {
    Thread& thread = threads_[cpu.running];
    Process& process = processes_[thread.process];
    thread.left_ns -= std::min(thread.left_ns, kStepNs);
    thread.virtual_ns += static_cast<double>(kStepNs) / thread.weight;
    cpu.virtual_ns = std::max(cpu.virtual_ns, LeastVirtual(cpu));
    if (process.quota_ns && IsIn(process.quota_time, now_ns_)) {
      process.used_ns += kStepNs;
      if (process.used_ns >= process.quota_ns)
        process.throttled_until_ns = now_ns_ - now_ns_ % kPeriodNs + kPeriodNs;
    }
    if (IsStopped(process)) {
      thread.is_stopped = true;
      thread.wakes_ns = now_ns_ + kStepNs;
      Leave(index, SS_LEFT_STOPPED);
    } else if (IsThrottled(process)) {
      const size_t left = cpu.running;
      Leave(index, SS_LEFT_RUNNABLE);
      threads_[left].throttled_from_ns = now_ns_;
      threads_[left].throttled_until_ns = process.throttled_until_ns;
    } else if (thread.left_ns == 0) {
      FinishStep(index);
    }
  }
  if (cpu.running != kIdle) {
    const Thread& thread = threads_[cpu.running];
    const bool slice_over = now_ns_ - cpu.ran_since_ns >= kSliceNs;
    const bool is_due = std::any_of(cpu.queue.begin(), cpu.queue.end(), [&](size_t other) {
      const double more = thread.virtual_ns - threads_[other].virtual_ns;
      return !IsThrottled(processes_[threads_[other].process]) &&
             (slice_over ? more >= 0 : more > static_cast<double>(kSliceNs) / 2);
    });
    if (is_due) Leave(index, SS_LEFT_RUNNABLE);
  }
  if (cpu.running == kIdle) SwitchIn(index);
}

// ---- items

void Machine::Put(uint16_t kind, uint32_t stream, uint64_t begin_ns, uint64_t end_ns,
                  const std::vector<std::byte>& payload) {
  const ItemHeader header = {static_cast<ItemKind>(kind),
                             0,
                             stream,
                             static_cast<uint32_t>(payload.size()),
                             0,
                             begin_ns,
                             end_ns};
  Append(&items_, &header, sizeof(header));
  items_.insert(items_.end(), payload.begin(), payload.end());
}

void Machine::Begin() {
  const auto kind = [](ItemKind one) { return static_cast<uint16_t>(one); };
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++) {
    cpus_[cpu].since_ns = now_ns_;
    Put(kind(ItemKind::kOnline), cpu, now_ns_, 0, {});
    Put(kind(ItemKind::kExpected), cpu, now_ns_, 0, {});
    ss_cpu_state state = {};
    state.online = 1;
    Tell(cpu, SS_CPU_STATE, &state, sizeof(state));
  }
  const auto stream = static_cast<uint32_t>(cpus_.size());
  Put(kind(ItemKind::kDumpBegin), stream, now_ns_, 0, {});
  Put(kind(ItemKind::kDumpEnd), stream, now_ns_ + 1, 0, {});
}

void Machine::EndRound() {
  for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++) {
    Put(static_cast<uint16_t>(ItemKind::kRecords), cpu, now_ns_ + 1, now_ns_ + 2, cpus_[cpu].ring);
    cpus_[cpu].ring.clear();
  }
  Put(static_cast<uint16_t>(ItemKind::kRoundEnd), 0, 0, 0, {});
}

Status Machine::Write(const std::string& path, uint64_t length_ns) {
  RawFileWriter file;
  if (Status status = OpenRaw(&file, path); !status.ok()) return status;
  if (Status status = file.WriteFacts(facts_); !status.ok()) return status;
  Begin();
  for (; now_ns_ < kBeginNs + length_ns; now_ns_ += kStepNs) {
    if (now_ns_ % kPeriodNs == 0)
      for (Process& process : processes_) process.used_ns = 0;
    WakeThreads();
    for (uint32_t cpu = 0; cpu < cpus_.size(); cpu++) {
      Run(cpu);
      if (now_ns_ % kTickNs == kStepNs) TellTick(cpu);
    }
    if (now_ns_ % kRoundNs == 0) {
      EndRound();
      Status status = file.WriteItems(items_);
      items_.clear();
      if (!status.ok()) return status;
    }
  }
  EndRound();
  if (Status status = file.WriteItems(items_); !status.ok()) return status;
  items_.clear();
  return file.Finish();
}

}  // namespace slotscope
