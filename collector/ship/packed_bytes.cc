// SPDX-License-Identifier: MIT
#include "ship/packed_bytes.h"

#include <lz4.h>

#include <algorithm>
#include <utility>

namespace slotscope {

void PackedBytes::Add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t nr = std::min(bytes.size(), kPieceBytes - nr_piece_);
    std::memcpy(&piece_[nr_piece_], bytes.data(), nr);
    bytes.remove_prefix(nr);
    Grow(nr);
  }
}

void PackedBytes::AddTimes(size_t nr, char byte) {
  while (nr > 0) {
    const size_t now = std::min(nr, kPieceBytes - nr_piece_);
    std::memset(&piece_[nr_piece_], byte, now);
    nr -= now;
    Grow(now);
  }
}

void PackedBytes::Add(const PackedBytes& other) {
  if (!other.packed_.empty()) {
    Pack();
    packed_ += other.packed_;
    nr_packed_ += other.nr_packed_;
  }
  Add(std::string_view(other.piece_.get(), other.nr_piece_));
}

// A checksum of 16 bytes, the method, the size with this head and without the checksum, and the size of
// what it was.
void PackedBytes::Pack() {
  if (nr_piece_ == 0) return;
  constexpr size_t kMost = kPieceBytes + sizeof(uint64_t);
  constexpr size_t kChecksumBytes = 16, kHeadBytes = 9;
  constexpr char kLz4 = static_cast<char>(0x82);
  char packed[kChecksumBytes + kHeadBytes + LZ4_COMPRESSBOUND(kMost)];
  std::memset(packed, 0, kChecksumBytes);
  char* const head = packed + kChecksumBytes;
  // There is room for what cannot be compressed, so it does not fail.
  const int got = LZ4_compress_default(piece_.get(), head + kHeadBytes, static_cast<int>(nr_piece_),
                                       LZ4_COMPRESSBOUND(kMost));
  const auto size = static_cast<uint32_t>(kHeadBytes + static_cast<size_t>(got));
  const auto unpacked_size = static_cast<uint32_t>(nr_piece_);
  head[0] = kLz4;
  std::memcpy(head + 1, &size, sizeof(size));
  std::memcpy(head + 5, &unpacked_size, sizeof(unpacked_size));
  packed_.append(packed, kChecksumBytes + size);
  nr_packed_ += nr_piece_;
  nr_piece_ = 0;
}

std::string PackedBytes::Take() {
  Pack();
  nr_packed_ = 0;
  return std::exchange(packed_, {});
}

void PackedBytes::Clear() {
  packed_.clear();
  nr_piece_ = nr_packed_ = 0;
}

}  // namespace slotscope
