// SPDX-License-Identifier: MIT
#include "ship/lz4_body.h"

#include <lz4.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace slotscope {
namespace {

constexpr size_t kPieceBytes = 1u << 20;
constexpr char kLz4 = static_cast<char>(0x82);
constexpr size_t kChecksumBytes = 16;
constexpr size_t kHeadBytes = 9;  // the method, and both sizes

}  // namespace

void Lz4Body::Add(std::string_view bytes) {
  nr_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const size_t nr = std::min(bytes.size(), kPieceBytes - piece_.size());
    piece_ += bytes.substr(0, nr);
    bytes.remove_prefix(nr);
    if (piece_.size() == kPieceBytes) Compress();
  }
}

void Lz4Body::Compress() {
  const size_t begin = body_.size();
  const int most = LZ4_compressBound(static_cast<int>(piece_.size()));
  body_.resize(begin + kChecksumBytes + kHeadBytes + static_cast<size_t>(most));
  char* const head = &body_[begin + kChecksumBytes];
  const int got =
      LZ4_compress_default(piece_.data(), head + kHeadBytes, static_cast<int>(piece_.size()), most);
  failed_ |= got <= 0;
  const auto packed = static_cast<uint32_t>(kHeadBytes + static_cast<size_t>(std::max(got, 0)));
  const auto unpacked = static_cast<uint32_t>(piece_.size());
  head[0] = kLz4;
  std::memcpy(head + 1, &packed, sizeof(packed));
  std::memcpy(head + 5, &unpacked, sizeof(unpacked));
  body_.resize(begin + kChecksumBytes + packed);
  piece_.clear();
}

bool Lz4Body::Take(std::string* body) {
  if (!piece_.empty()) Compress();
  *body = std::exchange(body_, {});
  nr_bytes_ = 0;
  return !std::exchange(failed_, false);
}

}  // namespace slotscope
