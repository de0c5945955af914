// SPDX-License-Identifier: MIT
// What most sources of the collector include, compiled once. None may rely on it: each includes what it
// uses, and test-san and the fuzzers are built without it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
