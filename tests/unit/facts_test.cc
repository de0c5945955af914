// SPDX-License-Identifier: MIT
#include "raw/facts.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/engine.h"

namespace slotscope {
namespace {

using nlohmann::json;

Facts SomeFacts() {
  Facts facts;
  facts.host = "machine.example";
  facts.boot_id = "0a1b";
  facts.kernel = "6.1.0-18-amd64 #1 SMP";
  facts.source = "kmod";
  facts.source_reason = "the module is loaded";
  facts.backend = "resctrl";
  facts.backend_reason = "because \"this\" works";
  facts.tick = "hrtimer";
  facts.events = {"cycles", "msr/tsc/", ""};
  facts.notes = {"One.", "", "Two."};
  facts.present_cpus = {0, 1, 5, 63};
  facts.nr_streams = 64;
  facts.unix_offset_ns = 1'700'000'000'123'456'789;
  facts.command_tgid = 4711;
  facts.gpu = "uprobes";
  facts.gpus = {{0, -1, true, "GPU-a", "00000000:01:00.0", "H", 1u << 30, 5},
                {0, 1, false, "MIG-b", "", "x\\x2cy", 0, -1}};
  facts.rdt = {{{0, {0, 1}}, {1, {5, 63}}}, true, true, true};
  return facts;
}

json SomeJson() { return json::parse(FactsToJson(SomeFacts())); }

// Some facts, but with `value` as their `name`.
void ExpectRefused(const std::string& name, const json& value) {
  json object = SomeJson();
  object[name] = value;
  Facts facts;
  Status status = ParseFacts(object.dump(), &facts);
  EXPECT_EQ(status.code(), Exit::kBadInput) << name << ": " << value.dump() << " was taken";
  EXPECT_EQ(status.ok(), status.message().empty());
}

TEST(Facts, ComeBackAsTheyWere) {
  const struct {
    const char* what;
    std::function<void(Facts*)> change;
  } cases[] = {
      {"as they are", [](Facts*) {}},
      {"no texts",
       [](Facts* facts) {
         facts->host = facts->boot_id = facts->kernel = facts->source = facts->tick = facts->gpu = "";
         facts->events = {"", "", ""};
         facts->notes = {};
       }},
      {"no command", [](Facts* facts) { facts->command_tgid = 0; }},
      {"the earliest offset", [](Facts* facts) { facts->unix_offset_ns = INT64_MIN; }},
      {"the latest offset", [](Facts* facts) { facts->unix_offset_ns = INT64_MAX; }},
      {"the largest tgid", [](Facts* facts) { facts->command_tgid = INT32_MAX; }},
      {"one CPU",
       [](Facts* facts) {
         facts->present_cpus = {0};
         facts->rdt.domains = {{0, {0}}};
         facts->nr_streams = 1;
       }},
      {"as many streams as can be",
       [](Facts* facts) {
         facts->nr_streams = 8192;
         facts->present_cpus = {0, 8191};
         facts->rdt = {};
       }},
      {"all that can be printed",
       [](Facts* facts) {
         for (int c = ' '; c <= '~'; c++) facts->host += static_cast<char>(c);
       }},
      {"no GPU", [](Facts* facts) { facts->gpus.clear(); }},
      {"no RDT", [](Facts* facts) { facts->rdt = {}; }},
      {"some RDT",
       [](Facts* facts) {
         facts->rdt = {{{3, {0, 63}}, {7, {5}}}, true, false, false};
       }},
      {"a domain without a CPU",
       [](Facts* facts) {
         facts->rdt.domains.push_back({UINT32_MAX, {}});
       }},
      {"as many perf counters as can be",
       [](Facts* facts) { facts->events.assign(SS_MAX_COUNTERS, "r412e"); }},
      {"many notes", [](Facts* facts) { facts->notes.assign(1000, "A sentence."); }},
  };
  for (const auto& c : cases) {
    Facts facts = SomeFacts(), parsed;
    c.change(&facts);
    Status status = ParseFacts(FactsToJson(facts), &parsed);
    EXPECT_TRUE(status.ok()) << c.what << ": " << status.message();
    EXPECT_EQ(parsed, facts) << c.what;
  }
}

TEST(Facts, LeaveNothingOfTheOnesBefore) {
  Facts facts = SomeFacts();
  facts.notes.clear();
  facts.present_cpus = {0};
  facts.rdt = {};
  Facts parsed = SomeFacts();
  ASSERT_TRUE(ParseFacts(FactsToJson(facts), &parsed).ok());
  EXPECT_EQ(parsed, facts);
}

TEST(Facts, EachMemberMustBeThereAndItsNameIsSaid) {
  const json all = SomeJson();
  ASSERT_EQ(all.size(), 17u) << "a member was added: is it tested?";
  for (const auto& [name, value] : all.items()) {
    json object = all;
    object.erase(name);
    Facts facts;
    if (name == "rdt" || name == "gpu" ||
        name == "gpus") {  // files of machines without it, and of older versions, have none
      ASSERT_TRUE(ParseFacts(object.dump(), &facts).ok());
      Facts without = SomeFacts();
      if (name == "rdt") without.rdt = {};
      if (name == "gpu") without.gpu = "";
      if (name == "gpus") without.gpus.clear();
      EXPECT_EQ(facts, without);
      continue;
    }
    Status status = ParseFacts(object.dump(), &facts);
    EXPECT_EQ(status.code(), Exit::kBadInput) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

TEST(Facts, AGpuIsAFieldOfAFile) {
  json object = SomeJson();
  object["gpus"][0]["name"] = "a,\"b\"\x1b[2J\\";
  Facts facts;
  ASSERT_TRUE(ParseFacts(object.dump(), &facts).ok());
  EXPECT_EQ(facts.gpus[0].name, "a\\x2c\\x22b\\x22\\x1b[2J\\");
  for (const char* member :
       {"index", "instance", "divided", "uuid", "pci", "name", "total_bytes", "minor"}) {
    json gpus = SomeJson()["gpus"];
    gpus[1][member] = json::array();
    ExpectRefused("gpus", gpus);
    gpus[1].erase(member);
    ExpectRefused("gpus", gpus);
  }
  ExpectRefused("gpus", json::object());
}

TEST(Facts, EachMemberMustHaveItsType) {
  const json all = SomeJson();
  const json values[] = {nullptr, "text", 1, json::array({1}), json::array({"text"}), json::object()};
  for (const auto& [name, value] : all.items())
    for (const json& wrong : values) {
      const bool same_type = wrong.is_array()    ? value.is_array() && wrong[0].type() == value[0].type()
                             : wrong.is_number() ? value.is_number()
                                                 : wrong.type() == value.type();
      // An array of one is a list of CPUs or of notes, but too short for the events.
      if (same_type || (wrong.is_array() && name == "present_cpus" && wrong[0].is_number())) continue;
      ExpectRefused(name, wrong);
    }
}

// Else it would be another number without a word.
TEST(Facts, ANumberThatDoesNotFitIsRefused) {
  const struct {
    const char* name;
    json value;
  } cases[] = {
      {"command_tgid", uint64_t{1} << 32},
      {"command_tgid", (uint64_t{1} << 32) + 1},
      {"command_tgid", 1.5},
      {"command_tgid", true},
      {"nr_streams", -1},
      {"nr_streams", 64.5},
      {"unix_offset_ns", 0.5},
      {"unix_offset_ns", UINT64_MAX},
      {"present_cpus", json::array({uint64_t{1} << 32})},
      {"present_cpus", json::array({0, 1.5})},
      {"present_cpus", json::array({true})},
  };
  for (const auto& c : cases) ExpectRefused(c.name, c.value);
}

TEST(Facts, TooFewEventsAreRefused) {
  for (size_t nr : {0u, 1u, 2u}) ExpectRefused("events", std::vector<std::string>(nr, "cycles"));
}

TEST(Facts, StreamsAndCpusHaveLimits) {
  const struct {
    const char* what;
    uint64_t nr_streams;
    std::vector<int> present_cpus;
    bool ok;
  } cases[] = {
      {"one", 1, {0}, true},
      {"a hole", 8, {0, 7}, true},
      {"not the first", 8, {3}, true},
      {"the largest", 8192, {8191}, true},
      {"no stream", 0, {0}, false},
      {"one too many", 8193, {0}, false},
      {"very many", UINT64_MAX, {0}, false},
      {"no CPU", 8, {}, false},
      {"a CPU without a stream", 8, {0, 8}, false},
      {"a negative CPU", 8, {-1, 0}, false},
      {"not in order", 8, {1, 0}, false},
      {"not in order further on", 8, {0, 1, 3, 2}, false},
      {"a CPU twice", 8, {0, 1, 1}, false},
  };
  for (const auto& c : cases) {
    json object = SomeJson();
    object["nr_streams"] = c.nr_streams;
    object["present_cpus"] = c.present_cpus;
    object.erase("rdt");
    Facts facts;
    Status status = ParseFacts(object.dump(), &facts);
    EXPECT_EQ(status.code(), c.ok ? Exit::kOk : Exit::kBadInput) << c.what << ": " << status.message();
  }
}

TEST(Facts, L3DomainsThatCannotBeAreRefused) {
  const struct {
    const char* what;
    json domains;
    bool ok;
  } cases[] = {
      {"none", json::array(), false},
      {"one", {{{"id", 4}, {"cpus", {1}}}}, true},
      {"no id", {{{"cpus", {1}}}}, false},
      {"no CPUs", {{{"id", 4}}}, false},
      {"a CPU that is not there", {{{"id", 4}, {"cpus", {2}}}}, false},
      {"a CPU twice", {{{"id", 4}, {"cpus", {1, 1}}}}, false},
      {"a CPU in two", {{{"id", 4}, {"cpus", {1}}}, {{"id", 5}, {"cpus", {1}}}}, false},
      {"an id twice", {{{"id", 4}, {"cpus", {1}}}, {{"id", 4}, {"cpus", {0}}}}, false},
      {"ids in disorder", {{{"id", 4}, {"cpus", {1}}}, {{"id", 3}, {"cpus", {0}}}}, false},
      {"an id that does not fit", {{{"id", uint64_t{1} << 32}, {"cpus", {1}}}}, false},
      {"a negative id", {{{"id", -1}, {"cpus", {1}}}}, false},
  };
  for (const auto& c : cases) {
    json object = SomeJson();
    object["rdt"]["domains"] = c.domains;
    Facts facts;
    Status status = ParseFacts(object.dump(), &facts);
    EXPECT_EQ(status.code(), c.ok ? Exit::kOk : Exit::kBadInput) << c.what << ": " << status.message();
  }
  for (const char* name : {"mbm_total", "mbm_local", "llc_occupancy", "domains"}) {
    json object = SomeJson();
    object["rdt"].erase(name);
    ExpectRefused("rdt", object["rdt"]);
    object = SomeJson();
    object["rdt"][name] = 1;
    ExpectRefused("rdt", object["rdt"]);
  }
  json object = SomeJson();
  for (const char* name : {"mbm_total", "mbm_local", "llc_occupancy"}) object["rdt"][name] = false;
  ExpectRefused("rdt", object["rdt"]);  // domains of nothing
}

TEST(Facts, MembersOfNewerWritersAreIgnored) {
  json object = SomeJson();
  object["colour"] = "green";
  object["more"] = {{"host", "another"}, {"list", {1, 2, 3}}};
  Facts facts;
  ASSERT_TRUE(ParseFacts(object.dump(), &facts).ok());
  EXPECT_EQ(facts, SomeFacts());
}

// They are shown on screens: no file may move a cursor there or forge a line.
TEST(Facts, ControlsAreEscaped) {
  Facts facts = SomeFacts(), parsed;
  facts.host = "\x1b[2J";
  facts.notes = {"one\nslotscope: two\r", "\a"};
  ASSERT_TRUE(ParseFacts(FactsToJson(facts), &parsed).ok());
  EXPECT_EQ(parsed.host, "\\x1b[2J");
  EXPECT_EQ(parsed.notes, std::vector<std::string>({"one\\x0aslotscope: two\\x0d", "\\x07"}));
}

// The name of a host may be anything; the recording must not end for it, and the file must be readable.
TEST(Facts, WhatIsNoUtf8IsReplaced) {
  Facts facts = SomeFacts(), parsed;
  facts.host =
      "a\xff\xfe"
      "b";
  facts.notes = {"\xc3"};
  facts.events[0] = "\x80";
  Status status = ParseFacts(FactsToJson(facts), &parsed);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(parsed.host, "a\\xef\\xbf\\xbd\\xef\\xbf\\xbdb");
  EXPECT_EQ(parsed.notes, std::vector<std::string>({"\\xef\\xbf\\xbd"}));
  EXPECT_EQ(parsed.events[0], "\\xef\\xbf\\xbd");
  EXPECT_EQ(parsed.kernel, facts.kernel);
}

TEST(Facts, WhatIsNoJsonIsRefused) {
  const std::string good = FactsToJson(SomeFacts());
  std::string bad_utf8 = good;
  bad_utf8[bad_utf8.find("machine")] = '\xff';
  std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("null"), std::string("[]"), std::string("{}"),
        std::string("7"), std::string(8, '\0'), good + "x", good + good, bad_utf8, deep}) {
    Facts facts;
    EXPECT_EQ(ParseFacts(text, &facts).code(), Exit::kBadInput) << text.substr(0, 40);
  }
  for (size_t size = 0; size < good.size(); size++) {
    Facts facts;
    ASSERT_EQ(ParseFacts(std::string_view(good).substr(0, size), &facts).code(), Exit::kBadInput)
        << size;
  }
}

// What messages of its version lack no row of it has, and what nobody asked for.
TEST(Facts, SayWhatNoRowCanHave) {
  std::array<uint32_t, kNrAdditive> since;
  since.fill(1);
  since[kWaitNs] = 2;
  Facts facts = SomeFacts();
  facts.events = {"cycles", "", "llc_misses"};
  facts.has_waits = true;
  facts.abi = 2;
  EXPECT_EQ(UnmeasuredOf(facts, since), 1u << kInstructions);
  facts.abi = 1;
  EXPECT_EQ(UnmeasuredOf(facts, since), 1u << kInstructions | 1u << kWaitNs);
  facts.abi = SS_ABI_VERSION;
  EXPECT_EQ(UnmeasuredOf(facts), 1u << kInstructions) << "the newest version has all";
  facts.has_waits = false;
  EXPECT_EQ(UnmeasuredOf(facts), 1u << kInstructions | 1u << kMigrations) << "threads are not followed";
}

}  // namespace
}  // namespace slotscope
