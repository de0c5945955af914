// SPDX-License-Identifier: MIT
#include "recording/table.h"

#include <zstd.h>

#include <new>
#include <utility>

#include "base/held_path.h"
#include "base/trim.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

constexpr int kLevel = 1;                       // the next ones take twice the time for a tenth less
constexpr size_t kMaxText = kMaxFrameText / 4;  // of one frame

}  // namespace

Table::Table(std::string name, std::string extension, Contents contents)
    : name_(std::move(name)),
      extension_(std::move(extension)),
      contents_(contents),
      context_(ZSTD_createCCtx()) {
  if (!context_) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
}

Table::~Table() { ZSTD_freeCCtx(context_); }

void Table::Begin(const std::string& folder, uint64_t number, int64_t unix_s) {
  path_ = folder + "/" + FormatSegmentName({name_, number, unix_s, extension_});
  header_.clear();
  text_.clear();
  since_ns_.reset();
}

void Table::EndHeader() { header_ = std::exchange(text_, {}); }

Status Table::Write(std::initializer_list<std::span<const std::byte>> pieces) {
  for (std::span<const std::byte> piece : pieces)
    text_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return {};
}

void Table::Pack(FrameKind kind, std::string_view text, const FrameTimes& times) {
  const size_t index_at = packed_.size();
  const size_t frame_at = index_at + sizeof(FrameIndex);
  const size_t bound = ZSTD_compressBound(text.size());
  packed_.resize(frame_at + bound);
  // Fails only without memory, which throws elsewhere.
  const size_t size =
      ZSTD_compress2(context_, packed_.data() + frame_at, bound, text.data(), text.size());
  if (ZSTD_isError(size)) throw std::bad_alloc();
  packed_.resize(frame_at + size);
  const FrameIndex index = MakeFrameIndex(kind, size, text.size(), times);
  packed_.replace(index_at, sizeof(index), reinterpret_cast<const char*>(&index), sizeof(index));
}

Status Table::EndFrame(const FrameTimes& frame) {
  FrameTimes times = frame;
  if (contents_ == Contents::kSums) {
    if (!since_ns_) since_ns_ = times.start_ns;
    if (!text_.empty()) times.start_ns = std::exchange(*since_ns_, times.start_ns);
  }
  if (!text_.empty() && !header_.empty()) {
    Pack(FrameKind::kHeader, header_, {});
    header_.clear();
  }
  for (std::string_view rest = text_; !rest.empty();) {
    std::string_view part = rest.substr(0, kMaxText);
    if (part.size() < rest.size() && contents_ != Contents::kBytes)
      part = part.substr(0, part.rfind('\n') + 1);  // lines are shorter
    Pack(FrameKind::kRows, part, times);
    rest.remove_prefix(part.size());
  }
  const size_t nr_bytes = text_.size();
  text_.clear();
  FreeIfTooLarge(&text_, nr_bytes);
  return WritePacked();
}

Status Table::WritePacked() {
  if (packed_.empty()) return {};
  if (!file_) {
    auto file = std::make_unique<PartFile>();
    if (Status status = file->Open(path_); !status.ok()) return status;
    file_ = std::move(file);
  }
  if (!file_->ForgetError())
    return {Exit::kOutput, ShownPath(file_->part_path()) + " may end in half a frame"};
  if (Status status = file_->Write(packed_); !status.ok()) return status;
  size_ += packed_.size();
  std::string().swap(packed_);  // it was as long as the text, in case nothing could be packed
  return {};
}

void Table::DropFrame() {
  text_.clear();
  std::string().swap(packed_);  // of a table with few frames it would stay for hours
}

std::unique_ptr<PartFile> Table::TakeFile() {
  DropFrame();
  return std::exchange(file_, nullptr);
}

}  // namespace slotscope
