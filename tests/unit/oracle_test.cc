// SPDX-License-Identifier: MIT
// The engine against the oracle, on thousands of machines that do not exist: the same CSV byte for byte,
// and the same accounting to the unit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine.h"
#include "oracle.h"
#include "tests/gen/generator.h"

namespace slotscope {
namespace {

struct Case {
  GeneratorOptions machine;
  uint64_t slot_ns = 1'000'000;
  uint64_t window_ns = 64'000'000;
  bool changes_length = false;
  bool changes_causes = false;
};

// Something of everything, in every mixture; every fourth machine has nothing wrong with it.
Case RandomCase(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t limit) { return random() % limit; };
  auto sometimes = [&](uint64_t limit) { return random() % 3 ? 0 : random() % limit; };
  Case c;
  GeneratorOptions& machine = c.machine;
  machine.seed = random();
  machine.nr_cpus = 1 + below(8);
  machine.duration_ms = 20 + below(200);
  machine.nr_processes = 1 + below(60);
  machine.nr_kthreads = below(4);
  machine.nr_rmids = 2 + below(80);
  machine.switches_per_s = 1 + below(4000);
  machine.births_per_s = below(2000);
  machine.tick_jitter_ns = below(900'000);
  machine.wrap = below(2);
  machine.no_counters = below(5) == 0;
  machine.waits = below(3) > 0;
  if (below(2)) machine.nr_l3_domains = 1 + below(std::min<uint64_t>(machine.nr_cpus, 3));
  c.slot_ns = (1 + (below(2) ? 0 : below(20))) * 1'000'000;
  c.window_ns = (2 + below(70)) * 1'000'000;
  c.changes_length = below(4) == 0;
  c.changes_causes = below(3) == 0;
  if (seed % 4 == 0) return c;
  machine.nr_missing_cpus = sometimes(machine.nr_cpus);
  machine.lost_ppm = sometimes(50'000);
  machine.inverted_ppm = sometimes(200'000);
  machine.late_ppm = sometimes(30'000);
  machine.malformed_ppm = sometimes(20'000);
  machine.unknown_ppm = sometimes(20'000);
  machine.stalls_per_s = sometimes(20);
  machine.cpu_stalls_per_s = sometimes(30);
  machine.hotplugs_per_s = sometimes(60);
  machine.clock_steps_per_s = sometimes(60);
  machine.rdt_skipped_ppm = sometimes(900'000);
  machine.rdt_failed_ppm = sometimes(50'000);
  if (below(3) == 0) machine.nr_more = 1 + below(SS_MAX_MORE);
  return c;
}

// The first line that differs, of both.
std::string Difference(const std::string& a, const std::string& b) {
  size_t at =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  size_t line = a.rfind('\n', at ? at - 1 : 0) + 1;
  return "engine: " + a.substr(line, a.find('\n', line) - line) +
         "\noracle: " + b.substr(line, b.find('\n', line) - line);
}

struct Seen {
  uint64_t nr_rows = 0, nr_late = 0, nr_lost = 0, lost_ns = 0, offline_ns = 0, nr_malformed = 0,
           nr_unknown = 0, nr_reordered = 0, nr_stalls = 0, nr_late_state = 0, nr_steps = 0,
           nr_missed = 0, nr_late_pieces = 0, nr_unassigned = 0, nr_late_samples = 0, nr_unowned = 0,
           nr_longer = 0, earlier_ns = 0;
  std::array<uint64_t, kNrWaitCauses> earlier_by = {};
  WaitStats waits;
  std::array<uint64_t, kNrWaitCauses> wait_ns = {};
  std::array<uint64_t, SS_RDT_NR_STATUS> nr_with_status = {};
};

oracle::Values All(const Sums& sums, const MoreSums& more) {
  oracle::Values values = {};
  std::copy(sums.begin(), sums.end(), values.begin());
  for (size_t i = 0; i < more.size(); i++) {
    values[oracle::kMoreAt + 3 * i] = more[i].delta;
    values[oracle::kMoreAt + 3 * i + 1] = more[i].enabled_ns;
    values[oracle::kMoreAt + 3 * i + 2] = more[i].running_ns;
  }
  return values;
}

// Who ran is named of all but those of whom there are too many: then the others are right, and the sum.
void CompareEarlier(const EarlierWaits::Sums& engine, const auto& oracle, Seen* seen) {
  std::set<ProcessKey> has_unnamed;
  std::map<std::pair<ProcessKey, size_t>, uint64_t> engine_sums, oracle_sums;
  for (const auto& [of, ns] : engine) {
    const auto& [waiter, cause, ran] = of;
    engine_sums[{waiter, cause}] += ns;
    if (cause == kWaitOthers && ran == ProcessKey{}) has_unnamed.insert(waiter);
  }
  for (const auto& [of, ns] : oracle) {
    const auto& [waiter, cause, ran] = of;
    if (ns == 0) continue;
    const ProcessKey who = {waiter.first, waiter.second}, whom = {ran.first, ran.second};
    oracle_sums[{who, cause}] += ns;
    seen->earlier_by[cause] += ns;
    const auto said = engine.find({who, cause, whom});
    const uint64_t said_ns = said == engine.end() ? 0 : said->second;
    if (has_unnamed.contains(who))
      ASSERT_LE(said_ns, ns);
    else
      ASSERT_EQ(said_ns, ns) << who.tgid << " for " << whom.tgid << ", cause " << cause;
  }
  ASSERT_EQ(engine_sums, oracle_sums);
}

void Compare(const Case& c, Seen* seen) {
  Generator generator(c.machine);
  const Facts& facts = generator.facts();
  CsvEngine engine(facts, c.slot_ns, c.window_ns);
  std::set<size_t> lacking;
  for (size_t i = 0; i < facts.events.size(); i++)
    if (facts.events[i].empty())
      lacking.insert(i < SS_NR_COUNTERS ? 4 + i : oracle::kMoreAt + 3 * (i - SS_NR_COUNTERS));
  oracle::Oracle oracle({facts.present_cpus, facts.nr_streams, c.slot_ns, c.window_ns,
                         facts.unix_offset_ns, facts.rdt, facts.nr_more(), lacking, facts.has_waits});
  auto block = std::make_unique<Block>();
  std::mt19937_64 random(c.machine.seed);
  while (generator.Next(block.get())) {
    ASSERT_TRUE(engine.merger().OnItems(block->bytes()));
    oracle.Feed(block->bytes());
    if (c.changes_length && random() % 8 == 0) {
      const uint64_t slot_ns = random() % 2 ? c.slot_ns : (1 + random() % 20) * 1'000'000;
      block->Clear();
      block->Append({ItemKind::kSlotLength, 0, 0, 0, 0, engine.merger().clock_ns(), 0},
                    std::as_bytes(std::span(&slot_ns, 1)));
      ASSERT_TRUE(engine.merger().OnItems(block->bytes()));
      oracle.Feed(block->bytes());
    }
    if (c.changes_causes && random() % 8 == 0) {
      const uint64_t told = random() % 2;
      block->Clear();
      block->Append({ItemKind::kWaitCauses, 0, 0, 0, 0, engine.merger().clock_ns(), 0},
                    std::as_bytes(std::span(&told, 1)));
      ASSERT_TRUE(engine.merger().OnItems(block->bytes()));
      oracle.Feed(block->bytes());
    }
    if (random() % 4 == 0 && engine.builder().first_ns()) {
      ASSERT_NO_FATAL_FAILURE(engine.GoOnAnew());
    }
  }
  engine.Finish();
  oracle.Finish();

  ASSERT_EQ(engine.file.text == oracle.csv, true) << Difference(engine.file.text, oracle.csv);
  const Accounting& accounting = engine.builder().accounting();
  ASSERT_TRUE(accounting.Holds());
  ASSERT_EQ(All(accounting.received, accounting.more.received), oracle.received);
  ASSERT_EQ(All(accounting.written, accounting.more.written), oracle.written);
  ASSERT_EQ(All(accounting.late, accounting.more.late), oracle.late);
  ASSERT_EQ(All(accounting.before, accounting.more.before), oracle.before);
  ASSERT_EQ(All(accounting.after, accounting.more.after), oracle.after);
  ASSERT_EQ(accounting.wait_earlier_ns, oracle.earlier_ns);
  ASSERT_NO_FATAL_FAILURE(CompareEarlier(engine.earlier.sums(), oracle.earlier, seen));
  ASSERT_EQ(accounting.nr_slots, oracle.nr_slots);
  ASSERT_EQ(accounting.lost_ns, oracle.lost_ns);
  ASSERT_EQ(accounting.offline_ns, oracle.offline_ns);
  ASSERT_EQ(engine.csv.nr_rows(), oracle.nr_rows);
  const MergeStats& stats = engine.merger().stats();
  ASSERT_EQ(stats.nr_messages, oracle.nr_messages);
  ASSERT_EQ(stats.nr_malformed, oracle.nr_malformed);
  ASSERT_EQ(stats.nr_unknown, oracle.nr_unknown);
  ASSERT_EQ(stats.nr_lost, oracle.nr_lost);
  ASSERT_EQ(stats.nr_late, oracle.nr_late);
  ASSERT_EQ(engine.builder().stats().nr_missed_switches, oracle.nr_missed);
  ASSERT_EQ(accounting.mbm.received, oracle.mbm.received);
  ASSERT_EQ(accounting.mbm.written, oracle.mbm.written);
  ASSERT_EQ(accounting.mbm.late, oracle.mbm.late);
  ASSERT_EQ(accounting.mbm.before, oracle.mbm.before);
  ASSERT_EQ(accounting.mbm.after, oracle.mbm.after);
  ASSERT_EQ(accounting.mbm.unowned, oracle.mbm.unowned);
  ASSERT_EQ(engine.builder().rdt().nr_late, oracle.nr_late_samples);
  ASSERT_EQ(engine.builder().rdt().nr_unowned, oracle.nr_unowned);

  seen->nr_rows += oracle.nr_rows;
  seen->earlier_ns += oracle.earlier_ns;
  const WaitStats& waits = engine.builder().waits();
  seen->waits.nr_waits += waits.nr_waits;
  seen->waits.nr_sums += waits.nr_sums;
  seen->waits.nr_hidden += waits.nr_hidden;
  seen->waits.nr_phantom += waits.nr_phantom;
  for (size_t i = 0; i < kNrWaitCauses; i++) seen->wait_ns[i] += oracle.caused_ns[i];
  seen->nr_late += oracle.nr_late;
  seen->nr_lost += oracle.nr_lost;
  seen->lost_ns += oracle.lost_ns;
  seen->offline_ns += oracle.offline_ns;
  seen->nr_malformed += oracle.nr_malformed;
  seen->nr_unknown += oracle.nr_unknown;
  seen->nr_missed += oracle.nr_missed;
  seen->nr_reordered += stats.nr_reordered;
  seen->nr_stalls += stats.nr_stalls;
  seen->nr_late_state += engine.builder().tracker().stats().nr_late;
  seen->nr_late_pieces += engine.builder().stats().nr_late_pieces;
  auto count = [&](const char* what) {
    uint64_t nr = 0;
    for (size_t at = oracle.csv.find(what); at != std::string::npos; at = oracle.csv.find(what, at + 1))
      nr++;
    return nr;
  };
  seen->nr_steps += count("# unix_offset_ns");
  seen->nr_longer += accounting.slots_ns > accounting.nr_slots * c.slot_ns;
  seen->nr_unassigned += count(",unassigned,");
  seen->nr_late_samples += oracle.nr_late_samples;
  seen->nr_unowned += oracle.nr_unowned;
  for (size_t status = 0; status < SS_RDT_NR_STATUS; status++)
    seen->nr_with_status[status] += count(fmt::format(",{},,,,,", kRdtStatusNames[status]).c_str());
}

// SLOTSCOPE_ORACLE_CASES=100000 looks further.
uint64_t NrCases() {
  const char* text = std::getenv("SLOTSCOPE_ORACLE_CASES");
  return text ? std::strtoull(text, nullptr, 10) : 2000;
}

TEST(Oracle, SaysTheSameOfThousandsOfMachines) {
  Seen seen;
  for (uint64_t seed = 1; seed <= NrCases(); seed++) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(Compare(RandomCase(seed), &seen));
  }
  if (NrCases() < 2000) return;
  // Every case that the machines are made for has happened, and often.
  EXPECT_GT(seen.nr_rows, 500'000u);
  EXPECT_GT(seen.nr_late, 10'000u);
  EXPECT_GT(seen.nr_late_pieces, 1'000u);
  EXPECT_GT(seen.nr_late_state, 1'000u);
  EXPECT_GT(seen.nr_lost, 1'000u);
  EXPECT_GT(seen.lost_ns, 1'000'000'000u);
  EXPECT_GT(seen.offline_ns, 1'000'000'000u);
  EXPECT_GT(seen.nr_malformed, 1'000u);
  EXPECT_GT(seen.nr_unknown, 500u);
  EXPECT_GT(seen.nr_missed, 1'000u);
  EXPECT_GT(seen.nr_reordered, 10'000u);
  EXPECT_GT(seen.nr_stalls, 100u);
  EXPECT_GT(seen.nr_steps, 100u);
  EXPECT_GT(seen.nr_longer, 100u);
  EXPECT_GT(seen.nr_unassigned, 10'000u);
  EXPECT_GT(seen.nr_late_samples, 1'000u);
  EXPECT_GT(seen.nr_unowned, 100u);
  EXPECT_GT(seen.waits.nr_waits, 10'000u);
  EXPECT_GT(seen.waits.nr_sums, 1'000u);
  EXPECT_GT(seen.waits.nr_hidden, 1'000u);
  EXPECT_GT(seen.waits.nr_phantom, 1'000u);
  EXPECT_GT(seen.earlier_ns, 1'000'000'000u);
  for (size_t i = 0; i < kNrWaitCauses; i++)
    EXPECT_GT(seen.earlier_by[i], 1'000'000u) << kWaitCauseNames[i];
  for (size_t cause : {kWaitOthers, kWaitSelf, kWaitWakeup, kWaitUnknown})
    EXPECT_GT(seen.wait_ns[cause], 1'000'000'000u) << cause;
  for (size_t status = 0; status < SS_RDT_NR_STATUS; status++)
    EXPECT_GT(seen.nr_with_status[status], 200u) << kRdtStatusNames[status];
}

}  // namespace
}  // namespace slotscope
