// SPDX-License-Identifier: MIT
// The generated machine, seen through the merge: it is sound without flaws, and each flaw is really
// there.
#include "tests/gen/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "items.h"
#include "merge/merger.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kWindowNs = 64 * kMs;

struct Message {
  ss_any_message message;
  bool late;
};

// All that a generator makes, and what the merge hands out of it.
class Machine final : public MergeSink {
 public:
  explicit Machine(const GeneratorOptions& options)
      : generator_(options), merger_(options.nr_cpus, kWindowNs, this, &router_) {
    auto block = std::make_unique<Block>();
    while (generator_.Next(block.get())) {
      EXPECT_GT(block->size(), 0u);
      bytes.insert(bytes.end(), block->bytes().begin(), block->bytes().end());
      EXPECT_TRUE(merger_.OnItems(block->bytes()));
      nr_blocks++;
    }
    EXPECT_FALSE(generator_.Next(block.get())) << "what is over stays over";
    merger_.Flush();
    for (size_t at = 0; at < bytes.size();) {
      ItemHeader item;
      std::memcpy(&item, bytes.data() + at, sizeof(item));
      items.push_back(item);
      at += sizeof(item) + item.size;
    }
  }

  void OnMeasure(const ss_measure& measure) override { measures[measure.hdr.cpu].push_back(measure); }
  void OnCpuState(const ss_cpu_state& state) override { states[state.hdr.cpu].push_back(state); }
  void OnTick(const ss_tick& tick) override { ticks[tick.hdr.cpu].push_back(tick); }
  void OnMessage(const ss_any_message& message, bool late) override {
    messages.push_back({message, late});
  }
  void OnExpected(int cpu) override { expected.insert(cpu); }
  void OnDumpEnd(uint64_t, uint64_t) override { nr_dumps++; }
  void OnClock(uint64_t, int64_t unix_offset_ns) override { offsets.push_back(unix_offset_ns); }
  void OnNote(uint64_t, std::string_view) override {}
  void OnMalformedCall(uint64_t, uint64_t) override {}
  void OnWatermark(uint64_t) override {}

  const MergeStats& stats() const { return merger_.stats(); }
  const SourceLosses& losses() const { return router_.losses(); }
  const Facts& facts() const { return generator_.facts(); }
  uint64_t nr_messages() const { return generator_.nr_messages(); }
  // All that came, of whatever use.
  uint64_t nr_received() const {
    return stats().nr_messages + stats().nr_malformed + stats().nr_unknown;
  }

  size_t CountItems(ItemKind kind) const {
    return static_cast<size_t>(std::count_if(items.begin(), items.end(),
                                             [&](const ItemHeader& item) { return item.kind == kind; }));
  }
  size_t CountMeasures(const std::function<bool(const ss_measure&)>& holds) const {
    size_t count = 0;
    for (const auto& [cpu, list] : measures)
      count += static_cast<size_t>(std::count_if(list.begin(), list.end(), holds));
    return count;
  }
  std::vector<ss_task_meta> Metas(uint32_t cause) const {
    std::vector<ss_task_meta> metas;
    for (const Message& one : messages)
      if (one.message.hdr.type == SS_TASK_META && one.message.task_meta.flags & cause)
        metas.push_back(one.message.task_meta);
    return metas;
  }
  std::vector<ss_rmid_event> RmidEvents(const std::set<uint16_t>& types) const {
    std::vector<ss_rmid_event> events;
    for (const Message& one : messages)
      if (types.count(one.message.hdr.type)) events.push_back(one.message.rmid_event);
    return events;
  }
  std::vector<ss_rdt_sample> Samples() const {
    std::vector<ss_rdt_sample> samples;
    for (const Message& one : messages)
      if (one.message.hdr.type == SS_RDT_SAMPLE) samples.push_back(one.message.rdt_sample);
    return samples;
  }
  // When each drain began, one of each round.
  std::vector<uint64_t> DrainTimes() const {
    std::set<uint64_t> times;
    for (const ItemHeader& item : items)
      if (item.kind == ItemKind::kRecords) times.insert(item.begin_ns);
    return {times.begin(), times.end()};
  }

  std::vector<std::byte> bytes;
  std::vector<ItemHeader> items;
  size_t nr_blocks = 0;
  // By CPU.
  std::map<uint32_t, std::vector<ss_measure>> measures;
  std::map<uint32_t, std::vector<ss_cpu_state>> states;
  std::map<uint32_t, std::vector<ss_tick>> ticks;
  std::vector<Message> messages;  // the others
  std::set<int> expected;
  size_t nr_dumps = 0;
  std::vector<int64_t> offsets;

 private:
  Generator generator_;
  NoItems nobody_;
  ItemRouter router_{&nobody_, &nobody_};
  Merger merger_;
};

GeneratorOptions Short(uint64_t seed = 1) {
  GeneratorOptions options;
  options.seed = seed;
  options.duration_ms = 300;
  return options;
}

GeneratorOptions With(uint64_t GeneratorOptions::*member, uint64_t value, uint64_t seed = 1) {
  GeneratorOptions options = Short(seed);
  options.*member = value;
  return options;
}

GeneratorOptions AllFlaws(uint64_t seed) {
  GeneratorOptions options = Short(seed);
  options.nr_cpus = 4;
  options.nr_missing_cpus = 1;
  options.nr_rmids = 32;
  options.births_per_s = 1000;
  options.lost_ppm = options.inverted_ppm = options.late_ppm = 5000;
  options.malformed_ppm = options.unknown_ppm = 5000;
  options.stalls_per_s = options.cpu_stalls_per_s = options.hotplugs_per_s = options.clock_steps_per_s =
      5;
  options.nr_l3_domains = 2;
  options.rdt_skipped_ppm = options.rdt_failed_ppm = 5000;
  options.wrap = true;
  return options;
}

// ---- the same again

TEST(Generator, TheSameOptionsGiveTheSameBytes) {
  for (const GeneratorOptions& options : {Short(), AllFlaws(1)}) {
    Machine first(options), second(options);
    EXPECT_TRUE(first.bytes == second.bytes);
    EXPECT_EQ(first.facts(), second.facts());
    EXPECT_EQ(first.nr_messages(), second.nr_messages());
  }
}

TEST(Generator, AnotherSeedGivesOtherBytes) {
  Machine first(Short(1)), second(Short(2));
  EXPECT_FALSE(first.bytes == second.bytes);
  EXPECT_NE(first.facts().boot_id, second.facts().boot_id);
}

TEST(Generator, EveryOptionChangesTheBytes) {
  using O = GeneratorOptions;
  const std::pair<uint64_t O::*, uint64_t> numbers[] = {
      {&O::nr_cpus, 3},
      {&O::nr_missing_cpus, 1},
      {&O::duration_ms, 301},
      {&O::nr_processes, 100},
      {&O::nr_kthreads, 0},
      {&O::nr_rmids, 16},
      {&O::switches_per_s, 1000},
      {&O::births_per_s, 0},
      {&O::tick_jitter_ns, 0},
      {&O::lost_ppm, 10'000},
      {&O::inverted_ppm, 10'000},
      {&O::late_ppm, 10'000},
      {&O::malformed_ppm, 10'000},
      {&O::unknown_ppm, 10'000},
      {&O::stalls_per_s, 50},
      {&O::cpu_stalls_per_s, 50},
      {&O::hotplugs_per_s, 50},
      {&O::clock_steps_per_s, 50},
      {&O::nr_l3_domains, 1},
  };
  const Machine plain(Short());
  for (size_t i = 0; i < std::size(numbers); i++)
    EXPECT_FALSE(Machine(With(numbers[i].first, numbers[i].second)).bytes == plain.bytes) << i;
  const Machine with_rdt(With(&O::nr_l3_domains, 1));
  for (uint64_t O::*flaw : {&O::rdt_skipped_ppm, &O::rdt_failed_ppm}) {
    GeneratorOptions options = With(&O::nr_l3_domains, 1);
    options.*flaw = 100'000;
    EXPECT_FALSE(Machine(options).bytes == with_rdt.bytes);
  }
  for (bool O::*flag : {&O::wrap, &O::no_counters}) {
    GeneratorOptions options = Short();
    options.*flag = true;
    EXPECT_FALSE(Machine(options).bytes == plain.bytes);
  }
}

TEST(Generator, ItsFactsAreThoseOfARawFile) {
  for (const GeneratorOptions& options : {Short(), AllFlaws(1)}) {
    const Generator generator(options);
    Facts parsed;
    Status status = ParseFacts(FactsToJson(generator.facts()), &parsed);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(parsed, generator.facts());
    EXPECT_EQ(parsed.nr_streams, options.nr_cpus);
    EXPECT_EQ(parsed.present_cpus.size(), options.nr_cpus) << "missing ones are present";
  }
}

// ---- without flaws

TEST(Generator, WithoutFlawsNothingIsWrong) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    SCOPED_TRACE(seed);
    GeneratorOptions options = Short(seed);
    options.nr_cpus = 1 + seed % 4;
    Machine run(options);
    EXPECT_EQ(run.stats().nr_late, 0u);
    EXPECT_EQ(run.stats().nr_lost, 0u);
    EXPECT_EQ(run.stats().nr_malformed, 0u);
    EXPECT_EQ(run.stats().nr_unknown, 0u);
    EXPECT_EQ(run.stats().nr_stalls, 0u);
    EXPECT_EQ(run.stats().nr_reordered, 0u);
    EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
    EXPECT_EQ(run.losses(), SourceLosses());
    EXPECT_EQ(run.nr_dumps, 1u);
    EXPECT_TRUE(run.offsets.empty());
    EXPECT_EQ(run.CountItems(ItemKind::kOffline), 0u);
    EXPECT_EQ(run.expected.size(), options.nr_cpus);
    EXPECT_EQ(run.CountMeasures([](const ss_measure& m) { return m.flags & SS_MEASURE_UNKNOWN; }), 0u);
    EXPECT_TRUE(run.RmidEvents({SS_RMID_ALLOC_FAILED}).empty());
  }
}

// Many births in the last milliseconds: none of what they send is dated behind the last drain.
TEST(Generator, WithoutFlawsNothingIsWrongAtTheEndEither) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    SCOPED_TRACE(seed);
    GeneratorOptions options = Short(seed);
    options.duration_ms = 20;
    options.births_per_s = 20'000;
    Machine run(options);
    EXPECT_EQ(run.stats().nr_malformed, 0u);
    EXPECT_EQ(run.stats().nr_late, 0u);
    EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
  }
}

TEST(Generator, TheTimeOfACpuIsWhole) {
  Machine run(Short());
  ASSERT_EQ(run.measures.size(), 2u);
  for (const auto& [cpu, measures] : run.measures) {
    ASSERT_GT(measures.size(), 300u);
    for (size_t i = 1; i < measures.size(); i++) {
      ASSERT_EQ(measures[i].start_ns, measures[i - 1].hdr.ts_ns);
      ASSERT_EQ(measures[i].seq, measures[i - 1].seq + 1);
    }
    EXPECT_GT(measures.back().hdr.ts_ns - measures.front().start_ns, 299 * kMs);
    ASSERT_EQ(run.states[cpu].size(), 1u);
    EXPECT_EQ(run.states[cpu][0].online, 1u);
    EXPECT_EQ(run.states[cpu][0].hdr.ts_ns, measures.front().start_ns);
  }
}

TEST(Generator, TicksComeAtEachBorderAndEndAMeasure) {
  for (uint64_t jitter_ns : {0u, 20'000u, 900'000u}) {
    SCOPED_TRACE(jitter_ns);
    Machine run(With(&GeneratorOptions::tick_jitter_ns, jitter_ns));
    for (const auto& [cpu, ticks] : run.ticks) {
      std::set<uint64_t> measured;
      for (const ss_measure& measure : run.measures[cpu])
        if (measure.flags & SS_MEASURE_TICK) measured.insert(measure.hdr.ts_ns);
      ASSERT_EQ(measured.size(), ticks.size());
      ASSERT_GE(ticks.size(), 298u);
      uint64_t latest_ns = 0;
      for (size_t i = 0; i < ticks.size(); i++) {
        ASSERT_EQ(ticks[i].due_ns % SS_TICK_PERIOD_NS, 0u);
        ASSERT_EQ(measured.count(ticks[i].hdr.ts_ns), 1u);
        latest_ns = std::max<uint64_t>(latest_ns, ticks[i].hdr.ts_ns - ticks[i].due_ns);
        if (i > 0) {
          ASSERT_EQ(ticks[i].due_ns, ticks[i - 1].due_ns + SS_TICK_PERIOD_NS);
        }
      }
      EXPECT_LE(latest_ns, jitter_ns);
      EXPECT_GE(latest_ns, jitter_ns / 2);
    }
  }
}

TEST(Generator, TheFirstDumpNamesAllThatLive) {
  GeneratorOptions options = Short();
  options.nr_processes = 100;
  options.nr_kthreads = 5;
  options.nr_rmids = 60;
  options.births_per_s = 0;
  Machine run(options);
  const auto metas = run.Metas(SS_TASK_EXISTING);
  ASSERT_EQ(metas.size(), 105u);
  std::set<int32_t> tgids, rmids;
  for (const ss_task_meta& meta : metas) {
    tgids.insert(meta.tgid);
    if (meta.rmid) rmids.insert(static_cast<int32_t>(meta.rmid));
    EXPECT_FALSE(meta.flags & SS_TASK_KTHREAD && meta.rmid) << "a kernel thread has none";
  }
  EXPECT_EQ(tgids.size(), 105u);
  EXPECT_EQ(rmids.size(), 59u) << "all there are";
  EXPECT_EQ(run.RmidEvents({SS_RMID_EXISTING}).size(), 59u);
  EXPECT_EQ(run.messages.size(), 105u + 59u) << "nobody is born, nobody dies";
  for (const auto& [cpu, measures] : run.measures)
    for (const ss_measure& measure : measures)
      ASSERT_TRUE(measure.tgid == 0 || tgids.count(measure.tgid));
}

TEST(Generator, ADumpOfAnySizeFitsItsBlocks) {
  GeneratorOptions options = Short();
  options.nr_processes = 20'000;
  options.duration_ms = 10;
  Machine run(options);
  EXPECT_GT(run.nr_blocks, 5u);
  EXPECT_EQ(run.Metas(SS_TASK_EXISTING).size(), 20'008u);
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
}

// ---- processes and RMIDs

// Few RMIDs and many births: all are in use or in limbo, and are taken as soon as their limbo is over.
GeneratorOptions FewRmids(uint64_t seed) {
  GeneratorOptions options = Short(seed);
  options.nr_rmids = 8;
  options.nr_processes = 20;
  options.births_per_s = 4000;
  return options;
}

TEST(Generator, ProcessesAreBornAndDie) {
  GeneratorOptions options = Short();
  options.births_per_s = 2000;
  Machine run(options);
  const auto births = run.Metas(SS_TASK_BIRTH);
  EXPECT_GT(births.size(), 500u);
  EXPECT_LT(births.size(), 700u);
  EXPECT_GT(run.Metas(SS_TASK_EXEC).size(), births.size() / 2);
  const auto allocs = run.RmidEvents({SS_RMID_ALLOC, SS_RMID_ALLOC_FAILED});
  EXPECT_EQ(allocs.size(), births.size());
  const size_t nr_deaths = run.RmidEvents({SS_RMID_FREE}).size() + run.Metas(SS_TASK_EXIT).size();
  EXPECT_GT(nr_deaths, 400u);
  EXPECT_LE(nr_deaths, births.size()) << "as many, but for some that were born in the same round";
  std::set<int32_t> ran;
  for (const auto& [cpu, measures] : run.measures)
    for (const ss_measure& measure : measures) ran.insert(measure.tgid);
  size_t nr_ran = 0;
  for (const ss_task_meta& meta : births) nr_ran += ran.count(meta.tgid);
  EXPECT_GT(nr_ran, births.size() / 4) << "those who are born also run";
}

TEST(Generator, TheDeadDoNotExec) {
  Machine run(FewRmids(1));
  std::map<int32_t, uint64_t> died_ns;
  for (const ss_rmid_event& event : run.RmidEvents({SS_RMID_FREE}))
    died_ns[event.tgid] = event.hdr.ts_ns;
  for (const ss_task_meta& meta : run.Metas(SS_TASK_EXIT)) died_ns[meta.tgid] = meta.hdr.ts_ns;
  size_t nr_after = 0;
  for (const ss_task_meta& meta : run.Metas(SS_TASK_EXEC))
    nr_after += died_ns.count(meta.tgid) && meta.hdr.ts_ns > died_ns[meta.tgid];
  EXPECT_EQ(nr_after, 0u);
}

TEST(Generator, WithoutBirthsNobodyDies) {
  Machine run(With(&GeneratorOptions::births_per_s, 0));
  EXPECT_TRUE(run.RmidEvents({SS_RMID_ALLOC, SS_RMID_FREE, SS_RMID_ALLOC_FAILED}).empty());
  EXPECT_TRUE(run.Metas(SS_TASK_BIRTH | SS_TASK_EXIT).empty());
}

// From its birth to its death an RMID has one owner, who runs in that time only.
TEST(Generator, AMeasureNamesTheOwnerOfItsRmid) {
  GeneratorOptions options = Short();
  options.nr_cpus = 3;
  options.nr_rmids = 64;
  options.nr_processes = 60;
  options.births_per_s = 3000;
  Machine run(options);
  struct Owner {
    int32_t tgid;
    uint64_t start_time_ns;
    uint64_t from_ns;
    uint64_t until_ns;
  };
  std::map<std::pair<uint32_t, uint32_t>, Owner> owners;
  for (const ss_rmid_event& event : run.RmidEvents({SS_RMID_EXISTING, SS_RMID_ALLOC})) {
    const uint64_t from_ns = event.hdr.type == SS_RMID_ALLOC ? event.hdr.ts_ns : 0;
    bool inserted = owners
                        .insert({{event.rmid, event.generation},
                                 {event.tgid, event.start_time_ns, from_ns, UINT64_MAX}})
                        .second;
    ASSERT_TRUE(inserted) << "a generation was handed out twice";
  }
  for (const ss_rmid_event& event : run.RmidEvents({SS_RMID_FREE})) {
    auto owner = owners.find({event.rmid, event.generation});
    ASSERT_NE(owner, owners.end());
    ASSERT_EQ(owner->second.tgid, event.tgid);
    owner->second.until_ns = event.hdr.ts_ns;
  }
  size_t nr_checked = 0;
  for (const auto& [cpu, measures] : run.measures)
    for (const ss_measure& measure : measures) {
      if (!measure.rmid) continue;
      auto owner = owners.find({measure.rmid, measure.generation});
      ASSERT_NE(owner, owners.end());
      ASSERT_EQ(measure.tgid, owner->second.tgid);
      ASSERT_EQ(measure.start_time_ns, owner->second.start_time_ns);
      ASSERT_GE(measure.start_ns, owner->second.from_ns);
      ASSERT_LE(measure.hdr.ts_ns, owner->second.until_ns);
      nr_checked++;
    }
  EXPECT_GT(nr_checked, 2000u);
}

// ---- RDT

GeneratorOptions WithRdt() {
  GeneratorOptions options = Short();
  options.nr_cpus = 4;
  options.nr_rmids = 64;
  options.nr_processes = 40;
  options.births_per_s = 1000;
  options.nr_l3_domains = 2;
  return options;
}

TEST(Generator, WithoutDomainsThereIsNoRdt) {
  Machine run(Short());
  EXPECT_EQ(run.facts().rdt, RdtShape());
  EXPECT_TRUE(run.Samples().empty());
}

// Each begins where the last one of that counter ended, or where its owner got the RMID.
TEST(Generator, DeltasOfACounterFollowOneAnother) {
  Machine run(WithRdt());
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> allocated_ns;
  for (const ss_rmid_event& event : run.RmidEvents({SS_RMID_EXISTING, SS_RMID_ALLOC}))
    allocated_ns.emplace(std::pair(event.rmid, event.generation),
                         event.hdr.type == SS_RMID_ALLOC ? event.hdr.ts_ns : 0);
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint16_t>, uint64_t> read_ns;
  uint64_t nr_first = 0, nr_next = 0, bytes = 0;
  std::vector<ss_rdt_sample> samples = run.Samples();
  std::stable_sort(samples.begin(), samples.end(),
                   [](const auto& a, const auto& b) { return a.hdr.ts_ns < b.hdr.ts_ns; });
  for (const ss_rdt_sample& sample : samples) {
    ASSERT_EQ(sample.status, SS_RDT_OK);
    const auto& domains = run.facts().rdt.domains;
    ASSERT_TRUE(std::any_of(domains.begin(), domains.end(), [&](const L3Domain& domain) {
      return domain.id == sample.domain &&
             std::count(domain.cpus.begin(), domain.cpus.end(), sample.hdr.cpu) == 1;
    })) << "read from another domain";
    ASSERT_TRUE(allocated_ns.contains({sample.rmid, sample.generation}));
    auto [last, first] = read_ns.try_emplace(
        {sample.rmid, sample.generation, sample.domain, sample.event}, sample.hdr.ts_ns);
    const uint64_t alloc_ns = allocated_ns[{sample.rmid, sample.generation}];
    const uint64_t begins_ns =
        first ? alloc_ns : std::exchange(last->second, uint64_t{sample.hdr.ts_ns});
    if (begins_ns > 0) {
      ASSERT_EQ(sample.since_ns, begins_ns);
    }
    (first ? nr_first : nr_next)++;
    bytes += sample.value;
  }
  EXPECT_GT(nr_first, 300u);
  EXPECT_GT(nr_next, 3000u);
  EXPECT_GT(bytes, 1'000'000u);
}

TEST(Generator, SomeReadsAreSkippedOrFail) {
  GeneratorOptions options = WithRdt();
  const size_t nr_all = Machine(options).Samples().size();
  options.rdt_skipped_ppm = 900'000;
  EXPECT_LT(Machine(options).Samples().size(), nr_all);
  options.rdt_skipped_ppm = 0;
  options.rdt_failed_ppm = 500'000;
  std::array<size_t, SS_RDT_NR_STATUS> nr_with = {};
  for (const ss_rdt_sample& sample : Machine(options).Samples()) nr_with.at(sample.status)++;
  for (size_t status = 0; status < nr_with.size(); status++) EXPECT_GT(nr_with[status], 20u) << status;
}

TEST(Generator, WithoutARmidABirthFailsAndTheProcessLivesAllTheSame) {
  Machine run(FewRmids(1));
  const auto failed = run.RmidEvents({SS_RMID_ALLOC_FAILED});
  std::map<int32_t, size_t> by_reason;
  std::set<int32_t> without;
  for (const ss_rmid_event& event : failed) {
    by_reason[event.reason]++;
    without.insert(event.tgid);
    EXPECT_EQ(event.rmid, 0u);
    EXPECT_EQ(event.generation, 0u);
  }
  EXPECT_GT(by_reason[SS_RMID_NONE_FREE], 10u);
  EXPECT_GT(by_reason[SS_RMID_IN_LIMBO], 10u);
  EXPECT_EQ(by_reason.size(), 2u);
  size_t nr_died = 0;
  for (const ss_task_meta& meta : run.Metas(SS_TASK_EXIT)) {
    EXPECT_EQ(meta.rmid, 0u);
    EXPECT_STREQ(meta.comm, "");
    nr_died += without.count(meta.tgid);
  }
  EXPECT_GT(nr_died, 10u);
  EXPECT_GT(run.CountMeasures([&](const ss_measure& m) { return without.count(m.tgid) && m.rmid == 0; }),
            10u);
}

TEST(Generator, TellsHowManyBirthsHadNoRmid) {
  for (uint64_t nr_rmids : {512u, 8u}) {
    GeneratorOptions options = FewRmids(1);
    options.nr_rmids = nr_rmids;
    Machine run(options);
    EXPECT_EQ(run.losses().nr_failed_allocs, run.RmidEvents({SS_RMID_ALLOC_FAILED}).size()) << nr_rmids;
  }
}

// The shortest time from a free of an RMID to its next allocation, over all that were freed with a
// generation that is not `except`.
uint64_t ShortestReuse(const Machine& run, uint64_t except, std::set<uint32_t>* generations) {
  uint64_t shortest_ns = UINT64_MAX, last_ns = 0;
  std::map<uint32_t, uint64_t> freed_ns;
  auto events = run.RmidEvents({SS_RMID_ALLOC, SS_RMID_FREE});
  // The sequence number may wrap.
  std::sort(events.begin(), events.end(), [](const ss_rmid_event& a, const ss_rmid_event& b) {
    return static_cast<int64_t>(a.seq - b.seq) < 0;
  });
  for (const ss_rmid_event& event : events) {
    EXPECT_GE(event.hdr.ts_ns, last_ns) << "in the order of seq time does not go back";
    last_ns = event.hdr.ts_ns;
    generations->insert(event.generation);
    if (event.hdr.type == SS_RMID_ALLOC && freed_ns.count(event.rmid))
      shortest_ns = std::min<uint64_t>(shortest_ns, event.hdr.ts_ns - freed_ns[event.rmid]);
    freed_ns.erase(event.rmid);
    if (event.hdr.type == SS_RMID_FREE && event.generation != except)
      freed_ns[event.rmid] = event.hdr.ts_ns;
  }
  return shortest_ns;
}

TEST(Generator, ARmidIsReusedRightAfterItsLimboAndNeverBefore) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    std::set<uint32_t> generations;
    uint64_t shortest_ns = ShortestReuse(Machine(FewRmids(seed)), UINT64_MAX, &generations);
    EXPECT_GE(shortest_ns, SS_RMID_LIMBO_NS) << seed;
    EXPECT_LT(shortest_ns, SS_RMID_LIMBO_NS + 100'000) << seed;
    EXPECT_GT(generations.size(), 20u) << seed;
  }
}

// To the allocator generation 0 is an RMID that was never used (see rmid_fifo.h): after a wrap that one,
// once in 2^32 allocations, knows no limbo. Every other does.
TEST(Generator, ARmidWhoseGenerationWrapsSkipsItsLimboOnlyThen) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    GeneratorOptions options = FewRmids(seed);
    options.wrap = true;
    std::set<uint32_t> generations;
    uint64_t shortest_ns = ShortestReuse(Machine(options), 0, &generations);
    EXPECT_GE(shortest_ns, SS_RMID_LIMBO_NS) << seed;
    EXPECT_TRUE(generations.count(UINT32_MAX) && generations.count(0)) << seed;
  }
}

// ---- flaws

TEST(Generator, LosesRecordsAndSaysHowMany) {
  Machine run(With(&GeneratorOptions::lost_ppm, 20'000));
  const auto nr_lost = static_cast<double>(run.stats().nr_lost);
  const auto nr_measures =
      static_cast<double>(run.CountMeasures([](const ss_measure&) { return true; }));
  const auto nr_ticks = static_cast<double>(run.ticks[0].size() + run.ticks[1].size());
  EXPECT_NEAR(nr_lost / (nr_lost + nr_measures + nr_ticks), 0.02, 0.006);
  size_t nr_missing = 0;  // measures among them
  for (const auto& [cpu, measures] : run.measures)
    for (size_t i = 1; i < measures.size(); i++) {
      const bool follows = measures[i].seq == measures[i - 1].seq + 1;
      nr_missing += measures[i].seq - measures[i - 1].seq - 1;
      // A lost one without length leaves no gap.
      ASSERT_TRUE(!follows || measures[i].start_ns == measures[i - 1].hdr.ts_ns);
    }
  EXPECT_GT(nr_missing, 10u);
  EXPECT_LE(nr_missing, run.stats().nr_lost);
  EXPECT_GT(run.nr_dumps, 1u) << "a birth may be among what was lost";
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages()) << "lost ones are not counted as written";
}

TEST(Generator, LosesEverythingIfAskedTo) {
  Machine run(With(&GeneratorOptions::lost_ppm, 1'000'000));
  EXPECT_TRUE(run.measures.empty());
  EXPECT_TRUE(run.ticks.empty());
  EXPECT_FALSE(run.messages.empty()) << "dumps do not come through a ring";
}

// How often a timestamp goes back in the order in which a CPU's messages came: what the merge could see.
size_t CountInversions(const Machine& run) {
  size_t count = 0;
  std::map<uint32_t, uint64_t> at_ns;
  for (size_t at = 0, i = 0; i < run.items.size(); i++) {
    const ItemHeader& item = run.items[i];
    at += sizeof(item);
    const size_t end = at + item.size;
    while (item.kind == ItemKind::kRecords && at < end) {
      perf_event_header header;
      std::memcpy(&header, run.bytes.data() + at, sizeof(header));
      uint64_t ts_ns;
      std::memcpy(&ts_ns, run.bytes.data() + at + sizeof(header) + 4, sizeof(ts_ns));
      count += ts_ns < at_ns[item.stream];
      at_ns[item.stream] = std::max(at_ns[item.stream], ts_ns);
      at += header.size;
    }
    at = end;
  }
  return count;
}

TEST(Generator, WritesSomeBehindLaterOnesWithinTheGrace) {
  EXPECT_EQ(CountInversions(Machine(Short())), 0u);
  Machine run(With(&GeneratorOptions::inverted_ppm, 50'000));
  EXPECT_GT(CountInversions(run), 50u);
  EXPECT_GT(run.stats().nr_reordered, 0u);
  EXPECT_EQ(run.stats().nr_late, 0u);
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
  for (const auto& [cpu, measures] : run.measures)
    for (size_t i = 1; i < measures.size(); i++)
      ASSERT_EQ(measures[i].seq, measures[i - 1].seq + 1) << "all repaired";
}

TEST(Generator, WritesSomeLate) {
  Machine run(With(&GeneratorOptions::late_ppm, 20'000));
  EXPECT_GT(run.stats().nr_late, 50u);
  EXPECT_TRUE(std::any_of(run.messages.begin(), run.messages.end(),
                          [](const Message& one) { return one.late; }));
  EXPECT_EQ(run.stats().nr_malformed, 0u);
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages()) << "late, but there";
}

TEST(Generator, WritesNonsense) {
  Machine run(With(&GeneratorOptions::malformed_ppm, 50'000));
  EXPECT_GT(run.stats().nr_malformed, 50u);
  EXPECT_GT(run.stats().nr_unknown, 20u);
  const auto nr_bad = static_cast<double>(run.stats().nr_malformed + run.stats().nr_unknown);
  EXPECT_NEAR(nr_bad / static_cast<double>(run.nr_messages()), 0.05, 0.015);
  EXPECT_EQ(run.nr_received(), run.nr_messages()) << "each is counted once";
}

TEST(Generator, MissesSwitches) {
  Machine run(With(&GeneratorOptions::unknown_ppm, 50'000));
  const auto nr_unknown = static_cast<double>(
      run.CountMeasures([](const ss_measure& m) { return m.flags & SS_MEASURE_UNKNOWN; }));
  const auto nr_all = static_cast<double>(run.CountMeasures([](const ss_measure&) { return true; }));
  EXPECT_NEAR(nr_unknown / nr_all, 0.05, 0.02);
}

uint64_t LongestRound(const Machine& run) {
  uint64_t longest_ns = 0;
  const auto times = run.DrainTimes();
  for (size_t i = 1; i < times.size(); i++) longest_ns = std::max(longest_ns, times[i] - times[i - 1]);
  return longest_ns;
}

TEST(Generator, StandsStill) {
  EXPECT_LT(LongestRound(Machine(Short())), 6 * kMs);
  GeneratorOptions options = With(&GeneratorOptions::stalls_per_s, 20);
  options.duration_ms = 2000;
  Machine run(options);
  EXPECT_GT(LongestRound(run), kWindowNs);
  EXPECT_EQ(run.stats().nr_stalls, 0u) << "no CPU is behind the others";
  EXPECT_EQ(run.stats().nr_late, 0u);
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
}

TEST(Generator, DoesNotDrainOneRing) {
  GeneratorOptions options = With(&GeneratorOptions::cpu_stalls_per_s, 5);
  options.duration_ms = 2000;
  Machine run(options);
  EXPECT_GT(run.stats().nr_stalls, 0u);
  EXPECT_GT(run.stats().nr_late, 0u);
  EXPECT_EQ(run.stats().nr_malformed, 0u);
  EXPECT_EQ(run.stats().nr_lost, 0u);
}

// A ring that stands still at the end is drained at last, as in a recording that is stopped.
TEST(Generator, ARingThatIsNotDrainedLosesNothingAtTheEnd) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    GeneratorOptions options = With(&GeneratorOptions::cpu_stalls_per_s, 20, seed);
    options.duration_ms = 100;
    Machine run(options);
    EXPECT_EQ(run.stats().nr_messages, run.nr_messages()) << seed;
  }
}

TEST(Generator, PlugsCpus) {
  GeneratorOptions options = With(&GeneratorOptions::hotplugs_per_s, 30);
  options.nr_cpus = 4;
  options.duration_ms = 1000;
  Machine run(options);
  std::map<uint32_t, bool> online;
  size_t nr_offline = 0, nr_back = 0;
  for (const ItemHeader& item : run.items) {
    switch (item.kind) {
      case ItemKind::kOnline:
        ASSERT_FALSE(online[item.stream]);
        nr_back += online.count(item.stream) && nr_offline > 0;
        online[item.stream] = true;
        break;
      case ItemKind::kOffline:
        ASSERT_TRUE(online[item.stream]);
        online[item.stream] = false;
        nr_offline++;
        break;
      case ItemKind::kRecords:
        ASSERT_TRUE(online[item.stream]) << "a ring that is not there";
        break;
      default:
        break;
    }
  }
  EXPECT_GT(nr_offline, 10u);
  EXPECT_GT(nr_back, 5u);
  size_t nr_told = 0;  // offline states; the reader's own are one per kOffline
  for (const auto& [cpu, states] : run.states)
    for (const ss_cpu_state& state : states) nr_told += !state.online;
  EXPECT_GT(nr_told, nr_offline) << "some sources say so themselves";
  EXPECT_LT(nr_told, 2 * nr_offline) << "and some do not";
  EXPECT_EQ(run.stats().nr_malformed, 0u);
  EXPECT_EQ(run.stats().nr_late, 0u);
  for (const auto& [cpu, measures] : run.measures)
    for (size_t i = 1; i < measures.size(); i++)
      ASSERT_GE(measures[i].start_ns, measures[i - 1].hdr.ts_ns);
}

TEST(Generator, TheLastCpuStays) {
  GeneratorOptions options = With(&GeneratorOptions::hotplugs_per_s, 1000);
  Machine two(options);
  EXPECT_GT(two.CountItems(ItemKind::kOffline), 0u);
  options.nr_cpus = 1;
  Machine one(options);
  EXPECT_EQ(one.CountItems(ItemKind::kOffline), 0u);
}

TEST(Generator, StepsTheClock) {
  Machine run(With(&GeneratorOptions::clock_steps_per_s, 50));
  EXPECT_GT(run.offsets.size(), 5u);
  EXPECT_NE(run.offsets.front(), run.facts().unix_offset_ns);
  for (size_t i = 1; i < run.offsets.size(); i++) EXPECT_NE(run.offsets[i], run.offsets[i - 1]);
  auto [least, most] = std::minmax_element(run.offsets.begin(), run.offsets.end());
  EXPECT_GT(*most - *least, 1'000 * static_cast<int64_t>(kMs)) << "not only a little";
}

TEST(Generator, SomeCpusAreMissing) {
  GeneratorOptions options = Short();
  options.nr_cpus = 4;
  options.nr_missing_cpus = 2;
  Machine run(options);
  EXPECT_EQ(run.facts().present_cpus, std::vector<int>({0, 1, 2, 3}));
  EXPECT_EQ(run.expected, std::set<int>({0, 1}));
  for (const ItemHeader& item : run.items)
    EXPECT_TRUE(item.stream < 2 || (item.kind != ItemKind::kRecords && item.kind != ItemKind::kOnline));
  EXPECT_EQ(run.stats().nr_messages, run.nr_messages());
}

TEST(Generator, NumbersWrap) {
  GeneratorOptions options = FewRmids(1);
  options.wrap = true;
  Machine run(options);
  for (const auto& [cpu, measures] : run.measures) {
    EXPECT_GT(measures.front().seq, UINT32_MAX - 100);
    EXPECT_LT(measures.back().seq, UINT32_MAX / 2);
    for (size_t i = 1; i < measures.size(); i++) ASSERT_EQ(measures[i].seq, measures[i - 1].seq + 1);
  }
  std::set<bool> seq_is_large, generation_is_large;
  for (const ss_rmid_event& event : run.RmidEvents({SS_RMID_ALLOC, SS_RMID_FREE})) {
    seq_is_large.insert(event.seq > UINT64_MAX / 2);
    generation_is_large.insert(event.generation > UINT32_MAX / 2);
  }
  EXPECT_EQ(seq_is_large.size(), 2u);
  EXPECT_EQ(generation_is_large.size(), 2u);
  EXPECT_GT(run.CountMeasures([](const ss_measure& m) {
    return std::any_of(std::begin(m.counters), std::end(m.counters),
                       [](const ss_counter& counter) { return counter.delta > UINT64_MAX / 2; });
  }),
            0u);
}

TEST(Generator, CountersAreWholeSharedOrMissing) {
  Machine run(With(&GeneratorOptions::switches_per_s, 20'000));
  size_t nr_whole = 0, nr_shared = 0, nr_missing = 0;
  for (const auto& [cpu, measures] : run.measures)
    for (const ss_measure& measure : measures) {
      const ss_counter& counter = measure.counters[SS_CYCLES];
      ASSERT_LE(counter.running_ns, counter.enabled_ns);
      if (measure.start_ns == measure.hdr.ts_ns) continue;
      ASSERT_EQ(counter.enabled_ns, measure.hdr.ts_ns - measure.start_ns);
      nr_whole += counter.running_ns == counter.enabled_ns;
      nr_shared += counter.running_ns > 0 && counter.running_ns < counter.enabled_ns;
      nr_missing += counter.running_ns == 0;
    }
  EXPECT_GT(nr_whole, 100 * nr_missing);
  EXPECT_GT(nr_shared, 0u);
  EXPECT_GT(nr_missing, 0u);
}

TEST(Generator, NoCountersIfAskedTo) {
  GeneratorOptions options = Short();
  options.no_counters = true;
  Machine run(options);
  EXPECT_EQ(run.facts().events, Facts().events);
  EXPECT_EQ(run.CountMeasures([](const ss_measure& m) {
    return std::any_of(std::begin(m.counters), std::end(m.counters), [](const ss_counter& counter) {
      return counter.delta || counter.enabled_ns || counter.running_ns;
    });
  }),
            0u);
}

// All at once: the merge still takes every item, and each message is counted somewhere.
TEST(Generator, AllFlawsTogetherStillGiveItems) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE(seed);
    Machine run(AllFlaws(seed));
    EXPECT_GT(run.stats().nr_lost, 0u);
    EXPECT_GT(run.stats().nr_malformed, 0u);
    // What was on its way into the ring of a CPU that went away is nowhere.
    EXPECT_LE(run.nr_received(), run.nr_messages());
    EXPECT_GT(run.nr_received(), run.nr_messages() / 2);
  }
}

}  // namespace
}  // namespace slotscope
