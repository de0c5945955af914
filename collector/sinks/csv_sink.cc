// SPDX-License-Identifier: MIT
#include "sinks/csv_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "base/trim.h"
#include "sinks/decimal.h"
#include "slots/column.h"

namespace slotscope {
namespace {

constexpr size_t kBufferBytes = 256u << 10;
constexpr size_t kFooterBytes = 4096;  // kept free under max_size
// All fields at their longest: a number, or a word of the table; a name of 16 escaped bytes.
constexpr std::string_view kWorstColumns =
    ",slots,worst_cpu_ns,worst_cpu_slot_ns,worst_wait_ns,worst_wait_slot_ns";
constexpr size_t kMaxRowBytes =
    (kSlotColumns.size() + kMoreColumns.size() + std::ranges::count(kWorstColumns, ',')) * 21 + 16 * 4;
constexpr size_t kPrefixBytes = 48;  // two numbers of 20 characters, a sign, two commas
constexpr size_t kSuffixBytes = 24;  // a comma and a number
constexpr size_t kMaxCachedProcesses = 65536;
constexpr uint64_t kTrimPeriodNs = 8'000'000'000;

// Columns of one part of a row that follow each other: one look says whether a row has that part. They
// begin with a comma each.
constexpr size_t EndOfPart(size_t begin) {
  size_t end = begin;
  while (end < kSlotColumns.size() && kSlotColumns[end].part == kSlotColumns[begin].part) end++;
  return end;
}

// One is of the slot, so its text is the same for all of its rows. Behind it is why they waited.
constexpr auto kEndOfRow = static_cast<size_t>(&ColumnOf("slot_ns") - kSlotColumns.data());
constexpr size_t kFirstWait = kEndOfRow + 1;
constexpr size_t kFirstState = EndOfPart(kFirstWait);
constexpr size_t kMigrationsAt = EndOfPart(kFirstState);
constexpr size_t kFirstNoWork = kMigrationsAt + 1;
static_assert(kSlotColumns[kFirstWait].part == RowPart::kWait &&
              kSlotColumns[kFirstState].part == RowPart::kState &&
              kSlotColumns[kMigrationsAt].part == RowPart::kSums &&
              kSlotColumns[kFirstNoWork].part == RowPart::kGpu &&
              EndOfPart(kFirstNoWork) == kSlotColumns.size());

// Those of the identity end with `kind`.
constexpr size_t kFirstBehindIdentity = static_cast<size_t>(&ColumnOf("kind") - kSlotColumns.data()) + 1;

constexpr size_t kFirstBehindSums = EndOfPart(kFirstBehindIdentity);

// Where what every row has goes on, behind what most rows of machines without RDT lack.
constexpr size_t kMoreSums = [] {
  size_t at = kFirstBehindSums;
  while (at < kEndOfRow && kSlotColumns[at].part != RowPart::kSums) at++;
  return at;
}();

// What stands in a column if the row does not have its part.
constexpr std::string_view WithoutPart(const Column& column, bool is_process) {
  const bool is_status = column.part == RowPart::kRdt && column.id == kRdtStatus;
  return is_status && is_process ? kRdtStatusNames[SS_RDT_UNSUPPORTED] : "";
}

// The same of columns that follow each other.
template <size_t kBegin, size_t kEnd, bool kIsProcess>
consteval auto WithoutParts() {
  constexpr size_t kSize = [] {
    size_t size = kEnd - kBegin;
    for (size_t i = kBegin; i < kEnd; i++) size += WithoutPart(kSlotColumns[i], kIsProcess).size();
    return size;
  }();
  std::array<char, kSize> text = {};
  char* out = text.data();
  for (size_t i = kBegin; i < kEnd; i++) {
    *out++ = ',';
    for (char c : WithoutPart(kSlotColumns[i], kIsProcess)) *out++ = c;
  }
  return text;
}

// Memory traffic makes a row, an occupancy or memory that is held do not.
bool IsEmpty(const Slot& slot, const Row& row) {
  if (row.sums[kCpuNs] > 0) return false;  // nearly always
  uint64_t any = 0;
  for (uint64_t sum : row.sums) any |= sum;
  if (const RdtRow* rdt = slot.RdtOf(row))
    for (size_t i = 0; i < kNrMbm; i++) any |= rdt->values[i];
  if (row.wait) any |= slot.waits[row.wait - 1].earlier_ns;
  return any == 0 && !(row.gpu && slot.gpu[row.gpu - 1].any);
}

bool HasIdentity(const Row& row) { return IsProcess(row.kind) || row.kind == RowKind::kIdle; }

char* Append(char* out, std::string_view text) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

// The same for a text in a buffer of at least N bytes: N bytes are copied, whatever its size, which is
// faster than to ask. REQUIRES: room for N.
template <size_t N>
char* AppendPadded(char* out, const char* text, size_t size) {
  std::memcpy(out, text, N);
  return out + size;
}

char* AppendTenths(char* out, uint64_t tenths) {
  out = AppendDecimal(out, tenths / 10);
  *out++ = '.';
  *out++ = static_cast<char>('0' + tenths % 10);
  return out;
}

// 100 x running / enabled with one decimal, halves rounded up. REQUIRES: enabled > 0.
char* AppendPercent(char* out, uint64_t running, uint64_t enabled) {
  if (running == enabled) return Append(out, "100.0");
  auto tenths = static_cast<uint64_t>((static_cast<unsigned __int128>(running) * 2000 + enabled) /
                                      (static_cast<unsigned __int128>(enabled) * 2));
  return AppendTenths(out, tenths);
}

template <size_t kId>
char* AppendField(char* out, const Row& row) {
  if constexpr (kId == kMuxPct) {
    if (!(row.unmeasured >> kEnabledNs & 1) && row.sums[kEnabledNs] > 0)
      out = AppendPercent(out, row.sums[kRunningNs], row.sums[kEnabledNs]);
  } else {
    if (!(row.unmeasured >> kId & 1)) out = AppendDecimal(out, row.sums[kId]);
  }
  return out;
}

template <size_t kId>
char* AppendField(char* out, const RdtRow& rdt) {
  if constexpr (kId == kRdtStatus) return Append(out, kRdtStatusNames[rdt.status]);
  return rdt.unmeasured >> kId & 1 ? out : AppendDecimal(out, rdt.values[kId]);
}

template <size_t kId>
char* AppendField(char* out, const GpuRow& gpu) {
  if constexpr (kId == kStraggling || kId == kThroughputDrop) {
    if (gpu.straggle == Straggle::kUnknown) return out;
    if constexpr (kId == kThroughputDrop) return AppendTenths(out, (gpu.drop_ppm + 500) / 1000);
    *out++ = static_cast<char>('0' + static_cast<int>(gpu.straggle));
    return out;
  } else {
    return gpu.unmeasured >> kId & 1 ? out : AppendDecimal(out, gpu.values[kId]);
  }
}

struct ToldWait {
  const WaitRow& wait;
  WaitCauses causes;
};

template <size_t kId>
char* AppendField(char* out, const ToldWait& told) {
  const WaitRow& wait = told.wait;
  if (!IsToldApart(told.causes, kId)) return out;
  if constexpr (kId == kWaitEarlier) return AppendDecimal(out, wait.earlier_ns);
  if constexpr (kId < kNrWaitCauses) return AppendDecimal(out, wait.ns[kId]);
  if (wait.ran_ns == 0) return out;
  if constexpr (kId == kRanInsteadTgid)
    return AppendDecimal(out, static_cast<uint64_t>(wait.ran_instead.tgid));
  if constexpr (kId == kRanInsteadStart)
    return wait.ran_instead.start_time_ns ? AppendDecimal(out, wait.ran_instead.start_time_ns) : out;
  return AppendDecimal(out, wait.ran_ns);
}

template <size_t kBegin, typename RowPartOfIt, size_t... kOffsets>
char* AppendFields(char* out, const RowPartOfIt& part, std::index_sequence<kOffsets...>) {
  ((*out++ = ',', out = AppendField<kSlotColumns[kBegin + kOffsets].id>(out, part)), ...);
  return out;
}

template <size_t kBegin, size_t kEnd>
char* AppendWithout(char* out, const Row& row) {
  static constexpr auto kOfProcess = WithoutParts<kBegin, kEnd, true>();
  static constexpr auto kOfOthers = WithoutParts<kBegin, kEnd, false>();
  return HasIdentity(row) ? Append(out, {kOfProcess.data(), kOfProcess.size()})
                          : Append(out, {kOfOthers.data(), kOfOthers.size()});
}

// The columns from there to the last that is of the row.
template <size_t kBegin>
char* AppendFrom(char* out, const Slot& slot, const Row& row) {
  constexpr size_t kEnd = EndOfPart(kBegin);
  constexpr std::make_index_sequence<kEnd - kBegin> kAll = {};
  if constexpr (kBegin == kFirstBehindSums) {
    if (!row.beside && !row.gpu) {
      out = AppendWithout<kBegin, kMoreSums>(out, row);
      if constexpr (kMoreSums < kEndOfRow) out = AppendFrom<kMoreSums>(out, slot, row);
      return out;
    }
  }
  if constexpr (kSlotColumns[kBegin].part == RowPart::kSums)
    out = AppendFields<kBegin>(out, row, kAll);
  else if constexpr (kSlotColumns[kBegin].part == RowPart::kRdt)
    out = slot.RdtOf(row) ? AppendFields<kBegin>(out, *slot.RdtOf(row), kAll)
                          : AppendWithout<kBegin, kEnd>(out, row);
  else
    out = row.gpu ? AppendFields<kBegin>(out, slot.gpu[row.gpu - 1], kAll)
                  : AppendWithout<kBegin, kEnd>(out, row);
  if constexpr (kEnd < kEndOfRow) return AppendFrom<kEnd>(out, slot, row);
  return out;
}

char* AppendWaits(char* out, const Slot& slot, const Row& row) {
  constexpr size_t kNr = kFirstState - kFirstWait;
  constexpr auto kNone = [] {
    std::array<char, kNr> text = {};
    text.fill(',');
    return text;
  }();
  static const auto kZeros = [] {
    std::array<std::string, kAllWaitCauses + 1> texts;
    for (WaitCauses causes = 0; causes < texts.size(); causes++) {
      char text[kNr * 21];
      const WaitRow none;
      texts[causes] = {
          text, AppendFields<kFirstWait>(text, ToldWait{none, causes}, std::make_index_sequence<kNr>())};
    }
    return texts;
  }();
  if (!HasWaits(slot, row)) return Append(out, {kNone.data(), kNone.size()});
  if (!row.wait) return Append(out, kZeros[slot.wait_causes & kAllWaitCauses]);
  return AppendFields<kFirstWait>(out, ToldWait{slot.waits[row.wait - 1], slot.wait_causes},
                                  std::make_index_sequence<kNr>());
}

// And where it ran.
char* AppendState(char* out, const Row& row) {
  const bool is_known = IsProcess(row.kind) && row.now.state != ProcessState::kUnknown;
  *out++ = ',';
  if (is_known) out = Append(out, kProcessStateNames[static_cast<size_t>(row.now.state)]);
  *out++ = ',';
  if (is_known && row.now.since_ns) out = AppendDecimal(out, row.now.since_ns);
  const bool has_run = IsProcess(row.kind) && row.nr_cpus > 0;
  *out++ = ',';
  if (has_run) out = AppendDecimal(out, row.nr_cpus);
  *out++ = ',';
  if (has_run) out = AppendDecimal(out, row.main_cpu);
  *out++ = ',';
  if (row.kind != RowKind::kIdle) out = AppendField<kMigrations>(out, row);
  return out;
}

char* AppendNoWork(char* out, const Slot& slot, const Row& row) {
  constexpr size_t kNr = kSlotColumns.size() - kFirstNoWork;
  if (!row.gpu) return AppendWithout<kFirstNoWork, kSlotColumns.size()>(out, row);
  return AppendFields<kFirstNoWork>(out, slot.gpu[row.gpu - 1], std::make_index_sequence<kNr>());
}

char* AppendWorst(char* out, const Row& row, const Slot& slot) {
  const WorstSlots& worst = slot.worst[static_cast<size_t>(&row - slot.rows.data())];
  const auto append = [&](Additive id, const WorstSlot& one) {
    const bool measured = !(row.unmeasured >> id & 1);
    *out++ = ',';
    if (measured) out = AppendDecimal(out, one.value);
    *out++ = ',';
    if (measured) out = AppendDecimal(out, one.at_ns);
  };
  *out++ = ',';
  out = AppendDecimal(out, slot.nr_slots);
  append(kCpuNs, worst.cpu);
  append(kWaitNs, worst.wait);
  return out;
}

}  // namespace

CsvSink::CsvSink(OutFile* file, int64_t unix_offset_ns, uint64_t max_size, size_t nr_more,
                 RowsOf rows_of)
    : file_(file),
      unix_offset_ns_(unix_offset_ns),
      max_size_(max_size),
      nr_more_(nr_more),
      rows_of_(rows_of),
      buffer_(2 * kBufferBytes) {}

char* CsvSink::Reserve(size_t bytes) {
  if (buffer_.size() - size_ < bytes) buffer_.resize(std::max(2 * buffer_.size(), size_ + bytes));
  return buffer_.data() + size_;
}

void CsvSink::AppendText(std::string_view text) {
  Append(Reserve(text.size()), text);
  size_ += text.size();
}

void CsvSink::AppendComments(const HeaderLines& lines) {
  for (const auto& [key, value] : lines) {
    std::string_view text = value;
    AppendText(fmt::format("# {}: {}\n", key, text.substr(0, text.find('\n'))));
  }
}

void CsvSink::WriteHeader(const HeaderLines& lines) {
  AppendComments(lines);
  for (const Column& column : kSlotColumns) {
    if (&column != kSlotColumns.data()) AppendText(",");
    AppendText(column.name);
  }
  for (const Column& column : MoreColumns(nr_more_)) AppendText(fmt::format(",{}", column.name));
  if (rows_of_ == RowsOf::kPeriods) AppendText(kWorstColumns);
  AppendText("\n");
  Flush();
}

void CsvSink::OnSlot(const Slot& slot) {
  if (full_ || !status_.ok()) {
    nr_unwritten_slots_++;
    return;
  }
  const size_t size_before = size_;
  const uint64_t rows_before = nr_rows_;
  if (slot.unix_offset_ns != unix_offset_ns_) {
    unix_offset_ns_ = slot.unix_offset_ns;
    AppendComments({{"unix_offset_ns", std::to_string(unix_offset_ns_)}});
  }
  for (const std::string& note : slot.notes) AppendComments({{"note", note}});
  if (slot.start_ns >= next_trim_ns_) {  // those that are there still are soon there again
    FreeIfTooLarge(&identities_, kTrimStep);
    next_trim_ns_ = slot.start_ns + kTrimPeriodNs;
  }
  AppendRows(slot);
  if (max_size_ && file_->size() + size_ + kFooterBytes > max_size_) {
    size_ = size_before;  // whole slots only
    nr_rows_ = rows_before;
    full_ = true;
    nr_unwritten_slots_++;
  }
  if (size_ >= kBufferBytes) Flush();
}

void CsvSink::AppendRows(const Slot& slot) {
  char prefix[kPrefixBytes];
  char* end = AppendDecimal(prefix, slot.start_ns);
  *end++ = ',';
  auto unix_ns = static_cast<int64_t>(slot.start_ns) + slot.unix_offset_ns;
  if (unix_ns < 0) *end++ = '-';
  end = AppendDecimal(end,
                      unix_ns < 0 ? 0 - static_cast<uint64_t>(unix_ns) : static_cast<uint64_t>(unix_ns));
  *end++ = ',';
  const auto prefix_size = static_cast<size_t>(end - prefix);
  char suffix[kSuffixBytes];
  end = suffix;
  *end++ = ',';
  end = AppendDecimal(end, slot.end_ns - slot.start_ns);
  const auto suffix_size = static_cast<size_t>(end - suffix);

  char* const begin = Reserve(slot.rows.size() * kMaxRowBytes);
  char* out = begin;
  for (const Row& row : slot.rows) {
    if (IsEmpty(slot, row)) continue;
    out = AppendPadded<kPrefixBytes>(out, prefix, prefix_size);
    const Identity* known = row.process < identities_.size() ? &identities_[row.process] : nullptr;
    if (known && known->size && known->Is(row))
      out = AppendPadded<sizeof(known->text)>(out, known->text.data(), known->size);
    else
      out = AppendIdentity(out, row);
    out = AppendFrom<kFirstBehindIdentity>(out, slot, row);
    out = AppendPadded<kSuffixBytes>(out, suffix, suffix_size);
    out = AppendWaits(out, slot, row);
    out = AppendState(out, row);
    out = AppendNoWork(out, slot, row);
    if (nr_more_ > 0) out = AppendMore(out, slot, row);
    if (rows_of_ == RowsOf::kPeriods) out = AppendWorst(out, row, slot);
    *out++ = '\n';
    nr_rows_++;
  }
  size_ += static_cast<size_t>(out - begin);
}

char* CsvSink::AppendMore(char* out, const Slot& slot, const Row& row) const {
  const MoreRow* more = slot.MoreOf(row);
  for (size_t i = 0; i < nr_more_; i++) {
    const bool measured = more && !(more->unmeasured >> i & 1);
    *out++ = ',';
    if (measured) out = AppendDecimal(out, more->sums[i].delta);
    *out++ = ',';
    if (measured && more->sums[i].enabled_ns > 0)
      out = AppendPercent(out, more->sums[i].running_ns, more->sums[i].enabled_ns);
  }
  return out;
}

// From tgid to kind.
char* CsvSink::AppendIdentity(char* out, const Row& row) {
  if (!HasIdentity(row)) {
    out = Append(out, ",,,,");
    return Append(out, kRowKindNames[static_cast<size_t>(row.kind)]);
  }
  char* const begin = out;
  out = AppendDecimal(out, static_cast<uint64_t>(row.key.tgid));
  *out++ = ',';
  if (row.tracked && row.kind != RowKind::kIdle) out = AppendDecimal(out, row.key.start_time_ns);
  *out++ = ',';
  if (row.named) out = Append(out, EscapeName(CommText(row.comm)));
  *out++ = ',';
  out = AppendDecimal(out, row.rmid);
  *out++ = ',';
  out = Append(out, kRowKindNames[static_cast<size_t>(row.kind)]);
  auto size = static_cast<size_t>(out - begin);
  if (row.process >= kMaxCachedProcesses || size > sizeof(Identity::text)) return out;
  GrowTo(&identities_, row.process);
  Identity& identity = identities_[row.process];
  identity = {row.key, row.comm, row.rmid, row.kind, row.named, row.tracked, static_cast<uint8_t>(size),
              {}};
  std::memcpy(identity.text.data(), begin, size);
  return out;
}

void CsvSink::Flush() {
  if (status_.ok() && size_ > 0) status_ = file_->Write({buffer_.data(), size_});
  size_ = 0;
}

Status CsvSink::Finish(const HeaderLines& lines) {
  AppendComments(lines);
  Flush();
  return status_;
}

}  // namespace slotscope
