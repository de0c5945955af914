// SPDX-License-Identifier: MIT
// Bytes that grow at their end, in ClickHouse's own compression: pieces of 64 KB, each by LZ4 once it is
// full, so that a block of many rows takes little memory. The pieces' checksums (CityHash, of a version
// that only ClickHouse has) are left out, and the server is told so: TCP and TLS have theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace slotscope {

class PackedBytes {
 public:
  // Of the URL of a request that has such a body.
  static constexpr const char* kParameters =
      "decompress=1&http_native_compression_disable_checksumming_on_decompress=1";

  // The lower bytes of a number, little endian. REQUIRES: nr <= 8.
  void AddNumber(uint64_t number, size_t nr) {
    std::memcpy(&piece_[nr_piece_], &number, sizeof(number));
    Grow(nr);
  }
  void Add(char byte) {
    piece_[nr_piece_] = byte;
    Grow(1);
  }
  void Add(std::string_view bytes);
  void AddTimes(size_t nr, char byte);
  void Add(const PackedBytes& other);

  // All that was added, packed; there is nothing in it any more.
  std::string Take();
  void Clear();
  // Of what was added.
  size_t nr_bytes() const { return nr_packed_ + nr_piece_; }

 private:
  static constexpr size_t kPieceBytes = 64u << 10;

  void Grow(size_t nr) {
    nr_piece_ += nr;
    if (nr_piece_ >= kPieceBytes) Pack();
  }
  void Pack();

  // What is not packed yet, and room for a number: it has less than kPieceBytes.
  std::unique_ptr<char[]> piece_{new char[kPieceBytes + sizeof(uint64_t)]};
  size_t nr_piece_ = 0;
  std::string packed_;
  size_t nr_packed_ = 0;  // of which it was made
};

}  // namespace slotscope
