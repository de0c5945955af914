// SPDX-License-Identifier: MIT
#include "slots/slot_builder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/trim.h"

namespace slotscope {
namespace {

// What has come before such an item is not behind that; if it is, it stays as it is.
constexpr uint64_t kChangeLeadNs = 10'000'000;

// Of a measure's flags, what is true of all pieces of a row together.
constexpr uint32_t kOfRows = ~(SS_MEASURE_LEFT | OpenRow::kRunsOn | OpenRow::kMeasured) & 0xffff;

size_t MaxCpu(const std::vector<int>& cpus) {
  return cpus.empty() ? 0 : static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end()));
}

RowKind KindOf(const OpenRow& row) {
  if (row.flags & SS_MEASURE_IDLE) return RowKind::kIdle;
  if (row.flags & SS_MEASURE_KTHREAD) return RowKind::kKernel;
  return row.rmid ? RowKind::kUser : RowKind::kUnassigned;
}

}  // namespace

SlotBuilder::SlotBuilder(const SlotBuilderOptions& options, SlotSink* sink)
    : options_(options),
      sink_(sink),
      tracker_(2 * (options.window_ns + SlotLengths::LongerOf(options.slot_ns))),
      open_(options.slot_ns),
      rdt_(options.rdt, options.slot_ns, options.window_ns, &open_, &tracker_, &accounting_.mbm),
      more_(options.nr_more, options.unmeasured_more, &accounting_.more),
      waits_(options.wait_causes, MaxCpu(options.present_cpus) + 1, &open_, &tracker_, &accounting_) {
  for (int cpu : options_.present_cpus) {
    auto index = static_cast<size_t>(cpu);
    if (index >= cpus_.size()) cpus_.resize(index + 1);
    cpus_[index].present = true;
  }
  nr_cpus_ = cpus_.size();
  dumped_ = !options_.needs_dump;
  unix_offset_ns_ = options_.unix_offset_ns;
}

void SlotBuilder::OnExpected(int cpu) {
  auto index = static_cast<size_t>(cpu);
  if (index < cpus_.size() && cpus_[index].present) cpus_[index].expected = true;
}

void SlotBuilder::OnDumpEnd(uint64_t begin_ns, uint64_t end_ns) {
  tracker_.DumpEnd(begin_ns, std::max(end_ns, next_start_ns_));
  if (dumped_) return;
  dumped_ = true;
  dumped_ns_ = end_ns;
}

void SlotBuilder::OnClock(uint64_t from_ns, int64_t unix_offset_ns) {
  clocks_.push_back({from_ns, unix_offset_ns});
}

void SlotBuilder::OnNote(uint64_t from_ns, std::string_view text) {
  notes_.push_back({from_ns, std::string(text)});
}

void SlotBuilder::OnSlotLength(uint64_t from_ns, uint64_t slot_ns) {
  open_.ChangeLength(std::max(from_ns + kChangeLeadNs, next_start_ns_), slot_ns);
}

void SlotBuilder::OnWaitCauses(uint64_t from_ns, bool told) {
  if (waits_.on()) waits_.OnCauses(from_ns + kChangeLeadNs, told);
}

void SlotBuilder::OnMessage(const ss_any_message& message, bool late) {
  const uint64_t ts_ns = EffectOf(message.hdr.ts_ns);
  const ss_rmid_event& event = message.rmid_event;
  const ProcessKey owner = {event.tgid, event.start_time_ns};
  switch (message.hdr.type) {
    case SS_TASK_META:
      tracker_.Meta(message.task_meta, ts_ns);
      if (message.task_meta.flags & SS_TASK_BIRTH)
        identities_.OnBirth({message.task_meta.tgid, message.task_meta.start_time_ns},
                            message.task_meta.ppid, ts_ns);
      if (options_.gpu) TellGpu(message.task_meta, ts_ns);
      break;
    case SS_RMID_ALLOC:
      tracker_.Alloc(event.rmid, event.generation, owner, ts_ns);
      break;
    case SS_RMID_FREE:
      tracker_.Free(event.rmid, event.generation, event.reason != SS_RMID_TAKEN_BACK, ts_ns);
      if (options_.gpu && event.reason != SS_RMID_TAKEN_BACK) options_.gpu->OnExit(owner, ts_ns);
      break;
    case SS_RMID_EXISTING:
      tracker_.Existing(event.rmid, event.generation, owner, ts_ns);
      break;
    case SS_RDT_SAMPLE:
      rdt_.OnSample(message.rdt_sample);
      return;
    case SS_CUDA_CALL:
      if (options_.gpu) options_.gpu->OnCall(message.cuda_call);
      return;
    case SS_CUDA_TURN:
      if (options_.gpu) options_.gpu->OnTurn(message.cuda_turn);
      return;
    case SS_WAIT:
      if (waits_.on()) waits_.OnWait(message.wait);
      return;
    default:
      return;
  }
  if (late) tracker_.CountLate();
}

void SlotBuilder::OnText(const ss_text& text, bool late) {
  const uint64_t ts_ns = EffectOf(text.hdr.ts_ns);
  if (text.hdr.type == SS_CGROUP_MOVE)
    tracker_.MoveToCgroup({text.tgid, text.start_time_ns}, text.cgroup_id, ts_ns);
  else
    identities_.OnText(text, ts_ns);
  if (late) tracker_.CountLate();
}

void SlotBuilder::OnPods(uint64_t from_ns, std::string_view lines) {
  identities_.OnPods(lines, EffectOf(from_ns));
}

void SlotBuilder::TellGpu(const ss_task_meta& meta, uint64_t ts_ns) {
  const ProcessKey process = {meta.tgid, meta.start_time_ns};
  if (meta.flags & SS_TASK_EXIT) options_.gpu->OnExit(process, ts_ns);
  if (meta.flags & SS_TASK_EXEC) options_.gpu->OnExec(process, ts_ns);
}

// Who made it is not known.
void SlotBuilder::OnMalformedCall(uint64_t from_ns, uint64_t to_ns) {
  if (options_.gpu) options_.gpu->OnLostCalls(from_ns, to_ns);
}

void SlotBuilder::OnTick(const ss_tick& tick) { stats_.nr_missed_ticks += tick.missed; }

void SlotBuilder::Begin(Cpu* cpu, uint64_t ts_ns, bool online) {
  cpu->begun = true;
  cpu->online = online;
  cpu->begun_ns = ts_ns;
  cpu->cursor_ns = ts_ns;
}

void SlotBuilder::OnCpuState(const ss_cpu_state& state) {
  Cpu* const found = FindCpu(state.hdr.cpu);
  if (!found) return;
  Cpu& cpu = *found;
  cpu.has_seq = false;  // after hotplug the count may begin anew
  cpu.slot_end_ns = 0;
  if (!cpu.begun) {
    Begin(&cpu, state.hdr.ts_ns, state.online);
    return;
  }
  AccountGap(&cpu, state.hdr.ts_ns);
  cpu.online = state.online;
}

// What ran for run_ns, or a count, and ended in `slot` at to_ns.
inline OpenRow* SlotBuilder::AddTo(OpenSlot* slot, uint32_t process, const ss_measure& measure,
                                   const Sums& sums, uint32_t unmeasured, uint32_t run_ns,
                                   uint64_t to_ns) {
  const auto flags = static_cast<uint16_t>((measure.flags & kOfRows) | OpenRow::kMeasured);
  uint32_t& index = open_.IndexOf(slot, process);
  OpenRow* row = nullptr;
  bool is_seen = false;
  if (index) {
    row = &slot->rows[index - 1];
    is_seen = row->flags & OpenRow::kMeasured;  // else it is there because its process waited
    row->rmid = std::max(row->rmid, measure.rmid);
    row->flags |= flags;
    row->unmeasured |= static_cast<uint16_t>(unmeasured);
    Add(&row->sums, sums);
    if (run_ns) slot->places.Add(&row->places, measure.hdr.cpu, run_ns);
  } else {  // made of what would be added: with few CPUs most are of one piece
    const RowPlaces places = {{run_ns ? measure.hdr.cpu : 0}, {run_ns}, 0};
    row = &slot->rows.emplace_back(sums, process, measure.rmid, static_cast<uint16_t>(unmeasured), flags,
                                   0, 0, 0, places);
    index = static_cast<uint32_t>(slot->rows.size());
  }
  if (!is_seen) {
    tracker_.Seen(process, measure.hdr.ts_ns, measure.rmid, measure.generation);
    tracker_.Hold(process, slot->end_ns);
  }
  if (options_.has_states) {
    const bool runs_on = to_ns < measure.hdr.ts_ns || (measure.flags & SS_MEASURE_TICK);
    row->TakeEnd(static_cast<uint32_t>(to_ns - slot->start_ns),
                 runs_on ? OpenRow::kRunsOn : measure.flags & SS_MEASURE_LEFT);
  }
  if (more_.on()) more_.AddToRow(slot, row, to_ns);
  return row;
}

// A piece of a measure: what ran in [from_ns, to_ns), which is in `slot`.
inline void SlotBuilder::AddPiece(OpenSlot* slot, uint32_t process, const ss_measure& measure,
                                  const Sums& sums, uint32_t unmeasured, uint64_t from_ns,
                                  uint64_t to_ns) {
  const auto run_ns = static_cast<uint32_t>(to_ns - from_ns);
  OpenRow* row = AddTo(slot, process, measure, sums, unmeasured, run_ns, to_ns);
  if (rdt_.on()) rdt_.OnTime(slot, row, measure, from_ns, to_ns);
}

inline void SlotBuilder::AddMeasure(Cpu* cpu, const ss_measure& measure, const MoreSums* more) {
  if (cpu->next_seq != measure.seq && cpu->has_seq) stats_.nr_seq_gaps++;
  cpu->has_seq = true;
  cpu->next_seq = measure.seq + 1;
  const uint64_t end_ns = measure.hdr.ts_ns;
  if (more_.on()) more_.Begin(measure, more);
  if (waits_.on()) waits_.OnMeasure(measure);
  if (measure.start_ns != cpu->cursor_ns || measure.start_ns >= std::min(end_ns, cpu->slot_end_ns) ||
      (measure.flags & SS_MEASURE_UNKNOWN)) {
    AddOtherMeasure(cpu, measure);
  } else if (end_ns <= cpu->slot_end_ns) {
    const Addends addends = AddendsFor(measure);
    Add(&accounting_.received, addends.sums);
    AddPiece(cpu->slot, ProcessOf(measure), measure, addends.sums, addends.unmeasured, measure.start_ns,
             end_ns);
    cpu->cursor_ns = end_ns;
  } else if (OpenSlot* next =
                 end_ns - cpu->slot_end_ns <= options_.slot_ns ? open_.Next(cpu->slot) : nullptr) {
    AddAcross(cpu, next, measure);  // no slot is shorter
  } else {
    AddOtherMeasure(cpu, measure);
  }
}

// Begins in the CPU's slot and ends in the next one, as most do that a tick emits.
[[gnu::noinline]] void SlotBuilder::AddAcross(Cpu* cpu, OpenSlot* next, const ss_measure& measure) {
  const Addends addends = AddendsFor(measure);
  Add(&accounting_.received, addends.sums);
  const uint32_t process = ProcessOf(measure);
  const uint64_t border_ns = next->start_ns;
  const Sums head = SumsUntil(measure, addends.sums, border_ns);
  AddPiece(cpu->slot, process, measure, head, addends.unmeasured, measure.start_ns, border_ns);
  AddPiece(next, process, measure, Difference(addends.sums, head), addends.unmeasured, border_ns,
           measure.hdr.ts_ns);
  cpu->slot = next;
  cpu->slot_end_ns = next->end_ns;
  cpu->cursor_ns = measure.hdr.ts_ns;
}

SlotBuilder::Cpu* SlotBuilder::FindCpu(uint32_t cpu) {
  return cpu < nr_cpus_ && cpus_[cpu].present ? &cpus_[cpu] : nullptr;
}

void SlotBuilder::OnAnyMeasure(const ss_measure& measure, const MoreSums* more) {
  if (Cpu* cpu = FindCpu(measure.hdr.cpu))
    AddMeasure(cpu, measure, more);
  else
    stats_.nr_foreign++;
}

void SlotBuilder::OnLongMeasure(const ss_long_measure& measure) {
  const MoreSums more = std::to_array(measure.more);
  OnAnyMeasure(measure.measure, &more);
}

void SlotBuilder::OnRun(Run* run) {
  Cpu* cpu = FindCpu(run->cpu());
  if (!cpu) return MergeSink::OnRun(run);
  run->TakeAll([&](const ss_measure& measure) { AddMeasure(cpu, measure, nullptr); },
               [&](const ss_tick& tick) { OnTick(tick); });
}

void SlotBuilder::OnUnknown(Cpu* cpu, uint64_t until_ns) {
  stats_.nr_missed_switches++;
  if (cpu->begun)
    AccountGap(cpu, until_ns);  // lost time
  else
    Begin(cpu, until_ns, true);
}

// One that ends in another slot than it starts, leaves a gap, is late, has no length, or missed a
// switch.
void SlotBuilder::AddOtherMeasure(Cpu* cpu, const ss_measure& measure) {
  if (measure.flags & SS_MEASURE_UNKNOWN) {
    OnUnknown(cpu, measure.hdr.ts_ns);
    return;
  }
  const Addends addends = AddendsFor(measure);
  Add(&accounting_.received, addends.sums);
  if (!cpu->begun) {
    // Its counters had no first value and most of its time was before us: it is the baseline.
    Begin(cpu, measure.hdr.ts_ns, true);
    CountBefore(addends.sums, measure.hdr.ts_ns);
    return;
  }
  if (!IsBefore(cpu->begun_ns, measure.hdr.ts_ns)) {  // from before this CPU began: nobody waits for it
    if (!first_fixed_ || measure.hdr.ts_ns <= first_ns_)
      CountBefore(addends.sums, measure.hdr.ts_ns);
    else
      CountLate(addends.sums, measure.hdr.ts_ns);
    return;
  }
  if (IsBefore(cpu->cursor_ns, measure.start_ns)) AccountGap(cpu, measure.start_ns);
  cpu->online = true;
  if (measure.start_ns == measure.hdr.ts_ns)
    AddCounts(measure, addends);
  else if (AddPieces(cpu, measure, addends) && IsBefore(cpu->cursor_ns, measure.hdr.ts_ns))
    cpu->cursor_ns = measure.hdr.ts_ns;
}

// From the cursor to until_ns nothing was measured on this CPU.
void SlotBuilder::AccountGap(Cpu* cpu, uint64_t until_ns) {
  uint64_t at_ns = cpu->cursor_ns;
  if (first_fixed_ && IsBefore(at_ns, next_start_ns_)) at_ns = next_start_ns_;
  while (IsBefore(at_ns, until_ns)) {
    OpenSlot* slot = SlotAt(at_ns);
    if (!slot) break;  // a broken timestamp: retiring slots will account for the gap
    uint64_t end_ns = std::min(slot->end_ns, until_ns);
    (cpu->online ? slot->lost_ns : slot->offline_ns) += end_ns - at_ns;
    if (cpu->online) {
      slot->lost_from_ns = std::min(slot->lost_from_ns, at_ns);
      slot->lost_to_ns = std::max(slot->lost_to_ns, end_ns);
    }
    at_ns = end_ns;
  }
  if (IsBefore(cpu->cursor_ns, at_ns)) cpu->cursor_ns = at_ns;
}

// Cuts a measure of some length. In front of the first slot it is before, behind the cursor or in a
// slot that has retired it is late, each in one piece however long. False if it ends too far away to be
// true; its pieces are late then.
bool SlotBuilder::AddPieces(Cpu* cpu, const ss_measure& measure, const Addends& addends) {
  uint64_t at_ns = measure.start_ns;
  const uint64_t end_ns = measure.hdr.ts_ns;
  Cut cut(measure, addends.sums);
  if (first_fixed_ && at_ns < first_ns_) {
    at_ns = std::min(first_ns_, end_ns);
    CountBefore(cut.TakeUntil(at_ns), at_ns);
  }
  uint64_t open_ns = first_fixed_ ? std::max(cpu->cursor_ns, next_start_ns_) : cpu->cursor_ns;
  if (at_ns < end_ns && at_ns < open_ns) {
    at_ns = std::min(open_ns, end_ns);
    CountLate(cut.TakeUntil(at_ns), at_ns);
  }
  if (at_ns == end_ns) return true;
  const uint32_t process = ProcessOf(measure);
  while (at_ns < end_ns) {
    OpenSlot* slot = SlotOf(*cpu, at_ns);
    if (!slot) {
      CountLate(cut.left(), end_ns);
      return false;
    }
    const uint64_t from_ns = at_ns;
    at_ns = std::min(slot->end_ns, end_ns);
    AddPiece(slot, process, measure, cut.TakeUntil(at_ns), addends.unmeasured, from_ns, at_ns);
    cpu->slot = slot;
    cpu->slot_end_ns = slot->end_ns;
  }
  return true;
}

// As SlotAt(). Most often it is the CPU's last one, or the one behind it.
inline OpenSlot* SlotBuilder::SlotOf(const Cpu& cpu, uint64_t ts_ns) {
  if (cpu.slot_end_ns <= next_start_ns_) return SlotAt(ts_ns);  // unknown, or retired
  if (ts_ns == cpu.slot_end_ns && cpu.slot->next) return cpu.slot->next;
  if (ts_ns < cpu.slot_end_ns && ts_ns >= cpu.slot->start_ns) return cpu.slot;
  return SlotAt(ts_ns);
}

// A measure of no length: its counts belong to the slot that contains the nanosecond before it.
void SlotBuilder::AddCounts(const ss_measure& measure, const Addends& addends) {
  uint64_t ts_ns = measure.hdr.ts_ns - 1;
  if (first_fixed_ && ts_ns < first_ns_)
    CountBefore(addends.sums, measure.hdr.ts_ns);
  else if (OpenSlot* slot = SlotAt(ts_ns))
    AddTo(slot, ProcessOf(measure), measure, addends.sums, addends.unmeasured, 0, measure.hdr.ts_ns);
  else
    CountLate(addends.sums, measure.hdr.ts_ns);
}

// What has not been counted of the measure, up to until_ns.
void SlotBuilder::CountLate(const Sums& sums, uint64_t until_ns) {
  Add(&accounting_.late, sums);
  if (more_.on()) more_.AddToLate(until_ns);
  stats_.nr_late_pieces++;
}

void SlotBuilder::CountBefore(const Sums& sums, uint64_t until_ns) {
  Add(&accounting_.before, sums);
  if (more_.on()) more_.AddToBefore(until_ns);
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
  first_ns_ = open_.StartOf(from_ns);
  if (first_ns_ < from_ns) first_ns_ = open_.EndOf(first_ns_);
  rdt_.OnFirst(first_ns_);
  if (waits_.on()) waits_.OnSlots(first_ns_, first_ns_);
  while (!open_.empty() && open_.front().start_ns < first_ns_)
    DiscardFront(&accounting_.before, &accounting_.mbm.before, &accounting_.more.before);
  first_fixed_ = true;
  next_start_ns_ = first_ns_;
  for (Cpu& cpu : cpus_) {
    cpu.slot_end_ns = 0;  // it may have been discarded
    // Who has not begun is offline, or not watched, until it speaks.
    if (!cpu.present || cpu.begun) continue;
    if (cpu.expected) stats_.nr_unwatched++;
    Begin(&cpu, first_ns_, false);
  }
}

void SlotBuilder::OnWatermark(uint64_t ts_ns) {
  if (!first_fixed_ && IsReadyForFirst(ts_ns)) FixFirst();
  if (!first_fixed_) return;
  if (waits_.on()) waits_.OnWatermark(ts_ns, options_.window_ns / 2);
  while (open_.EndOf(next_start_ns_) + options_.window_ns <= ts_ns) Retire();
}

// REQUIRES: first_fixed_.
void SlotBuilder::Retire() {
  const uint64_t end_ns = open_.EndOf(next_start_ns_);
  for (Cpu& cpu : cpus_)
    if (cpu.present && IsBefore(cpu.cursor_ns, end_ns)) AccountGap(&cpu, end_ns);
  OpenSlot* slot = !open_.empty() && open_.front().start_ns == next_start_ns_ ? &open_.front()
                                                                              : SlotAt(next_start_ns_);
  tracker_.Advance(end_ns);
  for (ProcessKey process : tracker_.TakeMissing())
    if (options_.gpu) options_.gpu->OnMissing(process, next_start_ns_);
  finished_.identities = identities_.Advance(end_ns, &tracker_);
  ShrinkTo(&states_, tracker_.nr_ids());
  if (rdt_.on()) rdt_.Attribute(slot);
  if (waits_.on()) FinishWaits(slot);

  finished_.start_ns = next_start_ns_;
  finished_.end_ns = end_ns;
  if (options_.gpu) JoinGpu(slot);
  TakeClockAndNotes(end_ns);
  const uint64_t total_ns = FillRows(*slot) + slot->lost_ns + slot->offline_ns;
  AddTimeRow(RowKind::kLost, slot->lost_ns);
  AddTimeRow(RowKind::kOffline, slot->offline_ns);
  accounting_.lost_ns += slot->lost_ns;
  accounting_.offline_ns += slot->offline_ns;
  accounting_.nr_slots++;
  accounting_.slots_ns += end_ns - next_start_ns_;
  if (total_ns != (end_ns - next_start_ns_) * options_.present_cpus.size())
    accounting_.nr_broken_slots++;

  open_.PopFront();
  next_start_ns_ = end_ns;
  if (waits_.on()) waits_.OnSlots(first_ns_, next_start_ns_);
  sink_->OnSlot(&finished_);
}

void SlotBuilder::FinishWaits(OpenSlot* slot) {
  Waits::Finish(slot);
  for (const OpenRow& row : slot->rows) {
    const uint64_t causes_ns = row.wait ? slot->waits[row.wait - 1].sum() : 0;
    accounting_.nr_broken_waits += row.sums[kWaitNs] != causes_ns;
  }
  auto& details = finished_.wait_details;
  details.clear();
  for (const WaitPair& pair : slot->wait_pairs) {
    const Process& waiter = tracker_.process(pair.process);
    const bool has_ran = pair.cause == kWaitOthers && pair.ran.tgid > 0;
    const Comm ran_comm = has_ran ? tracker_.NameOf(pair.ran) : pair.ran_comm;
    details.push_back({waiter.key, waiter.comm, pair.cause, pair.ran, ran_comm, pair.cpu, pair.start_ns,
                       pair.until_ns, pair.ns, pair.nr});
  }
  std::stable_sort(details.begin(), details.end(),
                   [](const WaitDetail& a, const WaitDetail& b) { return a.waiter < b.waiter; });
}

// Of the time in which the thread that launches waited for a CPU: a quota's part is known of the
// process.
void SlotBuilder::SplitThrottled(const OpenSlot& slot, const OpenRow* row, GpuRow* gpu) const {
  if (!IsToldApart(options_.wait_causes, kWaitThrottled)) {
    gpu->unmeasured |= 1u << kNoWorkThrottled;
    return;
  }
  if (!row || !row->wait) return;
  const uint64_t ns = std::min(gpu->values[kNoWorkWaited], slot.waits[row->wait - 1].ns[kWaitThrottled]);
  gpu->values[kNoWorkWaited] -= ns;
  gpu->values[kNoWorkThrottled] += ns;
}

// A process that only used a GPU in the slot gets a row for it.
void SlotBuilder::JoinGpu(OpenSlot* slot) {
  finished_.gpu.clear();
  options_.gpu->TakeSlot(slot->start_ns, slot->end_ns, &gpu_uses_, &finished_.gpu_detail);
  FindStill();
  if (gpu_uses_.empty() && still_.empty()) return;
  const auto name = [&](ProcessKey key, Comm* comm) {
    const uint32_t process = tracker_.Lookup(key);
    if (process != Tracker::kNoProcess && tracker_.process(process).named)
      *comm = tracker_.process(process).comm;
  };
  for (GpuPart& part : finished_.gpu_detail.parts) {
    name(part.process, &part.comm);
    const uint32_t process = tracker_.Lookup(part.process);
    SplitThrottled(*slot, process == Tracker::kNoProcess ? nullptr : open_.FindRow(slot, process),
                   &part.row);
  }
  for (GpuBalance& balance : finished_.gpu_detail.balances) name(balance.process, &balance.comm);
  for (const GpuUse& use : gpu_uses_) {
    OpenRow* row = nullptr;
    if (use.row.any) {
      bool is_new;
      const uint32_t process = tracker_.Resolve(use.process, 0, slot->start_ns);
      row = open_.RowOf(slot, process, &is_new);
      if (is_new) {
        row->rmid = tracker_.process(process).rmid;
        tracker_.Hold(process, slot->end_ns);
      }
    } else if (uint32_t process = tracker_.Lookup(use.process); process != Tracker::kNoProcess) {
      row = open_.FindRow(slot, process);
    }
    if (!row) continue;
    finished_.gpu.push_back(use.row);
    SplitThrottled(*slot, row, &finished_.gpu.back());
    row->gpu = static_cast<uint32_t>(finished_.gpu.size());
  }
  if (still_.empty()) return;
  for (OpenRow& row : slot->rows) {
    if (row.process >= still_of_.size() || still_of_[row.process] == 0) continue;
    const GpuUse& use = still_[still_of_[row.process] - 1];
    if (tracker_.process(row.process).key != use.process) continue;
    finished_.gpu.push_back(use.row);
    row.gpu = static_cast<uint32_t>(finished_.gpu.size());
  }
}

// Where nothing happens there is nothing to do per slot, but for rows: they find it by their process.
void SlotBuilder::FindStill() {
  const bool is_known = still_version_ == options_.gpu->still_version();
  if (is_known && !has_unfound_still_) return;
  if (!is_known) still_ = options_.gpu->Still();
  still_version_ = options_.gpu->still_version();
  still_of_.clear();
  has_unfound_still_ = false;
  for (size_t i = 0; i < still_.size(); i++) {
    const uint32_t process = tracker_.Lookup(still_[i].process);
    has_unfound_still_ |= process == Tracker::kNoProcess;
    if (process == Tracker::kNoProcess) continue;
    if (process >= still_of_.size()) still_of_.resize(process + 1);
    still_of_[process] = static_cast<uint32_t>(i + 1);
  }
}

// A few rows are put in order by counting for each how many are before it: no branch depends on who ran.
// What one more row adds to eight counts is a comparison and a subtraction.
template <size_t kVectors>
inline void SlotBuilder::OrderFew(const OpenSlot& slot, const std::vector<uint32_t>& ranks) {
  using Eight [[gnu::vector_size(16)]] = int16_t;
  union {
    std::array<Eight, kVectors> by_eight;
    std::array<int16_t, 8 * kVectors> by_row;
  } rank, nr_before;
  for (size_t i = 0; i < kVectors; i++) nr_before.by_eight[i] = Eight{};
  const size_t nr = slot.rows.size();
  for (size_t i = 0; i < nr; i++) rank.by_row[i] = static_cast<int16_t>(ranks[slot.rows[i].process]);
  for (size_t i = nr; i < 8 * kVectors; i++) rank.by_row[i] = 0;  // is not looked at
  for (size_t i = 0; i < nr; i++)
    for (size_t at = 0; at < kVectors; at++)
      nr_before.by_eight[at] -= rank.by_eight[at] > rank.by_row[i];
  for (size_t i = 0; i < nr; i++)
    order_[static_cast<size_t>(nr_before.by_row[i])] = static_cast<uint32_t>(i);
}

// Of many a bit is set for each rank, and bits are read in order.
void SlotBuilder::OrderMany(const OpenSlot& slot, const std::vector<uint32_t>& ranks) {
  ranks_used_.resize((tracker_.nr_ranks() + 63) / 64);
  row_at_rank_.resize(tracker_.nr_ranks());
  uint32_t nr = 0;
  for (const OpenRow& row : slot.rows) {
    const uint32_t rank = ranks[row.process];
    ranks_used_[rank / 64] |= uint64_t{1} << rank % 64;
    row_at_rank_[rank] = nr++;
  }
  uint32_t* next = order_.data();
  for (size_t word = 0; word < ranks_used_.size(); word++)
    for (uint64_t bits = std::exchange(ranks_used_[word], 0); bits; bits &= bits - 1)
      *next++ = row_at_rank_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
}

// In the order of ranks. Returns their cpu_ns.
uint64_t SlotBuilder::FillRows(const OpenSlot& slot) {
  const size_t nr = slot.rows.size();
  order_.resize(std::max(order_.size(), nr));
  const std::vector<uint32_t>& ranks = tracker_.Ranks();
  if (nr > 32 || tracker_.nr_ranks() > INT16_MAX)
    OrderMany(slot, ranks);
  else if (nr > 16)
    OrderFew<4>(slot, ranks);
  else
    OrderFew<2>(slot, ranks);
  static constexpr Row kBlank;        // copied where there are more than before: see OpenSlots
  finished_.rows.resize(nr, kBlank);  // rows of an older slot are written over
  finished_.rdt.clear();
  finished_.more.clear();
  finished_.waits.assign(slot.waits.begin(), slot.waits.end());
  finished_.wait_causes = options_.wait_causes;
  const bool has_beside = rdt_.on() || more_.on();
  Sums written = {};
  const OpenRow* const open = slot.rows.data();
  Row* row = finished_.rows.data();
  for (const uint32_t* at = order_.data(); at != order_.data() + nr; ++at, ++row) {
    Add(&written, open[*at].sums);
    FillRow(slot, open[*at], row);
    if (has_beside) AddBeside(slot, *at, row);
  }
  Add(&accounting_.written, written);
  return written[kCpuNs];
}

// At the end of the slot. A row without a measure, which only used a GPU, or whose memory traffic is
// known, is about what its process was about before.
StateSince SlotBuilder::StateOfRow(const OpenSlot& slot, const OpenRow& row) {
  const uint32_t left = row.left();
  const bool waits = row.wait && slot.waits[row.wait - 1].on_since_ns;
  const bool is_seen = waits || (row.flags & OpenRow::kMeasured);
  const bool keeps = row.gpu || rdt_.on();
  StateSince now;
  if (left == OpenRow::kRunsOn && row.left_ns == slot.end_ns - slot.start_ns) {
    now.state = ProcessState::kRunning;
  } else if (waits) {
    const WaitRow& wait = slot.waits[row.wait - 1];
    now = {wait.on_throttled ? ProcessState::kThrottled : ProcessState::kWaiting, wait.on_since_ns};
  } else if (left && left != OpenRow::kRunsOn) {
    now = {StateOf(left >> SS_MEASURE_LEFT_SHIFT), slot.start_ns + row.left_ns};
  } else if (!is_seen && keeps) {
    const KnownState* known = row.process < states_.size() ? &states_[row.process] : nullptr;
    if (known && known->key == tracker_.process(row.process).key &&
        known->now.state != ProcessState::kRunning)
      now = known->now;
  }
  if (keeps && is_seen) {
    if (row.process >= states_.size()) states_.resize(row.process + 1);
    states_[row.process] = {tracker_.process(row.process).key, now};
  }
  return now;
}

inline void SlotBuilder::FillRow(const OpenSlot& slot, const OpenRow& open, Row* row) {
  const Process& process = tracker_.process(open.process);
  row->sums = open.sums;
  row->process = open.process;
  row->rmid = open.rmid;
  row->unmeasured = open.unmeasured | options_.unmeasured;
  row->kind = KindOf(open);
  row->named = process.named;
  // One that only waited has no measure that says so.
  row->tracked = process.key.start_time_ns != 0 && !(open.flags & SS_MEASURE_UNTRACKED);
  row->followed = process.followed;
  row->beside = 0;
  row->gpu = open.gpu;
  row->wait = open.wait;
  row->key = process.key;
  row->comm = process.comm;
  if (options_.has_states) row->now = StateOfRow(slot, open);
  const Places::Where where = slot.places.Of(open.places);
  row->nr_cpus = where.nr_cpus;
  row->main_cpu = where.main_cpu;
  if (row->kind == RowKind::kIdle) {
    row->named = true;
    row->comm = {'i', 'd', 'l', 'e'};
  }
}

void SlotBuilder::AddBeside(const OpenSlot& slot, size_t index, Row* row) {
  if (rdt_.on()) finished_.rdt.push_back(rdt_.ResultOf(slot, index));
  if (more_.on()) finished_.more.push_back(more_.ResultOf(slot, index));
  row->beside = static_cast<uint32_t>(std::max(finished_.rdt.size(), finished_.more.size()));
}

void SlotBuilder::AddTimeRow(RowKind kind, uint64_t time_ns) {
  if (time_ns == 0) return;
  Row& row = finished_.rows.emplace_back();
  row.kind = kind;
  row.unmeasured = ~(1u << kCpuNs);
  row.sums[kCpuNs] = time_ns;
}

// A step of the wall clock counts for the slots that start after it, a note for the one that it is in.
void SlotBuilder::TakeClockAndNotes(uint64_t end_ns) {
  finished_.notes.clear();
  for (; !clocks_.empty() && clocks_.front().from_ns <= finished_.start_ns; clocks_.pop_front())
    unix_offset_ns_ = clocks_.front().unix_offset_ns;
  finished_.unix_offset_ns = unix_offset_ns_;
  for (; !notes_.empty() && notes_.front().from_ns < end_ns; notes_.pop_front())
    finished_.notes.push_back(std::move(notes_.front().text));
}

void SlotBuilder::DiscardFront(Sums* into, MbmSums* mbm, MoreSums* more) {
  for (const OpenRow& row : open_.front().rows) Add(into, row.sums);
  for (const WaitRow& wait : open_.front().waits) {
    accounting_.wait_earlier_ns -= wait.earlier_ns;
    (*into)[kWaitNs] += wait.earlier_ns;
  }
  rdt_.Discard(open_.front(), mbm);
  MoreCounters::Discard(open_.front(), more);
  open_.PopFront();
}

// What every CPU has passed. A CPU that went away, or fell behind by more than the window, does not hold
// it back: its time up to there is offline or lost.
uint64_t SlotBuilder::MeasuredUntil() const {
  uint64_t newest_ns = 0;
  for (const Cpu& cpu : cpus_)
    if (cpu.present && cpu.online) newest_ns = std::max(newest_ns, cpu.cursor_ns);
  uint64_t last_ns = newest_ns;
  for (const Cpu& cpu : cpus_)
    if (cpu.present && cpu.online && newest_ns - cpu.cursor_ns <= options_.window_ns)
      last_ns = std::min(last_ns, cpu.cursor_ns);
  return last_ns;
}

void SlotBuilder::Finish() {
  if (!first_fixed_ && IsReadyForFirst(UINT64_MAX)) FixFirst();
  const uint64_t until_ns = first_fixed_ ? MeasuredUntil() : 0;
  if (waits_.on()) waits_.OnEnd();
  const uint64_t last_ns = open_.StartOf(until_ns);
  rdt_.OnEnd(until_ns);
  while (first_fixed_ && open_.EndOf(next_start_ns_) <= last_ns) Retire();
  while (!open_.empty())
    DiscardFront(&accounting_.after, &accounting_.mbm.after, &accounting_.more.after);
}

}  // namespace slotscope
