// SPDX-License-Identifier: MIT
// The batch: whatever is sent for measures gives the same rows as the measures themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <slotscope/batch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "items.h"
#include "tests/gen/generator.h"

namespace slotscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

// As ss_cpu_measure() of bpf/cpu.bpf.h and ss_send_measure() of bpf/batch.bpf.h. What is short enough to
// be added without a measure goes this way, too, and beside it the long way: both must send the same.
class Batcher {
 public:
  explicit Batcher(uint32_t nr_more = 0) : nr_more_(nr_more) {}

  void Send(const ss_measure& measure) { Send(ss_long_measure{measure, {}}); }
  void Send(const ss_long_measure& measure) {
    nr_in++;
    std::vector<ss_long_measure> sent_long;
    SendLong(&long_, measure, &sent_long);
    const size_t nr_sent = sent.size();
    if (ss_batch_measured(&measure, nr_more_) == 0 && AddInterval(measure.measure))
      nr_short++;
    else
      SendLong(&batch_, measure, &sent);
    ExpectSame(sent_long, nr_sent);
  }
  void Flush() {
    std::vector<ss_long_measure> sent_long;
    const size_t nr_sent = sent.size();
    Flush(&long_, &sent_long);
    Flush(&batch_, &sent);
    ExpectSame(sent_long, nr_sent);
  }
  bool on() const { return batch_.on; }
  uint32_t nr_more() const { return nr_more_; }

  std::vector<ss_long_measure> sent;
  uint64_t nr_in = 0;
  uint64_t nr_short = 0;  // of nr_in

 private:
  bool AddInterval(const ss_measure& measure) {
    if (measure.flags & SS_MEASURE_TICK) return false;
    ss_interval interval = {};
    interval.last_ns = measure.start_ns;
    interval.wait_ns = measure.wait_ns;
    interval.switches = measure.switches;
    interval.preemptions = measure.preemptions;
    interval.migrations = measure.migrations;
    interval.start_time_ns = measure.start_time_ns;
    interval.tgid = measure.tgid;
    interval.rmid = measure.rmid;
    interval.generation = measure.generation;
    interval.flags = measure.flags & ~(SS_INTERVAL_HAS | SS_MEASURE_LEFT);
    interval.seq = measure.seq;
    return ss_batch_add_interval(&batch_, &interval, measure.hdr.ts_ns, measure.next_tgid,
                                 measure.flags & SS_MEASURE_LEFT);
  }

  void SendLong(ss_batch* batch, ss_long_measure measure, std::vector<ss_long_measure>* to) const {
    int verdict = ss_batch_add(batch, &measure, nr_more_, 0);
    if (verdict == SS_BATCH_KEPT) return;
    if (verdict != SS_BATCH_SEND) Flush(batch, to);
    if (verdict == SS_BATCH_FLUSH && ss_batch_add(batch, &measure, nr_more_, 1) == SS_BATCH_KEPT) return;
    ss_batch_number(batch, &measure.measure);
    to->push_back(measure);
  }

  static void Flush(ss_batch* batch, std::vector<ss_long_measure>* to) {
    __u64 at_ns = batch->from_ns;
    for (uint32_t i = 0; i < 2 * SS_BATCH_ROWS; i++)
      if (ss_batch_take(batch, i & SS_BATCH_MASK, i / SS_BATCH_ROWS, &at_ns))
        to->push_back(batch->rows[i & SS_BATCH_MASK]);
    EXPECT_EQ(batch->used, 0u);
  }

  void ExpectSame(const std::vector<ss_long_measure>& sent_long, size_t from) const {
    ASSERT_EQ(sent.size() - from, sent_long.size());
    for (size_t i = 0; i < sent_long.size(); i++)
      ASSERT_EQ(std::memcmp(&sent[from + i], &sent_long[i], sizeof(sent_long[i])), 0);
    ASSERT_EQ(std::memcmp(&batch_, &long_, offsetof(ss_batch, rows)), 0);
  }

  uint32_t nr_more_;
  ss_batch batch_ = {}, long_ = {};
};

std::string FinishCleanly(CsvEngine* engine) {
  const std::string& text = engine->Finish();
  EXPECT_TRUE(engine->builder().accounting().Holds());
  EXPECT_EQ(engine->merger().stats().nr_late, 0u);
  EXPECT_EQ(engine->merger().stats().nr_malformed, 0u);
  return text;
}

// The records of one drain, its measures through the CPU's batch.
std::vector<std::byte> ThroughBatch(Batcher* batcher, std::span<const std::byte> records) {
  Records out;
  for (size_t at = 0; at < records.size();) {
    perf_event_header header;
    std::memcpy(&header, records.data() + at, sizeof(header));
    auto record = records.subspan(at, header.size);
    at += header.size;
    ss_long_measure measure = {};
    ss_hdr& hdr = measure.measure.hdr;
    std::memcpy(&hdr, record.data() + 12, sizeof(hdr));
    if (header.type != PERF_RECORD_SAMPLE || hdr.type != SS_MEASURE) {
      out.Bytes(record);
      continue;
    }
    const size_t size = sizeof(ss_measure) + batcher->nr_more() * sizeof(ss_counter);
    std::memcpy(&measure, record.data() + 12, hdr.size);
    hdr.size = static_cast<uint16_t>(size);  // as ss_output_measure() says it
    batcher->Send(measure);
    for (const ss_long_measure& sent : batcher->sent) out.Message(sent, size);
    batcher->sent.clear();
  }
  return {out.bytes().begin(), out.bytes().end()};
}

struct Compared {
  std::string plain, batched;
  uint64_t nr_seq_gaps_plain, nr_seq_gaps_batched;
  double sent_per_measure, short_per_measure;
};

Compared Compare(const GeneratorOptions& options) {
  Generator generator(options);
  CsvEngine plain(generator.facts(), kMs, 64 * kMs), batched(generator.facts(), kMs, 64 * kMs);
  const auto nr_more = static_cast<uint32_t>(options.nr_more);
  std::map<uint32_t, Batcher> batchers;
  auto block = std::make_unique<Block>();
  while (generator.Next(block.get())) {
    EXPECT_TRUE(plain.merger().OnItems(block->bytes()));
    Items items;
    for (auto bytes = block->bytes(); !bytes.empty();) {
      ItemHeader item;
      std::memcpy(&item, bytes.data(), sizeof(item));
      auto payload = bytes.subspan(sizeof(item), item.size);
      if (item.kind == ItemKind::kRecords)
        items.Add(item.kind, item.stream, item.begin_ns, item.end_ns,
                  ThroughBatch(&batchers.try_emplace(item.stream, nr_more).first->second, payload),
                  item.flags);
      else
        items.Add(item.kind, item.stream, item.begin_ns, item.end_ns, payload, item.flags);
      bytes = bytes.subspan(sizeof(item) + item.size);
    }
    EXPECT_TRUE(batched.merger().OnItems(items.bytes()));
  }
  Compared result;
  result.plain = FinishCleanly(&plain);
  result.batched = FinishCleanly(&batched);
  result.nr_seq_gaps_plain = plain.builder().stats().nr_seq_gaps;
  result.nr_seq_gaps_batched = batched.builder().stats().nr_seq_gaps;
  uint64_t nr_in = 0, nr_short = 0;
  for (const auto& [cpu, batcher] : batchers) {
    nr_in += batcher.nr_in;
    nr_short += batcher.nr_short;
  }
  result.sent_per_measure = static_cast<double>(batched.merger().stats().nr_messages) /
                            static_cast<double>(plain.merger().stats().nr_messages);
  result.short_per_measure = static_cast<double>(nr_short) / static_cast<double>(nr_in);
  EXPECT_GT(nr_in, 0u);
  return result;
}

// The batched run lacks the end of its last slot, as a recording does; all before it is the same.
void ExpectSameRows(const Compared& compared) {
  ASSERT_GT(compared.batched.size(), 1000u);
  ASSERT_TRUE(compared.plain.starts_with(compared.batched));
  EXPECT_GT(compared.batched.size(), compared.plain.size() * 95 / 100);
}

TEST(Batch, GivesTheSameRowsForEveryMachine) {
  double best = 1, shortest = 0;
  for (uint64_t seed = 1; seed <= 120; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    GeneratorOptions options;
    options.seed = seed;
    options.nr_cpus = 1 + random() % 4;
    options.duration_ms = 120;
    options.nr_processes = 1 + random() % 40;
    options.switches_per_s = 1000 + random() % 300'000;
    options.births_per_s = random() % 2000;
    options.nr_rmids = 2 + random() % 60;
    options.tick_jitter_ns = random() % 900'000;
    options.unknown_ppm = random() % 2 ? 0 : 1000;
    options.wrap = random() % 2;
    options.no_counters = random() % 4 == 0;
    if (random() % 3 == 0) options.nr_more = 1 + random() % SS_MAX_MORE;
    Compared compared = Compare(options);
    ASSERT_NO_FATAL_FAILURE(ExpectSameRows(compared));
    EXPECT_EQ(compared.nr_seq_gaps_batched, 0u);
    best = std::min(best, compared.sent_per_measure);
    shortest = std::max(shortest, compared.short_per_measure);
  }
  EXPECT_LT(best, 0.2) << "no machine of all profited";
  EXPECT_GT(shortest, 0.8) << "on no machine most went the short way";
}

// What got lost on the way to the batch is a gap, in time and in numbers, as it was without it.
TEST(Batch, WhatIsMissingIsMissingAfterIt) {
  GeneratorOptions options;
  options.duration_ms = 200;
  options.nr_processes = 4;
  options.switches_per_s = 100'000;
  options.lost_ppm = 500;
  Compared compared = Compare(options);
  ASSERT_NO_FATAL_FAILURE(ExpectSameRows(compared));
  EXPECT_GT(compared.nr_seq_gaps_plain, 5u);
  EXPECT_GT(compared.nr_seq_gaps_batched, 5u);
}

TEST(Batch, ASumKeepsWhoRanAfterTheLastPreemption) {
  Batcher batcher;
  uint64_t at_ns = 0;
  uint32_t seq = 0;
  auto run = [&](int32_t tgid, int32_t next, uint32_t preemptions) {
    ss_measure measure = MakeMeasure(0, at_ns, at_ns + 1000);
    measure.tgid = tgid;
    measure.next_tgid = next;
    measure.switches = 1;
    measure.preemptions = preemptions;
    measure.seq = seq++;
    at_ns += 1000;
    batcher.Send(measure);
  };
  while (!batcher.on()) run(1, 2, 0);
  while (at_ns % kMs) run(1, 2, 0);
  batcher.Flush();
  batcher.sent.clear();
  run(1, 8, 1);
  run(8, 1, 0);
  run(1, 9, 1);
  run(9, 1, 0);
  run(1, 8, 0);
  batcher.Flush();
  ASSERT_EQ(batcher.sent.size(), 3u);
  for (const auto& [sum, more] : batcher.sent)
    if (sum.tgid == 1) {
      EXPECT_EQ(sum.next_tgid, 9);
      EXPECT_EQ(sum.preemptions, 2u);
      EXPECT_EQ(sum.switches, 3u);
      EXPECT_EQ(sum.hdr.ts_ns - sum.start_ns, 3000u);
    }
}

// They may be switched off within a slot: what was not counted must not stand beside what was as if it
// were.
TEST(Batch, ARowWithCountersGetsNoneWithoutThem) {
  Batcher batcher;
  uint64_t at_ns = 0;
  uint32_t seq = 0;
  auto run = [&](uint64_t running_ns) {
    ss_measure measure = MakeMeasure(0, at_ns, at_ns + 1000);
    for (ss_counter& counter : measure.counters) counter = {running_ns, running_ns, running_ns};
    measure.seq = seq++;
    at_ns += 1000;
    batcher.Send(measure);
  };
  while (!batcher.on()) run(0);
  while (at_ns % kMs) run(0);
  batcher.Flush();
  batcher.sent.clear();
  const uint64_t nr_short = batcher.nr_short;
  for (int i = 0; i < 3; i++) run(1000);
  for (int i = 0; i < 3; i++) run(0);
  EXPECT_EQ(batcher.nr_short - nr_short, 2u) << "but those beside each other go the short way";
  batcher.Flush();
  ASSERT_EQ(batcher.sent.size(), 2u);
  std::vector<uint64_t> running_ns;
  for (const auto& [sum, more] : batcher.sent) running_ns.push_back(sum.counters[0].running_ns);
  EXPECT_THAT(running_ns, testing::UnorderedElementsAre(3000u, 0u));
}

TEST(Batch, BeginsByItselfAndEndsWhenItDoesNotPay) {
  Batcher batcher;
  uint64_t at_ns = 0;
  auto run_slot = [&](int nr_measures, int nr_processes) {
    const uint64_t length_ns = kMs / static_cast<uint64_t>(nr_measures);
    for (int i = 0; i < nr_measures; i++) {
      const uint64_t end_ns = i + 1 == nr_measures ? at_ns - at_ns % kMs + kMs : at_ns + length_ns;
      ss_measure measure = MakeMeasure(0, at_ns, end_ns);
      measure.tgid = i % nr_processes;
      batcher.Send(measure);
      at_ns = end_ns;
    }
  };
  for (int i = 0; i < 10; i++) run_slot(20, 2);
  EXPECT_FALSE(batcher.on()) << "few measures";
  run_slot(100, 2);
  run_slot(100, 2);
  EXPECT_TRUE(batcher.on());
  batcher.sent.clear();
  run_slot(100, 2);
  run_slot(100, 2);
  EXPECT_LE(batcher.sent.size(), 6u);
  for (int i = 0; i < 50; i++) run_slot(3, 3);
  EXPECT_TRUE(batcher.on()) << "it waits for the next burst";
  for (int i = 0; i < 60; i++) run_slot(3, 3);
  EXPECT_FALSE(batcher.on());
  run_slot(100, 100);  // as many processes as measures
  for (int i = 0; i < 3; i++) run_slot(100, 100);
  EXPECT_FALSE(batcher.on()) << "there is nothing to add up";
  for (int i = 0; i < 20; i++) run_slot(100, 2);
  EXPECT_FALSE(batcher.on()) << "not tried again at once";
  for (int i = 0; i < 100; i++) run_slot(100, 2);
  EXPECT_TRUE(batcher.on());
}

// One CPU whose processes run one after the other and wait for each other; what is told of that, and the
// truth, by who waited and who ran (-1: not known; 0: nobody).
class WaitingCpu {
 public:
  using Sums = std::map<std::pair<int32_t, int32_t>, uint64_t>;

  WaitingCpu() {
    batch_.on = 1;
    runs_.push_back({0, now_ns_});
  }

  // Somebody who has waited for `wait_ns` runs until end_ns.
  void Run(int32_t tgid, uint64_t end_ns, uint64_t wait_ns, bool cut) {
    ss_long_measure measure = {};
    ss_measure& head = measure.measure;
    head.hdr.ts_ns = end_ns;
    head.start_ns = now_ns_;
    head.tgid = tgid;
    head.seq = seq_++;
    head.start_time_ns = tgid ? 1 : 0;
    head.switches = 1;
    head.wait_ns = wait_ns;
    head.flags = (tgid ? 0 : SS_MEASURE_IDLE) | (wait_ns ? SS_MEASURE_ONE_WAIT : 0);
    head.cut_ns = cut ? CutOf(tgid, wait_ns) : 0;
    const uint32_t cut_ns = head.cut_ns;
    Tell(tgid, wait_ns, cut_ns);
    int verdict = ss_batch_add(&batch_, &measure, 0, 0);
    if (verdict == SS_BATCH_FLUSH || verdict == SS_BATCH_FLUSH_AND_SEND) Flush();
    if (verdict == SS_BATCH_FLUSH) verdict = ss_batch_add(&batch_, &measure, 0, 1);
    if (verdict == SS_BATCH_KEPT) {
      const ss_batch_waited waited = {now_ns_, end_ns, wait_ns, 0, 0, cut_ns, 0};
      before_ns += ss_batch_take_waits(&batch_, &waited);
    } else {
      before_ns += wait_ns;  // on its measure
      nr_single++;
      ss_batch_number(&batch_, &head);
    }
    now_ns_ = end_ns;
    runs_.push_back({tgid, end_ns});
  }

  void Flush() {
    uint64_t nr_told = 0;
    for (uint32_t i = 0; i < SS_BATCH_PAIRS + SS_BATCH_ROWS; i++) {
      ss_wait wait = {};
      if (!ss_batch_take_wait(&batch_, i, &wait)) continue;
      nr_told++;
      EXPECT_EQ(wait.start_ns, batch_.from_ns);
      EXPECT_EQ(wait.end_ns, batch_.to_ns);
      const int32_t ran = wait.flags & SS_WAIT_FAR    ? -1
                          : wait.flags & SS_WAIT_IDLE ? 0
                          : wait.flags & SS_WAIT_OWN  ? wait.tgid
                                                      : wait.ran_tgid;
      told[{wait.tgid, ran}] += wait.wait_ns;
    }
    EXPECT_EQ(nr_told > 0, batch_.waits.any == 1);
    batch_.waits.any = 0;
    __u64 at_ns = batch_.from_ns;
    for (uint32_t i = 0; i < 2 * SS_BATCH_ROWS; i++)
      if (ss_batch_take(&batch_, i & SS_BATCH_MASK, i / SS_BATCH_ROWS, &at_ns)) {
        EXPECT_EQ(batch_.rows[i & SS_BATCH_MASK].measure.wait_ns, 0u) << "it is told by itself";
      }
  }

  Sums told, truth;
  uint64_t before_ns = 0, truth_before_ns = 0, nr_single = 0;
  uint64_t now_ns() const { return now_ns_; }

 private:
  struct Ran {
    int32_t tgid;
    uint64_t end_ns;
  };

  // By how much it reaches into the last run of the same one.
  uint32_t CutOf(int32_t tgid, uint64_t wait_ns) const {
    const uint64_t begin_ns = now_ns_ - wait_ns;
    for (size_t i = runs_.size() - 1; i-- > 1;)
      if (runs_[i].tgid == tgid)
        return runs_[i].end_ns > begin_ns ? static_cast<uint32_t>(runs_[i].end_ns - begin_ns) : 0;
    return 0;
  }

  // Of what lies in the batch that the wait is added to, if it is added to one.
  void Tell(int32_t tgid, uint64_t wait_ns, uint64_t cut_ns) {
    if (wait_ns == 0) return;
    const bool in_slot = batch_.used && now_ns_ == batch_.to_ns && now_ns_ < batch_.slot_end_ns;
    const uint64_t from_ns = in_slot ? batch_.from_ns : now_ns_;
    const uint64_t begin_ns = now_ns_ - wait_ns + cut_ns;
    const uint64_t left_ns = begin_ns < from_ns ? 0 : cut_ns;
    truth_before_ns += begin_ns < from_ns ? from_ns - begin_ns + cut_ns : 0;
    bool is_first = true;
    for (size_t i = 1; i < runs_.size(); i++) {
      const uint64_t a = std::max({runs_[i - 1].end_ns, begin_ns, from_ns}), b = runs_[i].end_ns;
      if (b <= a) continue;
      truth[{tgid, runs_[i].tgid}] += b - a + (std::exchange(is_first, false) ? left_ns : 0);
    }
  }

  ss_batch batch_ = {};
  uint64_t now_ns_ = 5 * kMs;
  uint32_t seq_ = 0;
  std::vector<Ran> runs_;
};

TEST(Batch, WaitsAreCutToTheNanosecondAmongFewRuns) {
  std::mt19937_64 random(1);
  WaitingCpu cpu;
  uint64_t waited_ns = 0;
  for (int i = 0; i < 20'000; i++) {
    const auto tgid = static_cast<int32_t>(random() % 4);
    const uint64_t slot_end_ns = cpu.now_ns() - cpu.now_ns() % kMs + kMs;
    const uint64_t end_ns = std::min(cpu.now_ns() + 1 + random() % 20'000, slot_end_ns);
    // No run is shorter than that on the average, so it ends among the last ones; some reach out.
    const uint64_t wait_ns = tgid && random() % 2 ? random() % 60'000 : 0;
    cpu.Run(tgid, end_ns, wait_ns, false);
    waited_ns += wait_ns;
  }
  cpu.Flush();
  uint64_t far_ns = 0, told_ns = cpu.before_ns;
  for (const auto& [pair, ns] : cpu.told) {
    told_ns += ns;
    if (pair.second == -1)
      far_ns += ns;
    else
      EXPECT_LE(ns, cpu.truth[pair]) << pair.first << " for " << pair.second;
  }
  EXPECT_EQ(told_ns, waited_ns) << "nothing is lost, or told twice";
  EXPECT_LT(far_ns, waited_ns / 100);
  EXPECT_EQ(cpu.before_ns, cpu.truth_before_ns);
  uint64_t wrong_ns = 0;
  for (const auto& [pair, ns] : cpu.truth) wrong_ns += ns - cpu.told[pair];
  EXPECT_EQ(wrong_ns, far_ns);
}

TEST(Batch, AWaitThatSeemsToBeginInItsOwnRunIsForWhoCameNext) {
  WaitingCpu cpu;
  const uint64_t start_ns = cpu.now_ns();
  cpu.Run(1, start_ns + 1000, 0, false);
  cpu.Run(2, start_ns + 1500, 0, false);
  cpu.Run(3, start_ns + 1600, 0, false);
  cpu.Run(1, start_ns + 1700, 900, true);  // it ran until 1000, and says that it waited from 700 on
  cpu.Flush();
  EXPECT_EQ(cpu.told, (WaitingCpu::Sums{{{1, 2}, 800}, {{1, 3}, 100}}));
  EXPECT_EQ(cpu.told, cpu.truth);
}

TEST(Batch, AWaitBehindManyRunsIsForSomebodyOfTheBatch) {
  WaitingCpu cpu;
  const uint64_t start_ns = cpu.now_ns();
  for (uint64_t i = 0; i < 40; i++)
    cpu.Run(1 + static_cast<int32_t>(i % 2), start_ns + 10 * (i + 1), 0, false);
  cpu.Run(3, start_ns + 500, 390, false);
  cpu.Flush();
  const uint64_t far_ns = cpu.told[std::pair(3, -1)];
  EXPECT_EQ(far_ns + cpu.told[std::pair(3, 1)] + cpu.told[std::pair(3, 2)], 390u);
  EXPECT_EQ(far_ns, 390 - (SS_BATCH_RUNS - 1) * 10);
}

}  // namespace
}  // namespace slotscope
