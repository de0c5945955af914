// SPDX-License-Identifier: MIT
// Metrics for Prometheus, over HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "metrics/families.h"

namespace slotscope {

class Exposer {
 public:
  using CollectFn = std::function<Families()>;

  Exposer();
  ~Exposer();
  Exposer(const Exposer&) = delete;

  // `address`: HOST:PORT, or PORT on the loopback interface. `collect` is called by threads of the
  // exposer's, until Stop(). Exit::kBusy if it cannot listen.
  Status Start(const std::string& address, CollectFn collect);
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope
