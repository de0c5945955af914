// SPDX-License-Identifier: MIT
// A table of lines that other threads say while slots are made: each stands in the segment that was
// being written then.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "sinks/side_sink.h"

namespace slotscope {

class LinesSink final : public SideSink {
 public:
  static constexpr size_t kMaxWaiting = 1u << 20;  // bytes

  // columns: of a CSV; empty: lines of JSON, without a header.
  LinesSink(OutFile* file, std::string columns) : SideSink(file), columns_(std::move(columns)) {}

  enum class Taken { kYes, kNoRoom, kEnded };
  // Any thread. With the newline. kNoRoom: no slot has been written for long.
  Taken Put(const std::string& line) {
    std::lock_guard lock(mutex_);
    if (ended_) return Taken::kEnded;
    if (waiting_.size() + line.size() > kMaxWaiting) return Taken::kNoRoom;
    waiting_ += line;
    nr_lines_++;
    any_.store(true, std::memory_order_release);
    return Taken::kYes;
  }
  // After the last slot: what is put from now on is not written. False: neither is some of what was.
  bool End() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    return waiting_.empty();
  }

  void WriteHeader(const HeaderLines& lines) override {
    if (!columns_.empty()) WriteCsvHeader(lines, columns_);
  }
  // What was said until the recording's end.
  void EndSegment() override { Take(); }
  std::string Contents() const override { return fmt::format("{} lines", nr_lines_); }

 protected:
  void Append(const Slot&) override { Take(); }

 private:
  void Take() {
    if (!any_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(mutex_);
    text_ += std::exchange(waiting_, {});
    any_.store(false, std::memory_order_relaxed);
  }

  std::string columns_;
  std::mutex mutex_;
  std::string waiting_;
  bool ended_ = false;
  uint64_t nr_lines_ = 0;
  std::atomic<bool> any_{false};
};

}  // namespace slotscope
