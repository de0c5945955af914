// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace slotscope {

// One thread waits until another has something for it. Notify() costs next to nothing while nobody
// waits.
//
//   uint32_t seen = wakeup.seen();      // before looking
//   if (nothing is there) wakeup.Wait(seen);
class Wakeup {
 public:
  uint32_t seen() const { return count_.load(std::memory_order_acquire); }
  // Until Notify() has been called since seen().
  void Wait(uint32_t seen) const { count_.wait(seen, std::memory_order_acquire); }
  // After what the other thread waits for can be seen.
  void Notify() {
    count_.fetch_add(1, std::memory_order_release);
    count_.notify_one();
  }

 private:
  std::atomic<uint32_t> count_{0};
};

}  // namespace slotscope
