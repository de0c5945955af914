// SPDX-License-Identifier: MIT
#include "run/last_wait.h"

#include <utility>

namespace slotscope {

LastWait::LastWait(std::chrono::milliseconds patience, std::function<void(const char*)> give_up) {
  thread_ = std::thread([this, patience, give_up = std::move(give_up)] {
    std::unique_lock lock(mutex_);
    if (!over_.wait_for(lock, patience, [this] { return is_over_; })) give_up(name_);
  });
}

LastWait::~LastWait() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace slotscope
