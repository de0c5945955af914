// SPDX-License-Identifier: MIT
#include "sinks/span_csv_sink.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

Slot SlotOf(GpuSpans spans) {
  Slot slot;
  slot.gpu_detail.spans = std::move(spans);
  return slot;
}

TEST(SpanCsv, ALineForEachSpanInTheOrderOfTheirEnds) {
  TextFile file;
  SpanCsvSink sink(&file);
  sink.WriteHeader({{"host", "h"}});
  sink.OnSlot(SlotOf({{{{7, 70}, 1, 0xabc, 100, 300, 5, 64, KernelsEnd::kForced},
                       {{7, 70}, kUnknownDevice, 0, 100, 200, 1, 32, KernelsEnd::kUnknown},
                       {{7, 70}, 0, 0, 100, 400, 1, 0, KernelsEnd::kWaited}},
                      {{{8, 80}, 0, 0x1000, 4096, SS_CUDA_MANAGED, 10, 20, false},
                       {{8, 80}, 0, 0x2000, 1, SS_CUDA_LINEAR, 5, 20, true}}}));
  EXPECT_TRUE(sink.Finish().ok());
  EXPECT_EQ(sink.Contents(), "5 spans");
  EXPECT_EQ(
      file.text,
      "# host: h\n"
      "span,tgid,start_time_ns,device,handle,start_ns,end_ns,launches,avg_threads,bytes,memory,end\n"
      "kernels,7,70,,0x0,100,200,1,32,,,unknown\n"
      "kernels,7,70,1,0xabc,100,300,5,64,,,forced\n"
      "kernels,7,70,0,0x0,100,400,1,,,,waited\n"
      "memory,8,80,0,0x2000,5,20,,,1,linear,leaked\n"
      "memory,8,80,0,0x1000,10,20,,,4096,managed,freed\n");
}

TEST(SpanCsv, WhatCannotBeWrittenIsSaidAtTheEnd) {
  TextFile file;
  file.fails = true;
  SpanCsvSink sink(&file);
  sink.WriteHeader({});
  sink.OnSlot(SlotOf({{{{7, 70}, 1, 2, 100, 300, 5, 64, KernelsEnd::kForced}}, {}}));
  EXPECT_EQ(sink.Finish().code(), Exit::kOutput);
}

}  // namespace
}  // namespace slotscope
