// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "detect/patterns/pod_evicted.h"
#include "detect/patterns/xid_correlation.h"
#include "temp_folder.h"

namespace slotscope {
namespace {

using Words = std::vector<std::string>;

Status Parse(Words words, Options* options) {
  words.insert(words.begin(), "slotscope");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseOptions(static_cast<int>(words.size()), argv.data(), options);
}

std::string Join(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Options, WhatCannotBeMeantIsAUsageErrorThatNamesIt) {
  const struct {
    Words words;
    Words named;  // what the message must contain
  } cases[] = {
      {{}, {"slotscope record", "--help"}},
      {{"recrod"}, {"recrod"}},
      {{"--slot", "1"}, {"--slot"}},
      {{"rmids", "extra"}, {"extra"}},
      {{"record", "--%original_token%"}, {"does not exist", "--help"}},
      {{"record", "--raw", "slotscope.rec"}, {"--raw", "--output", "slotscope.rec"}},
      {{"record", "--raw", ""}, {"--raw"}},
      {{"record", "--max-overhead", "0"}, {"--max-overhead", "0.1"}},
      {{"record", "--max-overhead", "101"}, {"--max-overhead", "100"}},
      {{"record", "--max-overhead", "nan"}, {"--max-overhead"}},
      {{"record", "--max-overhead", "3,4"}, {"--max-overhead", "3,4", "cpus"}},
      {{"record", "--max-overhead", "2cpus,1cpus"}, {"--max-overhead"}},
      {{"record", "--max-overhead", "3,stop,stop"}, {"--max-overhead"}},
      {{"record", "--max-overhead", "0cpus"}, {"--max-overhead"}},
      {{"record", "--max-overhead", "3,end"}, {"--max-overhead", "3,end"}},
      {{"record", "--seed", "1"}, {"--seed"}},
      {{"replay", ""}, {"replay", "one file"}},
      {{"replay", "a", "b"}, {"one file", "2"}},
      {{"replay", "a", "--slot", "0"}, {"--slot", "0"}},
      {{"replay", "a", "--duration", "1"}, {"--duration"}},
      {{"replay", "a", "--source", "bpf"}, {"--source"}},
      {{"gen"}, {"gen", "one file"}},
      {{"gen", "a", "--cpus", "0"}, {"--cpus", "1", "1024"}},
      {{"gen", "a", "--cpus", "1025"}, {"--cpus", "1024"}},
      {{"gen", "a", "--cpus", "-2"}, {"--cpus", "-2"}},
      {{"gen", "a", "--missing-cpus", "2"}, {"--missing-cpus"}},
      {{"gen", "a", "--late", "1000001"}, {"--late", "1000000"}},
      {{"gen", "a", "--rmids", "513"}, {"--rmids", "512"}},
      {{"gen", "a", "--output", "x"}, {"--output"}},
      {{"explain", "a", "b"}, {"one file", "2"}},
      {{"explain", "--at", "now", "--since", "now"}, {"--at", "--since"}},
      {{"explain", "-n", "0"}, {"-n", "1000"}},
      {{"explain", "--rows", "slots", "-n", "3"}, {"--rows", "-n", "leave it out"}},
      {{"explain", "--pid", "web"}, {"--pid", "web"}},
      {{"explain", "--pid", ","}, {"--pid", "no process id"}},
      {{"explain", "--comm", ","}, {"--comm", "no name"}},
      {{"record", "--slot", "0"}, {"--slot", "0"}},
      {{"record", "--slot", "-1"}, {"--slot", "-1"}},
      {{"record", "--slot", "1001"}, {"--slot", "1001"}},
      {{"record", "--slot", "0.5"}, {"--slot", "0.5"}},
      {{"record", "--slot", "1ms"}, {"--slot", "1ms"}},
      {{"record", "--slot", "99999999999999999999"}, {"--slot", "99999999999999999999"}},
      {{"record", "--slot", ""}, {"--slot"}},
      {{"record", "--slot"}, {"--slot"}},
      {{"record", "--slot", "1", "--slot", "2"}, {"--slot"}},
      {{"record", "--window", "0"}, {"--window", "0"}},
      {{"record", "--window", "1"}, {"--window", "1"}},
      {{"record", "--window", "10001"}, {"--window", "10001"}},
      {{"record", "--window", "abc"}, {"--window", "abc"}},
      {{"record", "--duration", "0"}, {"--duration", "0"}},
      {{"record", "--duration", "0.0009"}, {"--duration", "0.0009"}},
      {{"record", "--duration", "nan"}, {"--duration", "nan"}},
      {{"record", "--duration", "inf"}, {"--duration", "inf"}},
      {{"record", "--duration", "-1"}, {"--duration", "-1"}},
      {{"record", "--duration", "abc"}, {"--duration", "abc"}},
      {{"record", "--duration", "10s"}, {"--duration", "10s"}},
      {{"record", "--duration", "1e300"}, {"--duration", "1e300"}},
      {{"record", "--duration", "1e999"}, {"--duration", "1e999"}},
      {{"record", "--duration", " 1"}, {"--duration"}},
      {{"record", "--duration"}, {"--duration"}},
      {{"record", "--no-such-option"}, {"--no-such-option"}},
      {{"record", "--dur", "5"}, {"--dur"}},
      {{"record", "-x"}, {"-x"}},
      {{"record", "--source", "perf"}, {"--source", "perf"}},
      {{"record", "--source", "KMOD"}, {"--source", "KMOD"}},
      {{"record", "--gpu", "yes"}, {"--gpu", "yes"}},
      {{"record", "--gpu", ""}, {"--gpu"}},
      {{"record", "--remediate", "--gpu", "off"}, {"--remediate", "--gpu off"}},
      {{"record", "--remediate-group", "x"}, {"--remediate-group"}},
      {{"record", "--remediate=/a", "--join-remediate", "/a"}, {"--join-remediate", "itself"}},
      {{"record", "--straggle", "slotscope.rec"}, {"--straggle", "--output"}},
      {{"record", "--metrics=x"}, {"--metrics x"}},
      {{"record", "--metrics=:9464"}, {"--metrics"}},
      {{"record", "--metrics=127.0.0.1:0"}, {"--metrics"}},
      {{"record", "--metrics=127.0.0.1:9464,1.2.3.4:80"}, {"--metrics"}},
      {{"record", "--metrics=999.1.1.1:9464"}, {"--metrics 999.1.1.1:9464", "IPv4"}},
      {{"record", "--metrics=1.2.3:9464"}, {"--metrics", "IPv4"}},
      {{"record", "--metrics=[::1]:9464"}, {"--metrics", "IPv4"}},
      {{"record", "--metrics=*:9464"}, {"--metrics", "0.0.0.0"}},
      {{"record", "--detect", "all", "--kmsg", "k", "--k8s-events", "e", "--verdicts", "./k"},
       {"--verdicts", "--kmsg"}},
      {{"record", "--raw", "./slotscope.rec"}, {"--raw", "--output", "slotscope.rec"}},
      {{"replay", "a/../x.raw", "-o", "x.raw"}, {"--output x.raw", "overwrite"}},
      {{"replay", "x.raw", "--spans", ".//x.raw"}, {"--spans", "overwrite"}},
      {{"replay", "x.raw", "--remediate"}, {"--remediate"}},
      {{"record", "--spans", "slotscope.rec"}, {"--spans", "--output", "slotscope.rec"}},
      {{"record", "--spans", "a", "--raw", "a"}, {"--spans", "--raw", "a"}},
      {{"gpu", "--duration", "1"}, {"gpu", "--duration"}},
      {{"gpu", "a", "b"}, {"gpu", "2"}},
      {{"gpu", ""}, {"gpu", "empty"}},
      {{"detect"}, {"detect", "--fr-dir"}},
      {{"detect", "--fr-dir", "d", "more"}, {"detect", "'more'"}},
      {{"detect", "--fr-dir", "d", "--nccl-hang-threshold", "0"},
       {"--nccl-hang-threshold", "at least 1"}},
      {{"detect", "--fr-dir", "d", "--nccl-hang-threshold", "0.5"}, {"--nccl-hang-threshold"}},
      {{"detect", "--fr-dir", "d", "--as-of", "now"}, {"--as-of", "now"}},
      {{"detect", "--fr-dir", "d", "--as-of", "-1"}, {"--as-of"}},
      {{"detect", "--fr-dir", "d", "--as-of", "2026-11-22"}, {"--as-of"}},
      {{"record", "--fleet", "http://h:9090"}, {"--fleet", "--metrics"}},
      {{"record", "--metrics", "--fleet", "h:9090"}, {"--fleet", "http://"}},
      {{"record", "--metrics", "--fleet", "http://h", "--gpu", "off"}, {"--fleet", "--gpu"}},
      {{"record", "--node-id", "a b"}, {"--node-id"}},
      {{"record", "--cluster-id", ""}, {"--cluster-id"}},
      {{"record", "--health-interval", "301"}, {"--health-interval", "300"}},
      {{"record", "--gpu-csv", "a", "--raw", "a"}, {"--gpu-csv", "--raw", "a"}},
      {{"record", "--gpu-csv", "a", "--spans", "a"}, {"--gpu-csv", "--spans", "a"}},
      {{"replay", "x.raw", "--gpu-csv", "replay.rec"}, {"--gpu-csv", "--output", "replay.rec"}},
      {{"replay", "x.raw", "--gpu", "off"}, {"--gpu"}},
      {{"record", "--events", "cycels"}, {"--events", "cycels"}},
      {{"record", "--events", "cycles=no-such-event"}, {"--events", "no-such-event"}},
      {{"record", "--events", "cycles="}, {"--events"}},
      {{"record", "--events", "cycles=rxyz"}, {"--events", "rxyz"}},
      {{"record", "--events", "cycles=../../etc/x/"}, {"--events", "../../etc/x/"}},
      {{"record", "--events", "cycles,,instructions"}, {"--events"}},
      {{"record", "--top", "0"}, {"--top", "0"}},
      {{"record", "--top", "-3"}, {"--top", "-3"}},
      {{"record", "--top", "many"}, {"--top", "many"}},
      {{"record", "--max-size", "0"}, {"--max-size", "0"}},
      {{"record", "--max-size", "65535"}, {"--max-size", "65535"}},
      {{"record", "--max-size", "63K"}, {"--max-size", "63K"}},
      {{"record", "--max-size", "10P"}, {"--max-size", "10P"}},
      {{"record", "--max-size", "M"}, {"--max-size", "M"}},
      {{"record", "--max-size", "1.5G"}, {"--max-size", "1.5G"}},
      {{"record", "--max-size", "99999999999999999999G"}, {"--max-size", "99999999999999999999G"}},
      {{"record", "--rmids", "0"}, {"--rmids", "0"}},
      {{"record", "--rmids", "1"}, {"--rmids", "1"}},
      {{"record", "--rmids", "513"}, {"--rmids", "513"}},
      {{"record", "--pid", "0"}, {"--pid", "0"}},
      {{"record", "--pid", "12,x"}, {"--pid", "x"}},
      {{"record", "--pid", "-5"}, {"--pid", "-5"}},
      {{"record", "--pid", "99999999999"}, {"--pid", "99999999999"}},
      {{"record", "--comm", "sixteen-bytes-xx"}, {"--comm", "sixteen-bytes-xx", "sixteen-bytes-x'"}},
      {{"record", "--comm", "ok,this-is-much-too-long"}, {"--comm", "this-is-much-too-long"}},
      {{"record", "--output", ""}, {"--output"}},
      {{"record", "-o", "a.txt"}, {"--output a.txt", "FILE.csv", "a.txt/"}},
      {{"record", "-o", "a.csv.zst"}, {"--output a.csv.zst"}},
      {{"record", "--spans", "slotscope.rec/s.csv"}, {"--spans slotscope.rec/s.csv", "recording"}},
      {{"record", "-o", "x", "--raw", "./x/r.raw"}, {"--raw ./x/r.raw", "recording x"}},
      {{"record", "-o", "-", "--", "true"}, {"--output", "COMMAND"}},
      {{"record", "--segment", "0"}, {"--segment 0"}},
      {{"record", "--segment", "86401"}, {"--segment 86401"}},
      {{"record", "--keep", "soon"}, {"--keep soon"}},
      {{"record", "--trigger", "straggle"}, {"--trigger", "--keep"}},
      {{"record", "--keep", "1h", "--trigger", "storm"}, {"--trigger storm", "'storm'"}},
      {{"record", "--keep", "1h", "--trigger", "wait=20"}, {"'wait=20'"}},
      {{"record", "--keep", "1h", "--trigger", "wait=0ms"}, {"'wait=0ms'"}},
      {{"record", "--keep", "1h", "--trigger", ","}, {"--trigger"}},
      {{"record", "--keep", "1h", "--trigger", "xid"}, {"--trigger xid", "--kmsg"}},
      {{"record", "--keep", "1h", "--trigger", "nccl_hang", "--detect", "--kmsg"}, {"--fr-dir"}},
      {{"record", "--keep", "24"}, {"--keep 24"}},
      {{"record", "--keep", "1K"}, {"--keep 1K"}},
      {{"record", "--keep", "1h,2h"}, {"--keep 1h,2h"}},
      {{"record", "--keep", "1G,2G"}, {"--keep 1G,2G"}},
      {{"record", "--keep", ","}, {"--keep"}},
      {{"record", "--keep", "0%"}, {"--keep 0%"}},
      {{"record", "--keep", "91%"}, {"--keep 91%"}},
      {{"record", "--keep", "1%,2%"}, {"--keep 1%,2%"}},
      {{"record", "--keep", "1h", "-o", "x.csv"}, {"--keep", "--output"}},
      {{"record", "--keep", "1h", "-o", "-"}, {"--keep", "--output"}},
      {{"record", "--strict=yes"}, {"--strict"}},
      {{"record", "stray"}, {"'stray'", "-- stray"}},
      {{"record", "--"}, {"no command", "--"}},
      {{"record", "--slot", "2", "--"}, {"no command", "--"}},
  };
  for (const auto& c : cases) {
    Options options;
    Status status = Parse(c.words, &options);
    EXPECT_EQ(status.code(), Exit::kUsage) << Join(c.words);
    for (const std::string& word : c.named)
      EXPECT_NE(status.message().find(word), std::string::npos)
          << Join(c.words) << ": " << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << "one sentence: " << status.message();
  }
}

// The recording is all that there is of what was recorded.
TEST(Options, NoOutputIsTheFileThatIsReplayedHoweverItIsSpelled) {
  TempFolder folder;
  folder.Write("x.raw", "");
  std::filesystem::create_symlink("x.raw", folder.At("link"));
  std::filesystem::create_directory_symlink(".", folder.At("there"));
  const std::string raw = folder.At("x.raw");
  for (const std::string& input : {folder.At("./x.raw"), folder.At("link"), folder.At("there/x.raw")})
    for (const char* option : {"--output", "--spans", "--gpu-csv", "--straggle"}) {
      Options options;
      EXPECT_EQ(Parse({"replay", input, option, raw}, &options).code(), Exit::kUsage) << input << option;
    }
  Options options;
  EXPECT_TRUE(Parse({"replay", raw, "-o", folder.At("there/y.csv")}, &options).ok());
  EXPECT_EQ(Parse({"record", "--raw", folder.At("there/y"), "-o", folder.At("y")}, &options).code(),
            Exit::kUsage)
      << "also of files that are not there yet";
}

// An empty variable in a script must not silently mean "no limit".
TEST(Options, AnEmptyValueIsAUsageErrorThatNamesTheOption) {
  for (const char* name :
       {"--duration", "--slot", "--window", "--rmids", "--top", "--max-size", "--source", "--pid",
        "--comm", "--output", "--segment", "--keep", "--trigger"}) {
    Options options;
    Status status = Parse({"record", name, ""}, &options);
    EXPECT_EQ(status.code(), Exit::kUsage) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << name << ": " << status.message();
  }
}

TEST(Options, DefaultsOfRecord) {
  Options options;
  ASSERT_TRUE(Parse({"record"}, &options).ok());
  EXPECT_EQ(options.verb, Options::Verb::kRecord);
  const RecordOptions& record = options.record;
  EXPECT_EQ(record.source, SourceChoice::kAuto);
  EXPECT_EQ(record.duration_ns, 0u);
  EXPECT_EQ(record.output.path, "slotscope.rec");
  EXPECT_EQ(record.output.segment_ns, 60'000'000'000u);
  EXPECT_FALSE(record.output.keep.any());
  EXPECT_EQ(record.output.slot_ns, 1'000'000u);
  EXPECT_EQ(record.output.window_ns, 64'000'000u);
  EXPECT_EQ(record.nr_rmids, 512u);
  EXPECT_EQ(record.output.max_size, 0u);
  EXPECT_FALSE(record.output.strict);
  EXPECT_TRUE(record.output.fold.IsNoop());
  EXPECT_TRUE(record.command.empty());
  for (size_t i = 0; i < record.counters.size(); i++)
    EXPECT_EQ(record.counters[i].wanted, i < SS_NR_COUNTERS) << i;
}

TEST(Options, GoodOnesParse) {
  Options options;
  ASSERT_TRUE(Parse({"record",       "--source", "bpf",
                     "--duration",   "2.5",      "-o",
                     "out.csv",      "--slot",   "10",
                     "--window=128", "--events", "cycles=task-clock,llc_misses=r412e",
                     "--rmids",      "2",        "--pid",
                     "1,22",         "--comm",   "bash,fifteen-bytes-x",
                     "--top",        "7",        "--max-size",
                     "2M",           "--strict"},
                    &options)
                  .ok());
  const RecordOptions& record = options.record;
  EXPECT_EQ(record.source, SourceChoice::kBpf);
  EXPECT_EQ(record.duration_ns, 2'500'000'000u);
  EXPECT_EQ(record.output.path, "out.csv");
  EXPECT_EQ(record.output.slot_ns, 10'000'000u);
  EXPECT_EQ(record.output.window_ns, 128'000'000u);
  EXPECT_EQ(record.nr_rmids, 2u);
  EXPECT_EQ(record.output.fold.tgids, std::vector<int32_t>({1, 22}));
  EXPECT_EQ(record.output.fold.comms, Words({"bash", "fifteen-bytes-x"}));
  EXPECT_EQ(record.output.fold.top, 7u);
  EXPECT_EQ(record.output.max_size, 2u << 20);
  EXPECT_TRUE(record.output.strict);
  EXPECT_FALSE(record.output.fold.followed_only);
  EXPECT_TRUE(record.counters[SS_CYCLES].wanted);
  EXPECT_EQ(record.counters[SS_CYCLES].event, "task-clock");
  EXPECT_FALSE(record.counters[SS_INSTRUCTIONS].wanted);
  EXPECT_EQ(record.counters[SS_LLC_MISSES].config, 0x412eu);
}

// They stand in people's /etc/default/slotscope: an upgrade must not end their service.
TEST(Options, ThoseOf010StillWork) {
  Options options;
  const Status status = Parse({"record",
                               "--source",
                               "auto",
                               "--gpu",
                               "on",
                               "--duration",
                               "2.5",
                               "--raw",
                               "r.raw",
                               "--events",
                               "cycles,instructions",
                               "--max-overhead",
                               "5",
                               "--remediate=/tmp/a.sock",
                               "--remediate-group",
                               "adm",
                               "--join-remediate",
                               "/tmp/b.sock",
                               "--metrics=127.0.0.1:9464",
                               "--fleet",
                               "http://127.0.0.1:9090",
                               "--node-id",
                               "n",
                               "--cluster-id",
                               "c",
                               "--health-interval",
                               "10",
                               "--detect=all",
                               "--fr-dir",
                               "/tmp",
                               "--kmsg=/dev/kmsg",
                               "--k8s-events",
                               "e.json",
                               "--verdicts",
                               "v.ndjson",
                               "--rmids",
                               "64",
                               "--nccl-hang-threshold",
                               "300",
                               "--xid-correlation-window",
                               "30",
                               "-o",
                               "out.csv",
                               "--slot",
                               "1",
                               "--window",
                               "64",
                               "--pid",
                               "1",
                               "--comm",
                               "bash",
                               "--top",
                               "7",
                               "--all",
                               "--spans",
                               "s.csv",
                               "--gpu-csv",
                               "g.csv",
                               "--straggle",
                               "t.csv",
                               "--max-size",
                               "4G",
                               "--strict"},
                              &options);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Options, TriggersAreAList) {
  Options options;
  ASSERT_TRUE(Parse({"record", "--keep", "1h", "--detect", "--kmsg", "--fr-dir", "d", "--trigger",
                     "straggle,xid,nccl_hang,wait=20ms"},
                    &options)
                  .ok());
  const TriggerOptions& triggers = options.record.output.triggers;
  EXPECT_TRUE(triggers.straggle && triggers.xid && triggers.nccl_hang);
  EXPECT_EQ(triggers.wait_ns, 20'000'000u);
}

TEST(Options, KeepIsATimeASizeOrBoth) {
  const struct {
    const char* text;
    uint64_t ns, bytes;
  } kCases[] = {{"24h", 86'400'000'000'000, 0},
                {"10G", 0, uint64_t{10} << 30},
                {"2d,1T", 172'800'000'000'000, uint64_t{1} << 40},
                {"500M,90s", 90'000'000'000, 500u << 20},
                {"5m", 300'000'000'000, 0},
                {"5M", 0, 5u << 20}};
  for (const auto& c : kCases) {
    Options options;
    ASSERT_TRUE(Parse({"record", "--keep", c.text}, &options).ok()) << c.text;
    EXPECT_EQ(options.record.output.keep.ns, c.ns) << c.text;
    EXPECT_EQ(options.record.output.keep.bytes, c.bytes) << c.text;
  }
  Options options;
  ASSERT_TRUE(Parse({"record", "--keep", "10G,10%"}, &options).ok());
  EXPECT_EQ(options.record.output.keep.percent, 10u);
}

TEST(Options, ReplayTakesAFileAndTheOptionsOfTheOutput) {
  Options options;
  ASSERT_TRUE(Parse({"replay", "--slot", "100", "in.raw", "-o", "out.csv", "--top", "3", "--all",
                     "--strict", "--max-size", "1M", "--window", "9"},
                    &options)
                  .ok());
  EXPECT_EQ(options.verb, Options::Verb::kReplay);
  EXPECT_EQ(options.replay.path, "in.raw");
  EXPECT_EQ(options.replay.output.path, "out.csv");
  EXPECT_EQ(options.replay.output.slot_ns, 100'000'000u);
  EXPECT_EQ(options.replay.output.window_ns, 9'000'000u);
  EXPECT_EQ(options.replay.output.max_size, 1u << 20);
  EXPECT_EQ(options.replay.output.fold.top, 3u);
  EXPECT_TRUE(options.replay.output.all);
  EXPECT_TRUE(options.replay.output.strict);
}

TEST(Options, GenTakesAFileAndNumbers) {
  Options options;
  ASSERT_TRUE(
      Parse({"gen", "x.raw", "--seed", "18446744073709551615", "--cpus", "256", "--late", "5", "--wrap"},
            &options)
          .ok());
  EXPECT_EQ(options.verb, Options::Verb::kGenerate);
  EXPECT_EQ(options.generate.path, "x.raw");
  EXPECT_EQ(options.generate.generator.seed, UINT64_MAX);
  EXPECT_EQ(options.generate.generator.nr_cpus, 256u);
  EXPECT_EQ(options.generate.generator.late_ppm, 5u);
  EXPECT_TRUE(options.generate.generator.wrap);
  EXPECT_FALSE(options.generate.generator.no_counters);
}

TEST(Options, LimitsThemselvesAreGood) {
  for (const Words& words : std::vector<Words>{
           {"--slot", "1"},
           {"--slot", "1000"},
           {"--window", "2"},
           {"--window", "10000"},
           {"--duration", "0.001"},
           {"--duration", "1e3"},
           {"--rmids", "2"},
           {"--rmids", "512"},
           {"--top", "1"},
           {"--max-size", "64K"},
           {"--max-size", "65536"},
           {"--max-size", "8G"},
           {"--comm", "fifteen-bytes-x"},
           {"--pid", "1"},
           {"--events", "none"},
           {"--source", "kmod"},
           {"--source", "auto"},
       }) {
    Options options;
    Status status = Parse({"record", words[0], words[1]}, &options);
    EXPECT_TRUE(status.ok()) << Join(words) << ": " << status.message();
  }
}

TEST(Options, SizesHaveUnits) {
  const struct {
    const char* text;
    uint64_t bytes;
  } cases[] = {{"100000", 100'000}, {"64K", 64u << 10}, {"10M", 10u << 20}, {"3G", 3ull << 30}};
  for (const auto& c : cases) {
    Options options;
    ASSERT_TRUE(Parse({"record", "--max-size", c.text}, &options).ok()) << c.text;
    EXPECT_EQ(options.record.output.max_size, c.bytes) << c.text;
  }
}

TEST(Options, WhatFollowsTheDashesBelongsToTheCommand) {
  Options options;
  ASSERT_TRUE(
      Parse({"record", "--slot", "2", "--", "make", "--slot", "0", "--", "--help", ""}, &options).ok());
  EXPECT_EQ(options.verb, Options::Verb::kRecord);
  EXPECT_EQ(options.record.output.slot_ns, 2'000'000u);
  EXPECT_EQ(options.record.command, Words({"make", "--slot", "0", "--", "--help", ""}));
}

TEST(Options, Verbs) {
  const struct {
    Words words;
    Options::Verb verb;
  } cases[] = {
      {{"--help"}, Options::Verb::kShowHelp},
      {{"-h"}, Options::Verb::kShowHelp},
      {{"help"}, Options::Verb::kShowHelp},
      {{"record", "--help"}, Options::Verb::kShowHelp},
      {{"record", "-h"}, Options::Verb::kShowHelp},
      {{"record", "--help", "--", "make"}, Options::Verb::kShowHelp},
      {{"--version"}, Options::Verb::kShowVersion},
      {{"rmids"}, Options::Verb::kRmids},
      {{"replay", "--help"}, Options::Verb::kShowHelp},
      {{"gen", "-h"}, Options::Verb::kShowHelp},
      {{"record"}, Options::Verb::kRecord},
  };
  for (const auto& c : cases) {
    Options options;
    ASSERT_TRUE(Parse(c.words, &options).ok()) << Join(c.words);
    EXPECT_EQ(options.verb, c.verb) << Join(c.words);
  }
}

TEST(Options, DetectsTimes) {
  const struct {
    const char* text;
    int64_t unix_ns;
  } kCases[] = {{"1700000000", 1'700'000'000'000'000'000},
                {"1700000000.5", 1'700'000'000'500'000'000},
                {"2023-11-14T22:13:20Z", 1'700'000'000'000'000'000}};
  for (const auto& c : kCases) {
    Options options;
    const Words words = {"detect", "--fr-dir", "d", "--as-of", c.text, "--nccl-hang-threshold",
                         "7",      "--json"};
    ASSERT_TRUE(Parse(words, &options).ok()) << c.text;
    EXPECT_EQ(options.verb, Options::Verb::kDetect);
    EXPECT_EQ(options.detect.as_of_ns, c.unix_ns) << c.text;
    EXPECT_EQ(options.detect.judge.ThresholdNs(kNcclHang), 7'000'000'000);
    EXPECT_EQ(options.detect.format, VerdictFormat::kJson);
  }
}

TEST(Options, DetectsThresholdsComeFromOptionsBeforeTheConfiguration) {
  const std::string path = testing::TempDir() + "slotscope_options_test.conf";
  const auto with = [&](const std::string& config, Words words, Options* options) {
    std::ofstream(path) << config;
    words.insert(words.begin(), {"detect", "--kmsg", "-", "--config", path});
    return Parse(words, options);
  };
  Options options;
  ASSERT_TRUE(with("# of ours\nnccl_hang_threshold = 10m\nxid_correlation_window=90s\n",
                   {"--nccl-hang-threshold", "7"}, &options)
                  .ok());
  EXPECT_EQ(options.detect.judge.ThresholdNs(kNcclHang), 7'000'000'000);
  EXPECT_EQ(options.detect.judge.ThresholdNs(kXidCorrelation), 90'000'000'000);
  for (const char* bad : {"nccl_hang_threshold = 0", "xid_correlation_window = 500ms", "other = 1",
                          "nccl_hang_threshold", "nccl_hang_threshold = -5"}) {
    Options none;
    const Status status = with(bad, {}, &none);
    EXPECT_EQ(status.code(), Exit::kUsage) << bad;
    EXPECT_NE(status.message().find("config"), std::string::npos) << bad << ": " << status.message();
  }
}

TEST(Options, RecordsDetectors) {
  Options options;
  ASSERT_TRUE(Parse({"record", "--detect=nccl_hang,pod_evicted", "--fr-dir", "d", "--k8s-events", "e",
                     "--verdicts", "v", "--nccl-hang-threshold", "5m"},
                    &options)
                  .ok());
  EXPECT_TRUE(options.record.detect);
  EXPECT_TRUE(options.record.judge.IsOn(kNcclHang));
  EXPECT_FALSE(options.record.judge.IsOn(kXidCorrelation));
  EXPECT_TRUE(options.record.judge.IsOn(kPodEvicted));
  EXPECT_EQ(options.record.judge.ThresholdNs(kNcclHang), 300'000'000'000);
  Options all;
  ASSERT_TRUE(Parse({"record", "--detect", "--kmsg", "--k8s-events", "e"}, &all).ok());
  EXPECT_EQ(all.record.kmsg, "/dev/kmsg");
  EXPECT_TRUE(all.record.judge.IsOn(kNcclHang));
  const struct {
    Words words;
    const char* says;
  } kBad[] = {
      {{"record", "--detect"}, "--fr-dir"},
      {{"record", "--kmsg"}, "--detect"},
      {{"record", "--verdicts", "v"}, "--detect"},
      {{"record", "--detect=nccl", "--fr-dir", "d"}, "'nccl'"},
      {{"record", "--detect=,", "--fr-dir", "d"}, "no detector"},
      {{"record", "--detect=nccl_hang", "--kmsg"}, "--fr-dir"},
      {{"record", "--detect=xid_correlation", "--kmsg"}, "--k8s-events"},
      {{"record", "--detect=pod_evicted", "--kmsg"}, "--k8s-events"},
      {{"record", "--detect", "--fr-dir", "d", "--nccl-hang-threshold", "0"}, "--nccl-hang-threshold"},
      {{"record", "--detect", "--fr-dir", "d", "--verdicts", "slotscope.rec"}, "slotscope.rec"},
      {{"detect", "--slots", "s"}, "--fr-dir"},
      {{"detect", "--kmsg", "k", "--slots", "s"}, "--fr-dir"},
      {{"detect", "--fr-dir", "d", "--slots", "s", "--raw", "r"}, "--raw"},
      {{"detect", "--fr-dir", "d", "--ranks", "0=5"}, "--ranks"},
      {{"detect", "--fr-dir", "d", "--slots", "s", "--ranks", "0:5"}, "--ranks"},
  };
  for (const auto& c : kBad) {
    Options bad;
    const Status status = Parse(c.words, &bad);
    EXPECT_EQ(status.code(), Exit::kUsage) << Join(c.words);
    EXPECT_NE(status.message().find(c.says), std::string::npos) << status.message();
  }
}

TEST(Options, DetectsInputsAndTheirTimes) {
  Options options;
  ASSERT_TRUE(Parse({"detect", "--kmsg", "-", "--k8s-events", "e.json", "--boot-time", "1700000000",
                     "--year", "2024", "--tz", "+02:00", "--node-id", "n7", "--format", "otlp"},
                    &options)
                  .ok());
  EXPECT_EQ(options.detect.paths.kmsg, "-");
  EXPECT_EQ(options.detect.times.boot_ns, 1'700'000'000'000'000'000);
  EXPECT_EQ(options.detect.times.year, 2024);
  EXPECT_EQ(options.detect.times.zone.UnixSeconds(2023, 11, 15, 0, 13, 20), 1'700'000'000);
  EXPECT_EQ(options.detect.format, VerdictFormat::kOtlp);
  const struct {
    Words words;
    const char* says;
  } kBad[] = {
      {{"detect"}, "--demo"},
      {{"detect", "--demo", "--kmsg", "x"}, "--demo"},
      {{"detect", "--kmsg", "-", "--k8s-events", "-"}, "standard input"},
      {{"detect", "--kmsg", "x", "--format", "xml"}, "--format"},
      {{"detect", "--kmsg", "x", "--format", "otlp", "--json"}, "two formats"},
      {{"detect", "--kmsg", "x", "--tz", "CEST"}, "--tz"},
      {{"detect", "--kmsg", "x", "--year", "24"}, "--year"},
      {{"detect", "--kmsg", "x", "--boot-time", "yesterday"}, "--boot-time"},
      {{"detect", "--kmsg", "x", "--xid-correlation-window", "0"}, "--xid-correlation-window"},
      {{"detect", "--kmsg", "x", "--nccl-hang-threshold", "0.5"}, "--nccl-hang-threshold"},
      {{"detect", "--kmsg", "x", "--nccl-hang-threshold", "999ms"}, "--nccl-hang-threshold"},
      {{"detect", "--kmsg", "x", "--config", "/nonexistent"}, "--config"},
      {{"detect", "--kmsg", "x", "--node-id", "a b"}, "--node-id"},
  };
  for (const auto& c : kBad) {
    Options bad;
    const Status status = Parse(c.words, &bad);
    EXPECT_EQ(status.code(), Exit::kUsage) << Join(c.words);
    EXPECT_NE(status.message().find(c.says), std::string::npos) << status.message();
  }
}

TEST(Options, HelpNamesEveryOption) {
  Options options;
  ASSERT_TRUE(Parse({"record", "--help"}, &options).ok());
  for (const char* name : {"--source", "--duration", "--output", "--slot", "--window", "--events",
                           "--rmids", "--pid", "--comm", "--top", "--max-size", "--strict", "--all",
                           "--raw", "COMMAND", "--max-overhead", "Examples:"})
    EXPECT_NE(options.help.find(name), std::string::npos) << name;
  for (const char* of_tests : {" gen ", "--seed", "--hotplugs", "--wrap"})
    EXPECT_EQ(options.help.find(of_tests), std::string::npos) << of_tests;
}

TEST(Options, HelpFitsAScreenAndNamesEveryVerb) {
  Options options;
  ASSERT_TRUE(Parse({"--help"}, &options).ok());
  EXPECT_LE(std::count(options.help.begin(), options.help.end(), '\n'), 24);
  for (const char* verb : {"\ncheck ", "\nrecord ", "\nexplain ", "\nreport ", "\ntop ", "\nquery ",
                           "\nreplay ", "\nrmids ", "\ngpu ", "\ndetect "})
    EXPECT_NE(options.help.find(verb), std::string::npos) << verb;
  EXPECT_EQ(options.help.find("gen "), std::string::npos);
  for (const Words& words :
       {Words{"--help"}, Words{"record", "--help"}, Words{"detect", "--help"},
        Words{"explain", "--help"}, Words{"top", "--help"}, Words{"query", "--help"}}) {
    ASSERT_TRUE(Parse(words, &options).ok());
    std::istringstream lines(options.help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

// Who writes a wrong one is told which there are.
TEST(Options, AnUnknownVerbListsTheVerbs) {
  Options options;
  const Status status = Parse({"recrod"}, &options);
  EXPECT_EQ(status.code(), Exit::kUsage);
  EXPECT_NE(status.message().find(
                "check, record, explain, report, top, query, replay, ship, rmids, gpu, detect"),
            std::string::npos)
      << status.message();
  ASSERT_TRUE(Parse({"-V"}, &options).ok());
  EXPECT_EQ(options.verb, Options::Verb::kShowVersion);
}

TEST(Options, AVerbsHelpIsOfThatVerbOnly) {
  const struct {
    Words words;
    const char* has;
    const char* has_not;
  } kCases[] = {
      {{"record", "--help"}, "--max-overhead", "--seed"},
      {{"replay", "-h"}, "--strict", "--source"},
      {{"gen", "--help"}, "--hotplugs", "--strict"},
      {{"detect", "--help"}, "--as-of", "--duration"},
      {{"rmids", "--help"}, "RMID table", "--"},
      {{"gpu", "-h"}, "gpu [RECORDING|FILE]", "--"},
      {{"gpu", "x.raw", "--help"}, "gpu [RECORDING|FILE]", "x.raw"},
  };
  for (const auto& c : kCases) {
    Options options;
    ASSERT_TRUE(Parse(c.words, &options).ok()) << Join(c.words);
    EXPECT_EQ(options.verb, Options::Verb::kShowHelp) << Join(c.words);
    EXPECT_TRUE(options.help.starts_with("Usage: slotscope " + c.words[0])) << options.help;
    EXPECT_NE(options.help.find(c.has), std::string::npos) << options.help;
    EXPECT_EQ(options.help.find(c.has_not), std::string::npos) << options.help;
  }
}

TEST(Options, NoArgumentsAtAllIsAUsageError) {
  Options options;
  char* argv[] = {nullptr};
  EXPECT_EQ(ParseOptions(0, argv, &options).code(), Exit::kUsage);
}

}  // namespace
}  // namespace slotscope
