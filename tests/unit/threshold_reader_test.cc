// SPDX-License-Identifier: MIT
// Asking a Prometheus that is well, and others.
#include "fleet/threshold_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "tests/fleet/fake_prometheus.h"
#include "tests/unit/until.h"

namespace slotscope {
namespace {

constexpr uint64_t kIntervalNs = 10'000'000;

std::string Http(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

constexpr const char* kGood =
    R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{"slotscope_is":"threshold"},)"
    R"("value":[100,"0.8125"]},{"metric":{"slotscope_is":"time"},"value":[100,"99"]}]}})";

TEST(ThresholdReader, ReadsAThreshold) {
  FakePrometheus prometheus(Http(kGood), FakePrometheus::Then::kClose);
  News news;
  ThresholdReader reader;
  ASSERT_TRUE(reader.Start(prometheus.url() + "/prometheus/", "a b", kIntervalNs, &news).ok());
  ASSERT_TRUE(Until([&] { return reader.stats().nr_values >= 3; }));
  const uint64_t now_ns = MonotonicNs();
  const ThresholdView view = reader.view();
  EXPECT_TRUE(view.reachable);
  EXPECT_TRUE(view.has_quorum);
  ASSERT_TRUE(view.value);
  EXPECT_EQ(*view.value, 0.8125);
  EXPECT_GE(now_ns - view.computed_ns, 1'000'000'000u) << "by Prometheus' clock it is a second old";
  EXPECT_EQ(news.Take().size(), 0u);
  EXPECT_EQ(prometheus.asked().find("GET /prometheus/api/v1/query?query=label_replace%28slotscope"), 0u)
      << prometheus.asked();
  EXPECT_NE(prometheus.asked().find("cluster_id%3D%22a%20b%22"), std::string::npos);
}

TEST(ThresholdReader, CountsWhatElseComes) {
  using Then = FakePrometheus::Then;
  const std::string kError = R"({"status":"error","errorType":"execution","error":"query timed out"})";
  const std::string kNone = R"({"status":"success","data":{"resultType":"vector","result":[]}})";
  const struct {
    const char* what;
    std::string answer;
    Then then;
    uint64_t ThresholdStats::*count;
    const char* says;
  } kCases[] = {
      {"no quorum", Http(kNone), Then::kClose, &ThresholdStats::nr_no_quorum, "too few peers"},
      {"an error", Http(kError, "503 Service Unavailable"), Then::kClose, &ThresholdStats::nr_malformed,
       "query timed out (HTTP 503)"},
      {"another page", Http("<html>It works!</html>"), Then::kClose, &ThresholdStats::nr_malformed,
       "no JSON object (HTTP 200)"},
      {"a page elsewhere",
       "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", Then::kClose,
       &ThresholdStats::nr_malformed, "(HTTP 302)"},
      {"too much", Http(std::string(10'000'000, ' ')), Then::kClose, &ThresholdStats::nr_malformed,
       "more than 65536 bytes"},
      {"garbage", std::string(100'000, '\xff'), Then::kClose, &ThresholdStats::nr_unreachable,
       "cannot be asked"},
      {"nothing", "", Then::kClose, &ThresholdStats::nr_unreachable, "cannot be asked"},
      {"half of it", Http(kGood).substr(0, 150), Then::kClose, &ThresholdStats::nr_unreachable,
       "cannot be asked"},
      {"half of it, and then nothing", Http(kGood).substr(0, 150), Then::kSayNothingMore,
       &ThresholdStats::nr_timeouts, "has not answered for 2 s"},
      {"headers without an end", "HTTP/1.1 200 OK\r\n" + std::string(10'000, 'x'), Then::kSayNothingMore,
       &ThresholdStats::nr_timeouts, "has not answered for 2 s"},
  };
  for (const auto& c : kCases) {
    FakePrometheus prometheus(c.answer, c.then);
    News news;
    ThresholdReader reader;
    ASSERT_TRUE(reader.Start(prometheus.url(), "a", kIntervalNs, &news).ok());
    ASSERT_TRUE(Until([&] { return reader.stats().*c.count > 0; })) << c.what;
    EXPECT_FALSE(reader.view().value) << c.what;
    EXPECT_EQ(reader.view().reachable, c.count == &ThresholdStats::nr_no_quorum) << c.what;
    const auto sentences = news.Take();
    ASSERT_EQ(sentences.size(), 1u) << c.what;
    EXPECT_NE(sentences[0].find(c.says), std::string::npos) << c.what << ": " << sentences[0];
  }
}

TEST(ThresholdReader, KeepsWhatItHadWhenNobodyIsThere) {
  News news;
  ThresholdReader reader;
  {
    FakePrometheus prometheus(Http(kGood), FakePrometheus::Then::kClose);
    const std::string url = "http://user:secret@" + prometheus.url().substr(7);
    ASSERT_TRUE(reader.Start(url, "a", kIntervalNs, &news).ok());
    ASSERT_TRUE(Until([&] { return reader.stats().nr_values > 0; }));
  }
  ASSERT_TRUE(Until([&] { return reader.stats().nr_unreachable > 0; }));
  const ThresholdView view = reader.view();
  EXPECT_FALSE(view.reachable);
  EXPECT_TRUE(view.has_quorum);
  ASSERT_TRUE(view.value);
  EXPECT_EQ(*view.value, 0.8125);
  const auto sentences = news.Take();
  ASSERT_GE(sentences.size(), 1u);
  EXPECT_EQ(sentences[0].find("secret"), std::string::npos);
  EXPECT_EQ(sentences[0].find("fleet: 127.0.0.1:"), 0u) << sentences[0];
}

TEST(ThresholdReader, StopsWhileItWaits) {
  FakePrometheus prometheus("", FakePrometheus::Then::kSayNothingMore);
  News news;
  ThresholdReader reader;
  ASSERT_TRUE(reader.Start(prometheus.url(), "a", 300'000'000'000, &news).ok());
  ASSERT_TRUE(Until([&] { return !prometheus.asked().empty(); }));
  reader.Stop();
  EXPECT_TRUE(news.Take().empty());
}

TEST(FleetUrl, IsOfPrometheus) {
  const struct {
    const char* url;
    bool ok;
  } kCases[] = {
      {"http://127.0.0.1:9090", true},
      {"https://prometheus.example/sub/", true},
      {"http://[::1]:9090", true},
      {"http://user:secret@host:1", true},
      {"", false},
      {"127.0.0.1:9090", false},
      {"file:///etc/passwd", false},
      {"ftp://host", false},
      {"http://", false},
      {"http://host:99999", false},
      {"http://host/?query=1", false},
      {"http://host/#x", false},
      {"http://ho st", false},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(CheckFleetUrl(c.url).code(), c.ok ? Exit::kOk : Exit::kUsage) << c.url;
}

}  // namespace
}  // namespace slotscope
