// SPDX-License-Identifier: MIT
// Any bytes as the remediation protocol of another producer, in pieces of any size; what is understood
// is what can be, and it can be joined.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "join/remote_state.h"
#include "remediate/parser.h"
#include "require.h"

namespace slotscope {
namespace {

struct Nowhere : SlotSink {
  void OnSlot(Slot*) override {}
};

}  // namespace
}  // namespace slotscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  if (size < 1) return 0;
  const size_t step = data[0] % 64u + 1;
  std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  LineCutter cutter;
  Nowhere nowhere;
  RemoteState state(&nowhere);
  const ClockPair now = {50'000'000'000, 1'700'000'000'000'000'000, 0};
  uint64_t slot_ns = now.monotonic_ns;
  const auto on_line = [&](std::string_view line) {
    Require(line.size() <= LineCutter::kMaxLine && !line.empty() && line.find('\n') == line.npos);
    RemoteMessage message = ParseRemoteLine(line);
    bool misdated;
    const uint64_t ts_ns = MonotonicOf(message.unix_ns, now, &misdated);
    Require(ts_ns <= now.monotonic_ns && now.monotonic_ns - ts_ns <= kMaxRemoteLagNs);
    if (message.kind == RemoteMessage::Kind::kMemory) {
      Require(message.memory.tgid > 0);
      message.memory.ts_ns = ts_ns;
      state.OnMemory(message.memory);
    } else if (message.kind == RemoteMessage::Kind::kStraggle) {
      Require(message.straggle.tgid > 0 && message.straggle.drop_ppm <= 1'000'000);
      message.straggle.ts_ns = ts_ns;
      state.OnStraggle(message.straggle);
    }
    Slot slot;
    slot.start_ns = slot_ns += 1'000'000;
    slot.end_ns = slot.start_ns + 1'000'000;
    Row row;
    row.key = {1, 0};
    slot.rows = {row};
    state.OnSlot(&slot);
  };
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size())))
    cutter.Feed(text.substr(0, step), on_line);
  return 0;
}
