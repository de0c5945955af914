// SPDX-License-Identifier: MIT
// The tables of seconds and of minutes: the slots' columns, added up, and which of its milliseconds was
// the worst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sinks/csv_sink.h"
#include "sinks/side_sink.h"
#include "slots/period.h"

namespace slotscope {

class PeriodSink final : public SideSink {
 public:
  struct Period {
    const char* table;  // "seconds"
    const char* name;   // "second"
    uint64_t seconds;
    size_t most_rows;  // see PeriodBuilder
  };
  // See CsvSink. `finer`: makes shorter periods, of which these are made; it lives as long, and ends its
  // segments first. Null: they are made of slots.
  PeriodSink(OutFile* file, int64_t unix_offset_ns, size_t nr_more, const Period& period,
             PeriodSink* finer);

  void WriteHeader(const HeaderLines& lines) override;
  void EndSegment() override;
  std::string Contents() const override;

 protected:
  void Append(const Slot& slot) override;

 private:
  // What the CSV has written since.
  struct Lines final : OutFile {
    using OutFile::Write;
    Status Write(std::initializer_list<std::span<const std::byte>> pieces) override {
      for (std::span<const std::byte> piece : pieces)
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return {};
    }
    uint64_t size() const override { return text.size(); }
    std::string text;
  };

  void Add(const Slot& slot);
  void Take(const Slot& period);

  const Period period_;
  const bool is_of_slots_;
  PeriodSink* coarser_ = nullptr;
  Lines lines_;
  CsvSink csv_;
  PeriodBuilder builder_;
};

inline constexpr PeriodSink::Period kSecondsPeriod = {"seconds", "second", 1, SIZE_MAX};
// However many processes are born: the memory that they take is bounded.
inline constexpr PeriodSink::Period kMinutesPeriod = {"minutes", "minute", 60, 8192};

}  // namespace slotscope
