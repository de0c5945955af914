// SPDX-License-Identifier: MIT
// The files are complete and helpers are waited for: not for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace slotscope {

// Calls `give_up` with the name of whom was waited for, if it still exists after `patience`. That does
// not return as a rule: the thread that waits cannot be woken.
class LastWait {
 public:
  LastWait(std::chrono::milliseconds patience, std::function<void(const char*)> give_up);
  ~LastWait();

  // `name` lives as long as this.
  void For(const char* name) { name_ = name; }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::atomic<const char*> name_{"a helper"};
  std::thread thread_;
};

}  // namespace slotscope
