// SPDX-License-Identifier: MIT
// What record --raw keeps gives the same file again; and what is damaged is refused at the right place.
#include <signal.h>
#include <unistd.h>

#include "harness.h"

namespace slotscope {
namespace {

struct ReplayCase {
  const char* name;
  const char* record;   // options of both
  const char* command;  // behind --
};
void PrintTo(const ReplayCase& c, std::ostream* out) { *out << c.name; }

class ReplayTest : public testing::TestWithParam<ReplayCase> {};

TEST_P(ReplayTest, GivesTheSameFile) {
  const std::string dir = MakeDir(std::string("replay-") + GetParam().name);
  const std::string options = GetParam().record;
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && $S record --source $SRC " + options + " --raw r.raw -o a.csv " +
                      GetParam().command,
                  &output),
            0)
      << output;
  // Without any privilege, in another folder, under another name of the machine: nothing of it is read.
  ASSERT_EQ(Shell("cd " + dir + " && $S replay $(echo '" + options +
                      "' | sed 's/--duration [0-9.]*//') " + "r.raw -o b.csv",
                  &output),
            0)
      << output;
  CsvFile csv = ReadCsv(dir + "/a.csv");
  if (csv.comments.at("unwritten_slots") == "0") CheckIdentity(csv);
  const std::string live = Text(dir + "/a.csv"), replayed = Text(dir + "/b.csv");
  EXPECT_GT(live.size(), 1000u);
  EXPECT_TRUE(live == replayed) << "they differ; they are kept in " << dir;
}

INSTANTIATE_TEST_SUITE_P(Replay, ReplayTest,
                         testing::Values(ReplayCase{"Plain", "--duration 1", ""},
                                         ReplayCase{"Coarse",
                                                    "--duration 1 --slot 10 --top 2 --window 20", ""},
                                         ReplayCase{"Full", "--duration 2 --max-size 64K", ""},
                                         ReplayCase{"OfACommand", "--comm sh",
                                                    "-- sh -c 'for i in 1 2 3; do sleep 0.1; done'"},
                                         ReplayCase{"OfACommandAndAll", "--all", "-- sleep 0.3"}),
                         [](const auto& c) { return c.param.name; });

TEST(Replay, ACommandsRecordingHasTheOthersTooIfAsked) {
  const std::string dir = MakeDir("all");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && $S record --source $SRC --raw r.raw -o a.csv -- sleep 0.5 && " +
                      "$S replay r.raw --all -o all.csv",
                  &output),
            0)
      << output;
  CsvFile folded = ReadCsv(dir + "/a.csv"), all = ReadCsv(dir + "/all.csv");
  CheckIdentity(all);
  EXPECT_GT(all.rows.size(), folded.rows.size());
  for (const auto& row : all.rows) ASSERT_NE(row.at("kind"), "other");
}

TEST(Replay, AKilledRecorderLeavesAReadableFile) {
  const std::string dir = MakeDir("killed-raw");
  std::string output;
  Shell("cd " + dir + " && $S record --source $SRC --raw r.raw -o a.csv 2>/dev/null & pid=$!; n=0; cd " +
            dir +
            "; until [ $(cat a.csv.part 2>/dev/null | wc -l) -gt 300 ] || [ $n -gt 400 ]; do "
            "n=$((n+1)); " +
            "sleep 0.1; done; kill -9 $pid; wait $pid",
        &output);
  // Cut anywhere.
  ASSERT_EQ(Shell("cd " + dir + " && head -c -1001 r.raw.part > cut.raw && $S replay cut.raw -o b.csv",
                  &output),
            0)
      << output;
  EXPECT_NE(output.find("ends early"), std::string::npos) << output;
  CsvFile csv = ReadCsv(dir + "/b.csv");
  CheckIdentity(csv);
  EXPECT_GT(csv.rows.size(), 20u);
  EXPECT_EQ(Shell("cd " + dir + " && $S replay --strict cut.raw -o c.csv", &output), 10) << output;
}

TEST(Replay, ADamagedFileIsRefusedWhereItIsDamagedAndTheRestIsKept) {
  const std::string dir = MakeDir("damaged");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && $S gen g.raw --milliseconds 300 && cp g.raw d.raw && " +
                      "printf X | dd of=d.raw bs=1 seek=500000 conv=notrunc 2>/dev/null",
                  &output),
            0)
      << output;
  EXPECT_EQ(Shell("cd " + dir + " && $S replay d.raw -o d.csv", &output), 9) << output;
  EXPECT_NE(output.find("d.raw: chunk "), std::string::npos) << output;
  EXPECT_NE(output.find("damaged"), std::string::npos) << output;
  CsvFile csv = ReadCsv(dir + "/d.csv");
  CheckIdentity(csv);
  EXPECT_GT(csv.rows.size(), 100u);
}

// A recorder that stood still, as on a machine without time for it: the rings hold what they can, the
// kernel counts the rest, and every nanosecond is accounted for all the same.
TEST(Replay, ARecorderThatStoodStillLosesNothingUncounted) {
  const std::string dir = MakeDir("stalled");
  std::string output;
  ASSERT_EQ(
      Shell("cd " + dir + "; $S record --source $SRC --raw r.raw -o a.csv >out 2>err & pid=$!; " +
                UntilRecording("err") +
                "for i in 1 2 3; do sleep 0.3; kill -STOP $pid; sleep 0.4; kill -CONT $pid; done; " +
                "sleep 0.3; kill -INT $pid; wait $pid",
            &output),
      0)
      << output << Text(dir + "/out") << Text(dir + "/err");
  CsvFile csv = ReadCsv(dir + "/a.csv");
  CheckIdentity(csv);
  EXPECT_GT(std::stoull(csv.comments.at("slots")), 1000u);
  ASSERT_EQ(Shell("cd " + dir + " && $S replay r.raw -o b.csv && cmp a.csv b.csv", &output), 0)
      << output;
}

}  // namespace
}  // namespace slotscope
