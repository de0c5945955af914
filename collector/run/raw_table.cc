// SPDX-License-Identifier: MIT
#include "run/raw_table.h"

#include <fmt/core.h>

#include <utility>

#include "base/rfc3339.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

constexpr size_t kFrameBytes = 4u << 20;
constexpr uint64_t kRetryNs = 1'000'000'000;

}  // namespace

int64_t RawTable::BorderAfter(int64_t unix_ns) const {
  const auto length = static_cast<int64_t>(options_.segment_ns);
  return (FloorDiv(unix_ns, length) + 1) * length;
}

Status RawTable::Begin(const Facts& facts, uint64_t slot_ns, uint64_t begin_ns) {
  facts_ = facts;
  facts_.raw_begin_ns = begin_ns;
  segment_.host = facts.host;
  segment_.boot_id = facts.boot_id;
  segment_.slot_ns = slot_ns;
  const RawMoment now = {begin_ns, facts.unix_offset_ns};
  border_unix_ns_ = BorderAfter(now.unix_ns());
  return Open({}, now);
}

// A clock that is set back begins a segment, too.
bool RawTable::WantsSegment(const RawMoment& now) {
  const int64_t next_ns = BorderAfter(now.unix_ns());
  const bool is_asked_for = wants_.exchange(false, std::memory_order_relaxed);
  if (next_ns == border_unix_ns_ && !is_asked_for) return false;
  border_unix_ns_ = next_ns;
  return true;
}

Status RawTable::Open(std::string_view state, const RawMoment& now) {
  segment_.number = folder_->TakeNumber();
  segment_.times = frame_ = {now.clock_ns, now.clock_ns, now.unix_offset_ns};
  bytes_before_ = table_.size();
  open_ = true;
  asked_ = false;
  table_.Begin(folder_->held_path(), segment_.number, FloorDiv(now.unix_ns(), Rotation::kNsPerS));
  encoder_ = std::make_unique<RawEncoder>(&table_);
  Status status = encoder_->WriteFacts(facts_);  // a Table keeps all that it is given
  table_.EndHeader();
  if (!state.empty()) status = encoder_->WriteState(state);
  return status;
}

Status RawTable::BeginSegment(std::string_view state, const RawMoment& now) {
  if (open_)
    if (Status status = EndSegment(); !status.ok()) return status;
  facts_.raw_segment++;
  return Open(state, now);
}

Status RawTable::WriteItems(std::span<const std::byte> items, const RawMoment& now) {
  if (!open_) {
    nr_dropped_.fetch_add(1, std::memory_order_relaxed);
    if (!asked_ && now.clock_ns - frame_.end_ns > kRetryNs)
      wants_.store(asked_ = true, std::memory_order_relaxed);
    return {};
  }
  if (Status status = encoder_->WriteItems(items); !status.ok()) return status;
  nr_frame_blocks_++;
  frame_.end_ns = segment_.times.end_ns = now.clock_ns;
  frame_.unix_offset_ns = segment_.times.unix_offset_ns = now.unix_offset_ns;
  const bool ends =
      now.clock_ns - frame_.start_ns >= Rotation::kFrameNs || table_.nr_kept() >= kFrameBytes;
  return ends ? EndFrame() : Status();
}

Status RawTable::EndFrame() {
  if (Status status = folder_->CheckThere(); !status.ok()) return status;
  Status status = table_.EndFrame(frame_);
  if (options_.goes_on)
    while (status.lacks_room() && folder_->RemoveOldest()) status = table_.EndFrame(frame_);
  if (!status.ok() && options_.goes_on) {
    OnGap(status);
    return {};
  }
  frame_.start_ns = frame_.end_ns;
  nr_frame_blocks_ = 0;
  const uint64_t now = table_.size() - bytes_before_;
  folder_->SetOpenBytes(RecordingFolder::Writes::kRaw, now);
  if (options_.max_bytes && now > options_.max_bytes && !std::exchange(asked_, true))
    wants_.store(true, std::memory_order_relaxed);
  return status;
}

// What is whole becomes a segment. What comes is of no use before the next one, which begins anew.
void RawTable::OnGap(const Status& why) {
  news_.TellFirstOf("gap",
                    fmt::format("{}; from {} on the table raw has a gap until there is room again",
                                why.message(), Rfc3339(frame_.unix_start_ns())));
  segment_.times.end_ns = frame_.start_ns;
  nr_dropped_.fetch_add(std::exchange(nr_frame_blocks_, 0), std::memory_order_relaxed);
  CommitFile();
  facts_.raw_segment++;  // one that is not there
}

Status RawTable::EndSegment() {
  if (Status status = encoder_->WriteEnd(); !status.ok()) return status;
  if (Status status = EndFrame(); !status.ok()) return status;
  if (open_) CommitFile();
  return {};
}

void RawTable::CommitFile() {
  std::unique_ptr<PartFile> file = table_.TakeFile();  // which drops what could not be written
  segment_.files.clear();
  open_ = asked_ = false;
  if (!file || file->size() == 0) return;
  const std::string& path = file->path();
  segment_.files[table_.name()] = {path.substr(path.rfind('/') + 1), file->size()};
  std::vector<std::unique_ptr<PartFile>> files;
  files.push_back(std::move(file));
  folder_->Commit(segment_, std::move(files));
}

Status RawTable::Finish() { return open_ ? EndSegment() : Status(); }

}  // namespace slotscope
