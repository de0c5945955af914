// SPDX-License-Identifier: MIT
// The batch: whatever is sent for measures gives the same rows as the measures themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <slotscope/batch.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
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
    interval.start_time_ns = measure.start_time_ns;
    interval.tgid = measure.tgid;
    interval.rmid = measure.rmid;
    interval.generation = measure.generation;
    interval.flags = measure.flags & ~SS_INTERVAL_HAS;
    interval.seq = measure.seq;
    return ss_batch_add_interval(&batch_, &interval, measure.hdr.ts_ns, measure.next_tgid);
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

}  // namespace
}  // namespace slotscope
