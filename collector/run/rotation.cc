// SPDX-License-Identifier: MIT
#include "run/rotation.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "detect/host/rank_note.h"
#include "recording/segment_name.h"
#include "run/summary.h"

namespace slotscope {
Rotation::Rotation(RecordingFolder* folder, const RotationOptions& options)
    : folder_(folder),
      options_(options),
      slots_(std::string(kSlotsTable), "csv", Table::Contents::kLines) {}

Table* Rotation::AddSide(const std::string& name, const std::string& extension,
                         Table::Contents contents) {
  return &sides_.emplace_back(name, extension, contents).table;
}

void Rotation::SetSinks(CsvSink* csv, std::vector<SideSink*> sides) {
  slots_.sink = csv;
  for (size_t i = 0; i < sides_.size(); i++) sides_[i].sink = sides[i];
}

void Rotation::Begin(const Facts& facts, HeaderLines header, uint64_t slot_ns,
                     std::function<RunCounts()> counts) {
  header_ = std::move(header);
  counts_ = std::move(counts);
  unix_offset_ns_ = facts.unix_offset_ns;
  segment_.host = facts.host;
  segment_.boot_id = facts.boot_id;
  segment_.slot_ns = slot_ns;
}

// A clock that is set back begins a segment, too.
bool Rotation::IsBorder(const Slot& slot) const {
  const auto length = static_cast<int64_t>(options_.segment_ns);
  const int64_t unix_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  return full_ || FloorDiv(unix_ns, length) != FloorDiv(segment_.times.unix_start_ns(), length);
}

uint64_t Rotation::bytes() const {
  uint64_t bytes = slots_.table.size();
  for (const auto& side : sides_) bytes += side.table.size();
  return bytes;
}

Status Rotation::Before(const Slot& slot) {
  const FrameTimes at = {slot.start_ns, slot.start_ns, slot.unix_offset_ns};
  Status status;
  if (open_ && IsBorder(slot))
    status = EndSegment();
  else if (open_ && slot.start_ns - frame_.start_ns >= kFrameNs)
    status = EndFrame();
  if (!status.ok()) return status;
  if (!open_) BeginSegment(at);
  if (incidents_) incidents_->OnSlot(slot);
  if (nr_frame_slots_++ == 0) frame_ = at;
  frame_.end_ns = segment_.times.end_ns = slot.end_ns;
  frame_.unix_offset_ns = segment_.times.unix_offset_ns = slot.unix_offset_ns;
  for (const std::string& note : slot.notes) OnNote(note, slot.end_ns);
  return {};
}

void Rotation::OnNote(const std::string& note, uint64_t now_ns) {
  if (const auto end = ParseRankEnd(note)) {
    if (const auto at = ranks_.find(end->tgid); at != ranks_.end()) at->second.ended_ns = now_ns;
    return;
  }
  const auto rank = ParseRankNote(note);
  if (!rank) return;
  if (ranks_.size() >= kMaxRanks && !ranks_.contains(rank->tgid)) {
    const auto ended = std::find_if(ranks_.begin(), ranks_.end(),
                                    [](const auto& one) { return one.second.ended_ns != 0; });
    ranks_.erase(ended == ranks_.end() ? ranks_.begin() : ended);
  }
  ranks_[rank->tgid] = {note, 0};
}

std::string Rotation::GapText() const {
  if (nr_gap_slots_ == 0)
    return fmt::format(
        "gap: from {} to {} some rows of tables other than slots could not be written: {}",
        Rfc3339(gap_.unix_start_ns()), Rfc3339(gap_.unix_end_ns()), gap_reason_);
  return fmt::format("gap: from {} to {} {} slots could not be written: {}",
                     Rfc3339(gap_.unix_start_ns()), Rfc3339(gap_.unix_end_ns()), nr_gap_slots_,
                     gap_reason_);
}

HeaderLines Rotation::HeaderOf() const {
  HeaderLines lines = header_;
  for (auto& [key, value] : lines)
    if (key == "unix_offset_ns") value = std::to_string(segment_.times.unix_offset_ns);
  lines.emplace_back("segment", std::to_string(segment_.number));
  for (const auto& [tgid, rank] : ranks_) lines.emplace_back("note", rank.note);
  if (has_gap_) lines.emplace_back("note", GapText());
  return lines;
}

void Rotation::BeginSegment(const FrameTimes& at) {
  segment_.number = folder_->TakeNumber();
  segment_.times = at;
  std::erase_if(ranks_, [&](const auto& rank) {
    return rank.second.ended_ns && at.start_ns > rank.second.ended_ns + kEndedRankNs;
  });
  const HeaderLines header = HeaderOf();
  const auto begin = [&](Table* table, auto* sink) {
    table->Begin(folder_->held_path(), segment_.number, FloorDiv(at.unix_start_ns(), kNsPerS));
    sink->WriteHeader(header);
    table->EndHeader();
  };
  begin(&slots_.table, slots_.sink);
  for (auto& side : sides_) begin(&side.table, side.sink);
  bytes_before_ = bytes();
  full_ = false;
  open_ = true;
}

// What the frame has goes to the files of all tables.
Status Rotation::TryWrite() {
  Status status = slots_.table.EndFrame(frame_);
  if (status.ok()) nr_frame_slots_ = 0;
  for (auto& side : sides_)
    if (Status one = side.table.EndFrame(frame_); status.ok()) status = one;
  return status;
}

Status Rotation::EndFrame() {
  if (Status status = folder_->CheckThere(); !status.ok()) return status;
  slots_.sink->Flush();
  for (auto& side : sides_) side.sink->Flush();
  Status status = TryWrite();
  if (options_.goes_on)
    while (status.lacks_room() && folder_->RemoveOldest()) {
      news_.TellFirstOf(
          "removed",
          fmt::format(
              "removed the oldest part of the recording early, to make room (said once an hour): {}",
              status.message()));
      status = TryWrite();
    }
  if (status.ok() && has_gap_) {
    // One a minute at most, by when it began.
    news_.TellFirstOf(fmt::format("recording again {}", gap_.unix_start_ns() / 60'000'000'000),
                      fmt::format("recording again; {}", GapText()));
    has_gap_ = false;
  } else if (!status.ok() && options_.goes_on) {
    OnGap(status);
    status = {};
  }
  nr_frame_slots_ = 0;
  rows_before_ = slots_.sink->nr_rows();
  const uint64_t now = bytes() - bytes_before_;
  full_ = options_.max_bytes && now > options_.max_bytes;
  folder_->SetOpenBytes(RecordingFolder::Writes::kTables, now);
  return status;
}

// What is whole becomes a segment of its own, and the next second tries another one.
void Rotation::OnGap(const Status& why) {
  if (!std::exchange(has_gap_, true)) {
    gap_ = frame_;
    nr_gap_slots_ = 0;
    gap_reason_ = why.message();
    // Once an hour: where there is hardly room, gaps come and go. The file says each.
    news_.TellFirstOf("gap", fmt::format("{}; the recording goes on when {}", why.message(),
                                         why.lacks_room() ? "there is room" : "it can be written"));
  }
  gap_.end_ns = frame_.end_ns;
  gap_.unix_offset_ns = frame_.unix_offset_ns;
  if (nr_frame_slots_) {  // not, if only another table failed
    nr_gap_slots_ += nr_frame_slots_;
    slots_.sink->TakeBack(nr_frame_slots_, slots_.sink->nr_rows() - rows_before_);
    segment_.times.end_ns = frame_.start_ns;
  }
  CommitFiles();
}

void Rotation::CommitFiles() {
  std::vector<std::unique_ptr<PartFile>> files;
  segment_.files.clear();
  const auto take = [&](Table* table) {
    std::unique_ptr<PartFile> file = table->TakeFile();
    if (!file || file->size() == 0) return;
    const std::string& path = file->path();
    segment_.files[table->name()] = {path.substr(path.rfind('/') + 1), file->size()};
    files.push_back(std::move(file));
  };
  take(&slots_.table);  // which drops what could not be written
  for (auto& side : sides_) take(&side.table);
  if (!files.empty()) folder_->Commit(segment_, std::move(files));
  open_ = false;
}

void Rotation::EndSides() {
  for (auto& side : sides_) side.sink->EndSegment();
}

Status Rotation::EndSegment() {
  EndSides();
  if (counts_) {
    RunCounts counts = counts_();
    counts.nr_rows = slots_.sink->nr_rows();
    counts.nr_unwritten_slots = slots_.sink->nr_unwritten_slots();
    slots_.sink->WriteComments(CountsSoFar(counts));
  }
  if (Status status = EndFrame(); !status.ok()) return status;
  if (open_) CommitFiles();
  return {};
}

void Rotation::BeforeLastLines() {
  if (open_) return;
  if (frame_.end_ns == 0) frame_.unix_offset_ns = unix_offset_ns_;  // no slot: it is named by the boot
  BeginSegment({frame_.end_ns, frame_.end_ns, frame_.unix_offset_ns});
}

Status Rotation::Finish() {
  EndSides();
  Status status = EndFrame();
  if (open_) CommitFiles();
  return status;
}

}  // namespace slotscope
