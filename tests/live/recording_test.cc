// SPDX-License-Identifier: MIT
// A recording as a folder: while it is written, after its recorder was killed, as a ring, on a full
// disk.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <sstream>

#include "base/clock.h"
#include "recording/reader.h"
#include "tests/live/harness.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1000 * kMs;

std::string Folder(const std::string& name) {
  const std::string dir = TempDir() + "/" + name;
  mkdir(dir.c_str(), 0755);
  return dir;
}

uint64_t FirstSlot(const CsvFile& csv) { return std::stoull(csv.rows.front().at("slot_start_ns")); }
uint64_t LastSlot(const CsvFile& csv) { return std::stoull(csv.rows.back().at("slot_start_ns")); }

// Has it a row of a slot within 2 ms of that Unix time?
bool HasRowAt(const std::string& path, int64_t unix_ns) {
  RecordingReader reader;
  Status status = reader.Open(path);
  std::string text;
  if (status.ok())
    status =
        reader.Read("slots", {unix_ns, unix_ns + kMs}, [&](std::string_view piece) { text += piece; });
  EXPECT_TRUE(status.ok()) << status.message();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line[0] >= '0' && line[0] <= '9' &&
        std::abs(std::stoll(line.substr(line.find(',') + 1)) - unix_ns) <= 2 * kMs)
      return true;
  return false;
}

TEST(Recording, AMomentThreeSecondsAgoIsThereWhileItGoesOn) {
  const int64_t age_ns = (IsEmulated() ? 6 : 3) * kS;
  const std::string dir = Folder("going_on");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + "; $S record --source $SRC --segment 2 >out 2>err & " +
                      UntilRecording(dir + "/err") + "echo $!",
                  &output),
            0);
  // Behind what grep may have said of a file that was not there yet.
  const size_t last = output.find_last_of('\n', output.size() - 2);
  const auto pid = static_cast<pid_t>(std::stoi(last == output.npos ? output : output.substr(last + 1)));
  const auto begin_ns = static_cast<int64_t>(MonotonicNs());
  size_t nr_looks = 0;
  for (int64_t since_ns; (since_ns = static_cast<int64_t>(MonotonicNs()) - begin_ns) < age_ns + 3 * kS;
       usleep(270'000)) {
    if (since_ns < age_ns + kS) continue;
    const auto now_ns = static_cast<int64_t>(ClockNs(CLOCK_REALTIME));
    EXPECT_TRUE(HasRowAt(dir + "/slotscope.rec", now_ns - age_ns)) << "look " << nr_looks;
    nr_looks++;
  }
  EXPECT_GT(nr_looks, 1u);
  EXPECT_EQ(kill(pid, SIGINT), 0);
  EXPECT_EQ(Shell("while kill -0 " + std::to_string(pid) + " 2>/dev/null; do sleep 0.1; done", &output),
            0);
  const CsvFile csv = ReadCsv(dir + "/slotscope.rec");
  CheckIdentity(csv);
  EXPECT_GE(std::distance(fs::directory_iterator(dir + "/slotscope.rec"), fs::directory_iterator()), 4);
}

TEST(Recording, WhatAKilledRecorderWroteIsThere) {
  const std::string dir = Folder("killed");
  std::string output;
  // A border of segments that comes just before the end would leave nothing to recover.
  ASSERT_EQ(Shell("cd " + dir + "; $S record --source $SRC --segment 86400 -o k.rec >out 2>err & " +
                      UntilRecording(dir + "/err") + "sleep 4; kill -9 $!; wait $!; true",
                  &output),
            0)
      << output;
  const CsvFile killed = ReadCsv(dir + "/k.rec");
  ASSERT_GT(killed.rows.size(), 100u);
  EXPECT_GT(LastSlot(killed) - FirstSlot(killed), 2u * kS);
  EXPECT_FALSE(killed.comments.contains("identity"));

  // One that goes on makes a segment of it; one that does not puts it aside as it is.
  ASSERT_EQ(
      Shell("cd " + dir + " && $S record --source $SRC --keep 1h --duration 0.5 -o k.rec", &output), 0)
      << output;
  EXPECT_NE(output.find("of a recorder that was killed is kept"), std::string::npos) << output;
  const CsvFile both = ReadCsv(dir + "/k.rec");
  EXPECT_EQ(FirstSlot(both), FirstSlot(killed));
  EXPECT_GT(LastSlot(both), LastSlot(killed));
  EXPECT_GT(both.rows.size(), killed.rows.size());
  EXPECT_TRUE(both.comments.at("identity").starts_with("holds"));
  for (const auto& entry : fs::directory_iterator(dir + "/k.rec"))
    EXPECT_NE(entry.path().extension(), ".part");
  ASSERT_EQ(Shell("cd " + dir + " && $S record --source $SRC --duration 0.5 -o k.rec", &output), 0)
      << output;
  EXPECT_EQ(ReadCsv(dir + "/k.rec.old").rows.size(), both.rows.size());
  EXPECT_NE(output.find("that was k.rec is now k.rec.old\n"), std::string::npos) << output;
  // What does not begin moves nothing, and does not say so.
  output.clear();
  EXPECT_EQ(Shell("cd " + dir + " && $S record --source $SRC -o k.rec -- /no/such/program", &output),
            127)
      << output;
  EXPECT_EQ(output.find(".old"), std::string::npos) << output;
  EXPECT_EQ(ReadCsv(dir + "/k.rec.old").rows.size(), both.rows.size());
}

TEST(Recording, ARingKeepsItsNewestPart) {
  const std::string dir = Folder("ring");
  std::string output;
  ASSERT_EQ(
      Shell("cd " + dir + " && $S record --source $SRC --segment 1 --keep 3s --duration 6", &output), 0)
      << output;
  EXPECT_NE(output.find("; older ones removed: "), std::string::npos) << output;
  const CsvFile csv = ReadCsv(dir + "/slotscope.rec");
  EXPECT_LE(LastSlot(csv) - FirstSlot(csv), 5u * kS);
  EXPECT_GE(LastSlot(csv) - FirstSlot(csv), 2u * kS);
  EXPECT_TRUE(csv.comments.at("identity").starts_with("holds"));
}

// Of 9 s in a ring of 3 s that with the incident is left, and the newest part.
TEST(Recording, AnIncidentIsKeptBeyondTheRing) {
  const std::string dir = Folder("incident");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + "; R=" + dir + R"sh(
$S record --source $SRC --segment 1 --keep 3s --trigger wait=3600000ms --duration 9 >$R.out 2>$R.err & recorder=$!
until grep -qs recording $R.err; do kill -0 $recorder || exit 9; sleep 0.05; done
sleep 2
kill -USR2 $recorder
wait $recorder
code=$?
cat $R.err $R.out
exit $code
)sh",
                  &output),
            0)
      << output;
  EXPECT_NE(output.find(": signal: SIGUSR2 from process "), std::string::npos) << output;
  std::string events, all;
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(dir + "/slotscope.rec").ok());
  ASSERT_TRUE(reader.Read("events", {}, [&](std::string_view text) { events += text; }).ok());
  const size_t row = events.find("\nslot_start_ns,");
  ASSERT_NE(row, std::string::npos) << events;
  const uint64_t at_ns = std::stoull(events.substr(events.find('\n', row + 1) + 1));
  const CsvFile csv = ReadCsv(dir + "/slotscope.rec");
  EXPECT_LT(FirstSlot(csv), at_ns);
  EXPECT_GT(LastSlot(csv), at_ns + 4u * kS);
  ASSERT_TRUE(reader.Read("slots", {}, [&](std::string_view text) { all += text; }).ok());
  EXPECT_NE(all.find("# note: incident at "), std::string::npos) << "it is noted where it was";
}

// Three share a CPU: one of them waits for as long as that, and its row says the same.
TEST(Recording, WhoWaitsForLongIsAnIncident) {
  const std::string dir = Folder("wait");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir +
                      " && $S record --source $SRC --all --keep 60s --trigger wait=2ms -- $T --workload "
                      "shares 500 >truth",
                  &output),
            0)
      << output;
  std::smatch said;
  const std::regex sentence(": wait: process ([0-9]+) .*had waited ([0-9.]+) ms for a CPU");
  ASSERT_TRUE(std::regex_search(output, said, sentence)) << output;
  const double waited_ms = std::stod(said[2].str());
  EXPECT_GE(waited_ms, 2);
  std::string events;
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(dir + "/slotscope.rec").ok());
  ASSERT_TRUE(reader.Read("events", {}, [&](std::string_view text) { events += text; }).ok());
  const size_t row = events.find("\nslot_start_ns,");
  ASSERT_NE(row, std::string::npos) << events;
  const std::string line = events.substr(events.find('\n', row + 1) + 1);
  const uint64_t at_ns = std::stoull(line);
  EXPECT_NE(line.find(",wait,"), std::string::npos) << line;
  // By its rows: up to the end of that slot, a slot more or less at the other end, and what other
  // threads of it waited.
  double known_ms = 0;
  for (const auto& one : ReadCsv(dir + "/slotscope.rec").rows) {
    const uint64_t slot_ns = Number(one.at("slot_start_ns"));
    if (one.at("tgid") == said[1].str() && slot_ns <= at_ns &&
        static_cast<double>(at_ns - slot_ns) < (waited_ms + 1) * 1e6)
      known_ms +=
          static_cast<double>(Number(one.at("wait_ns")) + Number(one.at("wait_earlier_ns"))) / 1e6;
  }
  if (!IsEmulated()) {  // there ticks and messages are late
    EXPECT_GE(known_ms, waited_ms - 1.1);
  }
}

// Not itself, though its own recording is the newest one then.
TEST(Recording, ReplayWithoutNamesFindsWhatCanBeReplayed) {
  const std::string dir = Folder("no-names");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir +
                      " && $S record --source $SRC --raw-table --duration 0.3 && $S replay && $S replay",
                  &output),
            0)
      << output;
  const CsvFile of_record = ReadCsv(dir + "/slotscope.rec"), of_replay = ReadCsv(dir + "/replay.rec");
  ASSERT_FALSE(of_record.rows.empty());
  EXPECT_EQ(of_record.rows, of_replay.rows);
}

TEST(Recording, AFullDiskDoesNotEndARing) {
  const std::string dir = Folder("full");
  ASSERT_EQ(mount("none", dir.c_str(), "tmpfs", 0, "size=1m"), 0) << strerror(errno);
  std::string output;
  // What is older goes first; then there is a gap, until there is room.
  const int code = Shell("cd " + dir + "; R=" + dir + R"sh(
$S record --source $SRC --segment 1 --keep 1h --duration 90 >$R.out 2>$R.err & recorder=$!
wait_for() {
	until grep -qs "$1" $R.err; do
		kill -0 $recorder || { cat $R.err; exit 9; }
		[ -z "$2" ] || dd if=/dev/zero of=filler bs=4k oflag=append conv=notrunc 2>/dev/null
		sleep 0.05
	done
}
wait_for recording
sleep 2
wait_for 'goes on when there is room' fill
rm filler
wait_for 'recording again'
sleep 2
kill -INT $recorder
wait $recorder
code=$?
cat $R.err $R.out
exit $code
)sh",
                         &output);
  EXPECT_EQ(code, 0) << output;
  const CsvFile csv = ReadCsv(dir + "/slotscope.rec");
  EXPECT_GT(LastSlot(csv) - FirstSlot(csv), 1u * kS);
  std::string all;
  RecordingReader reader;
  EXPECT_TRUE(reader.Open(dir + "/slotscope.rec").ok() &&
              reader.Read("slots", {}, [&](std::string_view text) { all += text; }).ok());
  EXPECT_NE(all.find("\n# note: gap: from "), std::string::npos);
  EXPECT_TRUE(csv.comments.at("identity").starts_with("holds")) << "of what was received";
  umount2(dir.c_str(), MNT_DETACH);
}

TEST(Recording, AStreamIsAllThatIsWrittenToStandardOutput) {
  const std::string dir = Folder("stream");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && $S record --source $SRC --duration 0.5 -o - 2>err >s.csv", &output),
            0)
      << output;
  CheckIdentity(ReadCsv(dir + "/s.csv"));
  EXPECT_EQ(Shell("cd " + dir + " && grep -q 'wrote a stream' err && ! grep -q wrote s.csv", &output),
            0);
  // Who has read enough goes.
  EXPECT_EQ(Shell("cd " + dir +
                      " && { $S record --source $SRC --duration 60 -o - 2>err; echo $? >code; } | "
                      "head -n 1; cat code err",
                  &output),
            0);
  EXPECT_NE(output.find("# slotscope: "), std::string::npos) << output;
  EXPECT_NE(output.find("\n6\n"), std::string::npos) << output;
  EXPECT_NE(output.find("who read the stream of rows has gone"), std::string::npos) << output;
  EXPECT_FALSE(fs::exists(dir + "/slotscope.rec"));
}

}  // namespace
}  // namespace slotscope
