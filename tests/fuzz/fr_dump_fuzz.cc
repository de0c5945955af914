// SPDX-License-Identifier: MIT
// Any bytes as a dump of a flight recorder: a pickle or JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "detect/inputs/fr_dump.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  FrDump dump;
  const Status status = ParseFrDump({reinterpret_cast<const char*>(data), size}, &dump);
  Require(status.ok() == status.message().empty());
  if (!status.ok()) return 0;
  Require(dump.version.starts_with("2."));
  for (const FrEntry& entry : dump.entries) {
    Require(entry.group < dump.groups.size() && entry.operation < dump.operations.size());
    Require(entry.created_ns > 0 && (!entry.timeout_ms || *entry.timeout_ms > 0));
  }
  for (const FrGroup& group : dump.groups)
    for (int32_t rank : group.members) Require(rank >= 0);
  return 0;
}
