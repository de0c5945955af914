// SPDX-License-Identifier: MIT
// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/out_file.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace slotscope {

// Written as PATH.part, mode 0640, and renamed to PATH by Commit(). No link is followed. While it is
// being written it is locked, so a second writer is told (Exit::kBusy); a .part that a killed run left
// is moved out of the way, never overwritten.
class PartFile final : public OutFile {
 public:
  PartFile() = default;
  ~PartFile() override;  // removes an uncommitted file that was never written to, keeps one with data
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status Open(const std::string& path);
  using OutFile::Write;
  // All of the pieces, one behind the other, or nothing and an error; after an error nothing more is
  // written.
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override;
  // After an error: what was written before it is to be kept, and more may be tried. False: the file may
  // end in the middle of a piece.
  bool ForgetError();
  // Gives it its name. Needs no earlier error. With kSafe it is on the disk before that.
  enum class Sync { kLater, kSafe };
  Status Commit(Sync sync = Sync::kLater);

  // Removes it: there is nothing worth keeping.
  void Discard();

  uint64_t size() const override { return size_; }
  const std::string& path() const { return path_; }
  const std::string& part_path() const { return part_path_; }
  // Where a leftover of a killed run was moved to; empty if there was none.
  const std::string& leftover_path() const { return leftover_path_; }

 private:
  Status MoveLeftover();

  std::string path_;
  std::string part_path_;
  std::string leftover_path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  Status error_;       // of the first write that failed
  bool torn_ = false;  // it may end in the middle of a piece
  bool committed_ = false;
};

}  // namespace slotscope
