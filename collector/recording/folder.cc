// SPDX-License-Identifier: MIT
#include "recording/folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/bounded_file.h"
#include "base/errno_text.h"
#include "base/held_path.h"
#include "base/rfc3339.h"
#include "base/same_file.h"
#include "base/thread.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxWaiting = 2;
constexpr int64_t kProtectedTimes = 10;  // of the time that is kept

Status Cannot(const char* what, const std::string& path, int error) {
  return {Exit::kOutput, fmt::format("cannot {} {}: {}", what, path, ErrnoText(error))};
}

Status CannotCreate(const std::string& path, int error) {
  return {Exit::kOutput, CannotCreateText(path, error)};
}

std::string ManifestPath(const std::string& folder) { return folder + "/" + kManifestName; }

// A file that we, or one before us, have made there.
bool IsOurs(const std::string& name) {
  if (name.starts_with(kManifestName)) return true;
  const size_t part = name.rfind(kPart);
  return ParseSegmentName(std::string_view(name).substr(0, part)).has_value() ||
         ParseSegmentName(name).has_value();
}

// Names in a folder; none if it cannot be read.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

Status Lock(const std::string& path, UniqueFd* lock) {
  lock->Reset(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock->valid()) return Cannot("open", path, errno);
  if (flock(lock->get(), LOCK_EX | LOCK_NB))
    return {
        Exit::kBusy,
        fmt::format("another recording is writing {}: wait for it, or choose another --output", path)};
  return {};
}

// Can it be removed, with nothing in it that recorders do not make, and nobody at it?
Status CheckRemovable(const std::string& folder, UniqueFd* lock) {
  if (Status status = Lock(folder, lock); !status.ok()) return status;
  for (const std::string& name : NamesIn(folder))
    if (!IsOurs(name))
      return {
          Exit::kOutput,
          fmt::format("{}, an older recording, is to be removed, but {} in it is none of it: move one "
                      "of them away",
                      folder, name)};
  return {};
}

// Only what recorders make.
Status RemoveRecording(const std::string& folder) {
  for (const std::string& name : NamesIn(folder))
    if (IsOurs(name)) unlink((folder + "/" + name).c_str());
  if (rmdir(folder.c_str()) && errno != ENOENT) return Cannot("remove", folder, errno);
  return {};
}

// Parts are a recording whose manifest is missing or damaged, and nothing else.
enum class Found { kNothing, kEmpty, kRecording, kParts, kOther };

Found LookAt(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info)) return errno == ENOENT ? Found::kNothing : Found::kOther;
  if (!S_ISDIR(info.st_mode)) return Found::kOther;
  if (IsRecording(path)) return Found::kRecording;
  const std::vector<std::string> names = NamesIn(path);
  if (names.empty()) return Found::kEmpty;
  const bool has_segment = std::ranges::any_of(
      names, [](const std::string& name) { return ParseSegmentName(WithoutPart(name)).has_value(); });
  return has_segment && std::ranges::all_of(names, IsOurs) ? Found::kParts : Found::kOther;
}

Status NotARecording(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info)) return CannotCreate(path, errno);
  for (const std::string& name : NamesIn(path))
    if (ParseSegmentName(WithoutPart(name)))
      return {
          Exit::kOutput,
          fmt::format("{} has parts of a recording, and its {} is missing or damaged: choose another "
                      "--output, or move it away (mv {} {}.damaged); what is in it can still be read",
                      path, kManifestName, path, path)};
  return {Exit::kOutput,
          fmt::format("{} exists and is no recording: choose another --output; a name that ends in .csv "
                      "is a plain file",
                      path)};
}

std::string OldOf(const std::string& path) { return path + ".old"; }
// What was PATH.old, until it is sure that the new recording begins.
std::string OlderOf(const std::string& path) { return path + ".old.removed"; }

}  // namespace

// Also one of a later version: by the first words of its manifest.
bool IsRecording(const std::string& path) {
  constexpr std::string_view kBegin = "{\"slotscope\":\"recording\"";
  UniqueFd fd(open(ManifestPath(path).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string begin;
  return fd.valid() && ReadUpTo(fd.get(), kBegin.size(), &begin) && begin == kBegin;
}

Status RecordingFolder::Check(const std::string& path, const KeepLimits& keep) {
  const Found found = LookAt(path);
  if (found == Found::kOther || (found == Found::kParts && !keep.any())) return NotARecording(path);
  if (found == Found::kNothing) {
    const fs::path parent = fs::path(path).parent_path();
    const std::string in = parent.empty() ? "." : parent.string();
    if (access(in.c_str(), W_OK | X_OK)) return CannotCreate(path, errno);
    return {};
  }
  UniqueFd lock;
  if (Status status = Lock(path, &lock); !status.ok()) return status;
  if (found == Found::kRecording && !keep.any()) {
    const std::string old = OldOf(path);
    const Found there = LookAt(old);
    if (there == Found::kOther)
      return {Exit::kOutput,
              fmt::format("{} is to become {}, which exists and is no recording: move one of them away",
                          path, old)};
    UniqueFd old_lock;
    if (there != Found::kNothing)
      if (Status status = CheckRemovable(old, &old_lock); !status.ok()) return status;
  }
  return {};
}

uint64_t BytesToKeep(const KeepLimits& keep, const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  struct statvfs system;
  if (!keep.percent || statvfs(parent.empty() ? "." : parent.c_str(), &system)) return keep.bytes;
  const uint64_t share = system.f_blocks * system.f_frsize / 100 * keep.percent;
  return keep.bytes ? std::min(keep.bytes, share) : share;
}

RecordingFolder::~RecordingFolder() {
  if (thread_.joinable()) std::ignore = Close();
}

Status RecordingFolder::Open(const std::string& path, const KeepLimits& keep) {
  path_ = path;
  keep_ = keep;
  keep_.bytes = BytesToKeep(keep, path);
  const Found found = LookAt(path);
  const bool goes_on = keep.any() && (found == Found::kRecording || found == Found::kParts);
  Status status = goes_on ? GoOn() : MakeNew();
  if (status.ok()) held_path_ = HeldPath(lock_.get());
  for (const auto& [number, segment] : segments_) Count(segment);
  if (status.ok()) status = manifest_.Open(held_path_, segments_, protected_);
  while (status.lacks_room() && RemoveOldestFiles(true)) {  // as while it is written
    news_.TellFirstOf("removed", fmt::format("removed the oldest part of the recording to make room: {}",
                                             status.message()));
    status = manifest_.Open(held_path_, segments_, protected_);
  }
  if (!status.ok()) {
    Discard();
    return status;
  }
  if (!segments_.empty()) next_number_ = std::max<uint64_t>(next_number_, segments_.rbegin()->first + 1);
  thread_ = std::thread([this] { Run(); });
  return {};
}

Status RecordingFolder::MakeNew() {
  switch (LookAt(path_)) {
    case Found::kParts:
    case Found::kOther:
      return NotARecording(path_);
    case Found::kRecording: {
      UniqueFd lock;
      if (Status status = Lock(path_, &lock); !status.ok()) return status;
      const std::string old = OldOf(path_), older = OlderOf(path_);
      UniqueFd old_lock;
      if (LookAt(older) == Found::kRecording) std::ignore = RemoveRecording(older);
      if (LookAt(old) != Found::kNothing) {
        if (Status status = CheckRemovable(old, &old_lock); !status.ok()) return status;
        if (rename(old.c_str(), older.c_str())) return Cannot("rename", old, errno);
        has_older_ = true;
      }
      if (rename(path_.c_str(), old.c_str())) return Cannot("rename", path_, errno);
      has_old_ = true;
      break;
    }
    default:
      break;
  }
  made_ = mkdir(path_.c_str(), 0750) == 0;
  if (!made_ && errno != EEXIST) return CannotCreate(path_, errno);
  // Its name is on the disk as well, where we may look at what is around it.
  const fs::path parent = fs::path(path_).parent_path();
  std::ignore = SyncFolder(parent.empty() ? "." : parent.string());
  return Lock(path_, &lock_);
}

Status RecordingFolder::GoOn() {
  if (Status status = Lock(path_, &lock_); !status.ok()) return status;
  const Status manifest = ReadManifest(path_, &segments_, &protected_);
  if (!manifest.ok() && !manifest.is_damaged()) return manifest;
  const bool is_lost = manifest.is_damaged() || !IsRecording(path_);
  if (Status status = Recover(); !status.ok()) return status;
  if (is_lost)
    news_.TellEvent(
        fmt::format("{} of {} was missing or damaged and is made anew. Its segments are kept ({}), "
                    "but not for longer around incidents",
                    kManifestName, ShownPath(path_), segments_.size()));
  return {};
}

// Of segments that the manifest has, those whose files are gone are none. Of files that it does not
// have, what is whole becomes a segment: their recorder was killed, or the power was cut.
Status RecordingFolder::Recover() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    std::erase_if(it->second.files, [&](const auto& file) {
      return access((path_ + "/" + file.second.name).c_str(), F_OK) != 0;
    });
    it = it->second.files.empty() ? segments_.erase(it) : std::next(it);
  }
  Segments recovered;
  for (const std::string& name : NamesIn(path_)) {
    const std::string whole_name(WithoutPart(name));
    const bool part = whole_name != name;
    const auto parsed = ParseSegmentName(whole_name);
    if (!parsed) continue;
    next_number_ = std::max<uint64_t>(next_number_, parsed->number + 1);
    if (auto known = segments_.find(parsed->number);
        known != segments_.end() && known->second.files.contains(parsed->table))
      continue;
    const std::string path = path_ + "/" + name;
    UniqueFd fd(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info;
    if (!fd.valid() || fstat(fd.get(), &info) || !S_ISREG(info.st_mode)) continue;
    std::vector<FrameAt> frames;
    uint64_t whole_bytes;
    if (!FindFrames(fd.get(), &frames, &whole_bytes).ok()) continue;
    if (frames.empty()) {
      if (part) unlink(path.c_str());
      continue;
    }
    if (ftruncate(fd.get(), static_cast<off_t>(whole_bytes)) || fsync(fd.get()))
      return Cannot("recover", path, errno);
    if (part && rename(path.c_str(), (path_ + "/" + whole_name).c_str()))
      return Cannot("rename", path, errno);
    Segment& segment = recovered[parsed->number];
    TakeFile(fd.get(), frames, *parsed, {whole_name, whole_bytes}, &segment);
    segment.cut = true;
  }
  for (auto& [number, segment] : recovered) {
    if (auto known = segments_.find(number); known != segments_.end())
      known->second.files.merge(segment.files);
    else
      segments_[number] = std::move(segment);
  }
  nr_recovered_ = recovered.size();
  return recovered.empty() ? Status() : SyncFolder(path_);
}

void RecordingFolder::Discard() {
  std::ignore = Close();
  if (made_ ? !RemoveRecording(path_).ok() : !segments_.empty()) return;
  if (has_old_) std::ignore = rename(OldOf(path_).c_str(), path_.c_str());
  if (has_older_) std::ignore = rename(OlderOf(path_).c_str(), OldOf(path_).c_str());
  has_old_ = has_older_ = false;
}

void RecordingFolder::RemoveOlder() {
  if (std::exchange(has_older_, false))
    if (Status status = RemoveRecording(OlderOf(path_)); !status.ok()) news_.Tell(status.message());
}

void RecordingFolder::Commit(Segment segment, std::vector<std::unique_ptr<PartFile>> files) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < kMaxWaiting; });
  jobs_.push_back({std::move(segment), std::move(files)});
  changed_.notify_all();
}

void RecordingFolder::SetOpenBytes(Writes what, uint64_t bytes) {
  if (!keep_.any()) return;  // nothing goes
  std::lock_guard lock(mutex_);
  open_bytes_[what == Writes::kRaw] = bytes;
  has_grown_ = true;
  changed_.notify_all();
}

bool RecordingFolder::RemoveOldest() {
  std::lock_guard lock(segments_mutex_);
  // What is being put on the disk cannot go yet, and makes no room. Whoever fills the disk, as fast as
  // we make room, must not have us remove what is protected.
  return RemoveOldestFiles(false);
}

void RecordingFolder::Count(const Segment& segment) {
  bytes_ += segment.bytes();
  for (const auto& [table, file] : segment.files)
    bytes_of_[static_cast<size_t>(KeptAs(table))] += file.bytes;
}

Status RecordingFolder::Close() {
  if (!thread_.joinable()) return status_;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
  if (!IsSameFile(path_, held_path_)) path_ = ShownPath(held_path_);
  lock_.Reset();  // the next recorder may go on
  return status_;
}

Status RecordingFolder::CheckThere() const {
  struct stat info;
  if (fstat(lock_.get(), &info) == 0 && info.st_nlink > 0) return {};
  return {Exit::kOutput, fmt::format("{} was removed while it was being recorded to", path_)};
}

uint64_t RecordingFolder::bytes() const {
  std::lock_guard lock(segments_mutex_);
  return bytes_;
}

void RecordingFolder::Run() {
  NameThread("ss-commit");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || has_grown_ || !jobs_.empty(); });
    if (jobs_.empty() && !has_grown_) return;
    has_grown_ = false;
    const uint64_t open_bytes = open_bytes_[0] + open_bytes_[1];
    Job job;
    if (!jobs_.empty()) {
      job = std::move(jobs_.front());
      jobs_.erase(jobs_.begin());
      changed_.notify_all();
    }
    lock.unlock();
    const Status status = job.files.empty() ? Status() : Commit(&job);
    {
      std::lock_guard segments_lock(segments_mutex_);
      Prune(open_bytes);
    }
    if (!status.ok()) {
      if (keep_.any())
        news_.Tell(status.message());
      else if (status_.ok())
        status_ = status;
    }
    lock.lock();
  }
}

Status RecordingFolder::Commit(Job* job) {
  if (stays_) RemoveOlder();
  if (Status status = Write(job); !status.ok()) return status;
  std::lock_guard lock(segments_mutex_);
  Count(job->segment);
  const Segment& segment = segments_[job->segment.number] = std::move(job->segment);
  if (manifest_.IsRemoved()) return manifest_.Open(held_path_, segments_, protected_);
  return manifest_.Add(segment);  // if that fails it is found by its files
}

Status RecordingFolder::Write(Job* job) {
  for (std::unique_ptr<PartFile>& file : job->files) {
    std::ignore = file->ForgetError();
    if (Status status = file->Commit(PartFile::Sync::kSafe); !status.ok()) return status;
    file.reset();
  }
  return SyncFolder(held_path_);
}

void RecordingFolder::Protect(int64_t from_ns, int64_t to_ns) {
  std::lock_guard lock(segments_mutex_);
  AddInterval(from_ns, to_ns, &protected_);
  if (Status status = manifest_.Protect(from_ns, to_ns); !status.ok()) news_.Tell(status.message());
}

Intervals RecordingFolder::protections() const {
  std::lock_guard lock(segments_mutex_);
  return protected_;
}

bool RecordingFolder::IsProtected(const Segment& segment) const {
  return std::ranges::any_of(protected_, [&](const auto& interval) {
    return segment.times.unix_end_ns() > interval.first &&
           segment.times.unix_start_ns() < interval.second;
  });
}

// The oldest of them, where they are too much; and those of which nothing is left.
void RecordingFolder::DropProtections() {
  const auto bytes = [&] {
    uint64_t sum = 0;
    for (const auto& [number, segment] : segments_)
      if (IsProtected(segment)) sum += segment.bytes();
    return sum;
  };
  const int64_t newest_ns = segments_.empty() ? 0 : segments_.rbegin()->second.times.unix_end_ns();
  const auto is_over = [&] {
    if (keep_.bytes) return bytes() > keep_.bytes / 2;
    return keep_.ns &&
           newest_ns - protected_.front().second > kProtectedTimes * static_cast<int64_t>(keep_.ns);
  };
  for (; !protected_.empty() && is_over(); protected_.pop_front())
    if (keep_.bytes)
      news_.TellEvent(fmt::format(
          "what is kept around an incident, from {} to {}, takes more than half of the room: it goes as "
          "the rest does; a larger --keep keeps it",
          Rfc3339(protected_.front().first), Rfc3339(protected_.front().second)));
  if (segments_.empty()) return;
  const int64_t oldest_ns = segments_.begin()->second.times.unix_start_ns();
  std::erase_if(protected_, [&](const auto& interval) { return interval.second <= oldest_ns; });
}

void RecordingFolder::Prune(uint64_t open_bytes) {
  if (!protected_.empty()) DropProtections();
  // Clocks are set: which is too old is asked of each, from the oldest on.
  if (keep_.ns && !segments_.empty()) {
    const int64_t until_ns =
        segments_.rbegin()->second.times.unix_end_ns() - static_cast<int64_t>(keep_.ns);
    for (auto it = segments_.begin(); it != segments_.end();) {
      const auto segment = it++;
      if (segment->second.times.unix_end_ns() >= until_ns) break;
      if (!IsProtected(segment->second) && !RemoveFiles(segment, Kept::kMinutes)) break;
    }
  }
  while (keep_.bytes && bytes_ + open_bytes > keep_.bytes && RemoveOldestFiles(true)) continue;
}

bool RecordingFolder::RemoveOldestFiles(bool also_protected) {
  const auto bytes_of = [&](Kept kept) { return bytes_of_[static_cast<size_t>(kept)]; };
  const uint64_t minutes = bytes_of(Kept::kMinutes), coarse = minutes + bytes_of(Kept::kSeconds);
  const uint64_t tenth = keep_.bytes / 10;
  Kept first = Kept::kMilliseconds;
  if (tenth && coarse > kCoarseTenths * tenth) first = Kept::kSeconds;
  if (tenth && minutes > kMinutesTenths * tenth) first = Kept::kMinutes;
  const auto end = segments_.end();
  for (auto kept = static_cast<size_t>(first); kept < kNrKept; kept++) {
    const auto goes = [&](const auto& file) { return static_cast<size_t>(KeptAs(file.first)) <= kept; };
    const auto oldest = std::find_if(segments_.begin(), end, [&](const auto& one) {
      return std::ranges::any_of(one.second.files, goes) && !IsProtected(one.second);
    });
    if (oldest != end) return RemoveFiles(oldest, static_cast<Kept>(kept));
  }
  // There is nothing else.
  return also_protected && !segments_.empty() && RemoveFiles(segments_.begin(), Kept::kMinutes);
}

bool RecordingFolder::RemoveFiles(Segments::iterator segment, Kept last) {
  std::vector<std::string> tables;
  auto& files = segment->second.files;
  for (auto it = files.begin(); it != files.end();) {
    const auto& [table, file] = *it;
    if (KeptAs(table) > last) {
      ++it;
      continue;
    }
    const std::string path = held_path_ + "/" + file.name;
    if (unlink(path.c_str()) && errno != ENOENT) {
      news_.Tell(fmt::format("cannot remove {}: {}", ShownPath(path), ErrnoText(errno)));
      return false;
    }
    bytes_ -= file.bytes;
    bytes_of_[static_cast<size_t>(KeptAs(table))] -= file.bytes;
    tables.push_back(table);
    it = files.erase(it);
  }
  const uint64_t number = segment->first;
  if (files.empty()) segments_.erase(segment);
  nr_removed_++;
  if (Status status = manifest_.Remove(number, tables, segments_, protected_); !status.ok())
    news_.Tell(status.message());
  return true;
}

bool IsHeld(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.valid() && flock(folder.get(), LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

}  // namespace slotscope
