// SPDX-License-Identifier: MIT
#include "ring/block_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "items.h"
#include "ring/item_queue.h"

namespace slotscope {
namespace {

ItemHeader HeaderAt(const Block& block, size_t at) {
  ItemHeader header;
  std::memcpy(&header, block.bytes().data() + at, sizeof(header));
  return header;
}

TEST(Block, BeginsFourBytesOffAnEightByteBorder) {
  BlockQueue queue(3);
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(queue.TakeEmpty()->data()) % kItemAlign, 4u)
        << "a message in a perf record must be aligned";
}

// So a machine on which little happens uses one, and not all in turn.
TEST(Block, AnEmptyOneIsTheOneThatWasEmptiedLast) {
  BlockQueue queue(8);
  Block* const first = queue.TakeEmpty();
  queue.PutFilled(first);
  Block* const second = queue.TakeEmpty();
  EXPECT_NE(second, first);
  queue.PutEmpty(queue.TakeFilled());
  EXPECT_EQ(queue.TakeEmpty(), first);
  queue.PutEmpty(second);
  EXPECT_EQ(queue.TakeEmpty(), second);
}

TEST(Block, AppendsItemsOneBehindTheOther) {
  auto block = std::make_unique<Block>();
  EXPECT_EQ(block->room(), Block::kCapacity);
  const uint64_t payload[] = {1, 2, 3};
  block->Append({ItemKind::kRecords, kItemMore, 7, 0, 0, 10, 20}, ObjectBytes(payload));
  block->Append({ItemKind::kRoundEnd, 0, 0, 999, 0, 0, 0});
  ASSERT_EQ(block->size(), 2 * sizeof(ItemHeader) + sizeof(payload));
  EXPECT_EQ(block->room(), Block::kCapacity - block->size());
  ASSERT_EQ(block->bytes().size(), block->size());

  ItemHeader first = HeaderAt(*block, 0);
  EXPECT_EQ(first.kind, ItemKind::kRecords);
  EXPECT_EQ(first.flags, kItemMore);
  EXPECT_EQ(first.stream, 7u);
  EXPECT_EQ(first.size, sizeof(payload));
  EXPECT_EQ(first.begin_ns, 10u);
  EXPECT_EQ(first.end_ns, 20u);
  EXPECT_EQ(std::memcmp(block->bytes().data() + sizeof(first), payload, sizeof(payload)), 0);
  ItemHeader second = HeaderAt(*block, sizeof(first) + sizeof(payload));
  EXPECT_EQ(second.kind, ItemKind::kRoundEnd);
  EXPECT_EQ(second.size, 0u) << "the size is that of the payload, whatever the header said";

  block->Clear();
  EXPECT_EQ(block->size(), 0u);
  EXPECT_TRUE(block->bytes().empty());
}

TEST(Block, TakesAsMuchAsItHasRoomFor) {
  auto block = std::make_unique<Block>();
  std::vector<std::byte> payload(Block::kCapacity - sizeof(ItemHeader), std::byte{0xab});
  block->Append({ItemKind::kDump, 0, 0, 0, 0, 0, 0}, payload);
  EXPECT_EQ(block->room(), 0u);
  EXPECT_EQ(block->bytes().back(), std::byte{0xab});
}

TEST(BlockQueue, HasAsManyBlocksAsWereAskedForAndNoMore) {
  for (size_t nr_blocks : {1u, 2u, 64u}) {
    BlockQueue queue(nr_blocks);
    EXPECT_EQ(queue.nr_blocks(), nr_blocks);
    std::set<Block*> blocks;
    for (size_t i = 0; i < nr_blocks; i++) {
      Block* block = queue.TakeEmpty();
      ASSERT_NE(block, nullptr);
      blocks.insert(block);
    }
    EXPECT_EQ(blocks.size(), nr_blocks) << "a block was handed out twice";
    EXPECT_EQ(queue.TakeEmpty(), nullptr);
    EXPECT_EQ(queue.TakeFilled(), nullptr);
    // All of them can wait to be merged, and to be filled again.
    for (Block* block : blocks) queue.PutFilled(block);
    for (size_t i = 0; i < nr_blocks; i++) {
      Block* block = queue.TakeFilled();
      ASSERT_NE(block, nullptr);
      queue.PutEmpty(block);
    }
    EXPECT_EQ(queue.TakeFilled(), nullptr);
    for (size_t i = 0; i < nr_blocks; i++) EXPECT_NE(queue.TakeEmpty(), nullptr);
  }
}

TEST(BlockQueue, KeepsTheOrder) {
  BlockQueue queue(3);
  Block* blocks[3];
  for (Block*& block : blocks) block = queue.TakeEmpty();
  for (int i : {1, 2, 0}) queue.PutFilled(blocks[i]);
  for (int i : {1, 2, 0}) EXPECT_EQ(queue.TakeFilled(), blocks[i]);
}

TEST(BlockQueue, HandsOutBlocksEmptyAndFilledOnesAsTheyAre) {
  BlockQueue queue(1);
  Block* block = queue.TakeEmpty();
  block->Append({ItemKind::kRoundEnd, 0, 0, 0, 0, 0, 0});
  queue.PutFilled(block);
  EXPECT_EQ(queue.TakeFilled()->size(), sizeof(ItemHeader));
  queue.PutEmpty(block);
  EXPECT_EQ(queue.TakeEmpty()->size(), 0u);
}

// Numbered items in blocks of changing length, through both queues at once: whole, each once, in order.
TEST(BlockQueue, TwoThreadsLoseNothing) {
  constexpr uint64_t kItems = 200'000;
  BlockQueue queue(4);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kItems;) {
      Block* block = queue.TakeEmpty();
      if (!block) {
        std::this_thread::yield();
        continue;
      }
      for (uint64_t end = std::min(kItems, i + 1 + i % 50); i < end; i++) {
        const uint64_t payload[] = {i, ~i};
        block->Append({ItemKind::kNote, 0, 0, 0, 0, i, 0}, ObjectBytes(payload));
      }
      queue.PutFilled(block);
    }
  });
  uint64_t next = 0;
  std::string error;
  while (next < kItems) {
    const uint32_t seen = queue.filled_wakeup().seen();
    Block* block = queue.TakeFilled();
    if (!block) {
      queue.filled_wakeup().Wait(seen);
      continue;
    }
    constexpr size_t kStride = sizeof(ItemHeader) + 2 * sizeof(uint64_t);
    if (block->size() == 0 || block->size() % kStride) error = "a block of impossible length";
    for (size_t at = 0; at + kStride <= block->size(); at += kStride, next++) {
      uint64_t payload[2];
      std::memcpy(payload, block->bytes().data() + at + sizeof(ItemHeader), sizeof(payload));
      if (HeaderAt(*block, at).begin_ns != next || payload[0] != next || payload[1] != ~next)
        error = "not item " + std::to_string(next);
    }
    queue.PutEmpty(block);
  }
  producer.join();
  EXPECT_EQ(error, "");
  EXPECT_EQ(next, kItems);
  EXPECT_EQ(queue.TakeFilled(), nullptr);
}

// Names in it are of others' choosing.
TEST(ItemQueue, NothingInItIsTooLargeForABlock) {
  ItemQueue items;
  items.PutNote(std::string(1'000'000, 'x'));
  items.PutNote("short");
  items.Put(ItemKind::kGpuView, std::vector<std::byte>(ItemQueue::kMaxPayload + 1));
  const auto entries = items.Take();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_LE(entries[0].payload.size(), 5000u);
  EXPECT_EQ(entries[0].payload.size() % kItemAlign, 0u);
  EXPECT_EQ(entries[1].payload.size(), 8u);
  EXPECT_TRUE(items.Take().empty());
}

}  // namespace
}  // namespace slotscope
