// SPDX-License-Identifier: MIT
// The body of a request in ClickHouse's own compression: pieces of a megabyte, each by LZ4. Their
// checksums (CityHash, of a version that only ClickHouse has) are left out, and the server is told so:
// TCP and TLS have theirs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slotscope {

class Lz4Body {
 public:
  // Of the URL of a request that has such a body.
  static constexpr const char* kParameters =
      "decompress=1&http_native_compression_disable_checksumming_on_decompress=1";

  void Add(std::string_view bytes);
  // All of what was added; there is nothing in it any more. False: there is not enough memory.
  bool Take(std::string* body);
  // Of what was added.
  size_t nr_bytes() const { return nr_bytes_; }

 private:
  void Compress();

  std::string piece_, body_;
  size_t nr_bytes_ = 0;
  bool failed_ = false;
};

}  // namespace slotscope
