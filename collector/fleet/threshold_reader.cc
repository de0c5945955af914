// SPDX-License-Identifier: MIT
#include "fleet/threshold_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/curl.h"
#include "base/escape.h"

namespace slotscope {
namespace {

// Its end comes when the answer is longer than one of these can be.
size_t Append(char* bytes, size_t size, size_t nr, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * nr > ThresholdReader::kMaxAnswer) return CURL_WRITEFUNC_ERROR;
  body.append(bytes, size * nr);
  return size * nr;
}

}  // namespace

struct ThresholdReader::Impl {
  std::string question;  // a URL
  std::string host;
  uint64_t period_ns = 0;
  News* news = nullptr;
  EasyHandle easy;
  MultiHandle multi;
  std::string body;
  std::atomic<bool> stop_requested{false};
  mutable std::mutex mutex;
  ThresholdView view;
  ThresholdStats stats;
  std::thread thread;

  // When it has been answered, or cannot be, or nobody wants to know any more.
  CURLcode Ask() {
    body.clear();
    if (curl_multi_add_handle(multi.get(), easy.get())) return CURLE_FAILED_INIT;
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int nr_running = 1;
    while (!stop_requested && !curl_multi_perform(multi.get(), &nr_running) && nr_running > 0)
      curl_multi_poll(multi.get(), nullptr, 0, kTimeoutMs, nullptr);
    int nr_left;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &nr_left))
      if (message->msg == CURLMSG_DONE) code = message->data.result;
    curl_multi_remove_handle(multi.get(), easy.get());
    return code;
  }

  void Tell(const char* kind, const std::string& sentence) const {
    news->TellFirstOf(fmt::format("fleet: {}", kind), fmt::format("fleet: {} {}", host, sentence));
  }

  void OnAnswer(CURLcode code, uint64_t asked_ns) {
    std::lock_guard lock(mutex);
    if (code == CURLE_OPERATION_TIMEDOUT) {
      stats.nr_timeouts++;
      Tell("timeouts", fmt::format("has not answered for {} s", kTimeoutMs / 1000));
    } else if (code == CURLE_WRITE_ERROR) {
      stats.nr_malformed++;
      Tell("malformed", fmt::format("answers with more than {} bytes", kMaxAnswer));
    } else if (code != CURLE_OK) {
      stats.nr_unreachable++;
      Tell("unreachable", fmt::format("cannot be asked: {}", curl_easy_strerror(code)));
    } else {
      const ThresholdAnswer answer = ParseThreshold(body);
      switch (answer.kind) {
        case ThresholdAnswer::Kind::kValue:
          stats.nr_values++;
          view = {true, true, answer.value, asked_ns - std::min(asked_ns, NsOf(answer.age_s))};
          return;
        case ThresholdAnswer::Kind::kNoQuorum:
          stats.nr_no_quorum++;
          Tell("no_quorum", "has no threshold for us: there are too few peers, or it lacks our rules");
          view.reachable = true;
          view.has_quorum = false;
          return;
        case ThresholdAnswer::Kind::kMalformed:
          long status = 0;
          curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
          stats.nr_malformed++;
          Tell("malformed",
               fmt::format("does not answer as Prometheus does: {} (HTTP {})", answer.text, status));
      }
    }
    view.reachable = false;
  }

  // However old it claims to be.
  static uint64_t NsOf(double seconds) { return static_cast<uint64_t>(std::min(seconds, 1e9) * 1e9); }

  void Run() {
    while (!stop_requested) {
      const uint64_t asked_ns = MonotonicNs();
      const CURLcode code = Ask();
      if (stop_requested) return;
      OnAnswer(code, asked_ns);
      const uint64_t next_ns = asked_ns + period_ns;
      for (uint64_t now_ns; !stop_requested && (now_ns = MonotonicNs()) < next_ns;)
        curl_multi_poll(multi.get(), nullptr, 0, static_cast<int>((next_ns - now_ns) / 1'000'000 + 1),
                        nullptr);
    }
  }
};

ThresholdReader::ThresholdReader() = default;
ThresholdReader::~ThresholdReader() { Stop(); }

Status ThresholdReader::Start(const std::string& url, const std::string& cluster_id, uint64_t period_ns,
                              News* news) {
  auto impl = std::make_unique<Impl>();
  const bool has_curl = SetUpCurl();
  impl->easy.reset(curl_easy_init());
  impl->multi.reset(curl_multi_init());
  if (!has_curl || !impl->easy || !impl->multi)
    return {Exit::kKernel, "cannot set up libcurl: there is not enough memory"};
  impl->question = fmt::format("{}{}api/v1/query?query={}", url, url.ends_with('/') ? "" : "/",
                               UrlEscaped(impl->easy.get(), ThresholdQuery(cluster_id)));
  if (const CurlUrl parsed = ParseUrl(url)) impl->host = HostOf(parsed.get());
  impl->period_ns = period_ns;
  impl->news = news;
  CURL* const easy = impl->easy.get();
  curl_easy_setopt(easy, CURLOPT_URL, impl->question.c_str());
  SetCommon(easy);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &impl->body);
  impl_ = std::move(impl);
  impl_->thread = std::thread([this] { impl_->Run(); });
  return {};
}

void ThresholdReader::Stop() {
  if (!impl_) return;
  impl_->stop_requested = true;
  curl_multi_wakeup(impl_->multi.get());
  impl_->thread.join();
  impl_.reset();
}

ThresholdView ThresholdReader::view() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->view;
}

ThresholdStats ThresholdReader::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

Status CheckFleetUrl(const std::string& text) {
  const CurlUrl url = ParseUrl(text);
  const std::string scheme = url ? PartOf(url.get(), CURLUPART_SCHEME) : "";
  if (url && (scheme == "http" || scheme == "https") && PartOf(url.get(), CURLUPART_QUERY).empty() &&
      PartOf(url.get(), CURLUPART_FRAGMENT).empty())
    return {};
  return {Exit::kUsage, fmt::format("--fleet {}: give the URL of Prometheus, as in http://HOST:9090",
                                    EscapeControls(text))};
}

}  // namespace slotscope
