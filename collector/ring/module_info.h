// SPDX-License-Identifier: MIT
// What the kernel module says of itself in /proc/slotscope.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/rdt_shape.h"
#include "base/status.h"

namespace slotscope {

inline constexpr const char* kModuleInfoPath = "/proc/slotscope/info";
inline constexpr const char* kModuleRmidsPath = "/proc/slotscope/rmids";

using ModuleInfo = std::map<std::string, std::string, std::less<>>;

// "key: value" lines; others are ignored.
ModuleInfo ParseModuleInfo(std::string_view text);

// What the module counts, and where; nothing if it does not use RDT hardware, or says what cannot be.
RdtShape ParseModuleRdt(const ModuleInfo& info);

// Reads a file of the module whole. Exit::kModule if the module is not loaded.
Status ReadModuleFile(const char* path, std::string* text);

// Exit::kModule with both numbers if the module speaks another ABI than this program.
Status CheckModuleAbi(const ModuleInfo& info);

}  // namespace slotscope
