// SPDX-License-Identifier: MIT
// What one rank's flight recorder (of PyTorch's collectives) has kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "detect/inputs/value_tree.h"

namespace slotscope {

// A process group. Its number differs between ranks, its name and description do not.
struct FrGroup {
  std::string name;
  std::string description;       // "" before version 2.3
  std::vector<int32_t> members;  // ranks of the job, in their order; empty: not said
};

// What an operation was called with.
struct FrTensors {
  std::string text;       // "4096x1x5120 BFloat16"; "": not said
  uint64_t elements = 0;  // of all of them
  std::string type;       // BFloat16
};

enum class FrState : uint8_t { kScheduled, kStarted, kCompleted };

struct FrEntry {
  uint32_t group = 0;      // index into groups
  uint32_t operation = 0;  // index into operations
  uint32_t inputs = 0;     // index into tensors; 0: not said
  int64_t sequence = 0;    // of collectives of the group; point to point operations do not move it
  int64_t p2p_sequence = 0;
  int64_t created_ns = 0;  // Unix time
  // As the watchdog saw it, perhaps late.
  std::optional<int64_t> started_ns;
  std::optional<int64_t> completed_ns;
  std::optional<int64_t> timeout_ms;
  FrState state = FrState::kScheduled;
  bool is_p2p = false;
};

struct FrDump {
  std::string version;
  std::vector<FrGroup> groups;
  std::vector<std::string> operations;  // such as nccl:all_reduce
  std::vector<FrTensors> tensors = {{}};
  std::vector<FrEntry> entries;  // as they were recorded
  uint64_t nr_malformed = 0;     // entries that lack what all have
  int64_t newest_ns = 0;         // Unix time: the newest in any entry; 0: there is none
};

// A pickle or a JSON text, of versions 2.x. Exit::kBadInput. *tree is used, and can be again. Sends and
// receives of a batch have the state of the batch, of which the recorder knows more than of them.
Status ParseFrDump(std::string_view bytes, ValueTree* tree, FrDump* dump);
Status ParseFrDump(std::string_view bytes, FrDump* dump);

// Leaves out what no judgement needs: all that is completed but the one with the highest number, and
// what the recorder has said again later. A dump of thousands of entries has a few then.
void CondenseFrDump(FrDump* dump);

// The digits at the end of a file's name, before .json or .pkl; of which the dump itself does not know.
std::optional<int32_t> FrRankOfName(std::string_view file_name);

}  // namespace slotscope
