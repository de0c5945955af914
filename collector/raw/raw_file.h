// SPDX-License-Identifier: MIT
// Raw files: a recording before it was merged. All numbers are little endian.
//
//   file    = RawFileHeader, then chunks
//   chunk   = RawChunkHeader, then `size` bytes
//   chunks  = one kFacts (JSON, see raw/facts.h), any number of kItems (whole items, see ring/item.h; a
//             drain round may go on in the next chunk), one kEnd (empty)
//
// In a recording a raw file is cut into segments, each of which is one, packed by zstd. Behind the facts
// of all but the first stand kStates: what the engine knew when it began (base/state.h). All together
// are a u64, how many bytes follow, and these.
//
// A chunk's hash covers its header and its bytes, and its number is part of the header, so a chunk that
// is damaged, missing, doubled or moved is noticed. A file without kEnd comes from a recorder that was
// killed; what is in it is good up to the first chunk that is not whole.
//
// Rules of change: another meaning of anything is another kRawVersion. Messages have their own,
// SS_ABI_VERSION.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/out_file.h"
#include "base/part_file.h"
#include "base/status.h"
#include "raw/byte_source.h"
#include "raw/facts.h"
#include "raw/raw_sink.h"
#include "ring/item.h"

namespace slotscope {

inline constexpr uint32_t kRawVersion = 1;
inline constexpr char kRawMagic[8] = {'s', 'l', 'o', 't', 'r', 'a', 'w', '\n'};

struct RawFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t abi_version;  // of the messages
};
static_assert(sizeof(RawFileHeader) == 16);

enum class RawChunk : uint32_t { kFacts = 1, kItems = 2, kEnd = 3, kState = 4 };

struct RawChunkHeader {
  RawChunk type;
  uint32_t size;
  uint64_t number;  // 0, 1, 2...
  uint64_t hash;    // XXH3-64 of the bytes, with that of the three fields before as its seed
};
static_assert(sizeof(RawChunkHeader) == 24);

// Makes one, of what is written to `file`, which outlives it.
class RawEncoder {
 public:
  explicit RawEncoder(OutFile* file) : file_(file) {}

  // Once, first.
  Status WriteFacts(const Facts& facts);
  // Then, if there is any.
  Status WriteState(std::string_view state);
  Status WriteItems(std::span<const std::byte> items);
  Status WriteEnd() { return WriteChunk(RawChunk::kEnd, {}); }

 private:
  Status WriteChunk(RawChunk type, std::span<const std::byte> bytes);

  OutFile* file_;
  uint64_t nr_chunks_ = 0;
};

// Writes one as a file. After an error nothing more is written, and the file ends at a chunk's end.
class RawFileWriter final : public RawSink {
 public:
  Status Open(const std::string& path);
  // Once, first.
  Status WriteFacts(const Facts& facts) { return encoder_.WriteFacts(facts); }
  Status WriteItems(std::span<const std::byte> items) { return encoder_.WriteItems(items); }
  Status WriteItems(std::span<const std::byte> items, const RawMoment& now) override {
    (void)now;
    return WriteItems(items);
  }
  // kEnd, and the file gets its name.
  Status Finish();
  void Discard() { file_.Discard(); }

  uint64_t size() const { return file_.size(); }
  const std::string& leftover_path() const { return file_.leftover_path(); }

 private:
  PartFile file_;
  RawEncoder encoder_{&file_};
};

// Reads one, or a segment, from front to back.
class RawFileReader {
 public:
  // Exit::kBadInput if it is none, of another version, or without facts.
  Status Open(const std::string& path);
  const Facts& facts() const { return facts_; }
  // The state that a segment begins with, once, before Next(): else it is passed over. Exit::kBadInput
  // if it is damaged.
  Status ReadState(std::string* state);

  // The next items, where they lie until the next call, aligned as in a Block. False: there are no more;
  // ended() and status() say why.
  bool Next(std::span<const std::byte>* items);

  // Was it complete? If not, and status() is ok, the recorder was killed.
  bool ended() const { return ended_; }
  // A chunk that is damaged, and where.
  const Status& status() const { return status_; }
  // Bytes of whole, good chunks.
  uint64_t nr_good_bytes() const { return good_bytes_; }

 private:
  // Header and bytes of a chunk, which are max_size at most.
  bool ReadChunk(RawChunkHeader* header, std::span<const std::byte>* bytes, size_t max_size);
  bool Fill(size_t size);
  bool Fail(const std::string& what);

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  Facts facts_;
  Status status_;
  bool ended_ = false;
  uint64_t nr_chunks_ = 0;
  uint64_t good_bytes_ = 0;
  std::vector<std::byte> buffer_;  // what was read and not used yet is [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace slotscope
