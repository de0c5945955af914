// SPDX-License-Identifier: MIT
#include "slots/slot_builder.h"

#include <algorithm>

namespace slotscope {
namespace {

// A timestamp further than this from the open slots is taken for a broken one: its pieces are late. The
// merge never hands out more than a window at a time, so honest ones stay far below.
constexpr uint64_t kMaxOpenSlots = 60'000;

// The share of `value` that falls to [0, part) of `whole`, rounded down. REQUIRES: part <= whole.
uint64_t Share(uint64_t value, uint64_t part, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * part / whole);
}

// What a measure adds up to; bits of `unmeasured` say what it does not know.
Sums SumsOf(const ss_measure& measure, uint32_t* unmeasured) {
  Sums sums = {};
  *unmeasured = 0;
  sums[kCpuNs] = measure.hdr.ts_ns - measure.start_ns;
  sums[kWaitNs] = measure.wait_ns;
  sums[kSwitches] = measure.switches;
  sums[kPreemptions] = measure.preemptions;
  if (measure.flags & SS_MEASURE_NO_WAIT) *unmeasured |= 1u << kWaitNs;
  bool have_times = false;
  for (size_t i = 0; i < SS_NR_COUNTERS; i++) {
    const ss_counter& counter = measure.counters[i];
    if (counter.running_ns == 0) {
      *unmeasured |= 1u << (kCycles + i);
      continue;
    }
    sums[kCycles + i] = counter.delta;
    if (!have_times) {
      sums[kEnabledNs] = counter.enabled_ns;
      sums[kRunningNs] = counter.running_ns;
      have_times = true;
    }
  }
  if (!have_times) *unmeasured |= 1u << kEnabledNs;
  return sums;
}

bool IsCount(size_t additive) { return additive == kSwitches || additive == kPreemptions; }

RowKind KindOf(const ss_measure& measure) {
  if (measure.flags & SS_MEASURE_IDLE) return RowKind::kIdle;
  if (measure.flags & SS_MEASURE_KTHREAD) return RowKind::kKernel;
  return measure.rmid ? RowKind::kUser : RowKind::kUnassigned;
}

}  // namespace

SlotBuilder::SlotBuilder(const SlotBuilderOptions& options, SlotSink* sink)
    : options_(options), sink_(sink), tracker_(2 * (options.window_ns + options.slot_ns)) {
  for (int cpu : options_.present_cpus) {
    auto index = static_cast<size_t>(cpu);
    if (index >= cpus_.size()) cpus_.resize(index + 1);
    cpus_[index].present = true;
  }
  dumped_ = !options_.needs_dump;
}

void SlotBuilder::OnExpected(int cpu) {
  auto index = static_cast<size_t>(cpu);
  if (index < cpus_.size() && cpus_[index].present) cpus_[index].expected = true;
}

void SlotBuilder::OnDumpEnd(uint64_t begin_ns) {
  tracker_.DumpEnd(begin_ns, last_event_ns_);
  if (dumped_) return;
  dumped_ = true;
  dumped_ns_ = last_event_ns_;
}

void SlotBuilder::OnMessage(const ss_any_message& message, bool late) {
  uint64_t ts_ns = message.hdr.ts_ns;
  if (!late) last_event_ns_ = ts_ns;
  switch (message.hdr.type) {
    case SS_MEASURE:
      OnMeasure(message.measure);
      break;
    case SS_CPU_STATE:
      OnCpuState(message.cpu_state);
      break;
    case SS_TICK:
      nr_missed_ticks_ += message.tick.missed;
      break;
    case SS_RDT_SAMPLE:
      break;  // no backend reads RDT counters yet
    default:
      if (late) tracker_.CountLate();
      // Late state takes effect now: what retired stays as it was.
      OnState(message, late ? std::max(ts_ns, next_start_ns_) : ts_ns);
  }
}

void SlotBuilder::OnState(const ss_any_message& message, uint64_t ts_ns) {
  const ss_rmid_event& event = message.rmid_event;
  ProcessKey owner = {event.tgid, event.start_time_ns};
  switch (message.hdr.type) {
    case SS_TASK_META:
      tracker_.Meta(message.task_meta, ts_ns);
      break;
    case SS_RMID_ALLOC:
      tracker_.Alloc(event.rmid, event.generation, owner, ts_ns);
      break;
    case SS_RMID_FREE:
      tracker_.Free(event.rmid, event.generation, ts_ns);
      break;
    case SS_RMID_EXISTING:
      tracker_.Existing(event.rmid, event.generation, owner, ts_ns);
      break;
    default:
      break;
  }
}

void SlotBuilder::Begin(Cpu* cpu, uint64_t ts_ns, bool online) {
  cpu->begun = true;
  cpu->online = online;
  cpu->begun_ns = ts_ns;
  cpu->cursor_ns = ts_ns;
}

void SlotBuilder::OnCpuState(const ss_cpu_state& state) {
  if (state.hdr.cpu >= cpus_.size() || !cpus_[state.hdr.cpu].present) return;
  Cpu& cpu = cpus_[state.hdr.cpu];
  cpu.next_seq.reset();  // after hotplug the count may begin anew
  if (!cpu.begun) {
    Begin(&cpu, state.hdr.ts_ns, state.online);
    return;
  }
  AccountGap(&cpu, state.hdr.ts_ns);
  cpu.online = state.online;
}

void SlotBuilder::OnMeasure(const ss_measure& measure) {
  if (measure.hdr.cpu >= cpus_.size() || !cpus_[measure.hdr.cpu].present) return;
  Cpu& cpu = cpus_[measure.hdr.cpu];
  if (cpu.next_seq && *cpu.next_seq != measure.seq) nr_seq_gaps_++;
  cpu.next_seq = measure.seq + 1;
  if (measure.flags & SS_MEASURE_UNKNOWN) {
    nr_unknown_++;
    if (cpu.begun)
      AccountGap(&cpu, measure.hdr.ts_ns);  // lost time
    else
      Begin(&cpu, measure.hdr.ts_ns, true);
    return;
  }
  uint32_t unmeasured;
  Sums sums = SumsOf(measure, &unmeasured);
  Add(&accounting_.received, sums);
  if (!cpu.begun) {
    // Its counters had no first value and most of its time was before us: it is the baseline.
    Begin(&cpu, measure.hdr.ts_ns, true);
    Add(&accounting_.before, sums);
    return;
  }
  if (!IsBefore(cpu.begun_ns, measure.hdr.ts_ns)) {  // from before this CPU began: nobody waits for it
    if (!first_fixed_ || measure.hdr.ts_ns <= first_ns_)
      Add(&accounting_.before, sums);
    else
      CountLate(sums);
    return;
  }
  if (IsBefore(cpu.cursor_ns, measure.start_ns)) AccountGap(&cpu, measure.start_ns);
  cpu.online = true;
  if (measure.start_ns == measure.hdr.ts_ns)
    AddCounts(measure);
  else if (AddPieces(measure, cpu.cursor_ns) && IsBefore(cpu.cursor_ns, measure.hdr.ts_ns))
    cpu.cursor_ns = measure.hdr.ts_ns;
}

// From the cursor to until_ns nothing was measured on this CPU.
void SlotBuilder::AccountGap(Cpu* cpu, uint64_t until_ns) {
  uint64_t at_ns = cpu->cursor_ns;
  if (first_fixed_ && IsBefore(at_ns, next_start_ns_)) at_ns = next_start_ns_;
  while (IsBefore(at_ns, until_ns)) {
    uint64_t end_ns = std::min(SlotStart(at_ns) + options_.slot_ns, until_ns);
    OpenSlot* slot = SlotAt(at_ns);
    if (!slot) break;  // a broken timestamp: retiring slots will account for the gap
    (cpu->online ? slot->lost_ns : slot->offline_ns) += end_ns - at_ns;
    at_ns = end_ns;
  }
  if (IsBefore(cpu->cursor_ns, at_ns)) cpu->cursor_ns = at_ns;
}

// Cuts a measure of some length. In front of the first slot it is before, behind the cursor or in a
// slot that has retired it is late, each in one piece however long. False if it ends too far away to be
// true; its pieces are late then.
bool SlotBuilder::AddPieces(const ss_measure& measure, uint64_t cursor_ns) {
  uint32_t unmeasured;
  const Sums whole = SumsOf(measure, &unmeasured);
  const uint64_t start_ns = measure.start_ns;
  const uint64_t end_ns = measure.hdr.ts_ns;
  const uint64_t duration_ns = end_ns - start_ns;
  const uint32_t process = tracker_.Resolve({measure.tgid, measure.start_time_ns}, end_ns);

  // The next piece is what the rounded-down share grows by, so the last one gets the remainders. What
  // happened at one moment is not split: a wait ended when the process was switched in, at the start;
  // switches ended the interval, or, under a tick, were among its threads some time before.
  Sums done = {};
  auto take_until = [&](uint64_t at_ns) {
    Sums piece;
    for (size_t i = 0; i < kNrAdditive; i++) {
      bool at_start = i == kWaitNs || (IsCount(i) && (measure.flags & SS_MEASURE_TICK));
      uint64_t upto = Share(whole[i], at_ns - start_ns, duration_ns);
      if (at_start || at_ns == end_ns)
        upto = whole[i];
      else if (IsCount(i))
        upto = 0;
      piece[i] = upto - done[i];
      done[i] = upto;
    }
    return piece;
  };

  uint64_t at_ns = start_ns;
  if (first_fixed_ && at_ns < first_ns_) {
    at_ns = std::min(first_ns_, end_ns);
    Add(&accounting_.before, take_until(at_ns));
  }
  uint64_t open_ns = first_fixed_ ? std::max(cursor_ns, next_start_ns_) : cursor_ns;
  if (at_ns < end_ns && at_ns < open_ns) {
    at_ns = std::min(open_ns, end_ns);
    CountLate(take_until(at_ns));
  }
  while (at_ns < end_ns) {
    OpenSlot* slot = SlotAt(at_ns);
    if (!slot) {
      CountLate(take_until(end_ns));
      return false;
    }
    at_ns = std::min(slot->start_ns + options_.slot_ns, end_ns);
    AddToRow(slot, process, measure, take_until(at_ns), unmeasured);
  }
  return true;
}

// A measure of no length: its counts belong to the slot that contains the nanosecond before it.
void SlotBuilder::AddCounts(const ss_measure& measure) {
  uint32_t unmeasured;
  Sums sums = SumsOf(measure, &unmeasured);
  uint64_t ts_ns = measure.hdr.ts_ns - 1;
  if (first_fixed_ && ts_ns < first_ns_) {
    Add(&accounting_.before, sums);
  } else if (OpenSlot* slot = SlotAt(ts_ns)) {
    uint32_t process = tracker_.Resolve({measure.tgid, measure.start_time_ns}, measure.hdr.ts_ns);
    AddToRow(slot, process, measure, sums, unmeasured);
  } else {
    CountLate(sums);
  }
}

void SlotBuilder::CountLate(const Sums& sums) {
  Add(&accounting_.late, sums);
  nr_late_pieces_++;
}

void SlotBuilder::AddToRow(OpenSlot* slot, uint32_t process, const ss_measure& measure, const Sums& sums,
                           uint32_t unmeasured) {
  if (process >= slot->row_of.size()) slot->row_of.resize(process + 1 + process / 2);
  uint32_t& index = slot->row_of[process];
  if (index == 0) {
    Row row;
    row.kind = KindOf(measure);
    row.process = process;
    row.key = {measure.tgid, measure.start_time_ns};
    row.tracked = !(measure.flags & SS_MEASURE_UNTRACKED);
    slot->rows.push_back(row);
    index = static_cast<uint32_t>(slot->rows.size());
  }
  Row& row = slot->rows[index - 1];
  if (measure.rmid) {  // a process that got its RMID within the slot is a user row
    row.rmid = measure.rmid;
    row.kind = KindOf(measure);
  }
  row.unmeasured |= unmeasured;
  Add(&row.sums, sums);
}

SlotBuilder::OpenSlot SlotBuilder::NewSlot(uint64_t start_ns) {
  OpenSlot slot;
  if (!spare_.empty()) {
    slot = std::move(spare_.back());
    spare_.pop_back();
  }
  slot.start_ns = start_ns;
  return slot;
}

// The open slot that contains ts_ns; it is made if it is still to come. Null if it has retired, or is
// too far away to be true.
SlotBuilder::OpenSlot* SlotBuilder::SlotAt(uint64_t ts_ns) {
  uint64_t start_ns = SlotStart(ts_ns);
  if (first_fixed_ && start_ns < next_start_ns_) return nullptr;
  if (open_.empty()) open_.push_back(NewSlot(first_fixed_ ? next_start_ns_ : start_ns));
  uint64_t front_ns = open_.front().start_ns;
  uint64_t distance_ns = start_ns < front_ns ? front_ns - start_ns : start_ns - front_ns;
  if (distance_ns / options_.slot_ns > kMaxOpenSlots) return nullptr;
  // Before the first slot is known, CPUs begin in any order.
  while (start_ns < open_.front().start_ns)
    open_.push_front(NewSlot(open_.front().start_ns - options_.slot_ns));
  while (open_.back().start_ns < start_ns)
    open_.push_back(NewSlot(open_.back().start_ns + options_.slot_ns));
  return &open_[(start_ns - open_.front().start_ns) / options_.slot_ns];
}

// Every CPU that is expected has begun and everybody has been named. A CPU that says nothing for a whole
// window is not waited for.
bool SlotBuilder::IsReadyForFirst(uint64_t watermark_ns) const {
  if (!dumped_) return false;
  bool any = false, all = true;
  uint64_t begun_ns = watermark_ns;
  for (const Cpu& cpu : cpus_) {
    if (cpu.begun) begun_ns = std::min(begun_ns, cpu.begun_ns);
    any |= cpu.begun;
    all &= cpu.begun || !cpu.expected;
  }
  return any && (all || watermark_ns - begun_ns > options_.window_ns);
}

void SlotBuilder::FixFirst() {
  uint64_t from_ns = dumped_ns_;
  for (const Cpu& cpu : cpus_)
    if (cpu.begun) from_ns = std::max(from_ns, cpu.begun_ns);
  first_ns_ = SlotStart(from_ns + options_.slot_ns - 1);
  while (!open_.empty() && open_.front().start_ns < first_ns_) DiscardFront(&accounting_.before);
  first_fixed_ = true;
  next_start_ns_ = first_ns_;
  // Who has not begun is offline, or not watched, until it speaks.
  for (Cpu& cpu : cpus_) {
    if (!cpu.present || cpu.begun) continue;
    if (cpu.expected) nr_unwatched_++;
    Begin(&cpu, first_ns_, false);
  }
}

void SlotBuilder::OnWatermark(uint64_t ts_ns) {
  if (!first_fixed_ && IsReadyForFirst(ts_ns)) FixFirst();
  if (!first_fixed_) return;
  while (next_start_ns_ + options_.slot_ns + options_.window_ns <= ts_ns) Retire();
}

// REQUIRES: first_fixed_.
void SlotBuilder::Retire() {
  const uint64_t end_ns = next_start_ns_ + options_.slot_ns;
  for (Cpu& cpu : cpus_)
    if (cpu.present && IsBefore(cpu.cursor_ns, end_ns)) AccountGap(&cpu, end_ns);
  OpenSlot* slot = SlotAt(next_start_ns_);
  tracker_.Advance(end_ns);

  finished_.start_ns = next_start_ns_;
  finished_.rows.clear();
  uint64_t total_ns = slot->lost_ns + slot->offline_ns;
  for (Row& row : slot->rows) {
    FillRow(&row);
    Add(&accounting_.written, row.sums);
    total_ns += row.sums[kCpuNs];
    finished_.rows.push_back(row);
  }
  auto add_time = [&](RowKind kind, uint64_t time_ns) {
    if (time_ns == 0) return;
    Row row;
    row.kind = kind;
    row.unmeasured = ~(1u << kCpuNs);
    row.sums[kCpuNs] = time_ns;
    finished_.rows.push_back(row);
  };
  add_time(RowKind::kLost, slot->lost_ns);
  add_time(RowKind::kOffline, slot->offline_ns);
  accounting_.lost_ns += slot->lost_ns;
  accounting_.offline_ns += slot->offline_ns;
  accounting_.nr_slots++;
  if (total_ns != options_.slot_ns * options_.present_cpus.size()) accounting_.nr_broken_slots++;

  for (const Row& row : slot->rows) slot->row_of[row.process] = 0;
  slot->rows.clear();
  slot->lost_ns = slot->offline_ns = 0;
  spare_.push_back(std::move(open_.front()));
  open_.pop_front();
  next_start_ns_ = end_ns;
  sink_->OnSlot(finished_);
}

void SlotBuilder::FillRow(Row* row) const {
  const Process& process = tracker_.process(row->process);
  row->named = process.named;
  row->comm = process.comm;
  row->followed = process.followed;
  if (row->kind == RowKind::kIdle) {
    row->named = true;
    row->comm = {'i', 'd', 'l', 'e'};
  }
}

void SlotBuilder::DiscardFront(Sums* into) {
  for (const Row& row : open_.front().rows) Add(into, row.sums);
  open_.pop_front();
}

// The last border that every CPU has passed. A CPU that went away, or fell behind by more than the
// window, does not hold it back: its time up to there is offline or lost.
uint64_t SlotBuilder::LastBorder() const {
  uint64_t newest_ns = 0;
  for (const Cpu& cpu : cpus_)
    if (cpu.present && cpu.online) newest_ns = std::max(newest_ns, cpu.cursor_ns);
  uint64_t last_ns = newest_ns;
  for (const Cpu& cpu : cpus_)
    if (cpu.present && cpu.online && newest_ns - cpu.cursor_ns <= options_.window_ns)
      last_ns = std::min(last_ns, cpu.cursor_ns);
  return SlotStart(last_ns);
}

void SlotBuilder::Finish() {
  if (!first_fixed_ && IsReadyForFirst(UINT64_MAX)) FixFirst();
  uint64_t last_ns = first_fixed_ ? LastBorder() : 0;
  while (first_fixed_ && next_start_ns_ + options_.slot_ns <= last_ns) Retire();
  while (!open_.empty()) DiscardFront(&accounting_.after);
}

}  // namespace slotscope
