// SPDX-License-Identifier: MIT
// The table of seconds: the slots' columns, added up, and which of its milliseconds was the worst.
#pragma once

#include <string>

#include "sinks/csv_sink.h"
#include "sinks/side_sink.h"
#include "slots/second.h"

namespace slotscope {

class SecondsSink final : public SideSink {
 public:
  // See CsvSink.
  SecondsSink(OutFile* file, int64_t unix_offset_ns, size_t nr_more)
      : SideSink(file), csv_(&lines_, unix_offset_ns, 0, nr_more, RowsOf::kSeconds) {}

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

  void Take(const Slot& second);

  Lines lines_;
  CsvSink csv_;
  SecondBuilder seconds_;
};

}  // namespace slotscope
