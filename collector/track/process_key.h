// SPDX-License-Identifier: MIT
// Who a process is, and what it is called.
#pragma once

#include <slotscope/events.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace slotscope {

struct ProcessKey {
  int32_t tgid;
  uint64_t start_time_ns;
  auto operator<=>(const ProcessKey&) const = default;
  template <typename Archive>
  void State(Archive& state) {
    state(tgid, start_time_ns);
  }
};

struct ProcessKeyHash {
  size_t operator()(const ProcessKey& key) const {
    return (static_cast<uint64_t>(static_cast<uint32_t>(key.tgid)) ^
            key.start_time_ns * 0x9e3779b97f4a7c15u) *
           0xbf58476d1ce4e5b9u;
  }
};

using Comm = std::array<char, SS_COMM_LEN>;

// Up to the first 0, raw: to be escaped before it is shown.
inline std::string_view CommText(const Comm& comm) {
  return {comm.data(), strnlen(comm.data(), comm.size())};
}

}  // namespace slotscope
