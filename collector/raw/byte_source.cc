// SPDX-License-Identifier: MIT
#include "raw/byte_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "base/unique_fd.h"

namespace slotscope {
namespace {

class FileBytes final : public ByteSource {
 public:
  FileBytes(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status Read(std::span<std::byte> to, size_t* size) override {
    ssize_t got;
    do got = read(fd_.get(), to.data(), to.size());
    while (got < 0 && errno == EINTR);
    *size = got < 0 ? 0 : static_cast<size_t>(got);
    if (got >= 0) return {};
    return {Exit::kBadInput, fmt::format("cannot read {}: {}", path_, ErrnoText(errno))};
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

class UnpackedBytes final : public ByteSource {
 public:
  UnpackedBytes(std::string path, std::unique_ptr<ByteSource> packed)
      : path_(std::move(path)), packed_(std::move(packed)), context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
  }
  ~UnpackedBytes() override { ZSTD_freeDCtx(context_); }

  Status Read(std::span<std::byte> to, size_t* size) override {
    *size = 0;
    while (*size == 0) {
      if (in_.pos == in_.size && !flushes_) {
        size_t got;
        if (Status status = packed_->Read(buffer_, &got); !status.ok()) return status;
        if (got == 0) return {};
        in_ = {buffer_.data(), got, 0};
      }
      ZSTD_outBuffer out = {to.data(), to.size(), 0};
      const size_t result = ZSTD_decompressStream(context_, &out, &in_);
      if (ZSTD_isError(result))
        return {Exit::kBadInput, fmt::format("{} is damaged: {}", path_, ZSTD_getErrorName(result))};
      flushes_ = out.pos == out.size;  // there may be more of what it has been given
      *size = out.pos;
    }
    return {};
  }

 private:
  std::string path_;
  std::unique_ptr<ByteSource> packed_;
  ZSTD_DCtx* context_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(ZSTD_DStreamInSize());
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool flushes_ = false;
};

bool IsPacked(int fd) {
  uint32_t magic = 0;
  if (pread(fd, &magic, sizeof(magic), 0) != sizeof(magic)) return false;
  return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

}  // namespace

Status OpenBytes(const std::string& path, std::unique_ptr<ByteSource>* source) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {Exit::kBadInput, fmt::format("cannot open {}: {}", path, ErrnoText(errno))};
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const bool packed = IsPacked(fd.get());
  *source = std::make_unique<FileBytes>(path, std::move(fd));
  if (packed) *source = std::make_unique<UnpackedBytes>(path, std::move(*source));
  return {};
}

}  // namespace slotscope
