// SPDX-License-Identifier: MIT
#include "sinks/csv_sink.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/part_file.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMs = 1'000'000;
constexpr const char* kHeader =
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,rmid,kind,cpu_ns,wait_ns,switches,"
    "preemptions,cycles,instructions,llc_misses,mux_pct,mbm_total_bytes,mbm_local_bytes,"
    "llc_occupancy_bytes,rdt_status,gpu_mem_bytes,gpu_active_ns,gpu_launches,straggle,"
    "throughput_drop_pct,slot_ns,wait_earlier_ns,wait_others_ns,wait_self_ns,wait_throttled_ns,"
    "wait_wakeup_ns,wait_steal_ns,wait_unknown_ns,ran_instead_tgid,ran_instead_start_ns,ran_instead_ns,"
    "state,state_since_ns,cpus,main_cpu,migrations,gpu_no_work_ns,gpu_no_work_ran_ns,"
    "gpu_no_work_in_calls_ns,gpu_no_work_waited_ns,gpu_no_work_throttled_ns,gpu_no_work_cuda_wait_ns,"
    "gpu_no_work_disk_ns,gpu_no_work_stopped_ns,gpu_no_work_asleep_ns,gpu_no_work_unknown_ns,"
    "gpu_launcher_ran_ns,gpu_launcher_in_calls_ns";
// Of a row of which it is not known why it waited, nor what it was about, nor where.
constexpr const char* kNoWaits = ",,,,,,,,,,,,,,,";
// And of one that has not launched anything.
const std::string kNoWork = ",,,,,,,,,,,,";

class CsvTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir_); }
  std::string path() const { return dir_ + "/slots.csv"; }

  std::vector<std::string> LinesOf(const std::string& path) const {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  // What a file with these slots looks like.
  std::vector<std::string> Write(const std::vector<Slot>& slots, int64_t unix_offset_ns = 0) {
    PartFile file;
    EXPECT_TRUE(file.Open(path()).ok());
    CsvSink csv(&file, unix_offset_ns, 0);
    csv.WriteHeader({});
    for (const Slot& slot : slots) csv.OnSlot(slot);
    EXPECT_TRUE(csv.Finish({}).ok());
    EXPECT_TRUE(file.Commit().ok());
    return LinesOf(path());
  }
  // The one row of a slot with this row.
  std::string Write(const Row& row, int64_t unix_offset_ns = 0) {
    Slot slot;
    slot.start_ns = 5 * kMs;
    slot.end_ns = slot.start_ns + kMs;
    slot.rows = {row};
    slot.unix_offset_ns = unix_offset_ns;
    auto lines = Write({slot}, unix_offset_ns);
    EXPECT_EQ(lines.size(), 2u);
    return lines.back();
  }

 private:
  std::string dir_ = testing::TempDir() + "slotscope-csv-XXXXXX";
};

Slot SlotOf(uint64_t start_ns, std::vector<Row> rows) {
  Slot slot;
  slot.start_ns = start_ns;
  slot.end_ns = slot.start_ns + kMs;
  slot.rows = std::move(rows);
  return slot;
}

Row UserRow(const char* comm = "bash") {
  Row row;
  row.process = 5;
  row.named = true;
  row.key = {42, 777};
  row.rmid = 3;
  strncpy(row.comm.data(), comm, row.comm.size() - 1);
  row.sums = {1000, 20, 5, 2, 3000, 4000, 50, 1000, 250};
  return row;
}

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (char c : line) {
    if (c == ',')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

TEST_F(CsvTest, HeaderIsCommentsThenColumns) {
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  CsvSink csv(&file, 0, 0);
  csv.WriteHeader({{"host", "here"}, {"note", "one line\nnot two"}});
  ASSERT_TRUE(csv.Finish({{"lost", "0"}}).ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(LinesOf(path()),
            std::vector<std::string>({"# host: here", "# note: one line", kHeader, "# lost: 0"}));
}

TEST_F(CsvTest, RowOfAProcess) {
  EXPECT_EQ(
      Write(UserRow(), 1'000'000'000),
      "5000000,1005000000,42,777,bash,3,user,1000,20,5,2,3000,4000,50,25.0,,,,unsupported,,,,,,1000000" +
          std::string(kNoWaits) + "0" + kNoWork);
}

TEST_F(CsvTest, WhatItWasAboutAndWhere) {
  Row row = UserRow();
  row.now = {ProcessState::kStopped, 4'000'000};
  row.nr_cpus = 3;
  row.main_cpu = 17;
  row.sums[kMigrations] = 5;
  EXPECT_TRUE(Write(row).ends_with(",stopped,4000000,3,17,5" + kNoWork)) << Write(row);
  row.now = {ProcessState::kRunning, 0};
  row.unmeasured = 1u << kMigrations;
  EXPECT_TRUE(Write(row).ends_with(",running,,3,17," + kNoWork)) << Write(row);
  row.kind = RowKind::kIdle;
  EXPECT_TRUE(Write(row).ends_with(",,,,," + kNoWork)) << Write(row);
  row.kind = RowKind::kOther;
  row.unmeasured = 0;
  EXPECT_TRUE(Write(row).ends_with(",,,,,5" + kNoWork)) << Write(row);
}

TEST_F(CsvTest, WhyItWaitedStandsInProcessesAndTheirSumOnly) {
  Slot slot = SlotOf(5 * kMs, {UserRow(), UserRow(), UserRow()});
  slot.wait_causes = kAnyWaitCauses;
  slot.waits.resize(2);
  slot.waits[1].ns = {11, 12, 13, 14, 15, 16};
  slot.waits[1].earlier_ns = 17;
  slot.waits[1].ran_instead = {99, 777};
  slot.waits[1].ran_ns = 10;
  slot.rows[0].wait = 2;
  slot.rows[2].kind = RowKind::kIdle;
  const auto lines = Write({slot});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[1].ends_with(",1000000,17,11,12,,14,,16,99,777,10,,,,,0" + kNoWork)) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(",1000000,0,0,0,,0,,0,,,,,,,,0" + kNoWork))
      << "it has not waited " << lines[2];
  EXPECT_TRUE(lines[3].ends_with(std::string(",1000000") + kNoWaits + kNoWork)) << lines[3];
  slot.rows[0].kind = RowKind::kOther;
  EXPECT_TRUE(Write({slot})[1].ends_with(",1000000,17,11,12,,14,,16,99,777,10,,,,,0" + kNoWork));
  slot.wait_causes |= 1u << kWaitThrottled;
  EXPECT_TRUE(Write({slot})[1].ends_with(",1000000,17,11,12,13,14,,16,99,777,10,,,,,0" + kNoWork));
  slot.wait_causes = kNoWaitCauses;
  EXPECT_TRUE(Write({slot})[1].ends_with(std::string(",1000000") + kNoWaits + "0" + kNoWork));
}

TEST_F(CsvTest, UnixTimeMayBeBeforeTheMonotonicOne) {
  EXPECT_EQ(Split(Write(UserRow(), -2'000'000))[1], "3000000");
}

TEST_F(CsvTest, EveryRowHasTheHeadersNumberOfColumns) {
  const size_t nr_columns = Split(kHeader).size();
  for (size_t kind = 0; kind < kRowKindNames.size(); kind++)
    for (bool named : {false, true})
      for (bool tracked : {false, true})
        for (uint32_t unmeasured : {0u, ~0u, ~(1u << kCpuNs), 1u << kEnabledNs, 1u << kCycles}) {
          Row row = UserRow();
          row.kind = static_cast<RowKind>(kind);
          row.named = named;
          row.tracked = tracked;
          row.unmeasured = unmeasured;
          std::string line = Write(row);
          EXPECT_EQ(Split(line).size(), nr_columns) << line;
          EXPECT_EQ(Split(line)[6], kRowKindNames[kind]);
        }
}

TEST_F(CsvTest, NotMeasuredIsEmptyAndZeroIsZero) {
  const auto header = Split(kHeader);
  const struct {
    Additive id;
    const char* column;
  } cases[] = {
      {kCpuNs, "cpu_ns"},         {kWaitNs, "wait_ns"},
      {kSwitches, "switches"},    {kPreemptions, "preemptions"},
      {kCycles, "cycles"},        {kInstructions, "instructions"},
      {kLlcMisses, "llc_misses"}, {kEnabledNs, "mux_pct"},
  };
  for (const auto& c : cases) {
    auto at = static_cast<size_t>(std::find(header.begin(), header.end(), c.column) - header.begin());
    Row row = UserRow();
    row.unmeasured = 1u << c.id;
    auto fields = Split(Write(row));
    EXPECT_EQ(fields.at(at), "") << c.column;
    auto nr_measured = std::count_if(fields.begin(), fields.end(), [](auto& f) { return !f.empty(); });
    EXPECT_EQ(nr_measured, 17) << "only " << c.column << " is empty";
    if (c.id == kEnabledNs) continue;
    row.unmeasured = 0;
    row.sums[c.id] = 0;
    EXPECT_EQ(Split(Write(row)).at(at), "0") << c.column;
  }
}

TEST_F(CsvTest, MuxPctIsRunningOfEnabled) {
  const struct {
    uint64_t running_ns, enabled_ns;
    const char* text;
  } cases[] = {{1000, 1000, "100.0"}, {1, 3, "33.3"}, {0, 1000, "0.0"}, {0, 0, ""}};
  for (const auto& c : cases) {
    Row row = UserRow();
    row.sums[kRunningNs] = c.running_ns;
    row.sums[kEnabledNs] = c.enabled_ns;
    EXPECT_EQ(Split(Write(row))[14], c.text);
  }
}

TEST_F(CsvTest, RowsThatAreNoProcessHaveNoIdentity) {
  for (RowKind kind : {RowKind::kLost, RowKind::kOffline, RowKind::kOther}) {
    Row row;
    row.kind = kind;
    row.sums[kCpuNs] = 1000;
    row.unmeasured = ~(1u << kCpuNs);
    std::string name = kRowKindNames[static_cast<size_t>(kind)];
    EXPECT_EQ(Write(row),
              "5000000,5000000,,,,," + name + ",1000,,,,,,,,,,,,,,,,,1000000" + kNoWaits + kNoWork);
  }
}

TEST_F(CsvTest, RdtValuesAndTheirStatus) {
  const struct {
    RdtRow rdt;
    const char* text;
  } cases[] = {
      {{{10, 4, 4096}, 0, SS_RDT_OK}, "10,4,4096,ok"},
      {{{0, 0, 0}, 0, SS_RDT_OK}, "0,0,0,ok"},
      {{{10, 4, 4096}, 1u << kMbmTotal, SS_RDT_ERROR}, ",4,4096,error"},
      {{{10, 4, 4096}, 1u << kMbmLocal, SS_RDT_PARTIAL}, "10,,4096,partial"},
      {{{10, 4, 4096}, 1u << kLlcOccupancy, SS_RDT_TAINTED}, "10,4,,tainted"},
      {{{10, 4, 4096}, 7, SS_RDT_UNSUPPORTED}, ",,,unsupported"},
      {{{UINT64_MAX, 1, 2}, 0, SS_RDT_OK}, "18446744073709551615,1,2,ok"},
  };
  for (RowKind kind : {RowKind::kUser, RowKind::kOther})
    for (const auto& c : cases) {
      Slot slot = SlotOf(5 * kMs, {UserRow()});
      slot.rdt = {{}, c.rdt};  // not the first
      slot.rows[0].kind = kind;
      slot.rows[0].beside = 2;
      const std::string line = Write({slot}).back();
      EXPECT_EQ(line.substr(line.find("25.0,")),
                std::string("25.0,") + c.text + ",,,,,,1000000" + kNoWaits + "0" + kNoWork);
    }
}

TEST_F(CsvTest, PerfCountersThatWereAskedForStandBehindAllOthers) {
  Slot slot = SlotOf(5 * kMs, {UserRow(), UserRow()});
  slot.more.resize(3);
  slot.more[1].sums = {{{7, 100, 50}, {0, 100, 100}, {9, 0, 0}, {UINT64_MAX, 3, 2}, {1, 1, 1}}};
  slot.more[1].unmeasured = 1u << 4;
  slot.rows[0].beside = 2;
  for (size_t nr_more = 0; nr_more <= SS_MAX_MORE; nr_more++) {
    PartFile file;
    ASSERT_TRUE(file.Open(path()).ok());
    CsvSink csv(&file, 0, 0, nr_more);
    csv.WriteHeader({});
    csv.OnSlot(slot);
    ASSERT_TRUE(csv.Finish({}).ok());
    ASSERT_TRUE(file.Commit().ok());
    const auto lines = LinesOf(path());
    std::string header = kHeader;
    for (const Column& column : MoreColumns(nr_more)) header += "," + std::string(column.name);
    const std::vector<std::string> fields = {
        "7", "50.0", "0", "100.0", "9", "", "18446744073709551615", "66.7", "", ""};
    ASSERT_EQ(fields.size(), 2 * SS_MAX_MORE) << "two for each counter that there may be";
    std::string row = std::string("25.0,,,,unsupported,,,,,,1000000") + kNoWaits + "0" + kNoWork,
                without = row;
    for (size_t i = 0; i < 2 * nr_more; i++) row += "," + fields[i], without += ",";
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0], header);
    EXPECT_EQ(lines[1].substr(lines[1].find("25.0,")), row);
    EXPECT_EQ(lines[2].substr(lines[2].find("25.0,")), without) << "a row that has none";
  }
}

TEST_F(CsvTest, TrafficMakesARowAndOccupancyDoesNot) {
  for (size_t value = 0; value < kNrRdtValues; value++) {
    Row row = UserRow();
    row.sums = {};
    row.beside = 1;
    Slot slot = SlotOf(5 * kMs, {row});
    slot.rdt.resize(1);
    slot.rdt[0].values[value] = 1;
    EXPECT_EQ(Write({slot}).size(), value == kLlcOccupancy ? 1u : 2u)
        << ColumnName(RowPart::kRdt, value);
  }
}

TEST_F(CsvTest, UnknownStartAndUnknownNameAreEmpty) {
  Row row = UserRow();
  row.tracked = false;
  row.named = false;
  auto fields = Split(Write(row));
  EXPECT_EQ(fields[2], "42");
  EXPECT_EQ(fields[3], "");
  EXPECT_EQ(fields[4], "");
}

TEST_F(CsvTest, RowsOfNothingButZerosAreLeftOut) {
  Row nothing = UserRow(), one_switch = UserRow();
  nothing.sums = one_switch.sums = {};
  one_switch.sums[kSwitches] = 1;
  EXPECT_EQ(Write({SlotOf(5 * kMs, {nothing, one_switch})}).size(), 2u);
}

TEST_F(CsvTest, NamesAreEscapedSoThatALineIsARow) {
  const struct {
    const char* comm;
    const char* text;
  } cases[] = {
      {"plain name-1", "plain name-1"},
      {"a,b", "a\\x2cb"},
      {"say \"hi\"", "say \\x22hi\\x22"},
      {"two\nlines\r", "two\\x0alines\\x0d"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {"back\\slash", "back\\x5cslash"},
      {"del\x7f", "del\\x7f"},
      {"\xc3\xa9\xff", "\\xc3\\xa9\\xff"},
      {"tab\there", "tab\\x09here"},
      {"123456789abcdef", "123456789abcdef"},
      {"", ""},
  };
  for (const auto& c : cases) {
    auto fields = Split(Write(UserRow(c.comm)));
    ASSERT_EQ(fields.size(), Split(kHeader).size()) << c.text;
    EXPECT_EQ(fields[4], c.text);
  }
}

TEST_F(CsvTest, ANameOfSixteenBytesWithoutAnEndIsNotReadBeyondIt) {
  Row row = UserRow();
  row.comm.fill('x');
  EXPECT_EQ(Split(Write(row))[4], std::string(SS_COMM_LEN, 'x'));
}

// What is cached of a process under its tracker id is written anew when any of it changes.
TEST_F(CsvTest, AnIdThatIsAnotherProcessNowHasItsOwnIdentity) {
  std::vector<Row> rows(1, UserRow());
  auto add = [&](auto change) {
    rows.push_back(rows.back());
    change(&rows.back());
    rows.push_back(rows.back());  // from the cache
  };
  add([](Row* row) { row->key.tgid = 43; });
  add([](Row* row) { row->key.start_time_ns = 778; });
  add([](Row* row) { row->comm = {'s', 'h'}; });
  add([](Row* row) { row->rmid = 4; });
  add([](Row* row) { row->kind = RowKind::kKernel; });
  add([](Row* row) { row->tracked = false; });
  add([](Row* row) { row->named = false; });
  add([](Row* row) { row->comm.fill('\xff'); });
  add([](Row* row) { row->named = true; });  // a name that is too long for the cache
  std::vector<std::string> expected;
  for (Row row : rows) {
    row.process = static_cast<uint32_t>(expected.size()) + 10;  // one that was never used
    expected.push_back(Write(row));
  }
  Slot slot = SlotOf(5 * kMs, rows);
  auto lines = Write({slot});
  ASSERT_EQ(lines.size(), expected.size() + 1);
  for (size_t i = 0; i < expected.size(); i++) EXPECT_EQ(lines[i + 1], expected[i]) << i;
}

TEST_F(CsvTest, AStepOfTheWallClockIsALineAndCountsFromItsSlotOn) {
  Slot before = SlotOf(5 * kMs, {UserRow()}), after = SlotOf(6 * kMs, {UserRow()});
  before.unix_offset_ns = 100;
  after.unix_offset_ns = -7;
  auto lines = Write({before, after, after}, 100);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(Split(lines[1])[1], "5000100");
  EXPECT_EQ(lines[2], "# unix_offset_ns: -7");
  EXPECT_EQ(Split(lines[3])[1], "5999993");
}

TEST_F(CsvTest, NotesStandInFrontOfTheirSlotsRows) {
  Slot slot = SlotOf(5 * kMs, {UserRow()});
  slot.notes = {"one", "two\nlines"};
  auto lines = Write({slot});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1], "# note: one");
  EXPECT_EQ(lines[2], "# note: two");
}

TEST_F(CsvTest, MaxSizeStopsAtAWholeSlot) {
  constexpr uint64_t kMaxSize = 64 << 10;
  constexpr size_t kRowsPerSlot = 7;
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  CsvSink csv(&file, 0, kMaxSize);
  csv.WriteHeader({});
  uint64_t nr_offered = 0;
  for (; nr_offered < 2000; nr_offered++) {
    csv.OnSlot(SlotOf(nr_offered * kMs + kMs, std::vector<Row>(kRowsPerSlot, UserRow())));
    if (nr_offered % 10 == 0) csv.Flush();
  }
  EXPECT_TRUE(csv.is_full());
  ASSERT_TRUE(csv.Finish({{"lost", "0"}}).ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_LE(fs::file_size(path()), kMaxSize);
  EXPECT_GT(fs::file_size(path()), kMaxSize / 2);
  auto lines = LinesOf(path());
  EXPECT_EQ(lines.back(), "# lost: 0") << "the counters found room";
  size_t nr_rows = lines.size() - 2;
  EXPECT_EQ(nr_rows % kRowsPerSlot, 0u);
  EXPECT_EQ(csv.nr_rows(), nr_rows);
  EXPECT_EQ(csv.nr_unwritten_slots(), nr_offered - nr_rows / kRowsPerSlot);
  EXPECT_EQ(Split(lines[nr_rows])[0], std::to_string(nr_rows / kRowsPerSlot * kMs))
      << "nothing in between is missing";
}

TEST_F(CsvTest, WithoutMaxSizeItIsNeverFull) {
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  CsvSink csv(&file, 0, 0);
  csv.WriteHeader({});
  for (uint64_t i = 0; i < 1000; i++) csv.OnSlot(SlotOf(i * kMs, std::vector<Row>(10, UserRow())));
  ASSERT_TRUE(csv.Finish({}).ok());
  EXPECT_FALSE(csv.is_full());
  EXPECT_EQ(csv.nr_rows(), 10'000u);
  EXPECT_EQ(LinesOf(file.part_path()).size(), 10'001u);
}

TEST_F(CsvTest, FlushEndsAtARowEnd) {
  PartFile file;
  ASSERT_TRUE(file.Open(path()).ok());
  CsvSink csv(&file, 0, 0);
  csv.WriteHeader({});
  for (uint64_t i = 0; i < 20'000; i++) {
    csv.OnSlot(SlotOf(i * kMs, {UserRow()}));
    if (i % 5000) continue;
    csv.Flush();
    std::ifstream part(file.part_path());
    std::string text((std::istreambuf_iterator<char>(part)), {});
    ASSERT_EQ(text.back(), '\n');
    ASSERT_EQ(text.size(), file.size());
  }
}

// A full disk, played by a limit on the size of files.
TEST_F(CsvTest, AFailedWriteIsReportedAndLeavesWholeRows) {
  constexpr rlim_t kLimit = 700'001;
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {kLimit, kLimit};
    if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(100);
    PartFile file;
    if (!file.Open(path()).ok()) _exit(101);
    CsvSink csv(&file, 0, 0);
    csv.WriteHeader({});
    for (uint64_t i = 0; i < 20'000; i++) csv.OnSlot(SlotOf(i * kMs, {UserRow()}));
    if (csv.status().ok()) _exit(102);
    if (csv.nr_unwritten_slots() == 0) _exit(103);
    Status status = csv.Finish({{"lost", "0"}});
    if (status.message().find(file.part_path()) == std::string::npos) _exit(104);
    if (status.message().find("File too large") == std::string::npos) _exit(105);
    _exit(static_cast<int>(status.code()));
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFEXITED(wait_status));
  EXPECT_EQ(WEXITSTATUS(wait_status), static_cast<int>(Exit::kOutput));
  EXPECT_FALSE(fs::exists(path())) << "it is not complete";
  std::ifstream part(path() + ".part");
  std::string text((std::istreambuf_iterator<char>(part)), {});
  ASSERT_GT(text.size(), kLimit / 2);
  EXPECT_EQ(text.back(), '\n');
  for (const std::string& line : LinesOf(path() + ".part"))
    ASSERT_EQ(Split(line).size(), Split(kHeader).size()) << line;
}

TEST_F(CsvTest, GpuColumnsAreEmptyWhereTheyAreNotKnown) {
  const struct {
    GpuRow gpu;
    const char* columns;
  } cases[] = {
      {{{4096, 1000, 3}, 0, true}, ",4096,1000,3,,"},
      {{{4096, 1000, 3}, 1u << kGpuMemBytes, true}, ",,1000,3,,"},
      {{{4096, 1000, 3}, 1u << kGpuActiveNs | 1u << kGpuLaunches, false}, ",4096,,,,"},
      {{{0, 0, 0}, 0, false}, ",0,0,0,,"},
  };
  for (const auto& c : cases) {
    Slot slot;
    slot.start_ns = 5 * kMs;
    slot.end_ns = slot.start_ns + kMs;
    slot.rows.resize(1);
    slot.rows[0].sums[kCpuNs] = 1;
    slot.rows[0].gpu = 1;
    slot.gpu = {c.gpu};
    EXPECT_NE(Write({slot}).back().find(std::string(c.columns) + ",1000000" + kNoWaits + "0"),
              std::string::npos)
        << Write({slot}).back();
  }
}

TEST_F(CsvTest, WhyAGpuHadNoWorkStandsBehindAllThatWasThereBefore) {
  Slot slot = SlotOf(5 * kMs, {UserRow()});
  slot.rows[0].gpu = 1;
  slot.gpu.resize(1);
  slot.gpu[0].values = {4096, 1000, 3, 30, 11, 5, 4, 3, 2, 1, 6, 2, 1, 700, 70};
  EXPECT_TRUE(Write({slot}).back().ends_with(",4096,1000,3,,,1000000" + std::string(kNoWaits) +
                                             "0,30,11,5,4,3,2,1,6,2,1,700,70"));
  slot.gpu[0].unmeasured = kOfTurns;
  EXPECT_TRUE(Write({slot}).back().ends_with("0,30,,,,,,,,,,,"));
}

TEST_F(CsvTest, AProcessThatOnlyUsedItsGpuHasARow) {
  Slot slot;
  slot.start_ns = 5 * kMs;
  slot.end_ns = slot.start_ns + kMs;
  slot.rows.resize(2);
  slot.rows[0].gpu = 1;
  slot.rows[1].gpu = 2;
  slot.gpu = {{{4096, 0, 0}, 0, false}, {{4096, 1000, 0}, 0, true}};  // memory that is held makes none
  EXPECT_EQ(Write({slot}).size(), 2u);
}

}  // namespace
}  // namespace slotscope
