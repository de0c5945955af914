// SPDX-License-Identifier: MIT
#include "raw/raw_file.h"

#include <fmt/core.h>
#include <slotscope/events.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace slotscope {
namespace {

constexpr size_t kMaxFactsBytes = 1u << 20;
constexpr size_t kMaxState = Block::kCapacity;  // of a chunk
// Of all of them: a million allocations on GPUs, and 200,000 processes.
constexpr uint64_t kMaxStateBytes = 1u << 30;
constexpr size_t kReadBytes = 128u << 10;  // and a chunk: what a core has at hand
// From a border of 8 bytes, so that its bytes lie as a Block's do.
constexpr size_t kChunkAt = 4;
static_assert((kChunkAt + sizeof(RawChunkHeader)) % kItemAlign == 4);
// Messages of version 1 mean the same in version 2, which only has more to say of RMIDs that are freed.
constexpr uint32_t kOldestAbi = 1;

uint64_t HashOf(const RawChunkHeader& header, std::span<const std::byte> bytes) {
  uint64_t seed = XXH3_64bits(&header, offsetof(RawChunkHeader, hash));
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace

Status RawFileWriter::Open(const std::string& path) { return file_.Open(path); }

Status RawEncoder::WriteChunk(RawChunk type, std::span<const std::byte> bytes) {
  RawChunkHeader header = {type, static_cast<uint32_t>(bytes.size()), nr_chunks_++, 0};
  header.hash = HashOf(header, bytes);
  return file_->Write({std::as_bytes(std::span(&header, 1)), bytes});
}

Status RawEncoder::WriteFacts(const Facts& facts) {
  RawFileHeader header = {{}, kRawVersion, SS_ABI_VERSION};
  std::memcpy(header.magic, kRawMagic, sizeof(kRawMagic));
  if (Status status = file_->Write({std::as_bytes(std::span(&header, 1))}); !status.ok()) return status;
  const std::string json = FactsToJson(facts);
  return WriteChunk(RawChunk::kFacts, std::as_bytes(std::span(json)));
}

Status RawEncoder::WriteState(std::string_view state) {
  const uint64_t size = state.size();
  std::string text(reinterpret_cast<const char*>(&size), sizeof(size));
  text += state;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kMaxState)))
    if (Status status =
            WriteChunk(RawChunk::kState, std::as_bytes(std::span(rest.substr(0, kMaxState))));
        !status.ok())
      return status;
  return {};
}

Status RawEncoder::WriteItems(std::span<const std::byte> items) {
  return WriteChunk(RawChunk::kItems, items);
}

Status RawFileWriter::Finish() {
  if (Status status = encoder_.WriteEnd(); !status.ok()) return status;
  return file_.Commit();
}

Status RawFileReader::Open(const std::string& path) {
  path_ = path;
  if (Status status = OpenBytes(path, &source_); !status.ok()) return status;
  RawFileHeader header = {};
  if (Fill(sizeof(header))) std::memcpy(&header, buffer_.data() + begin_, sizeof(header));
  if (std::memcmp(header.magic, kRawMagic, sizeof(kRawMagic)) != 0)
    return {Exit::kBadInput,
            fmt::format("{} is no raw file: give one that slotscope record --raw has made", path)};
  if (header.version != kRawVersion || header.abi_version < kOldestAbi ||
      header.abi_version > SS_ABI_VERSION)
    return {Exit::kBadInput,
            fmt::format(
                "{} has version {} and messages of version {}; this slotscope reads {} and {} to {}: "
                "use the slotscope that recorded it",
                path, header.version, header.abi_version, kRawVersion, kOldestAbi, SS_ABI_VERSION)};
  good_bytes_ = sizeof(header);
  begin_ += sizeof(header);
  std::span<const std::byte> json;
  RawChunkHeader chunk;
  if (!ReadChunk(&chunk, &json, kMaxFactsBytes))
    return status_.ok()
               ? Status(Exit::kBadInput, fmt::format("{} ends before it says what it is of", path))
               : status_;
  if (Status status = ParseFacts({reinterpret_cast<const char*>(json.data()), json.size()}, &facts_);
      !status.ok())
    return {status.code(), fmt::format("{}: {}", path, status.message())};
  facts_.abi = header.abi_version;
  return {};
}

// Of what was not used yet, `size` bytes lie one behind the other in memory, from an address that puts a
// chunk's bytes where a Block has them. False: there is less in the file, or status() is an error.
bool RawFileReader::Fill(size_t size) {
  const bool aligned = begin_ % kItemAlign == kChunkAt;
  if (aligned && end_ - begin_ >= size) return true;
  if (buffer_.size() < kChunkAt + size + kReadBytes) buffer_.resize(kChunkAt + size + kReadBytes);
  std::memmove(buffer_.data() + kChunkAt, buffer_.data() + begin_, end_ - begin_);
  end_ = kChunkAt + end_ - begin_;
  begin_ = kChunkAt;
  while (end_ - begin_ < size) {
    size_t got;
    status_ = source_->Read({buffer_.data() + end_, kReadBytes}, &got);
    if (!status_.ok() || got == 0) return false;
    end_ += got;
  }
  return true;
}

bool RawFileReader::Fail(const std::string& what) {
  status_ = {Exit::kBadInput, fmt::format("{}: chunk {} at byte {} {}; what is before it was kept",
                                          path_, nr_chunks_, good_bytes_, what)};
  return false;
}

// A file that ends within a chunk was being written: no error.
bool RawFileReader::ReadChunk(RawChunkHeader* header, std::span<const std::byte>* bytes,
                              size_t max_size) {
  if (!Fill(sizeof(*header))) return false;
  std::memcpy(header, buffer_.data() + begin_, sizeof(*header));
  if (header->type != RawChunk::kFacts && header->type != RawChunk::kItems &&
      header->type != RawChunk::kEnd && header->type != RawChunk::kState)
    return Fail(fmt::format("has the unknown type {}", static_cast<uint32_t>(header->type)));
  if (header->number != nr_chunks_) return Fail(fmt::format("calls itself {}", header->number));
  if (header->size > max_size) return Fail(fmt::format("says that it is {} bytes long", header->size));
  if (!Fill(sizeof(*header) + header->size)) return false;
  *bytes = std::span(buffer_).subspan(begin_ + sizeof(*header), header->size);
  if (HashOf(*header, *bytes) != header->hash) return Fail("is damaged (its hash is another)");
  if ((header->type == RawChunk::kFacts) != (nr_chunks_ == 0))
    return Fail(nr_chunks_ == 0 ? "is none of facts" : "is a second one of facts");
  nr_chunks_++;
  begin_ += sizeof(*header) + header->size;
  good_bytes_ += sizeof(*header) + header->size;
  return true;
}

Status RawFileReader::ReadState(std::string* state) {
  state->clear();
  uint64_t size = 0;
  do {
    RawChunkHeader header;
    std::span<const std::byte> bytes;
    if (!ReadChunk(&header, &bytes, kMaxState)) break;
    if (header.type != RawChunk::kState) {
      Fail("is not what was known when it began");
      break;
    }
    state->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (size == 0 && state->size() >= sizeof(size)) {
      std::memcpy(&size, state->data(), sizeof(size));
      if (size > kMaxStateBytes) Fail("says that too much was known");
      size += sizeof(size);
    }
  } while (status_.ok() && state->size() < size);
  if (status_.ok() && state->size() == size && size > 0) {
    state->erase(0, sizeof(size));
    return {};
  }
  if (!status_.ok()) return status_;
  return {Exit::kBadInput, fmt::format("{} ends before it says what was known when it began", path_)};
}

bool RawFileReader::Next(std::span<const std::byte>* items) {
  if (ended_ || !status_.ok()) return false;
  RawChunkHeader header;
  do
    if (!ReadChunk(&header, items, Block::kCapacity)) return false;
  while (header.type == RawChunk::kState);
  ended_ = header.type == RawChunk::kEnd;
  return !ended_;
}

}  // namespace slotscope
