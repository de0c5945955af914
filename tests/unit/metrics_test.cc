// SPDX-License-Identifier: MIT
// What is counted of slots, and the page that says so.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "metrics/exposer.h"
#include "metrics/slot_meter.h"

namespace slotscope {
namespace {

struct Nowhere : SlotSink {
  void OnSlot(Slot*) override { nr_slots++; }
  int nr_slots = 0;
};

Row RowOf(int32_t tgid, RowKind kind, uint64_t cpu_ns, uint64_t wait_ns) {
  Row row;
  row.key = {tgid, 1};
  row.kind = kind;
  row.sums[kCpuNs] = cpu_ns;
  row.sums[kWaitNs] = wait_ns;
  return row;
}

TEST(SlotMeter, AddsUpAndKeepsTheLast) {
  Nowhere nowhere;
  SlotMeter meter(1'000'000, &nowhere);
  Slot slot;
  slot.start_ns = MonotonicNs() - 51'000'000;
  slot.rows = {RowOf(0, RowKind::kIdle, 500, 0), RowOf(1, RowKind::kUser, 300, 20'000),
               RowOf(2, RowKind::kKernel, 200, 0), RowOf(3, RowKind::kUser, 100, 5'000'000)};
  slot.gpu.resize(2);
  slot.gpu[0].values[kGpuLaunches] = 7;
  slot.gpu[0].straggle = Straggle::kSustained;
  slot.gpu[1].values[kGpuLaunches] = 9;
  slot.gpu[1].unmeasured = 1u << kGpuLaunches;
  slot.rows[1].gpu = 1;
  slot.rows[3].gpu = 2;
  slot.straggles.resize(1);
  meter.OnSlot(&slot);
  SlotCounts counts = meter.counts();
  EXPECT_EQ(counts.nr_slots, 1u);
  EXPECT_EQ(counts.nr_processes, 3u);
  EXPECT_EQ(counts.nr_gpu_processes, 2u);
  EXPECT_EQ(counts.nr_straggling, 1u);
  EXPECT_EQ(counts.nr_gpu_launches, 7u) << "those that are known";
  EXPECT_EQ(counts.nr_straggle_reports, 1u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kUser)], 400u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kIdle)], 500u);
  EXPECT_EQ(counts.wait.nr, 2u);
  EXPECT_EQ(counts.wait.counts[1], 1u) << "20 us";
  EXPECT_EQ(counts.wait.counts[6], 1u) << "5 ms";
  EXPECT_DOUBLE_EQ(counts.wait.sum_s, 5.02e-3);
  EXPECT_EQ(counts.latency.nr, 1u);
  EXPECT_GE(counts.latency.sum_s, 0.05);
  slot.rows = {RowOf(1, RowKind::kUser, 300, 0)};
  meter.OnSlot(&slot);
  counts = meter.counts();
  EXPECT_EQ(counts.nr_slots, 2u);
  EXPECT_EQ(counts.nr_processes, 1u);
  EXPECT_EQ(counts.cpu_ns[static_cast<size_t>(RowKind::kUser)], 700u);
  EXPECT_EQ(nowhere.nr_slots, 2);
}

TEST(TimeHistogram, CountsEachTimeOnce) {
  TimeHistogram times;
  for (double seconds : {0.0, 1e-5, 1.1e-5, 100.0, 1000.0}) times.Add(seconds);
  EXPECT_EQ(times.counts[0], 2u);
  EXPECT_EQ(times.counts[1], 1u);
  EXPECT_EQ(times.counts.back(), 1u);
  EXPECT_EQ(times.nr, 5u) << "beyond all bounds, too";
}

// The page.
std::string Get(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address))) return "";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), 0) != static_cast<ssize_t>(request.size()))
    return "";
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = recv(fd.get(), chunk, sizeof(chunk), 0)) > 0;)
    text.append(chunk, static_cast<size_t>(got));
  return text;
}

TEST(Exposer, ServesWhatIsSoNow) {
  MetricsSnapshot now;
  now.source = "bpf";
  now.nr_messages = 41;
  now.server = ServerStats{1, 2, 3, 4, 5, 6, 7};
  now.slots.wait.Add(0.002);
  Exposer exposer;
  uint16_t port = 20'000;
  while (!exposer.Start(std::to_string(port), [&] { return now; }).ok() && port < 21'000) port++;
  now.nr_messages = 42;
  const std::string page = Get(port);
  for (const char* line : {
           "slotscope_build_info{version=\"0.1.0\",source=\"bpf\"} 1\n",
           "# TYPE slotscope_messages_total counter\nslotscope_messages_total 42\n",
           "slotscope_remediate_dropped_total{reason=\"no_client\"} 2\n",
           "slotscope_remediate_dropped_total{reason=\"write_error\"} 3\n",
           "slotscope_remediate_dropped_total{reason=\"queue_full\"} 4\n",
           "slotscope_remediate_consumers_total{outcome=\"refused\"} 7\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"0.001\"} 0\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"0.003\"} 1\n",
           "slotscope_run_queue_wait_seconds_bucket{le=\"+Inf\"} 1\n",
       })
    EXPECT_NE(page.find(line), std::string::npos) << line;
  Exposer other;
  EXPECT_EQ(other.Start(std::to_string(port), [&] { return now; }).code(), Exit::kBusy);
  EXPECT_EQ(other.Start("203.0.113.1:9", [&] { return now; }).code(), Exit::kBusy)
      << "not of this machine";
  exposer.Stop();
  EXPECT_EQ(Get(port), "");
}

}  // namespace
}  // namespace slotscope
