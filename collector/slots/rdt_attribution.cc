// SPDX-License-Identifier: MIT
#include "slots/rdt_attribution.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "slots/share.h"

namespace slotscope {
namespace {

// In OpenRow::unmeasured, far from the bits of columns: it ran without an RMID, which nothing counted.
constexpr uint16_t kRanWithoutRmid = 1u << 15;
static_assert(kNrAdditive <= 15);
constexpr uint32_t kAll = (1u << kNrRdtValues) - 1;

bool IsMbm(const ss_rdt_sample& sample) { return sample.event != SS_RDT_LLC_OCCUPANCY; }
size_t MbmOf(const ss_rdt_sample& sample) { return sample.event - SS_RDT_MBM_TOTAL; }
static_assert(SS_RDT_MBM_LOCAL - SS_RDT_MBM_TOTAL == kMbmLocal - kMbmTotal);

uint64_t BytesOf(const ss_rdt_sample& sample) { return sample.status == SS_RDT_OK ? sample.value : 0; }

void Worsen(uint32_t* status, uint32_t other) { *status = std::max(*status, other); }

// The part of a slot that a sample covers.
struct Overlap {
  uint64_t from_ns;
  uint64_t to_ns;

  uint64_t length_ns() const { return to_ns - from_ns; }
};

Overlap OverlapOf(const OpenSlot& slot, uint64_t from_ns, uint64_t to_ns) {
  return {std::max(slot.start_ns, from_ns), std::min(slot.end_ns, to_ns)};
}

// From the first to the last moment in which it ran there, without a hole. Where times are sums (see
// slotscope/batch.h) it may seem to run before it had its RMID, at rmid_ns.
bool IsCovered(const RdtCell& cell, const RdtCell::Mbm& mbm, uint64_t rmid_ns) {
  return mbm.covered_ns > 0 && mbm.covered_ns == mbm.to_ns - mbm.from_ns &&
         mbm.from_ns <= std::max(cell.first_ns, rmid_ns) && cell.last_ns <= mbm.to_ns;
}

// Of the domains in which a process ran, or of all if it ran in none: those where a value is known,
// known for a part of the time, not known.
struct Known {
  size_t nr_yes = 0;
  size_t nr_some = 0;
  size_t nr_no = 0;
};

bool RanAnywhere(std::span<const RdtCell> cells) {
  return std::any_of(cells.begin(), cells.end(), [](const RdtCell& cell) { return cell.cpu_ns > 0; });
}

void SetStatus(RdtValue value, const Known& known, RdtRow* row) {
  if (known.nr_yes > 0 && known.nr_some + known.nr_no == 0) return;
  row->unmeasured |= 1u << value;
  Worsen(&row->status, known.nr_yes + known.nr_some ? SS_RDT_PARTIAL : SS_RDT_SKIPPED);
}

// A status that is not ok says itself why something is missing.
void JudgeMbm(std::span<const RdtCell> cells, RdtValue value, uint64_t rmid_ns, RdtRow* row) {
  const bool ran_anywhere = RanAnywhere(cells);
  Known known;
  for (const RdtCell& cell : cells) {
    const RdtCell::Mbm& mbm = cell.mbm[value];
    row->values[value] += mbm.bytes;
    uint32_t status = mbm.status;
    if (!ran_anywhere && mbm.bytes > 0) Worsen(&status, SS_RDT_PARTIAL);
    if (status != SS_RDT_OK) row->unmeasured |= 1u << value;
    Worsen(&row->status, status);
    const bool ran = cell.cpu_ns > 0;
    if (ran_anywhere && !ran) continue;
    if (mbm.status != SS_RDT_OK || (ran ? IsCovered(cell, mbm, rmid_ns) : mbm.covered_ns > 0))
      known.nr_yes++;
    else if (ran)
      (mbm.covered_ns > 0 ? known.nr_some : known.nr_no)++;
  }
  SetStatus(value, known, row);
}

void JudgeOccupancy(std::span<const RdtCell> cells, RdtRow* row) {
  const bool ran_anywhere = RanAnywhere(cells);
  Known known;
  for (const RdtCell& cell : cells) {
    row->values[kLlcOccupancy] += cell.occupancy.bytes;
    if (cell.occupancy.status != SS_RDT_OK) row->unmeasured |= 1u << kLlcOccupancy;
    Worsen(&row->status, cell.occupancy.status);
    if (ran_anywhere && cell.cpu_ns == 0) continue;
    if (cell.occupancy.ts_ns > 0)
      known.nr_yes++;
    else if (cell.cpu_ns > 0)
      known.nr_no++;
  }
  SetStatus(kLlcOccupancy, known, row);
}

uint16_t EventOf(RdtValue value) {
  switch (value) {
    case kMbmTotal:
      return SS_RDT_MBM_TOTAL;
    case kMbmLocal:
      return SS_RDT_MBM_LOCAL;
    default:
      return SS_RDT_LLC_OCCUPANCY;
  }
}

}  // namespace

RdtAttribution::RdtAttribution(const RdtShape& shape, uint64_t slot_ns, uint64_t window_ns,
                               OpenSlots* open, Tracker* tracker, MbmAccounting* accounting)
    : shape_(shape),
      slot_ns_(slot_ns),
      window_ns_(window_ns),
      open_(open),
      tracker_(tracker),
      accounting_(accounting) {
  if (!shape_.any()) return;
  nr_cells_ = shape_.domains.size() + 1;
  for (uint32_t domain = 0; domain < shape_.domains.size(); domain++) {
    for (int cpu : shape_.domains[domain].cpus) {
      auto index = static_cast<size_t>(cpu);
      if (index >= domain_of_.size())
        domain_of_.resize(index + 1, static_cast<uint32_t>(shape_.domains.size()));
      domain_of_[index] = domain;
    }
  }
}

RdtCell* RdtAttribution::CellOf(OpenSlot* slot, const OpenRow* row, size_t domain) {
  const size_t at = static_cast<size_t>(row - slot->rows.data()) * nr_cells_ + domain;
  if (at >= slot->cells.size()) slot->cells.resize(slot->rows.size() * nr_cells_);
  return &slot->cells[at];
}

void RdtAttribution::OnTime(OpenSlot* slot, OpenRow* row, const ss_measure& measure, uint64_t from_ns,
                            uint64_t to_ns) {
  const uint32_t cpu = measure.hdr.cpu;
  if (measure.rmid == 0) {
    row->unmeasured |= kRanWithoutRmid;
    return;
  }
  RdtCell* cell = CellOf(slot, row, cpu < domain_of_.size() ? domain_of_[cpu] : nr_cells_ - 1);
  cell->cpu_ns += to_ns - from_ns;
  cell->first_ns = std::min(cell->first_ns, from_ns);
  cell->last_ns = std::max(cell->last_ns, to_ns);
}

bool RdtAttribution::IsCounted(uint16_t event) const {
  switch (event) {
    case SS_RDT_LLC_OCCUPANCY:
      return shape_.has_occupancy;
    case SS_RDT_MBM_TOTAL:
      return shape_.has_mbm_total;
    default:
      return shape_.has_mbm_local;
  }
}

bool RdtAttribution::FindDomain(uint32_t id, size_t* domain) const {
  auto found = std::find_if(shape_.domains.begin(), shape_.domains.end(),
                            [&](const L3Domain& one) { return one.id == id; });
  *domain = static_cast<size_t>(found - shape_.domains.begin());
  return found != shape_.domains.end();
}

void RdtAttribution::CountLate(size_t mbm, uint64_t bytes) {
  accounting_->late[mbm] += bytes;
  stats_.nr_late++;
}

void RdtAttribution::OnSample(const ss_rdt_sample& sample) {
  stats_.nr_samples++;
  if (IsMbm(sample)) accounting_->received[MbmOf(sample)] += BytesOf(sample);
  size_t domain;
  if (!IsCounted(sample.event) || !FindDomain(sample.domain, &domain)) {
    stats_.nr_unowned++;
    if (IsMbm(sample)) accounting_->unowned[MbmOf(sample)] += BytesOf(sample);
    return;
  }
  Attach(sample);
}

// To the slot with which it is attributed.
void RdtAttribution::Attach(const ss_rdt_sample& sample) {
  const uint64_t ts_ns = sample.hdr.ts_ns;
  uint64_t at_ns;
  if (IsMbm(sample)) {
    if (ts_ns <= first_ns_) {
      accounting_->before[MbmOf(sample)] += BytesOf(sample);
      return;
    }
    if (ts_ns <= next_start_ns_) {
      CountLate(MbmOf(sample), BytesOf(sample));
      return;
    }
    at_ns = std::max<uint64_t>(sample.since_ns, ts_ns - std::min(ts_ns, window_ns_ / 2));
    at_ns = std::max(std::min(at_ns, ts_ns - 1), next_start_ns_);
  } else {
    at_ns = std::max<uint64_t>(ts_ns - ts_ns % SS_TICK_PERIOD_NS, 1) - 1;
    if (at_ns < first_ns_) return;
    if (at_ns < next_start_ns_) {
      stats_.nr_late++;
      return;
    }
  }
  if (OpenSlot* slot = open_->At(at_ns, next_start_ns_))
    slot->samples.push_back(sample);
  else if (IsMbm(sample))
    CountLate(MbmOf(sample), BytesOf(sample));
  else
    stats_.nr_late++;
}

void RdtAttribution::OnFirst(uint64_t first_ns) {
  first_ns_ = next_start_ns_ = first_ns;
  if (!on() || open_->empty()) return;
  // Those that begin before the first slot, and may end in it.
  std::vector<ss_rdt_sample> begun;
  for (OpenSlot* slot = &open_->front(); slot && slot->start_ns < first_ns; slot = slot->next) {
    begun.insert(begun.end(), slot->samples.begin(), slot->samples.end());
    slot->samples.clear();
  }
  for (const ss_rdt_sample& sample : begun) Attach(sample);
}

void RdtAttribution::Attribute(OpenSlot* slot) {
  next_start_ns_ = slot->end_ns;
  // Bytes make rows; what else there is to say of a row must not depend on who came first.
  cuts_.clear();
  for (const ss_rdt_sample& sample : slot->samples) {
    if (!IsMbm(sample)) continue;
    if (uint32_t owner = OwnerOf(sample); owner != Tracker::kNoProcess)
      cuts_.push_back(MakeCut(sample, owner, *slot));
  }
  for (Cut& cut : cuts_) AddBytes(&cut, slot);
  for (const Cut& cut : cuts_) AddCoverage(cut, slot);
  for (const ss_rdt_sample& sample : slot->samples) {
    if (IsMbm(sample)) continue;
    if (uint32_t owner = OwnerOf(sample); owner != Tracker::kNoProcess)
      PlaceReading(sample, owner, slot);
  }
  for (size_t i = 0; i < slot->cells.size(); i++)
    if (slot->cells[i].cpu_ns > 0)
      RanUntil(slot->rows[i / nr_cells_].process, i % nr_cells_) = slot->cells[i].last_ns;
  lost_until_ns_ = std::max(lost_until_ns_, slot->lost_to_ns);
}

uint32_t RdtAttribution::OwnerOf(const ss_rdt_sample& sample) {
  const uint32_t owner = tracker_->Owner(sample.rmid, sample.generation);
  if (owner != Tracker::kNoProcess) return owner;
  stats_.nr_unowned++;
  if (IsMbm(sample)) accounting_->unowned[MbmOf(sample)] += BytesOf(sample);
  return owner;
}

uint64_t& RdtAttribution::RanUntil(uint32_t process, size_t domain) {
  if (process >= last_runs_.size()) last_runs_.resize(process + 1);
  LastRun& last = last_runs_[process];
  if (const ProcessKey& key = tracker_->process(process).key; last.until_ns.empty() || last.key != key) {
    last.key = key;
    last.until_ns.assign(nr_cells_, 0);
  }
  return last.until_ns[domain];
}

void RdtAttribution::PlaceReading(const ss_rdt_sample& sample, uint32_t owner, OpenSlot* slot) {
  const OpenRow* row = open_->FindRow(slot, owner);
  if (!row) return;  // it had no part in this slot
  size_t domain;
  FindDomain(sample.domain, &domain);
  RdtCell::Reading& reading = CellOf(slot, row, domain)->occupancy;
  const RdtCell::Reading read = {sample.hdr.ts_ns, BytesOf(sample), sample.status};
  auto rank = [](const RdtCell::Reading& one) { return std::tuple(one.ts_ns, one.status, one.bytes); };
  if (rank(reading) < rank(read)) reading = read;
}

RdtAttribution::Cut RdtAttribution::MakeCut(const ss_rdt_sample& sample, uint32_t owner,
                                            const OpenSlot& slot) {
  const uint64_t ts_ns = sample.hdr.ts_ns;
  Cut cut = {&sample,         owner,        0, std::min<uint64_t>(sample.since_ns, ts_ns - 1),
             BytesOf(sample), sample.status};
  FindDomain(sample.domain, &cut.domain);
  if (TakeUnplaced(&cut, slot.start_ns)) Worsen(&cut.status, SS_RDT_PARTIAL);
  cut.from_ns = std::max(cut.from_ns, slot.start_ns);
  return cut;
}

// Takes out what cannot be placed, by time: in front of the first slot it is not known whether the owner
// ran, and if it ran in slots that have retired, they cannot get their part any more. True if the sample
// is so long that a share of time says little about the rest.
bool RdtAttribution::TakeUnplaced(Cut* cut, uint64_t retires_ns) {
  const uint64_t begin_ns = cut->from_ns;
  const uint64_t length_ns = cut->sample->hdr.ts_ns - begin_ns;
  const size_t mbm = MbmOf(*cut->sample);
  uint64_t until_ns = std::max(begin_ns, first_ns_);
  if (begin_ns < retires_ns && RanUntil(cut->owner, cut->domain) > until_ns) until_ns = retires_ns;
  if (until_ns == begin_ns) return false;
  const uint64_t before = begin_ns < first_ns_ ? Share(cut->bytes, first_ns_ - begin_ns, length_ns) : 0;
  const uint64_t unplaced = Share(cut->bytes, until_ns - begin_ns, length_ns);
  accounting_->before[mbm] += before;
  if (until_ns > std::max(begin_ns, first_ns_)) CountLate(mbm, unplaced - before);
  cut->bytes -= unplaced;
  return unplaced > 0 && length_ns > 2 * slot_ns_;
}

// Over `slot` and those behind it.
void RdtAttribution::AddBytes(Cut* cut, OpenSlot* slot) {
  if (cut->bytes == 0) return;
  const uint64_t ts_ns = cut->sample->hdr.ts_ns;
  const size_t mbm = MbmOf(*cut->sample);
  if (!open_->At(ts_ns - 1, slot->start_ns)) {  // all are there from now on
    CountLate(mbm, cut->bytes);
    return;
  }
  auto weigh = [&](OpenSlot* at) {
    const OpenRow* row = open_->FindRow(at, cut->owner);
    if (!row) return uint64_t{0};
    return Share(CellOf(at, row, cut->domain)->cpu_ns, OverlapOf(*at, cut->from_ns, ts_ns).length_ns(),
                 at->end_ns - at->start_ns);
  };
  uint64_t whole = 0;
  bool has_lost = lost_until_ns_ > cut->sample->since_ns || ts_ns > measured_until_ns_;
  for (OpenSlot* at = slot; at && at->start_ns < ts_ns; at = at->next) {
    whole += weigh(at);
    has_lost |= at->lost_from_ns < ts_ns && at->lost_to_ns > cut->from_ns;
  }
  const bool by_time = whole == 0;
  if (by_time) whole = ts_ns - cut->from_ns;
  // Who ran in lost time, and in which of several slots it is by time alone, is not known.
  if (has_lost || (by_time && ts_ns > slot->end_ns)) Worsen(&cut->status, SS_RDT_PARTIAL);

  uint64_t weighed = 0, done = 0;
  for (OpenSlot* at = slot; at && at->start_ns < ts_ns; at = at->next) {
    weighed += by_time ? OverlapOf(*at, cut->from_ns, ts_ns).length_ns() : weigh(at);
    const uint64_t upto = Share(cut->bytes, weighed, whole);
    if (upto == done) continue;
    bool is_new;
    OpenRow* row = open_->RowOf(at, cut->owner, &is_new);
    if (is_new) tracker_->Hold(cut->owner, at->end_ns);
    CellOf(at, row, cut->domain)->mbm[mbm].bytes += upto - done;
    done = upto;
  }
}

// To the rows that there are.
void RdtAttribution::AddCoverage(const Cut& cut, OpenSlot* slot) {
  const uint64_t ts_ns = cut.sample->hdr.ts_ns;
  for (OpenSlot* at = slot; at && at->start_ns < ts_ns; at = at->next) {
    OpenRow* row = open_->FindRow(at, cut.owner);
    if (!row) continue;
    row->rmid = std::max<uint32_t>(row->rmid, cut.sample->rmid);
    RdtCell::Mbm& mbm = CellOf(at, row, cut.domain)->mbm[MbmOf(*cut.sample)];
    Worsen(&mbm.status, cut.status);
    if (cut.sample->status != SS_RDT_OK || cut.sample->since_ns == ts_ns) continue;
    const Overlap overlap = OverlapOf(*at, cut.from_ns, ts_ns);
    mbm.covered_ns += overlap.length_ns();
    mbm.from_ns = std::min(mbm.from_ns, overlap.from_ns);
    mbm.to_ns = std::max(mbm.to_ns, overlap.to_ns);
  }
}

RdtRow RdtAttribution::ResultOf(const OpenSlot& slot, size_t index) {
  const OpenRow& row = slot.rows[index];
  std::span<const RdtCell> cells;  // there may be none
  if ((index + 1) * nr_cells_ <= slot.cells.size())
    cells = std::span(slot.cells).subspan(index * nr_cells_, nr_cells_);
  const uint64_t rmid_ns = tracker_->process(row.process).rmid_ns;
  RdtRow result;
  for (RdtValue value : {kMbmTotal, kMbmLocal, kLlcOccupancy}) {
    if (!IsCounted(EventOf(value)))
      result.unmeasured |= 1u << value;
    else if (value == kLlcOccupancy)
      JudgeOccupancy(cells, &result);
    else
      JudgeMbm(cells, value, rmid_ns, &result);
  }
  for (size_t i = 0; i < kNrMbm; i++) accounting_->written[i] += result.values[i];
  if (row.rmid == 0) {
    result.unmeasured = kAll;
    result.status = SS_RDT_UNASSIGNED;
  } else if (row.unmeasured & kRanWithoutRmid) {
    result.unmeasured = kAll;
    Worsen(&result.status, SS_RDT_UNASSIGNED);
  }
  return result;
}

void RdtAttribution::Discard(const OpenSlot& slot, MbmSums* into) const {
  for (const ss_rdt_sample& sample : slot.samples)
    if (IsMbm(sample)) (*into)[MbmOf(sample)] += BytesOf(sample);
  for (const RdtCell& cell : slot.cells)
    for (size_t i = 0; i < kNrMbm; i++) (*into)[i] += cell.mbm[i].bytes;
}

}  // namespace slotscope
