// SPDX-License-Identifier: MIT
// Any bytes as what is in a recording's folder. The first byte says how they are divided:
//
// 1: a manifest stands in front, its length in two bytes, and its text.
//
// 2: the rest is text, which is put into frames whose times it begins with; else it is a segment as it
// is.
//
// 4: of the table gpu, and not of the slots.
//
// 8: that is still being written.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "detect/host/slots_csv.h"
#include "recording/frame.h"
#include "recording/reader.h"
#include "recording/segment_name.h"
#include "require.h"
#include "run/gpu_tables.h"

namespace slotscope {
namespace {

void Put(const std::string& path, std::span<const uint8_t> bytes) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  Require(fd.valid() &&
          write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

// Of a header's frame, and of one of rows.
std::string InFrames(std::span<const uint8_t> bytes) {
  FrameTimes times;
  if (bytes.size() < sizeof(times)) return {};
  std::memcpy(&times, bytes.data(), sizeof(times));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(times),
                              bytes.size() - sizeof(times));
  std::string file;
  const size_t end_of_header = std::min(text.size(), text.find("\nslot") + 1);
  for (const FrameKind kind : {FrameKind::kHeader, FrameKind::kRows}) {
    const std::string_view part =
        kind == FrameKind::kHeader ? text.substr(0, end_of_header) : text.substr(end_of_header);
    std::string frame(ZSTD_compressBound(part.size()), '\0');
    frame.resize(ZSTD_compress(frame.data(), frame.size(), part.data(), part.size(), 1));
    const FrameIndex index = MakeFrameIndex(kind, frame.size(), part.size(),
                                            kind == FrameKind::kHeader ? FrameTimes() : times);
    file.append(reinterpret_cast<const char*>(&index), sizeof(index));
    file += frame;
  }
  return file;
}

void ReadAll(const std::string& folder) {
  RecordingReader reader;
  if (!reader.Open(folder).ok()) return;
  size_t nr_bytes = 0;
  const auto count = [&](std::string_view text) { nr_bytes += text.size(); };
  for (const auto& [number, segment] : reader.segments()) {
    const int64_t middle_ns = segment.times.unix_start_ns();
    for (const auto& [table, file] : segment.files) {
      Require(file.name.find('/') == file.name.npos);
      const bool whole = reader.Read(table, {}, count).ok();
      const size_t nr_all = nr_bytes;
      nr_bytes = 0;
      const bool half = reader.Read(table, {middle_ns, UnixRange().to_ns}, count).ok();
      Require(nr_bytes <= nr_all || !whole || !half);
      nr_bytes = 0;
    }
  }
  std::vector<GpuDevice> gpus;
  GpuReport report;
  (void)ReadGpuTables(folder, &gpus, &report);
  HostHistory history(1'000'000, 60'000'000'000);
  (void)ReadSlotsCsv(folder, &history);
}

}  // namespace
}  // namespace slotscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  static char folder[] = "/dev/shm/recording_fuzz.XXXXXX";
  static const bool kMade = mkdtemp(folder) != nullptr && std::atexit([] { (void)rmdir(folder); }) == 0;
  Require(kMade);
  if (size < 3) return 0;
  std::span<const uint8_t> rest(data, size);
  const uint8_t how = rest[0];
  const std::string manifest = std::string(folder) + "/" + kManifestName;
  rest = rest.subspan(1);
  if (how & 1) {
    const size_t length = std::min<size_t>(rest[0] | rest[1] << 8, rest.size() - 2);
    Put(manifest, rest.subspan(2, length));
    rest = rest.subspan(2 + length);
  }
  SegmentName name = {how & 4 ? "gpu" : std::string(kSlotsTable), 1, 1'763'000'000, "csv"};
  const std::string segment =
      std::string(folder) + "/" + FormatSegmentName(name) + (how & 8 ? std::string(kPart) : "");
  if (how & 2) {
    const std::string file = InFrames(rest);
    Put(segment, {reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  } else {
    Put(segment, rest);
  }
  ReadAll(folder);
  unlink(segment.c_str());
  unlink(manifest.c_str());
  return 0;
}
