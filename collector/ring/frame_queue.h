// SPDX-License-Identifier: MIT
// One stream's way from the reader thread to the merge thread. Single producer, single consumer.
#pragma once

#include <array>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ring/frame.h"

namespace slotscope {

// The largest frame: a header and the largest message.
struct FrameBuffer {
  FrameHeader header;
  std::array<std::byte, kMaxMessageSize> payload;
};

// A bounded queue of frames, stored as bytes. When it is full a message is dropped and counted; the
// count travels in its own frame as soon as there is room, and a round is never announced before it.
class FrameQueue {
 public:
  explicit FrameQueue(size_t capacity_bytes) : bytes_(capacity_bytes) {}

  // Producer. Returns false if it was dropped (and counted).
  bool PushMessage(std::span<const std::byte> message) {
    bool fits = message.size() <= kMaxMessageSize;
    if (fits && Push({FrameKind::kMessage, static_cast<uint16_t>(message.size()), 0, 0}, message))
      return true;
    nr_dropped_++;
    return false;
  }
  // Producer. Returns false if there is no room now.
  bool PushNote(FrameKind kind, uint64_t value) {
    if (nr_dropped_ > 0) {
      if (!Push({FrameKind::kDropped, 0, 0, nr_dropped_}, {})) return false;
      nr_dropped_ = 0;
    }
    return Push({kind, 0, 0, value}, {});
  }

  // Consumer. Returns false if the queue is empty.
  bool Pop(FrameBuffer* frame) {
    // A frame is pushed by one call, so a header that is there has its payload behind it.
    if (bytes_.read_available() < sizeof(FrameHeader)) return false;
    bytes_.pop(reinterpret_cast<std::byte*>(&frame->header), sizeof(FrameHeader));
    bytes_.pop(frame->payload.data(), frame->header.size);
    return true;
  }

 private:
  bool Push(const FrameHeader& header, std::span<const std::byte> payload) {
    if (bytes_.write_available() < sizeof(header) + payload.size()) return false;
    std::array<std::byte, sizeof(FrameBuffer)> whole;
    std::memcpy(whole.data(), &header, sizeof(header));
    if (!payload.empty()) std::memcpy(whole.data() + sizeof(header), payload.data(), payload.size());
    bytes_.push(whole.data(), sizeof(header) + payload.size());
    return true;
  }

  boost::lockfree::spsc_queue<std::byte> bytes_;
  uint64_t nr_dropped_ = 0;  // producer only
};

}  // namespace slotscope
