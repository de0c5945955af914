// SPDX-License-Identifier: MIT
#include "sinks/writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/clock.h"
#include "heap.h"
#include "text_file.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

struct Discarded final : OutFile {
  using OutFile::Write;
  Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
    for (auto piece : pieces) bytes += piece.size();
    return {};
  }
  uint64_t size() const override { return bytes; }
  uint64_t bytes = 0;
};

class WriterTest : public testing::Test {
 protected:
  // Slots with so many rows, of the same processes, and so many waits.
  void Write(size_t nr_slots, size_t nr_rows, size_t nr_details) {
    for (size_t i = 0; i < nr_slots; i++) {
      slot_.start_ns = (nr_written_ + 1) * kMs;
      slot_.end_ns = slot_.start_ns + kMs;
      slot_.rows.clear();
      for (uint32_t process = 1; process <= nr_rows; process++) {
        Row row{};
        row.kind = RowKind::kUser;
        row.key = {static_cast<int32_t>(process), process};
        row.process = process;
        slot_.rows.push_back(row);
      }
      slot_.wait_details.clear();
      slot_.wait_details.resize(nr_details);
      writer_.OnSlot(&slot_);
      nr_written_++;
    }
    writer_.Wake();
    for (const uint64_t end_ns = MonotonicNs() + 60'000 * kMs;
         writer_.nr_slots() < nr_written_ && MonotonicNs() < end_ns;)
      usleep(100);
    EXPECT_EQ(writer_.nr_slots(), nr_written_);
  }
  // A machine at rest, until no more is in use than that, or for so long.
  size_t Rest(size_t enough, uint64_t ms) {
    size_t in_use = SIZE_MAX;
    for (const uint64_t end_ns = MonotonicNs() + ms * kMs; in_use > enough && MonotonicNs() < end_ns;) {
      Write(4, 2, 2);
      usleep(1000);
      in_use = HeapBytesInUse();
    }
    return in_use;
  }

  Discarded file_;
  CsvSink csv_{&file_, 0, 0};
  RunTables tables_;
  Writer writer_{Writer::Queue::kLive, {}, &csv_, &tables_};
  Slot slot_;
  uint64_t nr_written_ = 0;
};

TEST_F(WriterTest, WhatABurstTookGoesBack) {
  csv_.WriteHeader({});
  writer_.Start();
  Write(2'000, 100, 2);  // what is kept by process is there
  Write(2'000, 2, 2);
  const size_t usual = Rest(0, 1'200);
  if (usual == 0) GTEST_SKIP() << "another allocator";
  // A few at a time, so that none waits for long: nobody but who rests lets go of these.
  for (int i = 0; i < 200; i++) Write(10, 100, 2'000);
  EXPECT_GT(HeapBytesInUse(), usual + (1u << 20));
  const size_t most = usual + (256u << 10);
  EXPECT_LT(Rest(most, 20'000), most);
  writer_.Stop();
}

}  // namespace
}  // namespace slotscope
