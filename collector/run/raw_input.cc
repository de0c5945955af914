// SPDX-License-Identifier: MIT
#include "run/raw_input.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/escape.h"
#include "recording/reader.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

// The one behind it goes on where it ends.
bool IsFollowedBy(const Facts& facts, const Facts& next) {
  return next.boot_id == facts.boot_id && next.raw_begin_ns == facts.raw_begin_ns &&
         next.raw_segment == facts.raw_segment + 1;
}

// One that a ring removes meanwhile is gone from the list as well.
bool IsMissing(const std::string& path, const std::string& file) {
  RecordingReader now;
  return now.Open(path).ok() && std::ranges::count(now.FilesOf(kRawTable), file);
}

}  // namespace

Status RawInput::Open(const std::string& path) {
  if (RecordingReader::IsFolder(path))
    if (Status status = OpenRecording(path); !status.ok()) return status;
  if (paths_.empty()) paths_.push_back(path);
  return OpenFirst();
}

// The last ones of its segments that follow each other.
Status RawInput::OpenRecording(const std::string& path) {
  RecordingReader recording;
  if (Status status = recording.Open(path); !status.ok()) return status;
  std::vector<std::string> all;
  std::string missing;
  Facts last;
  size_t first = 0;
  for (const std::string& file : recording.FilesOf(kRawTable)) {
    RawFileReader reader;
    if (const Status status = reader.Open(file); !status.ok()) {
      if (file.ends_with(kPart)) continue;  // nothing is in it yet
      if (access(file.c_str(), F_OK) == 0)
        unread_ = unread_.empty() ? EscapeName(status.message()) : unread_;
      else if (!all.empty() && missing.empty() && IsMissing(path, file))
        missing = file;
      continue;
    }
    if (!all.empty() && !IsFollowedBy(last, reader.facts())) first = all.size();
    last = reader.facts();
    all.push_back(file);
  }
  if (all.empty() && !unread_.empty()) return {Exit::kBadInput, unread_};
  if (all.empty())
    return {Exit::kBadInput,
            fmt::format("{} does not have what the kernel sent: slotscope record --raw-table keeps that",
                        EscapeName(path))};
  if (first > 0)
    note_ = fmt::format(
        "{} holds several recordings, or has gaps: this is the last part, from {} on; {} file{} before "
        "it can be replayed one by one",
        EscapeName(path), EscapeName(all[first]), first, first == 1 ? "" : "s");
  if (!missing.empty())
    note_ = fmt::format("{} is not there, though {} names it{}{}", EscapeName(missing), kManifestName,
                        note_.empty() ? "" : "; ", note_);
  paths_.assign(all.begin() + static_cast<ptrdiff_t>(first), all.end());
  return {};
}

Status RawInput::OpenFirst() {
  if (Status status = reader_.Open(paths_[next_++]); !status.ok()) return status;
  facts_ = reader_.facts();
  return facts_.raw_segment > 0 ? reader_.ReadState(&state_) : Status();
}

// True: it is complete.
bool RawInput::ReadFile(Engine* engine, const std::function<bool()>& failed, RawInputEnd* end) {
  std::span<const std::byte> items;
  bool well_formed = true;
  while (well_formed && !failed() && reader_.Next(&items)) well_formed = engine->merger().OnItems(items);
  const std::string name = EscapeName(paths_[next_ - 1]);
  if (!well_formed)
    end->error = fmt::format("{} contains an invalid item before byte {}; the rows end there", name,
                             reader_.nr_good_bytes());
  else if (!reader_.status().ok())
    end->error = EscapeName(reader_.status().message());
  else if (!reader_.ended())
    end->cut =
        fmt::format("{} ends early, at byte {}: its recorder was killed, or this is a part of a copy",
                    name, reader_.nr_good_bytes());
  return reader_.ended();
}

Status RawInput::ReadAll(Engine* engine, const std::function<bool()>& failed, RawInputEnd* end) {
  if (!state_.empty()) {
    Status status = engine->LoadState(std::as_bytes(std::span(state_)));
    std::string().swap(state_);
    if (!status.ok())
      return {status.code(), fmt::format("{}: {}", EscapeName(paths_[0]), status.message())};
  }
  while (ReadFile(engine, failed, end) && next_ < paths_.size()) {
    reader_ = {};
    if (Status status = reader_.Open(paths_[next_++]); !status.ok()) {
      end->error = EscapeName(status.message());
      break;
    }
  }
  if (next_ < paths_.size() && !end->cut.empty()) end->error = std::exchange(end->cut, {});
  if (end->error.empty() && !unread_.empty())
    end->error = fmt::format("{}; the rows cover only what could be read", unread_);
  engine->Finish();
  return {};
}

}  // namespace slotscope
