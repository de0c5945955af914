// SPDX-License-Identifier: MIT
// A recorder among peers, as its command line makes it one. How a fleet behaves is in tests/fleet.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "harness.h"
#include "tests/fleet/fake_prometheus.h"
#include "tests/fleet/get_metrics.h"

namespace slotscope {
namespace {

TEST(Fleet, ANodeIsWatchedAndAsksForTheThreshold) {
  const std::string body =
      R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{"slotscope_is":)"
      R"("threshold"},"value":[100,"0.8125"]},{"metric":{"slotscope_is":"time"},"value":[100,"99"]}]}})";
  FakePrometheus prometheus(
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
      FakePrometheus::Then::kClose);
  const uint16_t port = FreePort();
  const std::string dir = TempDir();
  std::string output;
  int code = -1;
  std::thread recorder([&] {
    code =
        Shell("cd " + dir + " && { LD_LIBRARY_PATH=" + StandinFolder() +
                  " $T --workload cuda-launches 120000 & one=$!; $S record --source $SRC --metrics=" +
                  std::to_string(port) + " --fleet " + prometheus.url() +
                  " --cluster-id blue --node-id seven --health-interval 1 -o fleet.csv & two=$!; until "
                  "[ -e seen ]; do sleep 0.05; done; kill -INT $two; wait $two; code=$?; kill $one; "
                  "exit $code; }",
              &output);
  });
  const std::string labels = "{cluster_id=\"blue\",node_id=\"seven\",";
  std::string page;
  const auto shows = [&](const std::string& text) { return page.find(text) != page.npos; };
  const uint64_t deadline_ns = MonotonicNs() + 60'000'000'000;
  bool seen = false;
  while (!seen && MonotonicNs() < deadline_ns) {
    page = GetMetrics(port);
    seen = shows("slotscope_threshold_reads_total{outcome=\"value\"}") &&
           !shows("slotscope_threshold_reads_total{outcome=\"value\"} 0\n") &&
           shows("slotscope_health_baseline" + labels + "signal=\"throughput\"}");
    usleep(50'000);
  }
  std::ofstream(dir + "/seen") << "yes";
  recorder.join();
  EXPECT_EQ(code, 0) << output;
  EXPECT_TRUE(seen) << page << output;
  EXPECT_TRUE(shows("slotscope_node_phase" + labels + "phase=\"calibrating\"} 1\n")) << page;
  EXPECT_TRUE(shows("slotscope_detection_mode" + labels + "mode=\"calibrating\"} 1\n")) << page;
  EXPECT_FALSE(shows("slotscope_health_score")) << "not yet";
  EXPECT_NE(prometheus.asked().find("cluster_id%3D%22blue%22"), std::string::npos) << prometheus.asked();
  CheckIdentity(ReadCsv(dir + "/fleet.csv"));
}

// Somebody who asks half a question keeps the recorder for a second or two. The file is complete by
// then, and who does not want to wait says so.
TEST(Fleet, ASecondSignalEndsAtOnceAndTheFileIsComplete) {
  const uint16_t port = FreePort();
  const std::string dir = TempDir();
  std::string output;
  int code = -1;
  std::thread recorder([&] {
    code = Shell("cd " + dir + " && { $S record --source $SRC --metrics=" + std::to_string(port) +
                     " -o second.csv & pid=$!; until [ -e asks ]; do sleep 0.05; done; kill -TERM $pid; "
                     "until [ -e second.csv ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; }",
                 &output);
  });
  const uint64_t deadline_ns = MonotonicNs() + 60'000'000'000;
  while (GetMetrics(port).empty() && MonotonicNs() < deadline_ns) usleep(50'000);
  const UniqueFd asks = ConnectTo(port);
  const std::string_view half = "GET /metrics HTTP/1.1\r\n";
  EXPECT_EQ(write(asks.get(), half.data(), half.size()), static_cast<ssize_t>(half.size()));
  EXPECT_FALSE(GetMetrics(port).empty());  // who is answered came behind: that half is being read
  std::ofstream(dir + "/asks") << "yes";
  recorder.join();
  EXPECT_EQ(code, 128 + SIGTERM) << output;
  EXPECT_NE(output.find("slotscope: a second signal ended it at once; "), std::string::npos) << output;
  CheckIdentity(ReadCsv(dir + "/second.csv"));
}

TEST(Fleet, AClaimThatCannotBeMeantIsRefused) {
  for (const char* options : {"--fleet http://127.0.0.1:9090", "--metrics --fleet 127.0.0.1:9090",
                              "--metrics --fleet http://127.0.0.1:9090 --gpu off",
                              "--metrics --fleet http://127.0.0.1:9090 --node-id 'a b'",
                              "--cluster-id ''", "--health-interval 0"}) {
    std::string output;
    EXPECT_EQ(Shell(std::string("$S record ") + options + " -o " + TempDir() + "/no.csv", &output), 2)
        << options << output;
  }
}

}  // namespace
}  // namespace slotscope
