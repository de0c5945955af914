// SPDX-License-Identifier: MIT
#include "ring/frame_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace slotscope {
namespace {

constexpr size_t kHeader = sizeof(FrameHeader);

std::vector<std::byte> Payload(size_t size, uint8_t fill) {
  return std::vector<std::byte>(size, std::byte{fill});
}

TEST(FrameQueue, HandsOutWhatWasPushedInOrder) {
  FrameQueue queue(4096);
  queue.PushMessage(Payload(24, 0xaa));
  ASSERT_TRUE(queue.PushNote(FrameKind::kRound, 123));
  queue.PushMessage(Payload(kMaxMessageSize, 0xbb));

  FrameBuffer frame;
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kMessage);
  ASSERT_EQ(frame.header.size, 24);
  EXPECT_EQ(std::memcmp(frame.payload.data(), Payload(24, 0xaa).data(), 24), 0);
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kRound);
  EXPECT_EQ(frame.header.size, 0);
  EXPECT_EQ(frame.header.value, 123u);
  ASSERT_TRUE(queue.Pop(&frame));
  ASSERT_EQ(frame.header.size, kMaxMessageSize);
  EXPECT_EQ(std::memcmp(frame.payload.data(), Payload(kMaxMessageSize, 0xbb).data(), kMaxMessageSize),
            0);
  EXPECT_FALSE(queue.Pop(&frame));
}

TEST(FrameQueue, CountsWhatItDropsAndSaysSoBeforeTheNextRound) {
  FrameQueue queue(2 * (kHeader + 32));
  for (uint8_t i = 0; i < 5; i++) queue.PushMessage(Payload(32, i));
  EXPECT_FALSE(queue.PushNote(FrameKind::kRound, 1)) << "there is no room, not even for the count";

  FrameBuffer frame;
  for (uint8_t i = 0; i < 2; i++) {
    ASSERT_TRUE(queue.Pop(&frame));
    EXPECT_EQ(frame.payload[0], std::byte{i}) << "the first two found room";
  }
  EXPECT_FALSE(queue.Pop(&frame));
  ASSERT_TRUE(queue.PushNote(FrameKind::kRound, 2));
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kDropped);
  EXPECT_EQ(frame.header.value, 3u);
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kRound);
  EXPECT_EQ(frame.header.value, 2u);
  EXPECT_FALSE(queue.Pop(&frame));
}

TEST(FrameQueue, TellsADropOnceEvenIfTheNoteBehindItFindsNoRoom) {
  FrameQueue queue(kHeader + 16);
  queue.PushMessage(Payload(16, 1));
  queue.PushMessage(Payload(16, 2));
  FrameBuffer frame;
  ASSERT_TRUE(queue.Pop(&frame));
  queue.PushMessage(Payload(0, 3));  // leaves room for one header
  EXPECT_FALSE(queue.PushNote(FrameKind::kRound, 1)) << "the count has taken the room";
  ASSERT_TRUE(queue.Pop(&frame));
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kDropped);
  EXPECT_EQ(frame.header.value, 1u);
  ASSERT_TRUE(queue.PushNote(FrameKind::kRound, 2));
  ASSERT_TRUE(queue.Pop(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kRound);
}

bool DropsAMessageOf(size_t size) {
  FrameQueue queue(1 << 20);
  queue.PushMessage(Payload(size, 1));
  FrameBuffer frame;
  return queue.PushNote(FrameKind::kRound, 1) && queue.Pop(&frame) &&
         frame.header.kind == FrameKind::kDropped && frame.header.value == 1;
}

TEST(FrameQueue, AMessageLongerThanABufferIsDroppedNotCopied) {
  for (size_t size : {size_t{kMaxMessageSize} + 1, size_t{kMaxMessageSize} + 8, size_t{65535}})
    EXPECT_EXIT(std::exit(DropsAMessageOf(size) ? 0 : 1), testing::ExitedWithCode(0), "") << size;
}

// Producer: numbered messages of changing length, a round after every hundred with the number of
// messages so far. Consumer: each message is whole and in order, and before each round it has seen or
// been told of all of them.
TEST(FrameQueue, TwoThreadsLoseNothingUncounted) {
  constexpr uint64_t kMessages = 300'000;
  FrameQueue queue(8192);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kMessages; i++) {
      auto payload = Payload(8 + i % (kMaxMessageSize - 7), static_cast<uint8_t>(i));
      std::memcpy(payload.data(), &i, sizeof(i));
      queue.PushMessage(payload);
      if ((i + 1) % 100 == 0)
        while (!queue.PushNote(FrameKind::kRound, i + 1)) std::this_thread::yield();
    }
  });
  uint64_t nr_received = 0, nr_dropped = 0, next = 0, nr_rounds = 0;
  std::string error;
  bool finished = false;
  while (!finished) {
    FrameBuffer frame;
    if (!queue.Pop(&frame)) {
      std::this_thread::yield();
      continue;
    }
    switch (frame.header.kind) {
      case FrameKind::kMessage: {
        uint64_t i;
        std::memcpy(&i, frame.payload.data(), sizeof(i));
        if (i < next) error = "out of order at " + std::to_string(i);
        if (frame.header.size != 8 + i % (kMaxMessageSize - 7)) error = "wrong length";
        for (size_t at = 8; at < frame.header.size; at++)
          if (frame.payload[at] != static_cast<std::byte>(i))
            error = "torn message " + std::to_string(i);
        next = i + 1;
        nr_received++;
        break;
      }
      case FrameKind::kDropped:
        nr_dropped += frame.header.value;
        break;
      case FrameKind::kRound:
        nr_rounds++;
        if (nr_received + nr_dropped != frame.header.value)
          error = "round " + std::to_string(frame.header.value) + " came before a count";
        finished = frame.header.value == kMessages;
        break;
      default:
        error = "a frame that nobody pushed";
        finished = true;
    }
  }
  producer.join();
  EXPECT_EQ(error, "");
  EXPECT_EQ(nr_received + nr_dropped, kMessages);
  EXPECT_EQ(nr_rounds, kMessages / 100);
}

}  // namespace
}  // namespace slotscope
