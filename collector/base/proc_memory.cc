// SPDX-License-Identifier: MIT
#include "base/proc_memory.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/bounded_file.h"
#include "base/thread.h"

namespace slotscope {
namespace {

constexpr std::chrono::milliseconds kPatience(1000);

// What is not waited for any more. It is never destroyed: a thread may come back when the process ends.
struct Stuck {
  std::mutex mutex;
  std::set<std::string> paths;
};
Stuck& TheStuck() {
  static Stuck* const stuck = new Stuck;
  return *stuck;
}

// Belongs to the reader and to who waits, whoever stays longer.
struct Read {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  bool is_given_up = false;
  std::string bytes;
};

void Run(const std::string& path, size_t max_bytes, Read* read) {
  NameThread("ss-proc");
  std::string bytes = ReadProcFile(path, max_bytes);
  std::lock_guard lock(read->mutex);
  read->bytes = std::move(bytes);
  read->has_ended = true;
  read->ended.notify_one();
  if (!read->is_given_up) return;
  Stuck& stuck = TheStuck();
  std::lock_guard stuck_lock(stuck.mutex);
  stuck.paths.erase(path);
}

}  // namespace

std::string ReadProcMemory(const std::string& path, size_t max_bytes) {
  Stuck& stuck = TheStuck();
  {
    std::lock_guard lock(stuck.mutex);
    if (stuck.paths.size() >= kMostStuckReads || stuck.paths.contains(path)) return {};
  }
  const auto read = std::make_shared<Read>();
  try {
    std::thread([path, max_bytes, read] { Run(path, max_bytes, read.get()); }).detach();
  } catch (const std::system_error&) {  // there are too many threads
    return {};
  }
  std::unique_lock lock(read->mutex);
  if (read->ended.wait_for(lock, kPatience, [&] { return read->has_ended; }))
    return std::move(read->bytes);
  read->is_given_up = true;
  std::lock_guard stuck_lock(stuck.mutex);
  stuck.paths.insert(path);
  return {};
}

}  // namespace slotscope
