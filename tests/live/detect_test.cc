// SPDX-License-Identifier: MIT
// Detectors beside a recording: ranks are found, a hang is told with what the host saw of them, and when
// it is over; the recording's files say the same afterwards.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness.h"
#include "recording/reader.h"

namespace slotscope {
namespace {

// Rank 0 spins, rank 1 sleeps, rank 2 has no process here. 0 and 1 wait in an operation to which 2 does
// not come, since the ranks were found; then they go on.
constexpr const char* kScript = R"sh(
RANK=0 sh -c 'while :; do :; done' & zero=$!
RANK=1 sleep 300 & one=$!
sh -c 'while :; do :; done' & hog=$! # in its way
sh -c 'while :; do :; done' & other_hog=$!
trap 'kill $zero $one $hog $other_hog $record 2>/dev/null' EXIT
wait_for() { # wait_for FILE TEXT
	n=0
	until grep -qs "$2" "$1" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 600 ] || { echo "there is no '$2' in $1"; cat err; exit 1; }
		sleep 0.1
	done
}
dump() { # dump RANK SECONDS [ENTRY]: an operation that was called then
	echo "{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"ranks\":\"[0, 1, 2]\"}},\"entries\":[$3]}" >fr/new
	mv fr/new "fr/nccl_trace_rank_$1"
}
entry() { echo "{\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":7,\"profiling_name\":\"nccl:all_reduce\",\"state\":\"started\",\"time_created_ns\":${1}000000000}"; }
mkdir fr
touch events
$S record --source $SRC --detect --fr-dir fr --k8s-events events --kmsg --nccl-hang-threshold 1 \
	--verdicts v.ndjson --raw r.raw >out 2>err & record=$!
wait_for err 'rank 0 is process'
wait_for err 'rank 1 is process'
sleep 2 # whole seconds: it is after the recording's begin
called=$(date +%s)
sleep 3
for rank in 0 1; do dump $rank $called "$(entry $called)"; done
dump 2 $called
wait_for v.ndjson '"15"'
cp -r fr then
for rank in 0 1; do dump $rank $called; done
wait_for v.ndjson resolved_at
kill -INT $record
wait $record || { echo "record exits with $?"; cat err; exit 1; }
cat out
$S replay r.raw -o slots.csv >/dev/null || exit 1
$S detect --fr-dir then --as-of $((called + 400)) --slots slotscope.rec >by_slots || exit 1
$S detect --fr-dir then --as-of $((called + 400)) --slots slots.csv >by_csv || exit 1
$S detect --fr-dir then --as-of $((called + 400)) --raw r.raw >by_raw || exit 1
# A plain file does not say who ran while a rank waited; a recording does, and what the kernel sent.
grep -q '"wait_cause":"others"' by_raw && grep -q ran_instead by_raw || exit 1
sed 's/,"ran_instead":\[[^]]*\]//g; s/,"culprit":{[^}]*}//g' by_raw >without
cmp by_slots by_raw && cmp by_csv without || exit 1
# The newest recording here, where it has that moment; another hour is another job's.
$S detect --fr-dir then --as-of $((called + 400)) >by_newest 2>err || exit 1
cmp by_newest by_slots && grep -q 'is from slotscope.rec' err || { cat err; exit 1; }
cp -r then earlier && sed -i "s/\(time_created_ns\":\)$called/\1$((called - 3600))/" earlier/*
$S detect --fr-dir earlier --as-of $((called + 400)) >by_none 2>err && grep -q hanging_ranks by_none || exit 1
! grep 'host_evidence' by_none && ! grep 'is from' err || exit 1
last=$(ls slotscope.rec/slots-* | tail -n 1)
head -c -100 "$last" >cut && mv cut "$last"
$S detect --fr-dir then --as-of $((called + 400)) --slots slotscope.rec >by_damaged 2>err
[ $? = 9 ] && grep -q 'is damaged' err || { cat err; exit 1; }
)sh";

std::vector<nlohmann::json> ReadLines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// On a CPU, or waiting for one: tests run beside others.
void ExpectEvidence(const nlohmann::json& verdict, double least_cpu_ms) {
  const auto& evidence = verdict.at("host_evidence");
  ASSERT_EQ(evidence.size(), 3u) << verdict;
  EXPECT_EQ(evidence[0]["rank"], 2);
  EXPECT_EQ(evidence[0]["role"], "suspect");
  EXPECT_EQ(evidence[0]["state"], "unknown");
  EXPECT_EQ(evidence[1]["rank"], 0);
  EXPECT_TRUE(evidence[1]["state"] == "on_cpu" || evidence[1]["state"] == "waiting") << evidence[1];
  EXPECT_GE(evidence[1]["cpu_ms"].get<double>() + evidence[1]["wait_ms"].get<double>(), least_cpu_ms)
      << evidence[1];
  EXPECT_GT(evidence[1]["slots"].size(), 10u);
  EXPECT_EQ(evidence[2]["rank"], 1);
  EXPECT_TRUE(evidence[2]["state"] == "asleep" || evidence[2]["state"] == "silent") << evidence[2];
  EXPECT_LT(evidence[2]["cpu_ms"].get<double>(), 50);
}

// The recording is whole, and who started it is told that the file is not.
TEST(Detect, VerdictsThatCannotBeWrittenAreAnError) {
  const std::string dir = TempDir() + "/detect-full";
  ASSERT_EQ(mkdir(dir.c_str(), 0755), 0);
  std::string output;
  const int code = Shell("cd " + dir + R"sh(
mkdir fr
$S record --source $SRC --detect --fr-dir fr --nccl-hang-threshold 1 --verdicts /dev/full >out 2>err & record=$!
until_said() {
	n=0
	until grep -q "$1" err; do
		n=$((n + 1))
		[ $n -lt 600 ] || { cat err; exit 100; }
		sleep 0.1
	done
}
until_said 'recording to'
entry="{\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":7,\"profiling_name\":\"nccl:all_reduce\",\"state\":\"started\",\"time_created_ns\":$(($(date +%s) - 5))000000000}"
for rank in 0 1 2; do
	[ $rank != 2 ] || entry=
	echo "{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"ranks\":\"[0, 1, 2]\"}},\"entries\":[$entry]}" >fr/new
	mv fr/new fr/nccl_trace_rank_$rank
done
until_said 'cannot write verdicts'
kill -INT $record
wait $record
code=$?
cat err
exit $code
)sh",
                         &output);
  EXPECT_EQ(code, 6) << output;
  EXPECT_THAT(output, testing::HasSubstr("not all verdicts are in /dev/full")) << output;
  CheckIdentity(ReadCsv(dir + "/slotscope.rec"));
}

TEST(Detect, AHangWithWhatTheHostSawOfIt) {
  const std::string dir = TempDir() + "/detect";
  ASSERT_EQ(mkdir(dir.c_str(), 0755), 0);
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + kScript, &output), 0) << output;
  EXPECT_NE(output.find("detectors: verdicts 2,"), std::string::npos) << output;
  const auto live = ReadLines(dir + "/v.ndjson");
  ASSERT_EQ(live.size(), 2u);
  EXPECT_EQ(live[0]["hanging_ranks"], nlohmann::json({0, 1}));
  EXPECT_EQ(live[0]["clock"], "receipt");
  ExpectEvidence(live[0], 1000);
  EXPECT_EQ(live[0]["host_evidence"][2]["state"], "asleep") << "it is still there";
  EXPECT_TRUE(live[1].contains("resolved_at"));
  const auto later = ReadLines(dir + "/by_slots");
  ASSERT_EQ(later.size(), 1u);
  ExpectEvidence(later[0], 500);
  EXPECT_EQ(later[0]["host_evidence"][1]["slot_ms"], 1.0);
  EXPECT_EQ(ReadLines(dir + "/by_damaged").size(), 1u)
      << "what is damaged of a recording hides no verdict";
  // The file says what was noticed, where it was.
  const CsvFile csv = ReadCsv(dir + "/slots.csv");
  CheckIdentity(csv);
  // And so has the recording.
  std::string verdicts, file;
  RecordingReader recording;
  ASSERT_TRUE(recording.Open(dir + "/slotscope.rec").ok());
  ASSERT_TRUE(recording.Read("verdicts", {}, [&](std::string_view text) { verdicts += text; }).ok());
  RunProgram({"/bin/cat", dir + "/v.ndjson"}, &file);
  EXPECT_EQ(verdicts, file);
}

// What detectors notice is an event of the recording, and the ring keeps what is around it.
void CheckTrigger(const std::string& trigger, const std::string& happens,
                  const std::string& options = "") {
  const std::string dir = TempDir() + "/detect-" + trigger;
  ASSERT_EQ(mkdir(dir.c_str(), 0755), 0);
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + "; TRIGGER=" + trigger + "; OPTIONS='" + options + R"sh('
mkdir fr
: >kern.log
$S record --source $SRC --segment 1 --keep 2s --trigger $TRIGGER --detect --fr-dir fr --kmsg=kern.log \
	--nccl-hang-threshold 1 $OPTIONS >out 2>err & record=$!
until grep -qs recording err; do kill -0 $record || exit 9; sleep 0.05; done
sleep 2 # there is something in front of it
)sh" + happens + R"sh(
n=0
until grep -qs "incident at .*: $TRIGGER: " err; do
	n=$((n + 1))
	[ $n -lt 600 ] && kill -0 $record || break
	sleep 0.1
done
sleep 4 # the ring is shorter than that
kill -INT $record
wait $record
code=$?
cat err out
exit $code
)sh",
                  &output),
            0)
      << output;
  std::string events;
  RecordingReader reader;
  ASSERT_TRUE(reader.Open(dir + "/slotscope.rec").ok());
  ASSERT_TRUE(reader.Read("events", {}, [&](std::string_view text) { events += text; }).ok());
  const size_t at = events.find("," + trigger + ",");
  ASSERT_NE(at, std::string::npos) << events << output;
  const uint64_t at_ns = std::stoull(events.substr(events.rfind('\n', at) + 1));
  const CsvFile csv = ReadCsv(dir + "/slotscope.rec");
  EXPECT_LT(std::stoull(csv.rows.front().at("slot_start_ns")) + 1'000'000'000, at_ns);
}

TEST(Detect, AnXidIsKeptBeyondTheRing) {
  CheckTrigger(
      "xid",
      "echo \"$(date +%Y-%m-%dT%H:%M:%S%z) node kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has "
      "fallen off the bus.\" >>kern.log");
}

TEST(Detect, AStragglerIsKeptBeyondTheRing) {
  CheckTrigger(
      "straggle",
      "LD_LIBRARY_PATH=" + StandinFolder() + " SLOTSCOPE_TEST_WAIT_MS=300 $T --workload cuda 4 >truth",
      "--gpu on");
}

TEST(Detect, AHangIsKeptBeyondTheRing) {
  CheckTrigger("nccl_hang", R"sh(
called=$(($(date +%s) - 60))
entry='{"process_group":["0","default_pg"],"collective_seq_id":7,"profiling_name":"nccl:all_reduce","state":"started","time_created_ns":'${called}'000000000}'
for rank in 0 1 2; do
	[ $rank = 2 ] && entry=
	echo '{"version":"2.10","pg_config":{"0":{"ranks":"[0, 1, 2]"}},"entries":['"$entry"']}' >fr/new
	mv fr/new fr/nccl_trace_rank_$rank
done)sh");
}

// Where something could not be read it does not say that there is no hang.
TEST(DetectStory, SaysWhatIsNotKnown) {
  const std::string dir = MakeDir("detect-story");
  std::string output;
  const auto story = [&](const std::string& dumps, const std::string& more = "--as-of $now") {
    const std::string script = "cd " + dir + R"( && rm -rf fr && mkdir fr && now=1796000000 && dump() {
          echo '{"version":"2.10","pg_config":{"0":{"ranks":"[0, 1, 2]"}},"entries":['"$4"']}' >fr/rank_$1; }
        op() { echo '{"process_group":["0","default_pg"],"collective_seq_id":'$1',"profiling_name":"nccl:all_reduce",'\
          '"state":"'$2'","time_created_ns":'$((now - $3))'000000000}'; }
        )" + dumps + R"(
        $S detect --format text --fr-dir fr )" +
                               more;
    output.clear();
    const int code = Shell(script, &output);
    return std::to_string(code) + ": " + output;
  };
  using testing::HasSubstr;
  using testing::Not;
  EXPECT_THAT(story("for r in 0 1 2; do dump $r '' '' \"$(op 5 completed 1000)\"; done"),
              HasSubstr("0: No hang: no two of 3 ranks wait in one operation for longer than 300 s"));
  EXPECT_THAT(
      story("dump 0 '' '' ''; dump 1 '' '' '{\"process_group\":7}'"),
      testing::AllOf(
          HasSubstr("Whether it hangs is not known: nothing could be read of what 1 rank called"),
          Not(HasSubstr("No hang"))));
  EXPECT_THAT(
      story("dump 0 '' '' \"$(op 5 scheduled 1000)\"; echo broken >fr/rank_1"),
      testing::AllOf(HasSubstr("9: "), HasSubstr("No hang in what could be read: no two of 1 rank"),
                     HasSubstr("but 1000 s: rank 0 waits in nccl:all_reduce 5"),
                     HasSubstr("no readable dump of ranks 1 and 2: nothing is known of them")));
  // Of dumps that say neither when they were written nor a timeout nobody knows how long it is.
  constexpr const char* kAges = "how long they have waited is not known";
  EXPECT_THAT(story("for r in 0 1 2; do dump $r '' '' \"$(op 5 started 1000)\"; done", ""),
              HasSubstr(kAges));
  EXPECT_THAT(story("for r in 0 1 2; do dump $r '' '' \"$(op 5 completed 1000)\"; done", ""),
              Not(HasSubstr(kAges)));
  EXPECT_THAT(story("for r in 0 1 2; do dump $r '' '' ''; done"),
              HasSubstr("there is no operation in any of their dumps"));
  EXPECT_THAT(
      story("for r in 0 1; do echo broken >fr/rank_$r; done"),
      testing::AllOf(HasSubstr("9: "), HasSubstr("of 2 files named as a dump none can be read: "),
                     HasSubstr("rank_0: "), HasSubstr("rank_1: ")));
  // One that hangs is told, whatever could not be read.
  EXPECT_THAT(
      story("for r in 0 1; do dump $r '' '' \"$(op 5 scheduled 1000)\"; done; echo broken >fr/rank_2"),
      testing::AllOf(HasSubstr("NCCL hang since "), Not(HasSubstr("No hang"))));
}

}  // namespace
}  // namespace slotscope
