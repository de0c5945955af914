// SPDX-License-Identifier: MIT
// A node of a fleet: all of ours from its slots to its socket and its metrics; only the slots are made
// up.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/news.h"
#include "base/unique_fd.h"
#include "fleet/node.h"
#include "fleet/observer.h"
#include "fleet/threshold_reader.h"
#include "metrics/exposer.h"
#include "metrics/recorder_metrics.h"
#include "remediate/server.h"

namespace slotscope {

class SimulatedNode : public SlotSink {
 public:
  static constexpr uint64_t kSlotNs = 50'000'000;
  static constexpr uint64_t kIntervalNs = 500'000'000;
  // Prometheus' rules run every 200 ms.
  static constexpr ThresholdAges kAges = {2'500'000'000, 15'000'000'000};

  SimulatedNode(int number, const std::string& prometheus, const std::string& folder)
      : number_(number), path_(folder + "/node" + std::to_string(number)) {
    EXPECT_TRUE(thresholds_.Start(prometheus, "simulated", kIntervalNs / 2, &news_).ok());
    EXPECT_TRUE(server_.Start(path_, {}, &news_).ok());
    consumer_ = std::thread([this] { Consume(); });
    Expose();
  }
  ~SimulatedNode() override {
    server_.Stop();
    consumer_.join();
  }

  void Expose() {
    exposer_ = std::make_unique<Exposer>();
    const auto snapshot = [this] {
      MetricsSnapshot now;
      now.source = "simulated";
      now.node = node_.health();
      now.thresholds = thresholds_.stats();
      return FamiliesOf(now);
    };
    // The same one as before, if it has one.
    if (port_ == 0)
      for (port_ = static_cast<uint16_t>(21'000 + 100 * number_);
           !exposer_->Start(std::to_string(port_), snapshot).ok(); port_++) {
      }
    else
      EXPECT_TRUE(exposer_->Start(std::to_string(port_), snapshot).ok());
  }
  void Hide() { exposer_.reset(); }

  // Another slot, of a machine that trains.
  void Step() {
    Slot slot;
    slot.start_ns = next_ns_;
    slot.unix_offset_ns = static_cast<int64_t>(ClockNs(CLOCK_REALTIME) - MonotonicNs());
    slot.end_ns = next_ns_ += kSlotNs;
    // No two nodes are alike, and none is always the same.
    const auto percent = static_cast<uint64_t>(90 + (number_ * 7 + nr_steps_++ * 3) % 20);
    const uint64_t speed = speed_percent;
    Row idle, process;
    idle.kind = RowKind::kIdle;
    idle.sums[kCpuNs] = 3 * kSlotNs;
    process.sums[kCpuNs] = kSlotNs;
    process.gpu = 1;
    GpuRow gpu;
    gpu.values[kGpuLaunches] = percent * speed;
    gpu.values[kGpuActiveNs] = kSlotNs * 9 / 10;  // its kernels are as long as it is slow
    slot.rows = {idle, process};
    slot.gpu = {gpu};
    slot.gpu_detail.parts = {{{42, 1}, {}, 0, kUnknownGpu, gpu}};
    observer_.OnSlot(&slot);
  }
  void OnSlot(Slot*) override {}

  NodeHealth health() const { return node_.health(); }
  // What its consumer has got.
  std::vector<nlohmann::json> heard() {
    std::lock_guard lock(mutex_);
    return heard_;
  }
  ThresholdStats stats() const { return thresholds_.stats(); }
  uint16_t port() const { return port_; }
  int number() const { return number_; }

  std::atomic<uint64_t> speed_percent{100};

 private:
  void Consume() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address))) return;
    std::string text;
    char chunk[4096];
    for (ssize_t got; (got = read(fd.get(), chunk, sizeof(chunk))) > 0;) {
      text.append(chunk, static_cast<size_t>(got));
      for (size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1)) {
        std::lock_guard lock(mutex_);
        heard_.push_back(nlohmann::json::parse(text.substr(0, end)));
      }
    }
  }

  const int number_;
  const std::string path_;
  News news_;
  RemediateServer server_;
  ThresholdReader thresholds_;
  FleetNode node_{{"n" + std::to_string(number_), "simulated"},
                  kIntervalNs,
                  kAges,
                  [this] { return thresholds_.view(); },
                  [this](std::string line) { server_.Send(std::move(line)); },
                  &news_};
  NodeObserver observer_{
      kIntervalNs, [] { return 0.9; },
      [this](const Observation& observation) { node_.OnInterval(observation, MonotonicNs()); }, this};
  std::unique_ptr<Exposer> exposer_;
  uint16_t port_ = 0;
  uint64_t next_ns_ = MonotonicNs();
  int nr_steps_ = 0;
  std::mutex mutex_;
  std::vector<nlohmann::json> heard_;
  std::thread consumer_;
};

}  // namespace slotscope
