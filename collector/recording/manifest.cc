// SPDX-License-Identifier: MIT
#include "recording/manifest.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/bounded_file.h"
#include "base/errno_text.h"
#include "base/escape.h"
#include "base/held_path.h"
#include "base/json_line.h"

namespace slotscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion1 = 1;
constexpr uint64_t kMaxBytes = 256u << 20;  // a million segments
constexpr size_t kMinRewrite = 64;

std::string PathOf(const std::string& folder) { return folder + "/" + kManifestName; }

std::string FirstLine() { return JsonLine({{"slotscope", "recording"}, {"version", kVersion1}}); }

std::string LineOf(const std::pair<int64_t, int64_t>& interval) {
  return JsonLine({{"protected_from_ns", interval.first}, {"to_ns", interval.second}});
}

std::string LineOf(const Segment& segment) {
  Json line = {{"segment", segment.number},      {"start_ns", segment.times.start_ns},
               {"end_ns", segment.times.end_ns}, {"unix_offset_ns", segment.times.unix_offset_ns},
               {"host", segment.host},           {"boot_id", segment.boot_id},
               {"slot_ns", segment.slot_ns}};
  if (segment.cut) line["cut"] = true;
  Json files = Json::object();
  for (const auto& [table, file] : segment.files)
    files[table] = {{"file", file.name}, {"bytes", file.bytes}};
  line["tables"] = std::move(files);
  return JsonLine(line);
}

// False: it is no line of a manifest.
bool TakeLine(std::string_view text, Segments* segments, Intervals* protections) try {
  const Json line = Json::parse(text);
  if (line.contains("protected_from_ns")) {
    const std::pair interval(line.at("protected_from_ns").get<int64_t>(),
                             line.at("to_ns").get<int64_t>());
    if (protections) AddInterval(interval.first, interval.second, protections);
    return true;
  }
  if (line.contains("removed")) {
    const auto gone = segments->find(line.at("removed").get<uint64_t>());
    if (gone == segments->end()) return true;
    for (const Json& table : line.at("tables")) gone->second.files.erase(table.get<std::string>());
    if (gone->second.files.empty()) segments->erase(gone);
    return true;
  }
  Segment segment;
  segment.number = line.at("segment").get<uint64_t>();
  segment.times = {line.at("start_ns").get<uint64_t>(), line.at("end_ns").get<uint64_t>(),
                   line.at("unix_offset_ns").get<int64_t>()};
  if (!segment.times.IsPossible()) return false;
  segment.host = line.at("host").get<std::string>();
  segment.boot_id = line.at("boot_id").get<std::string>();
  segment.slot_ns = line.at("slot_ns").get<uint64_t>();
  segment.cut = line.value("cut", false);
  for (const auto& [table, file] : line.at("tables").items()) {
    const auto name = file.at("file").get<std::string>();
    const auto parsed = ParseSegmentName(name);  // also: it is no path to elsewhere
    if (!parsed || parsed->table != table || parsed->number != segment.number) return false;
    segment.files[table] = {name, file.at("bytes").get<uint64_t>()};
  }
  (*segments)[segment.number] = std::move(segment);
  return true;
} catch (const Json::exception&) {
  return false;
}

Status CheckFirstLine(const std::string& path, std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object() || line.value("slotscope", Json()) != "recording" ||
      !line.value("version", Json()).is_number_integer())
    return {Exit::kBadInput, fmt::format("{} is no manifest of a recording", EscapeControls(path)),
            EBADMSG};
  if (line["version"] != kVersion1)
    return {Exit::kBadInput,
            fmt::format("{} is of version {}, and this slotscope reads {}: use the one that made it",
                        EscapeControls(path), line["version"].get<int64_t>(), kVersion1)};
  return {};
}

}  // namespace

void TakeFile(int fd, const std::vector<FrameAt>& frames, const SegmentName& name,
              const Segment::File& file, Segment* segment) {
  const bool has_slots = name.table == kSlotsTable;
  if (has_slots || segment->files.empty()) segment->times = TimesOf(frames);
  segment->number = name.number;
  segment->files[name.table] = file;
  std::string header;
  if (!has_slots || !UnpackFrame(fd, frames[0], &header).ok()) return;
  segment->host = HeaderValue(header, "host");
  segment->boot_id = HeaderValue(header, "boot_id");
  const std::string_view slot = HeaderValue(header, "slot_ns");
  std::from_chars(slot.data(), slot.data() + slot.size(), segment->slot_ns);
}

Status ReadManifest(const std::string& folder, Segments* segments, Intervals* protections) {
  segments->clear();
  const std::string path = PathOf(folder);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT) return {};
    return {Exit::kBadInput,
            fmt::format("cannot read {}: {}{}", EscapeControls(path), ErrnoText(errno),
                        errno == EACCES ? "; it is for who recorded it, and their group" : "")};
  }
  std::string text;
  if (!ReadUpTo(fd.get(), kMaxBytes, &text))
    return {Exit::kBadInput,
            fmt::format("{} cannot be read, or is larger than a manifest can be", EscapeControls(path))};
  bool first = true;
  std::string_view rest = text;
  for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    if (std::exchange(first, false)) {
      if (Status status = CheckFirstLine(path, line); !status.ok()) return status;
    } else {
      TakeLine(line, segments, protections);  // what the disk has damaged is found by its file
    }
  }
  return {};
}

void AddInterval(int64_t from_ns, int64_t to_ns, Intervals* intervals) {
  if (!intervals->empty() && intervals->back().first == from_ns)
    intervals->back().second = std::max(intervals->back().second, to_ns);
  else
    intervals->emplace_back(from_ns, to_ns);
}

Status SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some filesystems have nothing to do there, and say so.
  if (fd.valid() && (fsync(fd.get()) == 0 || errno == EINVAL)) return {};
  return {Exit::kOutput,
          fmt::format("cannot write {} to the disk: {}", ShownPath(folder), ErrnoText(errno))};
}

Status ManifestWriter::Open(const std::string& folder, const Segments& segments,
                            const Intervals& protections) {
  folder_ = folder;
  nr_removed_ = 0;
  const std::string path = PathOf(folder);
  const std::string next = path + ".next";
  fd_.Reset(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!fd_.valid()) {
    const int error = errno;
    return {Exit::kOutput, fmt::format("cannot write {}: {}", ShownPath(next), ErrnoText(error)), error};
  }
  std::string text = FirstLine();
  for (const auto& [number, segment] : segments) text += LineOf(segment);
  for (const auto& interval : protections) text += LineOf(interval);
  if (Status status = Append(text); !status.ok()) {
    unlink(next.c_str());
    fd_.Reset();
    return status;
  }
  if (rename(next.c_str(), path.c_str()))
    return {Exit::kOutput,
            fmt::format("cannot rename {} to {}: {}", ShownPath(next), kManifestName, ErrnoText(errno))};
  return SyncFolder(folder);
}

Status ManifestWriter::Append(const std::string& text) {
  const off_t begin = lseek(fd_.get(), 0, SEEK_END);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(fd_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int err = errno;
      // No half line in front of the next one. If that fails, too, both are found by their files.
      std::ignore = ftruncate(fd_.get(), begin);
      return {Exit::kOutput,
              fmt::format("cannot write {}: {}", ShownPath(PathOf(folder_)), ErrnoText(err)), err};
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(fd_.get())) {
    const int err = errno;
    return {Exit::kOutput,
            fmt::format("cannot write {} to the disk: {}", ShownPath(PathOf(folder_)), ErrnoText(err)),
            err};
  }
  return {};
}

bool ManifestWriter::IsRemoved() const {
  struct stat info;
  if (!fd_.valid()) return true;  // it could not be written anew
  return fstat(fd_.get(), &info) == 0 && info.st_nlink == 0;
}

Status ManifestWriter::Add(const Segment& segment) { return Append(LineOf(segment)); }

Status ManifestWriter::Protect(int64_t from_ns, int64_t to_ns) {
  return Append(LineOf(std::pair(from_ns, to_ns)));
}

Status ManifestWriter::Remove(uint64_t number, const std::vector<std::string>& tables,
                              const Segments& left, const Intervals& protections) {
  if (!fd_.valid()) return {};  // it is not there yet: what is left will be in it
  if (++nr_removed_ > left.size() + kMinRewrite) return Open(folder_, left, protections);
  return Append(JsonLine({{"removed", number}, {"tables", tables}}));
}

}  // namespace slotscope
