// SPDX-License-Identifier: MIT
// Dumps of PyTorch's flight recorder. SLOTSCOPE_CORPUS names a folder of real ones; without it they are
// not looked at.
#include "detect/inputs/fr_dump.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "pickle_writer.h"

namespace slotscope {
namespace {

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// An entry of version 2.9, whose state is as it is said.
void WriteEntry(PickleWriter* writer, int64_t sequence, const std::string& state, int64_t created_ns) {
  writer->Dict([&] {
    writer->Text("record_id").Int(sequence).Text("pg_id").Int(3);
    writer->Text("process_group").Pair("41", "TENSOR_MODEL_PARALLEL_GROUP");
    writer->Text("collective_seq_id")
        .Int(sequence)
        .Text("p2p_seq_id")
        .Int(0)
        .Text("op_id")
        .Int(sequence);
    writer->Text("profiling_name").Text("nccl:all_reduce").Text("time_created_ns").Int(created_ns);
    writer->Text("duration_ms").Float(0.25).Text("input_sizes").List([&] {
      writer->List([&] { writer->Int(8); });
    });
    writer->Text("state").Text(state).Text("time_discovered_started_ns");
    state == "scheduled" ? writer->None() : writer->Int(created_ns + 5);
    writer->Text("time_discovered_completed_ns").None().Text("retired").Bool(false);
    writer->Text("timeout_ms").Int(180'000).Text("is_p2p").Bool(false);
  });
}

std::string DumpOf(const std::string& version) {
  PickleWriter writer;
  writer.Dict([&] {
    writer.Text("version").Text(version).Text("pg_config").Dict([&] {
      writer.Text("41").Dict([&] {
        writer.Text("name").Text("41").Text("desc").Text("TENSOR_MODEL_PARALLEL_GROUP");
        writer.Text("ranks").Text("[12, 13]");
      });
    });
    writer.Text("entries").List([&] {
      WriteEntry(&writer, 42806, "scheduled", 1'700'000'000'000'000'000);
      WriteEntry(&writer, 42807, "started", 1'700'000'001'000'000'000);
      writer.Dict([] {});
    });
  });
  return writer.Done();
}

TEST(FrDump, Pickle) {
  FrDump dump;
  const Status status = ParseFrDump(DumpOf("2.9"), &dump);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(dump.version, "2.9");
  ASSERT_EQ(dump.groups.size(), 1u);
  EXPECT_EQ(dump.groups[0].name, "41");
  EXPECT_EQ(dump.groups[0].description, "TENSOR_MODEL_PARALLEL_GROUP");
  EXPECT_EQ(dump.groups[0].members, (std::vector<int32_t>{12, 13}));
  EXPECT_EQ(dump.operations, (std::vector<std::string>{"nccl:all_reduce"}));
  EXPECT_EQ(dump.nr_malformed, 1u);
  ASSERT_EQ(dump.entries.size(), 2u);
  EXPECT_EQ(dump.entries[0].sequence, 42806);
  EXPECT_EQ(dump.entries[0].state, FrState::kScheduled);
  EXPECT_FALSE(dump.entries[0].started_ns);
  EXPECT_EQ(dump.entries[0].timeout_ms, 180'000);
  EXPECT_EQ(dump.entries[1].state, FrState::kStarted);
  EXPECT_EQ(dump.entries[1].started_ns, 1'700'000'001'000'000'005);
}

// As dump_json writes it: numbers as texts in pg_status, 0 for None.
TEST(FrDump, Json) {
  FrDump dump;
  const Status status = ParseFrDump(
      R"({"entries":[{"collective_seq_id":7,"is_p2p":true,"op_id":1,"p2p_seq_id":9,"pg_id":0,)"
      R"("process_group":["0","default_pg"],"profiling_name":"nccl:send 0->3","record_id":1,"retired":true,)"
      R"("state":"completed","time_created_ns":1700000000000000000,"time_discovered_completed_ns":1700000000000000009,)"
      R"("time_discovered_started_ns":0,"timeout_ms":600000}],"pg_config":{"0":{"desc":"default_pg","name":"0",)"
      R"("ranks":"[0, 1, 2]"}},"pg_status":{"0":{"last_completed_collective":"-1"}},"version":"2.10"})",
      &dump);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(dump.entries.size(), 1u);
  EXPECT_TRUE(dump.entries[0].is_p2p);
  EXPECT_EQ(dump.entries[0].p2p_sequence, 9);
  EXPECT_FALSE(dump.entries[0].started_ns) << "0 is not a time";
  EXPECT_EQ(dump.entries[0].completed_ns, 1'700'000'000'000'000'009);
  EXPECT_EQ(dump.groups[0].members.size(), 3u);
  ASSERT_TRUE(ParseFrDump(R"({"version":"2.4","pg_config":{}})", &dump).ok()) << "nothing has happened";
  EXPECT_TRUE(dump.entries.empty());
}

// Entries of a batch of sends and receives: "STATE NUMBER NAME", each.
FrDump BatchOf(const std::vector<std::array<const char*, 3>>& entries) {
  std::string text;
  for (const auto& [state, number, name] : entries)
    text += fmt::format(
        R"({}{{"collective_seq_id":1,"is_p2p":true,"p2p_seq_id":{},"process_group":["0","pp"],"profiling_name":"{}",)"
        R"("state":"{}","time_created_ns":1700000000000000000,"input_sizes":[[2,3],[4]],"input_dtypes":["Half","Half"]}})",
        text.empty() ? "" : ",", number, name, state);
  FrDump dump;
  const Status status = ParseFrDump(fmt::format(R"({{"entries":[{}],"version":"2.10"}})", text), &dump);
  EXPECT_TRUE(status.ok()) << status.message();
  return dump;
}

std::string StatesOf(const FrDump& dump) {
  std::string states;
  for (const FrEntry& entry : dump.entries)
    states += entry.state == FrState::kCompleted ? 'c' : entry.state == FrState::kStarted ? 's' : 'q';
  return states;
}

TEST(FrDump, SendsOfABatchAreInItsState) {
  const FrDump done = BatchOf({{"scheduled", "9", "nccl:send 0->1"},
                               {"scheduled", "9", "nccl:recv 0<-1"},
                               {"completed", "9", "nccl:coalesced"},
                               {"scheduled", "10", "nccl:send 0->1"}});
  EXPECT_EQ(StatesOf(done), "ccq") << "and the batch itself is none of them";
  EXPECT_EQ(
      StatesOf(BatchOf({{"scheduled", "9", "nccl:send 0->1"}, {"started", "9", "nccl:coalesced"}})),
      "s");
  // A dump of what is in flight has no batch that is done, but has what was in it.
  EXPECT_EQ(
      StatesOf(BatchOf({{"scheduled", "9", "nccl:send 0->1"}, {"scheduled", "9", "nccl:recv 0<-1"}})),
      "cc");
  // The same again is what the recorder has said later; 0 is no number.
  EXPECT_EQ(
      StatesOf(BatchOf({{"scheduled", "9", "nccl:send 0->1"}, {"started", "9", "nccl:send 0->1"}})),
      "qs");
  EXPECT_EQ(
      StatesOf(BatchOf({{"scheduled", "0", "nccl:send 0->1"}, {"scheduled", "0", "nccl:recv 0<-1"}})),
      "qq");
}

TEST(FrDump, SaysWhatWasCalledWith) {
  const FrDump dump =
      BatchOf({{"scheduled", "9", "nccl:send 0->1"}, {"scheduled", "10", "nccl:send 0->1"}});
  ASSERT_EQ(dump.tensors.size(), 2u) << "one, and nothing";
  EXPECT_EQ(dump.entries[0].inputs, 1u);
  EXPECT_EQ(dump.entries[1].inputs, 1u);
  EXPECT_EQ(dump.tensors[1].text, "2x3, 4 Half");
  EXPECT_EQ(dump.tensors[1].elements, 10u);
  EXPECT_EQ(dump.tensors[1].type, "Half");
  EXPECT_EQ(dump.tensors[0].text, "");
}

TEST(FrDump, SaysWhatItIsNot) {
  const struct {
    std::string bytes;
    const char* says;
  } kCases[] = {
      {"", "the file is empty"},
      {"hello", "does not begin with its protocol"},
      {"[]", "does not begin with its protocol"},
      {"{}", "it has no version"},
      {DumpOf("1.5"), "version 1.5 is not read"},
      {DumpOf("2.9").substr(0, 200), "it ends too early"},
      {R"({"version":"2.9","entries":7})", "its entries are no list"},
      {"\x80\x02](\x4e"
       "e.",
       "it is no dict"},
  };
  for (const auto& c : kCases) {
    FrDump dump;
    const Status status = ParseFrDump(c.bytes, &dump);
    EXPECT_EQ(status.code(), Exit::kBadInput) << c.says;
    EXPECT_NE(status.message().find(c.says), std::string::npos) << status.message();
  }
}

TEST(FrDump, MembersThatAreNoListAreNotSaid) {
  for (const char* ranks : {"\"0, 1\"", "\"[0 1]\"", "\"[0, -1]\"", "\"[0, x]\"", "7", "null",
                            "[0, \"1\"]", "\"[99999999999]\""}) {
    FrDump dump;
    ASSERT_TRUE(ParseFrDump(std::string(R"({"version":"2.9","pg_config":{"0":{"ranks":)") + ranks +
                                R"(}},"entries":[{"process_group":["0",""],"collective_seq_id":1,)"
                                R"("state":"started","time_created_ns":5}]})",
                            &dump)
                    .ok());
    ASSERT_EQ(dump.groups.size(), 1u) << ranks;
    EXPECT_TRUE(dump.groups[0].members.empty()) << ranks;
  }
}

TEST(FrDump, TheRankIsInTheFilesName) {
  const struct {
    const char* name;
    std::optional<int32_t> rank;
  } kCases[] = {{"nccl_trace_rank_0", 0},
                {"_dump_15", 15},
                {"_dump_7.json", 7},
                {"rank3.pkl", 3},
                {"12", 12},
                {"fault_injection.log", {}},
                {"", {}},
                {"rank_99999999999", {}},
                {"dump.json", {}},
                {"comm_lib_trace_rank_1023", 1023},
                {"nccl_trace_rank_container-node02_5", 5}};  // a host, and the rank in the job
  for (const auto& c : kCases) EXPECT_EQ(FrRankOfName(c.name), c.rank) << c.name;
}

TEST(FrDump, HostileShapesAreRefusedSoon) {
  // One dict of many keys, said to be thousands of entries.
  PickleWriter writer;
  writer.Dict([&] {
    writer.Text("version").Text("2.9").Text("entries").List([&] {
      writer.Dict([&] {
        for (int i = 0; i < 20'000; i++) writer.Text(std::to_string(i)).None();
      });
      writer.Op('r').Little(1'000'000 - 1'000'000 + 20'004, 4);
      for (int i = 0; i < 100'000; i++) writer.Op('j').Little(20'004, 4);
    });
  });
  FrDump dump;
  const Status status = ParseFrDump(writer.Done(), &dump);
  EXPECT_TRUE(!status.ok() || dump.entries.empty()) << status.message();
}

// ---- what is kept of it

TEST(FrDump, CondensedItSaysTheSameOfWhatIsInFlight) {
  FrDump dump;
  const auto add = [&](int64_t sequence, FrState state, bool is_p2p = false, uint32_t operation = 0) {
    FrEntry entry;
    (is_p2p ? entry.p2p_sequence : entry.sequence) = sequence;
    entry.state = state;
    entry.is_p2p = is_p2p;
    entry.operation = operation;
    dump.entries.push_back(entry);
  };
  add(1, FrState::kCompleted);
  add(3, FrState::kCompleted);
  add(2, FrState::kCompleted);  // not in order
  add(4, FrState::kStarted);
  add(5, FrState::kStarted);
  add(4, FrState::kCompleted);  // said again
  add(7, FrState::kCompleted, true, 1);
  add(6, FrState::kCompleted, true, 2);  // with another rank
  add(8, FrState::kScheduled, true, 2);
  CondenseFrDump(&dump);
  std::vector<std::pair<int64_t, FrState>> kept;
  for (const FrEntry& entry : dump.entries)
    kept.emplace_back(entry.is_p2p ? entry.p2p_sequence : entry.sequence, entry.state);
  EXPECT_EQ(kept, (std::vector<std::pair<int64_t, FrState>>{{5, FrState::kStarted},
                                                            {4, FrState::kCompleted},
                                                            {7, FrState::kCompleted},
                                                            {6, FrState::kCompleted},
                                                            {8, FrState::kScheduled}}));
}

// ---- real ones

TEST(FrDumpCorpus, RealDumpsAreRead) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  const struct {
    const char* folder;
    size_t nr_dumps;
  } kCases[] = {{"real_gpu_error_1st", 16},
                {"real_lock_gil_2nd", 16},
                {"synth_json_from_gpu_error_1st", 16},
                {"synth_nvrx_redump_lock_gil_2nd", 4},
                {"synth_pickle_longget_w2_pg150", 2},
                {"synth_pickle_v2.4_w2_n5", 2},
                {"synth_pickle_v2.9_w2_n320", 2}};
  for (const auto& c : kCases) {
    size_t nr_dumps = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(corpus) + "/fr/" + c.folder)) {
      const auto rank = FrRankOfName(file.path().filename().string());
      if (!rank) continue;
      nr_dumps++;
      FrDump dump;
      const Status status = ParseFrDump(ReadWhole(file.path()), &dump);
      EXPECT_TRUE(status.ok()) << file.path() << ": " << status.message();
      EXPECT_EQ(dump.nr_malformed, 0u) << file.path();
      for (const FrGroup& group : dump.groups) EXPECT_FALSE(group.members.empty()) << file.path();
    }
    EXPECT_EQ(nr_dumps, c.nr_dumps) << c.folder;
  }
}

// The same dump in another form says the same.
TEST(FrDumpCorpus, JsonSaysWhatThePickleSays) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  const std::string folder = std::string(corpus) + "/fr/";
  for (const auto& file :
       std::filesystem::directory_iterator(folder + "synth_json_from_gpu_error_1st")) {
    const auto rank = FrRankOfName(file.path().filename().string());
    if (!rank) continue;
    FrDump json, pickle;
    ASSERT_TRUE(ParseFrDump(ReadWhole(file.path()), &json).ok());
    ASSERT_TRUE(
        ParseFrDump(ReadWhole(folder + "real_gpu_error_1st/_dump_" + std::to_string(*rank)), &pickle)
            .ok());
    ASSERT_EQ(json.entries.size(), pickle.entries.size()) << *rank;
    for (size_t i = 0; i < json.entries.size(); i++) {
      const FrEntry &a = json.entries[i], &b = pickle.entries[i];
      EXPECT_EQ(a.sequence, b.sequence);
      EXPECT_EQ(a.p2p_sequence, b.p2p_sequence);
      EXPECT_EQ(a.created_ns, b.created_ns);
      EXPECT_EQ(a.state, b.state);
      EXPECT_EQ(a.started_ns, b.started_ns);
      EXPECT_EQ(json.groups[a.group].name, pickle.groups[b.group].name);
      EXPECT_EQ(json.groups[a.group].members, pickle.groups[b.group].members);
      EXPECT_EQ(json.operations[a.operation], pickle.operations[b.operation]);
    }
  }
}

TEST(FrDumpCorpus, HostileDumpsAreRefused) {
  const char* corpus = getenv("SLOTSCOPE_CORPUS");
  if (!corpus) GTEST_SKIP() << "SLOTSCOPE_CORPUS names no folder of real captures";
  size_t nr = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(corpus) + "/fr/hostile")) {
    FrDump dump;
    EXPECT_EQ(ParseFrDump(ReadWhole(file.path()), &dump).code(), Exit::kBadInput) << file.path();
    nr++;
  }
  EXPECT_EQ(nr, 6u);
}

}  // namespace
}  // namespace slotscope
