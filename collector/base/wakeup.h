// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace slotscope {

// One thread waits until another has something for it. Notify() costs next to nothing while nobody
// waits. (std::atomic's wait would yield a dozen times before it sleeps, which on an idle machine is
// most of what a wait costs.)
//
//   uint32_t seen = wakeup.seen();      // before looking
//   if (nothing is there) wakeup.Wait(seen);
class Wakeup {
 public:
  uint32_t seen() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  // Until Notify() has been called since seen().
  void Wait(uint32_t seen) const {
    std::unique_lock lock(mutex_);
    notified_.wait(lock, [&] { return count_ != seen; });
  }
  // After what the other thread waits for can be seen.
  void Notify() {
    {
      std::lock_guard lock(mutex_);
      count_++;
    }
    notified_.notify_one();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable notified_;
  uint32_t count_ = 0;
};

}  // namespace slotscope
