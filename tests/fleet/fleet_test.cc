// SPDX-License-Identifier: MIT
// A fleet of eight nodes and the real Prometheus with the rules that we ship; all on 127.0.0.1. One node
// straggles; then Prometheus dies, comes back, answers nonsense and answers slowly.
//
// SLOTSCOPE_PROMETHEUS names the folder that has Prometheus (scripts/prometheus.sh).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fake_prometheus.h"
#include "simulated_node.h"
#include "tests/unit/until.h"

namespace slotscope {
namespace {

constexpr int kNrNodes = 8;
constexpr const char* kRules = "deploy/prometheus/slotscope.rules.yml";

class Prometheus {
 public:
  Prometheus(std::string folder, uint16_t port) : folder_(std::move(folder)), port_(port) {}
  ~Prometheus() { Kill(); }

  // The rules are those that we ship, only sooner.
  void Configure(const std::vector<uint16_t>& targets) {
    std::ifstream shipped(kRules);
    ASSERT_TRUE(shipped) << kRules << ": run this where the project is";
    std::ofstream rules(folder_ + "/rules.yml");
    for (std::string line; std::getline(shipped, line);)
      rules << (line == "    interval: 10s" ? "    interval: 200ms" : line) << "\n";
    std::ofstream config(folder_ + "/prometheus.yml");
    config << "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n"
              "rule_files: [rules.yml]\n"
              "scrape_configs:\n  - job_name: slotscope\n    static_configs:\n      - targets: [";
    for (uint16_t target : targets) config << "'127.0.0.1:" << target << "',";
    config << "]\n";
  }

  void Start() {
    const char* program_folder = getenv("SLOTSCOPE_PROMETHEUS");
    ASSERT_NE(program_folder, nullptr) << "see scripts/prometheus.sh";
    const std::string program = std::string(program_folder) + "/prometheus";
    std::vector<std::string> args = {program, "--config.file=" + folder_ + "/prometheus.yml",
                                     "--storage.tsdb.path=" + folder_ + "/data",
                                     "--web.listen-address=127.0.0.1:" + std::to_string(port_),
                                     "--log.level=error"};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
  }
  // As a crash would.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  std::string folder_;
  uint16_t port_;
  pid_t pid_ = 0;
};

class Fleet : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/slotscope-fleet.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    port_ = FreePort();
    std::vector<uint16_t> targets;
    for (int i = 0; i < kNrNodes; i++) {
      nodes_.push_back(
          std::make_unique<SimulatedNode>(i, "http://127.0.0.1:" + std::to_string(port_), folder_));
      targets.push_back(nodes_.back()->port());
    }
    prometheus_ = std::make_unique<Prometheus>(folder_, port_);
    prometheus_->Configure(targets);
    driver_ = std::thread([this] { Drive(); });
  }
  void TearDown() override {
    stop_ = true;
    if (driver_.joinable()) driver_.join();
    prometheus_.reset();
    std::vector<std::thread> enders;  // an exposer's end takes up to 2 s
    for (auto& node : nodes_) enders.emplace_back([&node] { node.reset(); });
    for (std::thread& ender : enders) ender.join();
    std::filesystem::remove_all(folder_);
  }

  // Time goes by for all of them.
  void Drive() {
    uint64_t next_ns = MonotonicNs();
    while (!stop_) {
      for (auto& node : nodes_) node->Step();
      next_ns += SimulatedNode::kSlotNs;
      const uint64_t now_ns = MonotonicNs();
      if (now_ns < next_ns) usleep(static_cast<useconds_t>((next_ns - now_ns) / 1000));
    }
  }

  // All nodes are judged in that way.
  ::testing::AssertionResult Becomes(DetectionMode mode) {
    const bool is_so = Until([&] {
      for (auto& node : nodes_) {
        const auto judgement = node->health().judgement;
        if (!judgement || judgement->mode != mode) return false;
      }
      return true;
    });
    Say(std::string(is_so ? "" : "NOT ") +
        "all nodes: " + kDetectionModeNames[static_cast<size_t>(mode)]);
    if (is_so) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "not all nodes are in mode " << kDetectionModeNames[static_cast<size_t>(mode)];
  }

  // So many intervals.
  static bool Passes(uint64_t nr) {
    const uint64_t from_ns = MonotonicNs();
    return Until([&] { return MonotonicNs() - from_ns > nr * SimulatedNode::kIntervalNs; });
  }

  void Say(const std::string& what) const {
    const NodeHealth last = nodes_.back()->health();
    std::printf("%5.1f s  %s; n7: score %s, threshold %s\n",
                static_cast<double>(MonotonicNs() - begun_ns_) / 1e9, what.c_str(),
                last.score ? std::to_string(*last.score).c_str() : "-",
                last.judgement ? std::to_string(last.judgement->threshold).c_str() : "-");
    std::fflush(stdout);
  }

  size_t nr_heard() {
    size_t nr = 0;
    for (auto& node : nodes_) nr += node->heard().size();
    return nr;
  }

  std::string folder_;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  std::unique_ptr<Prometheus> prometheus_;
  uint64_t begun_ns_ = MonotonicNs();
  std::atomic<bool> stop_{false};
  std::thread driver_;
};

TEST_F(Fleet, OneNodeOfEightStragglesAndPrometheusHasABadDay) {
  using Then = FakePrometheus::Then;
  prometheus_->Start();
  EXPECT_TRUE(Becomes(DetectionMode::kCalibrating));
  ASSERT_TRUE(Becomes(DetectionMode::kFleet));
  EXPECT_EQ(nr_heard(), 0u) << "all are well";
  SimulatedNode& straggler = *nodes_[7];

  // A checkpoint.
  for (auto& node : nodes_) node->speed_percent = 40;
  Say("all nodes run at 40 %");
  ASSERT_TRUE(Passes(8));
  for (auto& node : nodes_) node->speed_percent = 100;
  Say("they are well again");
  ASSERT_TRUE(Passes(8));
  EXPECT_EQ(nr_heard(), 0u) << "none is behind its peers";

  straggler.speed_percent = 40;
  Say("n7 runs at 40 %");
  ASSERT_TRUE(Until([&] { return straggler.heard().size() == 1; }));
  Say("n7 has said that it straggles");
  const auto state = straggler.heard()[0];
  std::printf("         %s\n", state.dump().c_str());
  EXPECT_EQ(state.at("type"), "straggler_state");
  EXPECT_EQ(state.at("node_id"), "n7");
  EXPECT_EQ(state.at("cluster_id"), "simulated");
  EXPECT_EQ(state.at("detection_mode"), "fleet");
  EXPECT_EQ(state.at("dominant_signal"), "throughput");
  EXPECT_LT(state.at("score").get<double>(), state.at("threshold").get<double>());
  // Longer than it takes to get used to anything.
  ASSERT_TRUE(Passes(12));
  EXPECT_TRUE(straggler.health().is_straggler);
  EXPECT_EQ(nr_heard(), 1u) << "once";

  straggler.speed_percent = 100;
  ASSERT_TRUE(Until([&] { return straggler.heard().size() == 2; }));
  Say("n7 is well again, and has said so");
  std::printf("         %s\n", straggler.heard()[1].dump().c_str());
  EXPECT_EQ(straggler.heard()[1].at("type"), "straggler_resolved");

  for (int i = 0; i < 4; i++) nodes_[static_cast<size_t>(i)]->Hide();
  Say("four nodes are not scraped any more");
  ASSERT_TRUE(Becomes(DetectionMode::kFleetCached));
  for (int i = 0; i < 4; i++) nodes_[static_cast<size_t>(i)]->Expose();
  Say("they are again");
  ASSERT_TRUE(Becomes(DetectionMode::kFleet));

  prometheus_->Kill();
  Say("Prometheus is killed");
  ASSERT_TRUE(Becomes(DetectionMode::kLocalCached));
  straggler.speed_percent = 40;
  ASSERT_TRUE(Until([&] { return straggler.heard().size() == 3; }));
  Say("n7 runs at 40 %, and has said so");
  EXPECT_EQ(straggler.heard()[2].at("type"), "straggler_state");
  EXPECT_NE(straggler.heard()[2].at("detection_mode"), "fleet");
  straggler.speed_percent = 100;
  ASSERT_TRUE(Until([&] { return straggler.heard().size() == 4; }));
  ASSERT_TRUE(Becomes(DetectionMode::kLocalBaseline));

  prometheus_->Start();
  Say("Prometheus is started again");
  ASSERT_TRUE(Becomes(DetectionMode::kFleet));

  prometheus_->Kill();
  {
    FakePrometheus garbage(
        "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{\"status\":\"success\",\"data\":[[[[[[7]}",
        Then::kClose, port_);
    Say("something else answers nonsense");
    ASSERT_TRUE(Becomes(DetectionMode::kLocalCached));
    EXPECT_TRUE(Until([&] { return straggler.stats().nr_malformed > 0; }));
  }
  {
    FakePrometheus silent("HTTP/1.1 200 OK\r\n", Then::kSayNothingMore, port_);
    Say("something else answers slowly");
    EXPECT_TRUE(Until([&] { return straggler.stats().nr_timeouts > 0; }));
    const auto judgement = straggler.health().judgement;
    ASSERT_TRUE(judgement);
    EXPECT_NE(judgement->mode, DetectionMode::kFleet);
    Say("questions have timed out");
  }
  prometheus_->Start();
  Say("Prometheus is back");
  ASSERT_TRUE(Becomes(DetectionMode::kFleet));

  // Whatever happened to Prometheus, it was nobody's fault.
  EXPECT_EQ(nr_heard(), 4u);
  EXPECT_EQ(straggler.heard().size(), 4u);
}

}  // namespace
}  // namespace slotscope
