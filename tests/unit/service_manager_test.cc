// SPDX-License-Identifier: MIT
#include "base/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/notify_listener.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
constexpr uint64_t kSecondNs = 1'000'000'000;

// What systemd listens to.
class Listener : public NotifyListener {
 public:
  std::vector<std::string> Heard() {
    std::vector<std::string> texts;
    for (std::string one; !(one = TakeOne()).empty();) texts.push_back(std::move(one));
    return texts;
  }
};

TEST(ServiceManagerTest, HearsOfTheLifeOfARecording) {
  Listener listener;
  ServiceManager manager;
  manager.Open();
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr) << "a command that is recorded is no part of the service";
  manager.Ready();
  manager.Status("10 rows");
  manager.Poll(100 * kSecondNs, 1);  // the manager does not watch
  manager.Stopping();
  EXPECT_THAT(listener.Heard(), ElementsAre("READY=1", "STATUS=10 rows", "STOPPING=1"));
}

// Twice in the time that is set; not while nothing goes on.
TEST(ServiceManagerTest, IsToldThatWeAreAliveWhileWeAre) {
  Listener listener;
  setenv("WATCHDOG_USEC", "20000000", 1);
  ServiceManager manager;
  manager.Open();
  uint64_t rounds = 0;
  for (uint64_t s = 100; s <= 130; s++) manager.Poll(s * kSecondNs, ++rounds);
  EXPECT_THAT(listener.Heard(), ElementsAre("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"));
  for (uint64_t s = 131; s < 200; s++) manager.Poll(s * kSecondNs, rounds);
  EXPECT_THAT(listener.Heard(), ElementsAre());
  manager.Poll(200 * kSecondNs, ++rounds);
  EXPECT_THAT(listener.Heard(), ElementsAre("WATCHDOG=1"));
}

TEST(ServiceManagerTest, NobodyIsToldWithoutOne) {
  for (const char* path : {"", "x", "relative/path", "/nowhere/at/all"}) {
    setenv("NOTIFY_SOCKET", path, 1);
    ServiceManager manager;
    manager.Open();
    manager.Ready();
  }
  ServiceManager manager;
  manager.Open();
  manager.Ready();
}

}  // namespace
}  // namespace slotscope
