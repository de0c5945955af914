// SPDX-License-Identifier: MIT
// A recording that is being written: a folder of segments, and a manifest that names them. A thread puts
// what is complete on the disk, so that the writer does not wait for it, and removes what is older or
// more than is to be kept.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/news.h"
#include "base/part_file.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "recording/manifest.h"
#include "recording/segment_name.h"

namespace slotscope {

// Of the complete segments, what is kept. 0: without a limit. Milliseconds go first, the oldest of them;
// what is coarser (see KeptAs()) may take its tenths of the bytes. See collector/README.md for what that
// holds.
struct KeepLimits {
  uint64_t ns = 0;       // since the end of the newest
  uint64_t bytes = 0;    // on the disk, with what is being written
  uint64_t percent = 0;  // the same, of the file system

  bool any() const { return ns != 0 || bytes != 0 || percent != 0; }
};

// The smaller of both limits, of the file system of a path that may not be there yet; 0: there is none.
uint64_t BytesToKeep(const KeepLimits& keep, const std::string& path);

// Is it a recording, by its manifest?
bool IsRecording(const std::string& path);

class RecordingFolder {
 public:
  RecordingFolder() = default;
  ~RecordingFolder();
  RecordingFolder(const RecordingFolder&) = delete;

  // Can a recording be made there? Nothing is changed. Exit::kBusy if another recorder is at it.
  static Status Check(const std::string& path, const KeepLimits& keep);
  // With limits a recording that is there goes on, and what a killed recorder left there becomes a
  // segment. Without any it is renamed to PATH.old, in the place of an older one.
  Status Open(const std::string& path, const KeepLimits& keep);
  // There is nothing worth keeping. Takes the folder away if it was made here, with what is in it, and
  // what it has replaced is back. REQUIRES: not Stay().
  void Discard();
  // It is not discarded any more: what was PATH.old goes with the next segment that is complete.
  void Stay() { stays_ = true; }
  // What was there is now PATH.old, and something was PATH.old. REQUIRES: not Stay().
  bool has_old() const { return has_old_; }
  bool has_older() const { return has_older_; }

  // After Close(), where it is then: somebody may have renamed it.
  const std::string& path() const { return path_; }
  // After Open(): leads to the folder whatever its name becomes.
  const std::string& held_path() const { return held_path_; }
  // It was not removed. Exit::kOutput: nothing that is written there is kept.
  Status CheckThere() const;
  // Any thread. Of the next segment.
  uint64_t TakeNumber() { return next_number_++; }
  // Its files are on their way to the disk. Waits while there are two before it.
  void Commit(Segment segment, std::vector<std::unique_ptr<PartFile>> files);
  // Those that are being written, for the limit; what is too much goes soon. Tables and the raw stream
  // are written by threads of their own.
  enum class Writes { kTables, kRaw };
  void SetOpenBytes(Writes what, uint64_t bytes);
  // Any thread. What is of that Unix time, or will be, is the last to go, as long as all that is so is
  // no more than half of the limit; without a limit of bytes for ten times the time that is kept.
  void Protect(int64_t from_ns, int64_t to_ns);
  // What is, in the order in which it was asked for, also by recorders before this one.
  Intervals protections() const;
  // The disk is full. False: there is nothing that could go.
  bool RemoveOldest();
  // All is on the disk, or this is the first error of those that were not said as news.
  Status Close();

  // Any thread. Segments that could not be put on the disk.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  // After Close().
  size_t nr_segments() const { return segments_.size(); }
  uint64_t bytes() const;
  // Segments of which something was removed since Open().
  uint64_t nr_removed() const { return nr_removed_; }
  // What killed recorders left in the folder, and that is part of it now.
  size_t nr_recovered() const { return nr_recovered_; }

 private:
  struct Job {
    Segment segment;
    std::vector<std::unique_ptr<PartFile>> files;
  };

  Status MakeNew();
  void RemoveOlder();
  Status GoOn();
  Status Recover();
  void Run();
  Status Commit(Job* job);
  Status Write(Job* job);
  // REQUIRES: segments_mutex_ is held.
  void Count(const Segment& segment);
  void Prune(uint64_t open_bytes);
  bool RemoveOldestFiles(bool also_protected);
  bool RemoveFiles(Segments::iterator segment, Kept last);
  bool IsProtected(const Segment& segment) const;
  void DropProtections();

  std::string path_, held_path_;
  KeepLimits keep_;
  UniqueFd lock_;
  bool made_ = false;
  bool has_old_ = false, has_older_ = false;  // see Discard()
  std::atomic<bool> stays_ = false;
  std::atomic<uint64_t> next_number_{1};
  size_t nr_recovered_ = 0;
  // What the writer tells the thread; held for a moment only.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  uint64_t open_bytes_[2] = {};
  bool has_grown_ = false;  // that
  bool stop_ = false;
  mutable std::mutex segments_mutex_;  // of what follows; also held while the manifest is written
  Segments segments_;                  // complete ones
  uint64_t bytes_ = 0;
  std::array<uint64_t, kNrKept> bytes_of_ = {};  // of them, by Kept
  Intervals protected_;                          // in the order in which they were asked for
  uint64_t nr_removed_ = 0;
  ManifestWriter manifest_;
  Status status_;
  News news_;
  std::thread thread_;
};

// Does a recorder hold that folder now?
bool IsHeld(const std::string& path);

}  // namespace slotscope
