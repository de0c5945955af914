// SPDX-License-Identifier: MIT
#include "sinks/gpu_csv_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

constexpr const char* kColumns =
    "slot_start_ns,slot_start_unix_ns,kind,gpu,gpu_uuid,tgid,start_time_ns,comm,cuda_device,gpu_mem_"
    "bytes,"
    "gpu_active_ns,gpu_launches,process_sm_active_pct,sm_active_pct,sm_active_source,sm_active_from_ns,"
    "sm_active_to_ns,gpu_used_bytes,gpu_total_bytes,gpu_no_work_ns,gpu_no_work_ran_ns,"
    "gpu_no_work_in_calls_ns,gpu_no_work_waited_ns,gpu_no_work_throttled_ns,gpu_no_work_cuda_wait_ns,"
    "gpu_no_work_disk_ns,gpu_no_work_stopped_ns,gpu_no_work_asleep_ns,gpu_no_work_unknown_ns,"
    "gpu_launcher_ran_ns,gpu_launcher_in_calls_ns\n";

std::vector<GpuDevice> SomeGpus() {
  GpuDevice whole, instance;
  whole.uuid = "GPU-a";
  whole.total_bytes = 1000;
  instance.index = 1;
  instance.instance = 2;
  instance.uuid = "MIG-b";
  return {whole, instance};
}

// What a slot becomes, without the header; each line has a field per column.
std::string RowsOf(GpuDetail detail) {
  TextFile file;
  GpuCsvSink sink(&file, SomeGpus());
  sink.WriteHeader({{"host", "h"}});
  Slot slot;
  slot.start_ns = 5'000'000;
  slot.end_ns = slot.start_ns + 1'000'000;
  slot.unix_offset_ns = -1;
  slot.gpu_detail = std::move(detail);
  sink.OnSlot(slot);
  EXPECT_TRUE(sink.Finish().ok());
  const std::string header = std::string("# host: h\n") + kColumns;
  EXPECT_EQ(file.text.substr(0, header.size()), header);
  const std::string rows = file.text.substr(header.size());
  const auto nr_commas = std::count(rows.begin(), rows.end(), ',');
  const auto nr_lines = std::count(rows.begin(), rows.end(), '\n');
  EXPECT_EQ(nr_commas, 30 * nr_lines) << rows;
  EXPECT_EQ(sink.Contents(), std::to_string(nr_lines) + " rows");
  return rows;
}

TEST(GpuCsv, AProcessOnADevice) {
  GpuDetail detail;
  detail.parts = {{{7, 70}, {'a', ',', 'b'}, 1, 0, {{10, 250'001, 3}, 0, true}}};
  EXPECT_EQ(RowsOf(detail),
            "5000000,4999999,process,0,GPU-a,7,70,a\\x2cb,1,10,250001,3,25.0001,,spans,5000000,6000000,,"
            ",0,0,0,0,0,0,0,0,0,0,0,0\n");
  detail.parts[0].gpu = kUnknownGpu;
  detail.parts[0].device = kUnknownDevice;
  detail.parts[0].comm = {};
  EXPECT_EQ(RowsOf(detail),
            "5000000,4999999,process,,,7,70,,,10,250001,3,25.0001,,spans,5000000,6000000,,,0,0,0,0,0,0,"
            "0,0,0,0,0,0\n");
}

TEST(GpuCsv, WhatIsNotKnownIsEmpty) {
  GpuDetail detail;
  detail.parts = {{{7, 70}, {}, 1, 1, {{10, 20, 3}, 1u << kGpuMemBytes | 1u << kGpuActiveNs, true}}};
  detail.totals = {{0, {{1, 2, 3}, 7, true}, 0, 0, 0, 0, 0}};
  EXPECT_EQ(RowsOf(detail),
            "5000000,4999999,process,1:2,MIG-b,7,70,,1,,,3,,,,,,,,0,0,0,0,0,0,0,0,0,0,0,0\n"
            "5000000,4999999,gpu,0,GPU-a,,,,,,,,,,,,,,1000,0,0,0,0,0,0,0,0,0,0,0,0\n");
}

TEST(GpuCsv, AGpuBySpansOrByGpm) {
  GpuDetail detail;
  detail.totals = {{1, {{1, 2'000'000, 3}, 0, true}, 0, 0, 0, 0, 0},
                   {0,
                    {{1, 2, 3}, 0, true},
                    kGpuSampleUsed | kGpuSampleSmActive,
                    500,
                    123'456,
                    4'000'000,
                    4'500'000}};
  EXPECT_EQ(RowsOf(detail),
            "5000000,4999999,gpu,1:2,MIG-b,,,,,1,2000000,3,,100.0000,spans,5000000,6000000,,,0,0,0,0,0,"
            "0,0,0,0,0,0,0\n"
            "5000000,4999999,gpu,0,GPU-a,,,,,1,2,3,,12.3456,gpm,4000000,4500000,500,1000,0,0,0,0,0,0,0,"
            "0,0,0,0,0\n");
}

TEST(GpuCsv, WhatCannotBeWrittenIsSaidAtTheEnd) {
  TextFile file;
  file.fails = true;
  GpuCsvSink sink(&file, {});
  sink.WriteHeader({});
  EXPECT_EQ(sink.Finish().code(), Exit::kOutput);
}

}  // namespace
}  // namespace slotscope
