// SPDX-License-Identifier: MIT
// Xids in kernel logs, and what only looks like one.
#include "detect/inputs/kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "detect/inputs/xid.h"

namespace slotscope {
namespace {

constexpr int64_t kS = 1'000'000'000;

KernelLogReader MakeReader() {
  LogTimeOptions options;
  options.boot_ns = 1'700'000'000 * kS;
  options.zone = TimeZone(0);
  return KernelLogReader(options, "here");
}

// ---- the driver's words

TEST(Xid, WithAndWithoutProcess) {
  struct {
    const char* text;
    int32_t code;
    const char* bus;
    std::optional<int32_t> pid;
    const char* process;
    const char* message;
  } const kCases[] = {
      {"NVRM: Xid (0000:03:00): 13, 0003 00000000", 13, "0000:03:00", {}, "", "0003 00000000"},
      {"NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
       79,
       "0000:91:00",
       {},
       "",
       "GPU has fallen off the bus."},
      {"NVRM: Xid (PCI:0000:91:00): 79, pid=<unknown>, name=<unknown>, GPU has fallen.",
       79,
       "0000:91:00",
       {},
       "",
       "GPU has fallen."},
      {"NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row", 63, "0000:10:1c", 1896, "",
       "Row Remapper: New row"},
      {"NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal", 145,
       "0018:01:00", 876767, "ray::WorkerDict", "RLW_RXPIPE Nonfatal"},
      {"NVRM: Xid (PCI:0000:01:00): 43, pid=5, name=python3.10, Ch 00000008", 43, "0000:01:00", 5,
       "python3.10", "Ch 00000008"},
      {"NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain)",
       154,
       "0009:01:00",
       {},
       "",
       "GPU recovery action changed from 0x0 (None) to 0x4 (Drain)"},
      {"NVRM: Xid (PCI:00000000:01:00): 8, ", 8, "00000000:01:00", {}, "", ""},
      {"NVRM: Xid (PCI:0000:01:00): 8,", 8, "0000:01:00", {}, "", ""},
      {"NVRM: Xid (PCI:0000:01:00): 8, pid=12", 8, "0000:01:00", 12, "", ""},
      {"NVRM: Xid (PCI:0000:01:00): 8, pid=12, name=a", 8, "0000:01:00", 12, "a", ""},
      {"NVRM: Xid (PCI:0000:01:00): 8, pid=twelve, x", 8, "0000:01:00", {}, "", "pid=twelve, x"},
  };
  for (const auto& c : kCases) {
    const auto xid = ParseXid(c.text);
    ASSERT_TRUE(xid) << c.text;
    EXPECT_EQ(xid->code, c.code) << c.text;
    EXPECT_EQ(xid->bus, c.bus) << c.text;
    EXPECT_EQ(xid->pid, c.pid) << c.text;
    EXPECT_EQ(xid->process, c.process) << c.text;
    EXPECT_EQ(xid->message, c.message) << c.text;
  }
}

TEST(Xid, OfPartsOfAGpu) {
  const auto xid =
      ParseXid("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 94, pid=7194, Contained: CE");
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->gpu_instance, 5);
  EXPECT_EQ(xid->compute_instance, 2);
  EXPECT_EQ(xid->pid, 7194);
}

TEST(Xid, AConsequenceNamesItsCause) {
  const auto xid = ParseXid(
      "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid "
      "149");
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->cause, 149);
}

TEST(Xid, LookAlikesAreNone) {
  for (const char* text :
       {"NVRM: Xid (PCI:0000:05:00.0): 79, x", "NVRM: Xid (PCI:0000:05): 79, x", "NVRM: Xid (): 79",
        "NVRM: Xid (PCI:0000:05:00): , x", "NVRM: Xid (PCI:0000:05:00): -1, x",
        "NVRM: Xid (PCI:0000:05:00) 79, x", "NVRM: Xid (PCI:0000:05:00): 79.5, x",
        "NVRM: Xid (PCI:0000:05:00): 99999999999, x", "NVRM: Xid (PCI:0000:05:00 GPU-I:x): 79, y"})
    EXPECT_FALSE(ParseXid(text)) << text;
}

// ---- lines

TEST(KernelLog, OfTheKernelsOwnFile) {
  KernelLogReader reader = MakeReader();
  const auto xid =
      reader.OnLine("4,3971,206776438,-;NVRM: Xid (PCI:0000:91:00): 79, GPU has fallen off the bus.");
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->uid, "kmsg-3971");
  EXPECT_EQ(xid->node, "here");
  EXPECT_EQ(xid->when, (Moment{(1'700'000'206 * kS) + 776'438'000, 1000}));
  EXPECT_EQ(xid->clock, LogClock::kBoot);
  // Properties of the line before; and a program that writes into the log: facility 1, not 0.
  EXPECT_FALSE(reader.OnLine(" DEVICE=+pci:0000:3b:00.0"));
  EXPECT_FALSE(reader.OnLine(" NVRM: Xid (PCI:0000:91:00): 79, x"));
  EXPECT_FALSE(reader.OnLine("12,3972,206776439,-;NVRM: Xid (PCI:0000:91:00): 79, faked"));
  EXPECT_EQ(reader.stats().nr_xids, 1u);
}

TEST(KernelLog, OfTheJournal) {
  KernelLogReader reader = MakeReader();
  const auto xid = reader.OnLine(
      R"({"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:91:00): 79, pid=7, name=a, gone",)"
      R"("_HOSTNAME":"gpu-node-7","__REALTIME_TIMESTAMP":"1748419550000000","__CURSOR":"s=1;i=2",)"
      R"("__MONOTONIC_TIMESTAMP":"90000000","_SOURCE_MONOTONIC_TIMESTAMP":"30000000","PRIORITY":"3"})");
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->node, "gpu-node-7");
  EXPECT_EQ(xid->uid, "s=1;i=2");
  EXPECT_EQ(xid->when, (Moment{1'748'419'490 * kS, 1000})) << "the journal got it a minute later";
  EXPECT_EQ(xid->pid, 7);
  // A message that is no UTF-8 is a list of bytes, with blanks if Python wrote it.
  for (const char* const colon : {":", ": "})
    for (const char* const comma : {",", ", "}) {
      std::string bytes;
      for (char c : std::string("NVRM: Xid (PCI:0000:91:00): 13, \xff"))
        bytes += (bytes.empty() ? "" : comma) + std::to_string(static_cast<unsigned char>(c));
      EXPECT_TRUE(
          reader.OnLine(R"({"_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"1748419550000000","MESSAGE")" +
                        std::string(colon) + "[" + bytes + "]}"))
          << colon << comma;
    }
  // What programs log is not the driver's.
  EXPECT_FALSE(reader.OnLine(
      R"({"_TRANSPORT":"stdout","MESSAGE":"NVRM: Xid (PCI:0000:91:00): 79, x","__REALTIME_TIMESTAMP":"1"})"));
  EXPECT_FALSE(reader.OnLine(R"({"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:)"));
  EXPECT_EQ(reader.stats().nr_malformed, 1u);
}

TEST(KernelLog, TheHostIsWhatStandsBeforeKernel) {
  KernelLogReader reader = MakeReader();
  const auto with = reader.OnLine(
      "2025-01-21T04:41:44.283302+0000 gpu-node-7 kernel: NVRM: Xid (PCI:0000:91:00): 79, x");
  ASSERT_TRUE(with);
  EXPECT_EQ(with->node, "gpu-node-7");
  EXPECT_EQ(reader.stats().nr_without_node, 0u);
  const auto without = reader.OnLine(
      "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: Xid (PCI:0000:91:00): 79, x\r");
  ASSERT_TRUE(without);
  EXPECT_EQ(without->node, "here");
  EXPECT_EQ(without->message, "x");
  EXPECT_EQ(reader.stats().nr_without_node, 1u);
}

TEST(KernelLog, WhatProgramsQuoteIsNotTheDrivers) {
  KernelLogReader reader = MakeReader();
  for (const char* line :
       {"Mar  3 16:20:24 gpu-node-7 trainer[41]: NVRM: Xid (PCI:0000:91:00): 79, x",
        "2025-01-21T04:41:44.283302+0000 n7 python3.10[1234]: saw: NVRM: Xid (PCI:0000:91:00): 79, x",
        "user  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: Xid (PCI:0000:91:00): 79, x",
        "<12>[    1.000000] NVRM: Xid (PCI:0000:91:00): 79, x"})
    EXPECT_FALSE(reader.OnLine(line, kS)) << line;
  EXPECT_TRUE(reader.OnLine("<4>[    1.000000] NVRM: Xid (PCI:0000:91:00): 79, x"));
  EXPECT_TRUE(reader.OnLine("[    1.000000] [ T1946]: NVRM: Xid (PCI:0000:91:00): 79, x"));
}

TEST(KernelLog, WithoutATimeThereIsTheReceipts) {
  KernelLogReader reader({}, "here");
  const char* line = "[6781741.548779] NVRM: Xid (PCI:0000:91:00): 79, x";
  const auto unknown = reader.OnLine(line);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->clock, LogClock::kNone);
  EXPECT_EQ(reader.stats().nr_without_time, 1u);
  const auto xid = reader.OnLine(line, 5 * kS);
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->when.last_ns(), 5 * kS - 1) << "it is looked at now and then";
  EXPECT_GT(xid->when.resolution_ns, kS);
  EXPECT_EQ(xid->clock, LogClock::kReceipt);
}

TEST(KernelLog, KnowsWhetherItIsOne) {
  for (const char* line :
       {"6,3964,206764307,-;nvidia-nvswitch2: open (major=510)", "[    0.000000] Linux version 6.1.0",
        "[Fri Aug  9 13:32:56 2024] usb 1-1: new device",
        "kern  :info  : 2025-01-21T04:41:44,283302+00:00 x", "May 19 07:08:57 host kernel: x",
        R"({"_TRANSPORT":"kernel","MESSAGE":"x"})",
        "2025-01-21T04:41:44.283302+0000 host systemd[1]: Started x"}) {
    KernelLogReader reader = MakeReader();
    reader.OnLine(line);
    EXPECT_TRUE(reader.stats().has_kernel_lines) << line;
  }
  for (const char* line : {"", "root:x:0:0:root:/root:/bin/bash", "{\"kind\":\"Event\"}", "a,b,c",
                           "Xid (PCI:0000:91:00): 79"}) {
    KernelLogReader reader = MakeReader();
    reader.OnLine(line);
    EXPECT_FALSE(reader.stats().has_kernel_lines) << line;
  }
}

// ---- real ones

std::vector<std::vector<std::string>> ReadTable(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // names
  while (std::getline(file, line)) {
    std::vector<std::string> row;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, '\t');) row.push_back(field);
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(KernelLogCorpus, RealXidsAreReadAndOthersAreNot) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  const std::string folder = std::string(corpus) + "/xid/";
  KernelLogReader reader = MakeReader();
  size_t nr_xids = 0;
  for (const auto& row : ReadTable(folder + "xid_lines.tsv")) {
    ASSERT_EQ(row.size(), 8u);
    const auto xid = reader.OnLine(row[7], kS);
    ASSERT_TRUE(xid) << row[7];
    EXPECT_EQ(std::to_string(xid->code), row[3]) << row[7];
    EXPECT_EQ(xid->bus, row[4]) << row[7];
    EXPECT_EQ(xid->pid ? std::to_string(*xid->pid) : "", row[5]) << row[7];
    EXPECT_EQ(xid->process, row[6]) << row[7];
    nr_xids++;
  }
  EXPECT_GE(nr_xids, 15u);
  for (const auto& row : ReadTable(folder + "not_xid_lines.tsv"))
    EXPECT_FALSE(reader.OnLine(row.at(3), kS)) << row[3];
  EXPECT_EQ(reader.stats().nr_malformed, 0u);
  // Whole logs: what is anchored is what the driver wrote.
  for (const char* name : {"gpud_dmesg.decode.iso.head200.log", "gpud_kmsg.1.log",
                           "synth_kmsg_framing.log", "gpud_xid79_sxid_interleaved.md"}) {
    std::ifstream file(folder + name);
    ASSERT_TRUE(file) << name;
    KernelLogReader of_file = MakeReader();
    size_t nr_found = 0, nr_anchored = 0;
    for (std::string line; std::getline(file, line);) {
      nr_anchored += line.find("NVRM: Xid (") != line.npos;
      nr_found += of_file.OnLine(line).has_value();
    }
    EXPECT_EQ(nr_found, nr_anchored) << name;
  }
}

}  // namespace
}  // namespace slotscope
