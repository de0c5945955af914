// SPDX-License-Identifier: MIT
// TakeRecords() on a ring in plain memory. What talks to the kernel is tested in tests/live.
#include "ring/perf_ring.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace slotscope {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kCanary{0xcc};

class Ring {
 public:
  // Everything before `tail` has been read.
  Ring(uint64_t size, uint64_t from) : tail(from), size_(size), head_(from), ring_(size + kBehind) {}

  // A record as long as it says, filled with bytes that tell records and places apart.
  void Put(uint16_t size) { Put(size, size); }
  // One that says that it is `claimed` long.
  void Put(uint16_t size, uint16_t claimed) {
    Bytes record(size);
    nr_records_++;
    for (size_t i = 0; i < record.size(); i++) record[i] = static_cast<std::byte>(nr_records_ * 37 + i);
    perf_event_header header = {PERF_RECORD_SAMPLE, 0, claimed};
    std::memcpy(record.data(), &header, std::min(record.size(), sizeof(header)));
    for (std::byte byte : record) ring_[head_++ % size_] = byte;
    written.insert(written.end(), record.begin(), record.end());
  }
  // What lies behind the mapping.
  void SetBehind(uint16_t value) { std::memcpy(ring_.data() + size_, &value, sizeof(value)); }

  struct Result {
    Bytes bytes;
    bool more;
  };
  Result Take(size_t room) {
    Bytes to(room + 64, kCanary);
    Taken taken = TakeRecords(ring_.data(), size_, head_, &tail, std::span(to).first(room));
    EXPECT_LE(taken.size, room);
    for (size_t i = taken.size; i < to.size(); i++)
      if (to[i] != kCanary) {
        ADD_FAILURE() << "wrote byte " << i << " with room for " << room << ", took " << taken.size;
        break;
      }
    to.resize(taken.size);
    return {to, taken.more};
  }

  uint64_t head() const { return head_; }

  uint64_t tail;
  Bytes written;  // all records, one behind the other

 private:
  static constexpr size_t kBehind = 8;
  uint64_t size_;
  uint64_t head_;
  size_t nr_records_ = 0;
  Bytes ring_;
};

Bytes Part(const Bytes& bytes, size_t from, size_t size) {
  auto begin = bytes.begin() + static_cast<ptrdiff_t>(from);
  return {begin, begin + static_cast<ptrdiff_t>(size)};
}

TEST(TakeRecords, AnEmptyRingGivesNothing) {
  for (uint64_t tail : {0u, 64u, 1000u}) {
    Ring ring(256, tail);
    for (size_t room : {0u, 8u, 1000u}) {
      Ring::Result result = ring.Take(room);
      EXPECT_TRUE(result.bytes.empty());
      EXPECT_FALSE(result.more);
      EXPECT_EQ(ring.tail, tail);
    }
  }
}

TEST(TakeRecords, TakesAllThatIsThereWhereverItLies) {
  constexpr uint64_t kSize = 256;
  // Also far on: head and tail count for ever, and only the ring wraps.
  for (uint64_t base : {uint64_t{0}, kSize, uint64_t{1} << 40})
    for (uint64_t offset = 0; offset < kSize; offset += 8)
      for (std::vector<uint16_t> sizes :
           {std::vector<uint16_t>{8}, {40, 16, 64}, {128, 128}, {8, 240}}) {
        SCOPED_TRACE(testing::Message() << "offset " << offset << ", " << sizes.size() << " records");
        Ring ring(kSize, base + offset);
        for (uint16_t size : sizes) ring.Put(size);
        Ring::Result result = ring.Take(kSize);
        ASSERT_EQ(result.bytes, ring.written);
        ASSERT_FALSE(result.more);
        ASSERT_EQ(ring.tail, ring.head());
      }
}

TEST(TakeRecords, CutsAtARecordsBorder) {
  const std::vector<uint16_t> sizes = {24, 8, 48, 16, 32};
  for (uint64_t offset = 0; offset < 256; offset += 8)
    for (size_t room = 0; room <= 136; room++) {
      SCOPED_TRACE(testing::Message() << "offset " << offset << ", room " << room);
      Ring ring(256, offset);
      size_t fits = 0;
      bool full = false;
      for (uint16_t size : sizes) {
        ring.Put(size);
        full = full || fits + size > room;
        if (!full) fits += size;
      }
      Ring::Result result = ring.Take(room);
      ASSERT_EQ(result.bytes, Part(ring.written, 0, fits));
      ASSERT_EQ(result.more, fits < ring.written.size());
      ASSERT_EQ(ring.tail, offset + fits);
      // The rest stays.
      Ring::Result rest = ring.Take(256);
      ASSERT_EQ(rest.bytes, Part(ring.written, fits, ring.written.size() - fits));
      ASSERT_FALSE(rest.more);
    }
}

TEST(TakeRecords, ARecordWithoutRoomStays) {
  Ring ring(256, 192);
  ring.Put(128);
  Ring::Result result = ring.Take(120);
  EXPECT_TRUE(result.bytes.empty());
  EXPECT_TRUE(result.more);
  EXPECT_EQ(ring.tail, 192u);
  EXPECT_EQ(ring.Take(128).bytes, ring.written);
}

TEST(TakeRecords, TheLongestRecordThereCanBe) {
  constexpr uint16_t kLongest = 65528;
  Ring ring(1u << 17, (1u << 17) - 8);
  ring.Put(kLongest);
  ring.Put(kLongest);
  Ring::Result result = ring.Take(65536);
  EXPECT_EQ(result.bytes, Part(ring.written, 0, kLongest));
  EXPECT_TRUE(result.more);
}

// Producer and consumer in turns, with any room: what comes out is what went in.
TEST(TakeRecords, RandomRecordsComeOutWholeAndInOrder) {
  constexpr uint64_t kSize = 1024;
  for (uint64_t seed = 0; seed < 42; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Ring ring(kSize, 8 * (random() % 1000));
    Bytes taken;
    for (int i = 0; i < 1000; i++) {
      for (uint64_t nr = random() % 10; nr > 0; nr--) {
        auto size = static_cast<uint16_t>(8 * (1 + random() % 30));
        if (ring.head() + size - ring.tail <= kSize) ring.Put(size);
      }
      Ring::Result result = ring.Take(random() % 600);
      taken.insert(taken.end(), result.bytes.begin(), result.bytes.end());
      ASSERT_EQ(result.more, ring.tail != ring.head());
    }
    Ring::Result rest = ring.Take(kSize);
    taken.insert(taken.end(), rest.bytes.begin(), rest.bytes.end());
    ASSERT_EQ(taken, ring.written);
  }
}

constexpr uint64_t kLargeRing = 1u << 18;
constexpr size_t kMoreThanAnyRecord = UINT16_MAX + 1;

void PutGood(Ring* ring, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 1024) ring->Put(1024);
}

// Else the reader would come back for it for ever.
TEST(TakeRecords, GivesUpABrokenRingAndHandsOutTheRecordThatSaysWhy) {
  for (uint16_t claimed : {0, 1, 7}) {
    SCOPED_TRACE(claimed);
    Ring ring(kLargeRing, kLargeRing - 8);
    ring.Put(8, claimed);
    PutGood(&ring, 100u << 10);
    Ring::Result result = ring.Take(kMoreThanAnyRecord);
    EXPECT_EQ(result.bytes, Part(ring.written, 0, sizeof(perf_event_header)));
    EXPECT_FALSE(result.more);
    EXPECT_EQ(ring.tail, ring.head());
    ring.written.clear();
    ring.Put(64);  // it goes on behind
    EXPECT_EQ(ring.Take(kMoreThanAnyRecord).bytes, ring.written);
  }
}

TEST(TakeRecords, TakesWhatIsBeforeABrokenRecord) {
  Ring ring(kLargeRing, 0);
  ring.Put(64);
  ring.Put(16);
  ring.Put(8, 0);
  PutGood(&ring, 100u << 10);
  Ring::Result result = ring.Take(kMoreThanAnyRecord);
  EXPECT_EQ(result.bytes, Part(ring.written, 0, 80));
  EXPECT_TRUE(result.more);
  EXPECT_EQ(ring.tail, 80u);
  result = ring.Take(kMoreThanAnyRecord);
  EXPECT_EQ(result.bytes, Part(ring.written, 80, 8));
  EXPECT_FALSE(result.more);
  EXPECT_EQ(ring.tail, ring.head());
}

// With little room it may also be a record that is too long for it: only more room can tell.
TEST(TakeRecords, GivesUpNothingWhileThereIsLittleRoom) {
  Ring ring(kLargeRing, 0);
  ring.Put(8, 0);
  PutGood(&ring, 100u << 10);
  Ring::Result result = ring.Take(UINT16_MAX);
  EXPECT_TRUE(result.bytes.empty());
  EXPECT_TRUE(result.more);
  EXPECT_EQ(ring.tail, 0u);
}

// A record of an odd length puts the next header across the end of the ring, here its size behind it.
TEST(TakeRecords, ReadsNothingBehindTheRing) {
  auto take = [](uint16_t behind) {
    Ring ring(64, 40);
    ring.Put(18);
    for (int i = 0; i < 46; i++) ring.Put(1);
    ring.SetBehind(behind);
    return ring.Take(40).bytes.size();
  };
  EXPECT_EQ(take(0), take(8));
}

}  // namespace
}  // namespace slotscope
