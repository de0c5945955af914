// SPDX-License-Identifier: MIT
#include "metrics/exposer.h"

#include <fmt/core.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>
#include <utility>
#include <vector>

#include "base/escape.h"

namespace slotscope {
namespace {

// Of clients that are silent for as long as we wait for them, some may come at once.
constexpr const char* kThreads = "4";
constexpr const char* kRequestTimeoutMs = "2000";

struct Collector final : prometheus::Collectable {
  explicit Collector(Exposer::CollectFn from) : collect(std::move(from)) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return collect().Take(); }
  Exposer::CollectFn collect;
};

}  // namespace

struct Exposer::Impl {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Exposer::Exposer() = default;
Exposer::~Exposer() { Stop(); }

Status Exposer::Start(const std::string& address, CollectFn collect) {
  auto impl = std::make_unique<Impl>();
  const std::string at =
      address.find(':') == address.npos ? fmt::format("127.0.0.1:{}", address) : address;
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", at, "num_threads", kThreads, "request_timeout_ms", kRequestTimeoutMs});
  } catch (const std::exception&) {
    return {
        Exit::kBusy,
        fmt::format("--metrics {}: cannot listen there: it is no address of this machine, or another "
                    "program has the port",
                    EscapeControls(address))};
  }
  impl->collector = std::make_shared<Collector>(std::move(collect));
  impl->exposer->RegisterCollectable(impl->collector);
  impl_ = std::move(impl);
  return {};
}

void Exposer::Stop() { impl_.reset(); }

}  // namespace slotscope
