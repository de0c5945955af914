// SPDX-License-Identifier: MIT
// What the reader hands to the merge, and what a raw file holds: a sequence of items, each a header and
// `size` bytes. A drain round is the items up to and with a kRoundEnd. The merge sees nothing else, so
// the same items give the same rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace slotscope {

// Between two drains, and from a message to its drain. What says otherwise is broken, and would make us
// write slots without an end.
inline constexpr uint64_t kMaxJumpNs = 600'000'000'000;
// A slot is at most so long.
inline constexpr uint64_t kMaxSlotNs = 1'000'000'000;
// A longer step is a pause: rounds come every few ms, and in an idle machine several times a second. All
// pauses together are at most so long, and as long again as the time without them: a machine may stand
// still every night, but a small file must not make slots for years.
inline constexpr uint64_t kPauseNs = 2'000'000'000;
inline constexpr uint64_t kMaxPausesNs = 3'600'000'000'000;

// A stream is a CPU's ring; the stream behind the last CPU carries state dumps.
enum class ItemKind : uint16_t {
  kRecords = 1,    // a drained ring: perf records as the kernel wrote them; clock read before and after
  kRoundEnd = 2,   // every ring has been drained once
  kOnline = 3,     // from begin_ns on this CPU may write into its new ring
  kOffline = 4,    // the CPU went away, noticed at begin_ns
  kExpected = 5,   // measures of this CPU are to be expected from about begin_ns on
  kDumpBegin = 6,  // a state dump begins at begin_ns
  kDump = 7,       // messages of it, one behind the other, that did not come through a ring
  kDumpEnd = 8,    // it ended at begin_ns: every process alive at its begin has been named
  kClock = 9,      // CLOCK_REALTIME - CLOCK_MONOTONIC is end_ns (as int64_t) from begin_ns on
  kLosses = 10,    // a SourceLosses, as of begin_ns; as of end_ns, if it is not 0, it was the one before
  kNote = 11,      // text that belongs beside the rows from begin_ns on
  kGpuView = 12,   // a GpuViewItem and as many int32_t as it says
  kGpuSample = 13,  // a GpuSample, as of begin_ns
  // Of another producer of the remediation protocol (--join-remediate).
  kRemoteMemory = 14,    // a RemoteMemory
  kRemoteStraggle = 15,  // a RemoteStraggle
  kRemoteGone = 16,      // the connection to it ended at begin_ns
  kRemoteCounts = 17,    // a RemoteCounts, as of begin_ns
  kLostCalls = 18,       // a LostCalls: made between end_ns and begin_ns; before the losses with them
  kPods = 20,            // lines "UID NAMESPACE/NAME": all pods that there are, from begin_ns on
  kSlotLength = 19,      // slots are so long (ns, a uint64_t) from begin_ns on, see slots/slot_lengths.h
  kWaitCauses = 21,      // a uint64_t: not 0 if it is to be said why processes wait, from begin_ns on
};

struct ItemHeader {
  ItemKind kind;
  uint16_t flags;   // kItem*
  uint32_t stream;  // 0 where it means nothing
  uint32_t size;    // of the payload, a multiple of 8
  uint32_t zero;
  uint64_t begin_ns;
  uint64_t end_ns;
};
static_assert(sizeof(ItemHeader) == 32);

// The ring held more; begin_ns says nothing yet.
inline constexpr uint16_t kItemMore = 1;

inline constexpr size_t kItemAlign = 8;

// A buffer of whole items. A message in a perf record lies 12 bytes behind its start: data() is 4 bytes
// off an 8-byte border, so that messages are aligned and can be read where they are.
class Block {
 public:
  static constexpr size_t kCapacity = 256u << 10;

  std::byte* data() { return storage_.data() + 4; }
  std::span<const std::byte> bytes() const { return {storage_.data() + 4, size_}; }
  size_t size() const { return size_; }
  size_t room() const { return kCapacity - size_; }
  void Clear() { size_ = 0; }
  // REQUIRES: size <= kCapacity.
  void Resize(size_t size) { size_ = size; }

  // REQUIRES: room for a header and `payload`, whose size is a multiple of 8.
  void Append(ItemHeader header, std::span<const std::byte> payload = {}) {
    header.size = static_cast<uint32_t>(payload.size());
    std::memcpy(data() + size_, &header, sizeof(header));
    if (!payload.empty()) std::memcpy(data() + size_ + sizeof(header), payload.data(), payload.size());
    size_ += sizeof(header) + payload.size();
  }

 private:
  size_t size_ = 0;
  alignas(kItemAlign) std::array<std::byte, 4 + kCapacity + 4> storage_;
};

// Losses that no ring record tells of, summed since the source started.
struct SourceLosses {
  uint64_t nr_output_errors = 0;   // messages a program could not write into a ring
  uint64_t nr_skipped_runs = 0;    // program runs the kernel skipped because it was already running
  uint64_t nr_untracked = 0;       // processes that found no room in the process table
  uint64_t nr_failed_allocs = 0;   // births without an RMID (not a loss: each has its rows)
  uint64_t nr_lost_calls = 0;      // CUDA calls whose message could not be made
  uint64_t nr_bypassed_calls = 0;  // CUDA calls and returns that were not looked at: no heartbeat
  uint64_t bypassed_ns = 0;        // for how long
  uint64_t nr_untold_renames = 0;  // of processes that rename themselves all the time
  uint64_t nr_unnamed_calls = 0;   // of nr_lost_calls: those that no LostCalls tells of
  uint64_t nr_late_looks = 0;      // for CUDA at a process, or at all, that were put off
  uint64_t unprobed_ns = 0;        // in which CUDA was not probed, to cost less
  bool operator==(const SourceLosses&) const = default;
};
static_assert(sizeof(SourceLosses) % kItemAlign == 0);

// CUDA calls of one process whose message could not be made.
struct LostCalls {
  int32_t tgid;
  uint32_t zero;
  uint64_t start_time_ns;
  uint64_t nr;
};
static_assert(sizeof(LostCalls) % kItemAlign == 0);

// Which of the GPUs in the facts are devices 0, 1, ... of a process: indices follow.
struct GpuViewItem {
  int32_t tgid;
  uint32_t nr;
};
static_assert(sizeof(GpuViewItem) % kItemAlign == 0);

// What NVML says of a GPU. A value counts if its bit is set.
struct GpuSample {
  uint32_t gpu;            // index into the facts' list
  uint32_t known;          // kGpuSample*
  uint64_t used_bytes;     // of memory, now
  uint64_t sm_active_ppm;  // the share of SMs that were busy, in millionths, since since_ns
  uint64_t since_ns;
};
// What a process holds on a GPU, as another producer says.
struct RemoteMemory {
  int32_t tgid;
  uint32_t gpu_id;  // that producer's number
  uint64_t bytes;
  uint64_t ts_ns;  // when, CLOCK_MONOTONIC
};
static_assert(sizeof(RemoteMemory) % kItemAlign == 0);

// A process straggles.
struct RemoteStraggle {
  int32_t tgid;
  uint32_t sustained;
  uint64_t drop_ppm;
  uint64_t ts_ns;
};
static_assert(sizeof(RemoteStraggle) % kItemAlign == 0);

// What came from the other producer, summed since the start.
struct RemoteCounts {
  uint64_t nr_connections = 0;
  uint64_t nr_failed_connections = 0;
  uint64_t nr_lines = 0;
  uint64_t nr_ignored = 0;    // of a type that is not joined
  uint64_t nr_malformed = 0;  // no message
  uint64_t nr_too_long = 0;   // lines, which were skipped
  uint64_t nr_misdated = 0;   // messages whose time cannot be: they count as of when they came
  bool operator==(const RemoteCounts&) const = default;
};
static_assert(sizeof(RemoteCounts) % kItemAlign == 0);

inline constexpr uint32_t kGpuSampleUsed = 1, kGpuSampleSmActive = 2;
static_assert(sizeof(GpuSample) % kItemAlign == 0);

// Gets whole items, whose times have been looked at. False: it cannot be.
struct ItemSink {
  virtual ~ItemSink() = default;
  virtual bool OnItem(const ItemHeader& item, std::span<const std::byte> payload) = 0;
};

}  // namespace slotscope
