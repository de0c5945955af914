// SPDX-License-Identifier: MIT
// An Xid: what NVIDIA's driver says in the kernel log when something is wrong with a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotscope {

struct Xid {
  int32_t code = 0;
  std::string bus;                          // domain, bus and device, as they are written: "0000:91:00"
  std::optional<int32_t> gpu_instance;      // of MIG
  std::optional<int32_t> compute_instance;  // of MIG
  std::optional<int32_t> pid;               // not said, or <unknown>
  std::string process;                      // its name; "" as above
  std::string message;
  std::optional<int32_t> cause;  // the Xid before, of which this one is a consequence
};

// Where the driver's own words begin; npos if it is no line about an Xid.
size_t FindXid(std::string_view line);

// From there on. Nothing if it goes on in another way: such as SXids, which are of NVSwitches.
std::optional<Xid> ParseXid(std::string_view text);

// What is to be done about one, in a sentence.
const char* XidRemedy(int32_t code);

}  // namespace slotscope
