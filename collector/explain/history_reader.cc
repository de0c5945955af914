// SPDX-License-Identifier: MIT
#include "explain/history_reader.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/scan.h"
#include "base/table_rows.h"
#include "recording/segment_name.h"
#include "ring/item.h"
#include "slots/column.h"
#include "slots/wait_row.h"

namespace slotscope {
namespace {

// Columns of slots, by name: others may come between them, and older recordings lack some.
enum Wanted : size_t {
  kStart,
  kLength,
  kTgid,
  kBegan,
  kComm,
  kKind,
  kState,
  kSince,
  kMonotonic,
  kCpu,
  kCyclesAt,
  kInstructionsAt,
  kTraffic,
  kGpuActive,
  kRanTgid,
  kRanBegan,
  kRanNs,
  kMainCpu,
  kCpus,
  kEarlier,
  kNrSlots,
  kFirstWait,
  kNrWanted = kFirstWait + kNrWaitHindrances
};
constexpr std::array<std::string_view, kNrWanted> kNames = {
    ColumnOf("slot_start_unix_ns").name,
    ColumnOf("slot_ns").name,
    ColumnOf("tgid").name,
    ColumnOf("start_time_ns").name,
    ColumnOf("comm").name,
    ColumnOf("kind").name,
    ColumnOf("state").name,
    ColumnOf("state_since_ns").name,
    ColumnOf("slot_start_ns").name,
    ColumnOf("cpu_ns").name,
    ColumnOf("cycles").name,
    ColumnOf("instructions").name,
    ColumnOf("mbm_total_bytes").name,
    ColumnOf("gpu_active_ns").name,
    ColumnOf("ran_instead_tgid").name,
    ColumnOf("ran_instead_start_ns").name,
    ColumnOf("ran_instead_ns").name,
    ColumnOf("main_cpu").name,
    ColumnOf("cpus").name,
    ColumnOf("wait_earlier_ns").name,
    "slots",  // of seconds only
    // In the order of Hindrance.
    ColumnOf("wait_others_ns").name,
    ColumnOf("wait_self_ns").name,
    ColumnOf("wait_throttled_ns").name,
    ColumnOf("wait_wakeup_ns").name,
    ColumnOf("wait_steal_ns").name,
    ColumnOf("wait_unknown_ns").name,
};

constexpr int64_t kLastNs = 7'258'118'400'000'000'000;  // the year 2200
constexpr int64_t kOldSlotNs = 1'000'000;               // of recordings without a column for it
constexpr int64_t kLongestPeriodNs = 60'000'000'000;    // of rows of the table minutes

// The Unix time of another moment of CLOCK_MONOTONIC; nonsense stays within the type.
int64_t Moved(int64_t unix_ns, int64_t from_ns, int64_t to_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(unix_ns) + static_cast<uint64_t>(to_ns) -
                              static_cast<uint64_t>(from_ns));
}

class SlotLines {
 public:
  SlotLines(const UnixRange& range, const RecordingTables::OnSlotRow& on_row)
      : range_(range), on_row_(on_row) {}

  void OnLine(std::string_view line) {
    switch (rows_.Take(line)) {
      case TableRows::Line::kHeader:
        for (size_t i = 0; i < kNrWanted; i++) places_[i] = rows_.PlaceOf(kNames[i]);
        for (size_t i = 0; i < kNrGpuValues; i++)
          gpu_places_[i] = rows_.PlaceOf(ColumnName(RowPart::kGpu, i));
        is_slots_ = places_[kStart] != TableRows::kNone && places_[kCpu] != TableRows::kNone &&
                    places_[kKind] != TableRows::kNone;
        return;
      case TableRows::Line::kRow:
        if (is_slots_) OnRow();
        return;
      case TableRows::Line::kComment:
      case TableRows::Line::kMalformed:
        return;  // a last line that is not complete; the reader says what is damaged
    }
  }

 private:
  std::string_view Field(size_t column) const { return rows_.At(places_[column]); }
  template <typename T>
  T Number(size_t column, T otherwise = {}) const {
    return NumberOf<T>(Field(column)).value_or(otherwise);
  }

  // Nobody does as much in a second; what is larger is nonsense.
  static uint64_t AmountIn(std::string_view field) {
    constexpr uint64_t kMost = 1'000'000'000'000'000;
    return std::min(kMost, NumberOf<uint64_t>(field).value_or(0));
  }
  uint64_t Amount(size_t column) const { return AmountIn(Field(column)); }
  std::string_view GpuField(GpuValue value) const { return rows_.At(gpu_places_[value]); }

  void OnRow() {
    SlotRow row;
    row.start_ns = Number<int64_t>(kStart);
    if (row.start_ns < range_.from_ns || row.start_ns >= range_.to_ns || row.start_ns <= 0 ||
        row.start_ns > kLastNs)
      return;
    row.slot_ns = std::clamp<int64_t>(
        Number<int64_t>(kLength, kOldSlotNs), 1,
        Field(kNrSlots).empty() ? static_cast<int64_t>(kMaxSlotNs) : kLongestPeriodNs);
    row.key = {Number<int32_t>(kTgid), Number<uint64_t>(kBegan)};
    if (row.key.start_time_ns)
      row.born_ns = std::max<int64_t>(0, Moved(row.start_ns, Number<int64_t>(kMonotonic),
                                               static_cast<int64_t>(row.key.start_time_ns)));
    row.comm = Field(kComm);
    row.kind = Field(kKind);
    row.state = Field(kState);
    row.cpu_ns = Amount(kCpu);
    row.has_waits = !Field(kFirstWait).empty();
    for (size_t i = 0; i < kNrWaitHindrances; i++) {
      row.wait_ns[i] = Amount(kFirstWait + i);
      if (!Field(kFirstWait + i).empty()) row.measured_waits |= static_cast<uint8_t>(1u << i);
    }
    row.wait_earlier_ns = Amount(kEarlier);
    row.ran_instead = {Number<int32_t>(kRanTgid), Number<uint64_t>(kRanBegan)};
    row.ran_instead_ns = Amount(kRanNs);
    row.nr_cpus = Number<uint64_t>(kCpus);
    row.nr_slots = std::max<uint64_t>(1, Amount(kNrSlots));
    row.main_cpu = Number<int32_t>(kMainCpu, -1);
    row.has_counters = !Field(kCyclesAt).empty() && !Field(kInstructionsAt).empty();
    row.cycles = Amount(kCyclesAt);
    row.instructions = Amount(kInstructionsAt);
    row.has_traffic = !Field(kTraffic).empty();
    row.traffic_bytes = Amount(kTraffic);
    row.has_gpu = !Field(kGpuActive).empty();
    row.gpu_active_ns = Amount(kGpuActive);
    // Of one that has never waited for all that it launched nothing is known but its thread.
    row.launches = !GpuField(kGpuNoWork).empty() || !GpuField(kLauncherRan).empty();
    if (row.launches) {
      row.gpu_known |= uint32_t{row.has_gpu} << kGpuActiveNs;
      for (size_t i = kGpuNoWork; i < kNrGpuValues; i++) {
        const std::string_view field = GpuField(static_cast<GpuValue>(i));
        row.gpu[i] = AmountIn(field);
        row.gpu_known |= uint32_t{!field.empty()} << i;
      }
    }
    if (const auto since = NumberOf<int64_t>(Field(kSince)))
      row.state_since_ns = std::clamp<int64_t>(Moved(row.start_ns, Number<int64_t>(kMonotonic), *since),
                                               0, row.start_ns + row.slot_ns);
    on_row_(row);
  }

  const UnixRange range_;
  const RecordingTables::OnSlotRow& on_row_;
  TableRows rows_{kSlotColumns[0].name};
  std::array<size_t, kNrWanted> places_ = {};
  std::array<size_t, kNrGpuValues> gpu_places_ = {};
  bool is_slots_ = false;
};

class WaitLines {
 public:
  WaitLines(const UnixRange& range, const RecordingTables::OnWaitRow& on_row)
      : range_(range), on_row_(on_row) {}

  void OnLine(std::string_view line) {
    switch (rows_.Take(line)) {
      case TableRows::Line::kHeader:
        for (size_t i = 0; i < kNames.size(); i++) places_[i] = rows_.PlaceOf(kNames[i]);
        return;
      case TableRows::Line::kRow:
        return OnRow();
      case TableRows::Line::kComment:
      case TableRows::Line::kMalformed:
        return;
    }
  }

 private:
  enum Wanted {
    kStart,
    kTgid,
    kBegan,
    kCause,
    kRanTgid,
    kRanBegan,
    kRanComm,
    kCpu,
    kNs,
    kWaitStart,
    kWaitUntil,
    kEarlierCause,
    kMonotonic
  };
  static constexpr std::array<std::string_view, 13> kNames = {
      "slot_start_unix_ns", "tgid",          "start_time_ns", "cause", "ran_tgid",
      "ran_start_time_ns",  "ran_comm",      "cpu",           "ns",    "wait_start_ns",
      "wait_until_ns",      "earlier_cause", "slot_start_ns"};

  template <typename T>
  T Number(Wanted column, T otherwise = {}) const {
    return NumberOf<T>(rows_.At(places_[column])).value_or(otherwise);
  }

  void OnRow() {
    const auto start_ns = Number<int64_t>(kStart);
    if (start_ns < range_.from_ns || start_ns >= range_.to_ns || start_ns <= 0) return;
    WaitTableRow row;
    row.start_ns = start_ns;
    row.waiter = {Number<int32_t>(kTgid), Number<uint64_t>(kBegan)};
    row.cause = rows_.At(places_[kCause]);
    row.ran = {Number<int32_t>(kRanTgid), Number<uint64_t>(kRanBegan)};
    row.ran_comm = rows_.At(places_[kRanComm]);
    row.cpu = Number<int32_t>(kCpu, -1);
    row.ns = Number<uint64_t>(kNs);
    row.wait_start_ns = Moved(start_ns, Number<int64_t>(kMonotonic), Number<int64_t>(kWaitStart));
    row.wait_until_ns = Moved(start_ns, Number<int64_t>(kMonotonic), Number<int64_t>(kWaitUntil));
    row.earlier_cause = rows_.At(places_[kEarlierCause]);
    on_row_(row);
  }

  const UnixRange range_;
  const RecordingTables::OnWaitRow& on_row_;
  TableRows rows_{kSlotColumns[0].name};
  std::array<size_t, kNames.size()> places_ = {};
};

}  // namespace

bool RecordingTables::Has(std::string_view table) const {
  if (is_plain_ || !RecordingReader::IsFolder(read_path_)) return table == kSlotsTable;
  return !reader_.FilesOf(table).empty();
}

bool RecordingTables::LacksManifest() const {
  return !is_plain_ && RecordingReader::IsFolder(read_path_) &&
         access((read_path_ + "/" + kManifestName).c_str(), F_OK) != 0;
}

std::vector<std::string> RecordingTables::FilesOf(std::string_view table, const UnixRange& range) const {
  if (is_plain_ || !RecordingReader::IsFolder(read_path_)) return {read_path_};
  return reader_.FilesOf(table, range);
}

Status RecordingTables::Open(const std::string& path, std::string_view table) {
  path_ = read_path_ = path;
  if (Status status = CopyPipe(); !status.ok()) return status;
  is_plain_ = !RecordingReader::Reads(read_path_);
  if (!is_plain_)
    if (Status status = reader_.Open(read_path_); !status.ok()) return status;
  return ReadFacts(table);
}

// A recording is read several times.
Status RecordingTables::CopyPipe() {
  struct stat info;
  if (path_ != "-" && (stat(path_.c_str(), &info) || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
    return {};
  std::string bytes;
  if (Status status = ReadInput(path_, &bytes); !status.ok()) return status;
  copy_.Reset(memfd_create("slotscope", MFD_CLOEXEC));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(copy_.get(), bytes.data() + at, bytes.size() - at);
    if (written <= 0)
      return {Exit::kBadInput,
              fmt::format("cannot keep what {} holds: {}", EscapeControls(path_), ErrnoText(errno))};
    at += static_cast<size_t>(written);
  }
  read_path_ = fmt::format("/proc/self/fd/{}", copy_.get());
  return {};
}

Status RecordingTables::Read(std::string_view table, const UnixRange& range,
                             const RecordingReader::OnText& on_text) const {
  if (!is_plain_) return reader_.Read(table, range, on_text);
  return ReadLines(read_path_, [&](std::string_view line) {
    on_text(line);
    on_text("\n");
  });
}

Status RecordingTables::ReadTableLines(std::string_view table, const UnixRange& range,
                                       const LineSplitter::OnLine& on_line) const {
  LineSplitter splitter;
  Status status = Read(table, range, [&](std::string_view text) { splitter.Feed(text, on_line); });
  splitter.Finish(on_line);
  return status;
}

// Of a folder by its index; of a file from its rows, as nothing else says it.
Status RecordingTables::ReadFacts(std::string_view table) {
  const bool is_folder = RecordingReader::IsFolder(read_path_);
  const auto add = [this](int64_t from_ns, int64_t to_ns) {
    from_ns = std::clamp<int64_t>(from_ns, 0, kLastNs);
    facts_.first_ns = facts_.first_ns ? std::min(facts_.first_ns, from_ns) : from_ns;
    facts_.last_ns = std::max(facts_.last_ns, std::clamp<int64_t>(to_ns, 0, kLastNs));
  };
  UnixRange range;
  if (is_folder) {
    for (const auto& [number, segment] : reader_.segments()) {
      const int64_t start_ns = segment.times.unix_start_ns();
      if (segment.files.contains(std::string(table))) add(start_ns, segment.times.unix_end_ns());
      for (auto& coarser : facts_.coarser)
        if (segment.files.contains(std::string(coarser.table)))
          coarser.first_ns = coarser.first_ns ? std::min(coarser.first_ns, start_ns) : start_ns;
    }
    // Headers come whatever the range is.
    range = {facts_.last_ns - 1, facts_.last_ns};
  }
  TableRows rows(kSlotColumns[0].name);
  bool is_slots = false, any = false;
  size_t start_at = TableRows::kNone, length_at = TableRows::kNone;
  const auto value = [](std::string_view line, std::string_view key, std::string* text) {
    if (TakeText(&line, "# ") && TakeText(&line, key) && TakeText(&line, ": "))
      *text = EscapeControls(line);
  };
  const auto on_line = [&](std::string_view line) {
    any = true;
    facts_.is_cut = false;
    switch (rows.Take(line)) {
      case TableRows::Line::kComment:
        value(line, "host", &facts_.host);
        value(line, "time_zone", &facts_.time_zone);
        if (line.starts_with("# not_measured: "))
          facts_.observes_cuda = line.find(" gpu_launches") == line.npos;
        if (std::string_view nr = line; TakeText(&nr, "# nr_cpus: "))
          facts_.nr_cpus = std::clamp<uint64_t>(NumberOf<uint64_t>(nr).value_or(1), 1, 65536);
        return;
      case TableRows::Line::kHeader:
        start_at = rows.PlaceOf(ColumnOf("slot_start_unix_ns").name);
        length_at = rows.PlaceOf(ColumnOf("slot_ns").name);
        is_slots |=
            start_at != TableRows::kNone && rows.PlaceOf(ColumnOf("cpu_ns").name) != TableRows::kNone;
        return;
      case TableRows::Line::kRow: {
        const auto start_ns = NumberOf<int64_t>(rows.At(start_at)).value_or(0);
        if (is_folder || start_ns <= 0 || start_ns > kLastNs) return;
        add(start_ns,
            start_ns + std::clamp<int64_t>(NumberOf<int64_t>(rows.At(length_at)).value_or(kOldSlotNs), 1,
                                           static_cast<int64_t>(kMaxSlotNs)));
        return;
      }
      case TableRows::Line::kMalformed:
        facts_.is_cut = is_plain_;
        return;
    }
  };
  const Status status = ReadTableLines(table, range, on_line);
  if (is_folder) return {};  // what is damaged is said when it is read; there may be no row yet
  if (!status.ok()) return status;
  if (!any) return {Exit::kBadInput, fmt::format("{} is empty", EscapeControls(path_))};
  if (!is_slots)
    return {Exit::kBadInput, fmt::format("{} is no recording, and no slots.csv", EscapeControls(path_))};
  return {};
}

Status RecordingTables::ReadSlotRows(std::string_view table, const UnixRange& range,
                                     const OnSlotRow& on_row) const {
  SlotLines lines(range, on_row);
  return ReadTableLines(table, range, [&](std::string_view line) { lines.OnLine(line); });
}

Status RecordingTables::ReadWaitRows(const UnixRange& range, const OnWaitRow& on_row) const {
  WaitLines lines(range, on_row);
  return ReadTableLines(kWaitsTable, range, [&](std::string_view line) { lines.OnLine(line); });
}

UnixRange RecordingTables::FromSegmentStart(UnixRange range) const {
  int64_t from_ns = range.from_ns;
  for (const auto& [number, segment] : reader_.segments())
    if (segment.times.unix_start_ns() < range.to_ns && segment.times.unix_end_ns() > range.from_ns)
      from_ns = std::min(from_ns, segment.times.unix_start_ns());
  return {from_ns, range.to_ns};
}

Status RecordingTables::ReadPlaces(const UnixRange& range, ProcessPlaces* places) const {
  return ReadTableLines(kProcessesTable, FromSegmentStart(range),
                        [&](std::string_view line) { places->OnLine(line); });
}

Status RecordingTables::ReadHistory(const UnixRange& range, History* history) const {
  history->SetCpus(facts_.nr_cpus);
  const bool has_waits = Has(kWaitsTable);
  Status status = ReadSlotRows(kSlotsTable, range, [&](const SlotRow& row) {
    history->OnSlot(row);
    if (has_waits || row.key.tgid <= 0) return;
    if (row.ran_instead.tgid > 0)
      history->OnWait(row.start_ns, row.key, row.ran_instead, "", row.main_cpu, row.ran_instead_ns);
    if (row.wait_earlier_ns) {
      // Neither when nor why: a thread that has waited for so long has most likely done so until now.
      const auto waited_ns = static_cast<int64_t>(row.wait_earlier_ns);
      WaitTableRow earlier;
      earlier.start_ns = row.start_ns;
      earlier.waiter = row.key;
      earlier.cpu = row.main_cpu;
      earlier.ns = row.wait_earlier_ns;
      earlier.wait_start_ns = std::max(row.start_ns - waited_ns, row.born_ns);
      history->OnEarlierWait(earlier);
    }
  });
  if (has_waits) {
    const Status of_waits = ReadWaitRows(range, [&](const WaitTableRow& row) {
      if (row.cause == kWaitCauseNames[kWaitOthers])
        history->OnWait(row.start_ns, row.waiter, row.ran, row.ran_comm, row.cpu, row.ns);
      else if (row.cause == kWaitCauseNames.back())
        history->OnEarlierWait(row);
    });
    if (status.ok()) status = of_waits;
  }
  history->Finish();
  return status;
}

}  // namespace slotscope
