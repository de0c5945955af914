// SPDX-License-Identifier: MIT
#include "report/packer.h"

#include <zlib.h>

#include <new>

namespace slotscope {
namespace {

std::string Base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; k++)
      text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return text;
}

}  // namespace

std::string Packer::Text() const {
  uLongf size = compressBound(bytes_.size());
  std::string packed(size, '\0');
  // Fails only without memory.
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes_.data()), bytes_.size(),
                Z_BEST_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  return Base64(packed);
}

}  // namespace slotscope
