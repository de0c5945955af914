// SPDX-License-Identifier: MIT
// What the host saw of the ranks of a hang.
#include "detect/host/host_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "detect/host/host_recorder.h"
#include "detect/host/slots_csv.h"
#include "temp_folder.h"

namespace slotscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

nlohmann::ordered_json EvidenceAsJson(const HostHistory& history, const NcclHang& hang,
                                      const IsAliveFn& is_alive) {
  return HostEvidenceJson(HostEvidenceOf(history, hang, is_alive));
}

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kUnixOffset = 1'700'000'000'000'000'000;

// ---- which process is a rank

TEST(RankNote, IsReadAsItIsWritten) {
  const auto note = ParseRankNote(RankNoteText({3, 4711, "python3"}));
  ASSERT_TRUE(note);
  EXPECT_EQ(note->rank, 3);
  EXPECT_EQ(note->tgid, 4711);
  EXPECT_EQ(note->comm, "python3");
  for (const char* text : {"", "rank 3", "rank 3 is process x (a)", "rank -1 is process 5 (a)",
                           "ranks 0, 1 wait in nccl:all_reduce 7", "rank 3 is process 5 (a"})
    EXPECT_FALSE(ParseRankNote(text)) << text;
  const std::string end = RankEndText({3, 4711, "python3"});
  EXPECT_FALSE(ParseRankNote(end)) << end;
  EXPECT_FALSE(ParseRankEnd(RankNoteText({3, 4711, "python3"})));
  ASSERT_TRUE(ParseRankEnd(end)) << end;
  EXPECT_EQ(ParseRankEnd(end)->tgid, 4711);
  EXPECT_EQ(ParseRankEnd(end)->comm, "python3");
}

// Those who are there only for a moment do not take the place of one who works.
TEST(HostHistory, WhoIsQuietGoesFirst) {
  HostHistory history(kMs, 3600 * 1000 * kMs);
  history.SetRank({0, 10, "job"}, kMs);
  for (int32_t i = 0; i < 5000; i++) {
    history.SetRank({100 + i, 1000 + i, "forged"}, (2 + i) * kMs);
    HostSample sample;
    sample.start_ns = (2 + i) * kMs;
    history.Add(10, 7, "job", sample);
  }
  EXPECT_TRUE(history.IsRank(10));
  EXPECT_TRUE(history.IsRank(1000 + 4999));
  EXPECT_FALSE(history.IsRank(1000)) << "it is bounded";
}

// ---- what is kept of it

struct Host {
  explicit Host(int64_t bucket_ns = kMs, int64_t keep_ns = 0) : recorder(bucket_ns, keep_ns, nullptr) {}

  // A slot with a row of each of these processes.
  struct Use {
    int32_t tgid;
    uint64_t cpu_ns, wait_ns = 0;
    uint64_t began_ns = 1000;
    uint64_t others_ns = 0;  // of wait_ns; 0: the slot does not say why
  };
  void AddSlot(int64_t at_ms, const std::vector<Use>& uses, const std::vector<std::string>& notes = {}) {
    Slot slot;
    slot.start_ns = static_cast<uint64_t>(at_ms * kMs);
    slot.end_ns = slot.start_ns + static_cast<uint64_t>(kMs);
    slot.unix_offset_ns = kUnixOffset;
    slot.notes = notes;
    for (const Use& use : uses) {
      Row row;
      row.key = {use.tgid, use.began_ns};
      row.named = true;
      const std::string comm = "p" + std::to_string(use.tgid);
      std::copy(comm.begin(), comm.end(), row.comm.begin());
      row.sums[kCpuNs] = use.cpu_ns;
      row.sums[kWaitNs] = use.wait_ns;
      if (use.others_ns) {
        slot.wait_causes = static_cast<WaitCauses>((1u << kNrWaitCauses) - 1);
        slot.waits.emplace_back().ns = {use.others_ns, use.wait_ns - use.others_ns};
        row.wait = static_cast<uint32_t>(slot.waits.size());
      }
      slot.rdt.push_back({{4096, 0, 0}, 1u << kMbmLocal, SS_RDT_OK});
      row.beside = static_cast<uint32_t>(slot.rdt.size());
      slot.rows.push_back(row);
    }
    if (lost_ns) {
      Row row;
      row.kind = RowKind::kLost;
      row.sums[kCpuNs] = lost_ns;
      slot.rows.push_back(row);
    }
    slot.wait_details = std::move(waits);
    waits.clear();
    recorder.OnSlot(&slot);
  }
  nlohmann::ordered_json Evidence(const NcclHang& hang, const IsAliveFn& is_alive = {}) {
    return recorder.Look(
        [&](const HostHistory& history) { return EvidenceAsJson(history, hang, is_alive); });
  }

  HostRecorder recorder;
  std::vector<WaitDetail> waits;  // of the next slot
  uint64_t lost_ns = 0;           // of the next ones
};

// Ranks 0 and 1 wait, 2 does not come, since that millisecond.
NcclHang HangAt(int64_t ms) {
  NcclHang hang;
  const int64_t at_ns = kUnixOffset + ms * kMs;
  hang.hanging_ranks = {0, 1};
  hang.since_ns = {at_ns, at_ns + kMs};
  hang.suspects = {{2, NcclSuspect::Why::kLacks, 0}};
  hang.earliest_ns = at_ns;
  return hang;
}

const std::vector<std::string> kRanks = {"rank 0 is process 10 (p10)", "rank 1 is process 11 (p11)",
                                         "rank 2 is process 12 (p12)"};

TEST(HostEvidence, SaysWhatEachRankDid) {
  Host host;
  for (int64_t ms = 0; ms < 3000; ms++) {
    std::vector<Host::Use> uses = {{10, 1'000'000}, {11, 100'000, 900'000}};
    if (ms < 990) uses.push_back({12, 500'000});
    host.lost_ns = ms == 1200 ? 250'000 : 0;
    if (ms == 1005)
      host.waits = {{{11, 1000}, {}, kWaitOthers, {10, 1000}, {'p', '1', '0'}, 0, 0, 0, 700'000, 2},
                    {{11, 1000}, {}, kWaitSelf, {}, {}, 0, 0, 0, 3'000'000, 2},
                    {{99, 1}, {}, kWaitOthers, {10, 1000}, {'p', '1', '0'}, 0, 0, 0, 5, 1}};
    host.AddSlot(ms, uses, ms == 0 ? kRanks : std::vector<std::string>());
  }
  const auto evidence = host.Evidence(HangAt(1000));
  ASSERT_EQ(evidence.size(), 3u);
  EXPECT_EQ(evidence[0]["rank"], 2);
  EXPECT_EQ(evidence[0]["role"], "suspect");
  EXPECT_EQ(evidence[0]["state"], "silent");
  EXPECT_EQ(evidence[0]["cpu_ms"], 95.0) << "190 ms before, half of each";
  EXPECT_EQ(evidence[0]["slots"].size(), 6u) << "16 before, less the last 10";
  EXPECT_EQ(evidence[1]["rank"], 0);
  EXPECT_EQ(evidence[1]["role"], "hanging");
  EXPECT_EQ(evidence[1]["state"], "on_cpu");
  EXPECT_EQ(evidence[1]["cpu_ms"], 1000.0);
  EXPECT_EQ(evidence[1]["lost_ms"], 0.25);
  EXPECT_EQ(evidence[1]["mbm_total_bytes"], 4096 * 1000);
  EXPECT_FALSE(evidence[1].contains("gpu_active_ms")) << "it was not measured";
  EXPECT_EQ(evidence[1]["slots"].size(), 64u);
  EXPECT_EQ(evidence[1]["slots"][0]["at"], "2023-11-14T22:13:20.984000Z");
  EXPECT_EQ(evidence[1]["slots"][0]["cpu_us"], 1000.0);
  EXPECT_EQ(evidence[2]["state"], "waiting");
  EXPECT_EQ(evidence[2]["wait_ms"], 900.0);
  ASSERT_EQ(evidence[2]["ran_instead"].size(), 1u);
  EXPECT_EQ(evidence[2]["ran_instead"][0],
            nlohmann::ordered_json({{"pid", 10}, {"comm", "p10"}, {"ms", 0.7}}));
  EXPECT_FALSE(evidence[2].contains("wait_cause")) << "its rows do not say why it waited";
}

// Who is to blame is said of a wait that matters, and was for most of it for one other.
TEST(HostEvidence, ACulpritRanForMostOfAWaitThatMatters) {
  const struct {
    uint64_t wait_us, others_us, ran_us;  // in each ms
    const char* cause;
    bool has_culprit;
  } kCases[] = {{900, 800, 700, "others", true},
                {900, 800, 300, "others", false},  // several ran
                {90, 80, 70, "others", false},     // that is little
                {900, 400, 400, "self", false}};
  for (const auto& c : kCases) {
    Host host;
    for (int64_t ms = 0; ms < 3000; ms++) {
      host.waits = {
          {{12, 1000}, {}, kWaitOthers, {99, 1000}, {'h', 'o', 'g'}, 0, 0, 0, c.ran_us * 1000, 1}};
      host.AddSlot(ms, {{12, 10'000, c.wait_us * 1000, 1000, c.others_us * 1000}},
                   ms == 0 ? kRanks : std::vector<std::string>());
    }
    const auto seen = host.Evidence(HangAt(1000))[0];
    EXPECT_EQ(seen.value("wait_cause", ""), c.cause);
    ASSERT_EQ(seen.contains("culprit"), c.has_culprit) << c.wait_us << " " << c.ran_us;
    if (c.has_culprit) {
      EXPECT_EQ(seen["culprit"], nlohmann::ordered_json({{"pid", 99}, {"comm", "hog"}, {"ms", 700.0}}));
    }
  }
}

// Of a slots.csv, whose rows say for what it waited.
TEST(HostEvidence, SaysForWhatARankWaited) {
  const struct {
    const char* values;  // others, self, throttled
    const char* cause;
  } kCases[] = {{"600000,100000,0", "others"}, {"100000,0,600000", "throttled"}, {"0,0,0", ""}};
  for (const auto& c : kCases) {
    std::string text =
        "# slot_ns: 1000000\n# note: rank 2 is process 12 (p12)\n"
        "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,wait_ns,preemptions,"
        "mbm_total_bytes,gpu_active_ns,wait_others_ns,wait_self_ns,wait_throttled_ns\n";
    for (int64_t ms = 0; ms < 3000; ms++)
      text += std::to_string(ms * kMs) + "," + std::to_string(kUnixOffset + ms * kMs) +
              ",12,1000,p12,user,100000,700000,1,,," + c.values + "\n";
    const TempFolder folder;
    folder.Write("slots.csv", text);
    HostHistory history(kMs, 0);
    const Status status = ReadSlotsCsv(folder.At("slots.csv"), &history);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto evidence = EvidenceAsJson(history, HangAt(1000), {});
    EXPECT_EQ(evidence[0].value("wait_cause", ""), c.cause);
    EXPECT_FALSE(evidence[0].contains("culprit")) << "a plain file does not know that";
    EXPECT_FALSE(evidence[0].contains("gpu_no_work_ms"));
  }
}

TEST(HostEvidence, AsleepGoneOrWhoKnows) {
  Host host;
  for (int64_t ms = 0; ms < 3000; ms++)
    host.AddSlot(ms, ms == 2500 ? std::vector<Host::Use>{{12, 1}} : std::vector<Host::Use>{{10, 1}},
                 ms == 0 ? kRanks : std::vector<std::string>());
  EXPECT_EQ(host.Evidence(HangAt(1000))[0]["state"], "asleep") << "it has run later";
  const auto later = host.Evidence(HangAt(2800));
  EXPECT_EQ(later[0]["state"], "silent");
  EXPECT_EQ(later[0]["cpu_ms"], 0.0);
  EXPECT_FALSE(later[0].contains("mbm_total_bytes")) << "without a row nothing is known of it";
  EXPECT_EQ(host.Evidence(HangAt(2800), [](int32_t, uint64_t) { return true; })[0]["state"], "asleep");
  EXPECT_EQ(host.Evidence(HangAt(2600),
                          [](int32_t tgid, uint64_t began_ns) {
                            EXPECT_EQ(tgid == 12 ? began_ns : 1000, 1000u);
                            return false;
                          })[0]["state"],
            "gone");
}

TEST(HostEvidence, WhoSharesACpuIsNotAsleep) {
  Host host;
  for (int64_t ms = 0; ms < 3000; ms++)
    host.AddSlot(ms, {{10, 330'000, 300'000}, {11, 200'000, 400'000}, {12, 240'000, 250'000}},
                 ms == 0 ? kRanks : std::vector<std::string>());
  const auto evidence = host.Evidence(HangAt(1000));
  EXPECT_EQ(evidence[0]["rank"], 2);
  EXPECT_EQ(evidence[0]["state"], "asleep") << "more than half of the time";
  EXPECT_EQ(evidence[1]["state"], "on_cpu");
  EXPECT_EQ(evidence[2]["state"], "waiting");
}

TEST(HostEvidence, WhoRunsIsOnACpuHoweverManyOfItsThreadsWait) {
  Host host;
  for (int64_t ms = 0; ms < 3000; ms++)
    host.AddSlot(ms, {{10, 1'000'000, 3'000'000}}, ms == 0 ? kRanks : std::vector<std::string>());
  EXPECT_EQ(host.Evidence(HangAt(1000))[1]["state"], "on_cpu");
}

TEST(HostEvidence, RanksWithoutEvidenceSayWhy) {
  Host host;
  for (int64_t ms = 1000; ms < 2000; ms++)
    host.AddSlot(ms, {{10, 1}}, ms == 1500 ? kRanks : std::vector<std::string>());
  NcclHang hang = HangAt(1200);
  hang.hanging_ranks = {0, 7};
  const auto evidence = host.Evidence(hang);
  ASSERT_EQ(evidence.size(), 3u);
  EXPECT_EQ(evidence[0]["state"], "unknown");
  EXPECT_EQ(evidence[0]["reason"], "it was not known yet which process it is");
  EXPECT_EQ(evidence[2]["reason"], "no process of this rank is known to this host's recording");
  for (int64_t ms : {500, 2500})
    EXPECT_EQ(host.Evidence(HangAt(ms))[0]["reason"], "the recording has nothing of that moment");
}

TEST(HostEvidence, AnotherProcessOfTheSameNumberIsNotTheRank) {
  Host host;
  host.AddSlot(0, {{12, 1'000'000}}, kRanks);
  for (int64_t ms = 1; ms < 2000; ms++) host.AddSlot(ms, {{12, 1'000'000, 0, 2000}});
  EXPECT_EQ(host.Evidence(HangAt(1000))[0]["cpu_ms"], 0.0);
  // A job that is started again has other processes.
  host.AddSlot(2000, {}, {"rank 2 is process 22 (p22)"});
  for (int64_t ms = 2001; ms < 4000; ms++) host.AddSlot(ms, {{22, 1'000'000}});
  EXPECT_EQ(host.Evidence(HangAt(3000))[0]["pid"], 22);
  EXPECT_EQ(host.Evidence(HangAt(1000))[0]["pid"], 12);
}

TEST(HostHistory, IsCoarserAndForgetsWhereItIsKeptForLong) {
  Host host(100 * kMs, 1000 * kMs);
  for (int64_t ms = 0; ms < 5000; ms++)
    host.AddSlot(ms, {{10, 1'000'000}, {12, 10}}, ms == 0 ? kRanks : std::vector<std::string>());
  const auto nr_samples = host.recorder.Look([](const HostHistory& history) {
    return history.Find(0, kUnixOffset + 4000 * kMs)->samples.size();
  });
  EXPECT_LE(nr_samples, 11u);
  const auto evidence = host.Evidence(HangAt(4500));
  EXPECT_EQ(evidence[1]["slot_ms"], 100.0);
  EXPECT_EQ(evidence[1]["cpu_ms"], 1000.0) << "what is kept of it";
  EXPECT_EQ(host.Evidence(HangAt(3000))[0]["state"], "unknown");
}

// Rank 0 runs, 1 has ended, 2 is asleep for good.
TEST(HostHistory, RanksOfAnEndedJobExpire) {
  const auto forget = [](Host* host, std::vector<int32_t>* asked) {
    return host->recorder.Look([&](HostHistory& history) {
      history.ForgetEnded([&](int32_t tgid, uint64_t) {
        asked->push_back(tgid);
        return tgid != 11;
      });
      return history.IsRank(11);
    });
  };
  Host host(100 * kMs, 1000 * kMs);
  std::vector<int32_t> asked;
  for (int64_t ms = 0; ms < 1000; ms++)
    host.AddSlot(ms, {{10, 1'000'000}, {11, 5}}, ms == 0 ? kRanks : std::vector<std::string>());
  EXPECT_TRUE(forget(&host, &asked)) << "what it did may still be asked for";
  EXPECT_THAT(asked, IsEmpty()) << "nothing is that old";
  for (int64_t ms = 1000; ms < 2500; ms++) host.AddSlot(ms, {{10, 1'000'000}});
  EXPECT_FALSE(forget(&host, &asked));
  EXPECT_THAT(asked, ElementsAre(11, 12)) << "who runs need not be asked for";
  EXPECT_EQ(host.Evidence(HangAt(2400))[0]["pid"], 12) << "who is asleep has not ended";
  Host all(kMs, 0);
  all.AddSlot(0, {{10, 1}}, kRanks);
  all.AddSlot(5000, {{10, 1}});
  EXPECT_TRUE(forget(&all, &asked)) << "of a recording nothing is forgotten";
}

// ---- a recording's file

constexpr const char* kHeader =
    "# slot_ns: 1000000\n# note: rank 0 is process 10 (p10)\n"
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,comm,kind,cpu_ns,wait_ns,preemptions,mbm_total_"
    "bytes,"
    "gpu_active_ns,more\n";

TEST(SlotsCsv, IsReadByItsColumnsNames) {
  TempFolder folder;
  std::string text = kHeader;
  for (int ms = 0; ms < 2000; ms++) {
    const std::string at = std::to_string(kUnixOffset + ms * kMs);
    text += "1," + at + ",10,5,python3,user,1000000,0,1,,250000,x\n1," + at +
            ",11,6,other,user,1000000,0,0,,,x\n1," + at + ",0,,idle,idle,0,0,0,,,\n";
  }
  folder.Write("slots.csv", text + "1,17000000");  // it goes on
  HostHistory history(kMs, 0);
  ASSERT_TRUE(ReadSlotsCsv(folder.At("slots.csv"), &history).ok());
  NcclHang hang = HangAt(1000);
  const auto evidence = EvidenceAsJson(history, hang, {});
  EXPECT_EQ(evidence[1]["state"], "on_cpu");
  EXPECT_EQ(evidence[1]["comm"], "python3");
  EXPECT_EQ(evidence[1]["gpu_active_ms"], 250.0);
  EXPECT_EQ(evidence[1]["preemptions"], 1000);
  EXPECT_FALSE(evidence[1].contains("mbm_total_bytes"));
  EXPECT_EQ(evidence[2]["state"], "unknown") << "nobody said which process rank 1 is";
}

TEST(SlotsCsv, OnlyWhatIsWantedIsKept) {
  TempFolder folder;
  std::string text = kHeader;
  for (int ms = 0; ms < 2000; ms++)
    text += "1," + std::to_string(kUnixOffset + ms * kMs) + ",10,5,python3,user,1000000,0,1,,250000,x\n";
  folder.Write("slots.csv", text);
  HostHistory history(kMs, 0);
  history.Want(kUnixOffset + 700 * kMs);
  ASSERT_TRUE(ReadSlotsCsv(folder.At("slots.csv"), &history).ok());
  EXPECT_EQ(history.Find(0, kUnixOffset)->samples.size(), 1000u) << "from 200 ms before to 800 ms after";
}

// As --pid, --comm, --top and a command's recording leave them.
TEST(SlotsCsv, RowsThatWereFoldedAreNoEvidenceOfNothing) {
  for (const bool is_folded : {false, true}) {
    TempFolder folder;
    std::string text = kHeader;
    for (int ms = 0; ms < 2000; ms++) {
      const std::string at = "1," + std::to_string(kUnixOffset + ms * kMs);
      if (ms % 10 == 0) text += at + ",10,5,python3,user,1000000,0,1,,250000,x\n";
      text += at + (is_folded ? ",,,,other,500000,0,0,,,x\n" : ",0,,idle,idle,500000,0,0,,,x\n");
    }
    folder.Write("slots.csv", text);
    HostHistory history(kMs, 0);
    ASSERT_TRUE(ReadSlotsCsv(folder.At("slots.csv"), &history).ok());
    EXPECT_EQ(EvidenceAsJson(history, HangAt(1000), {})[1]["state"], is_folded ? "unknown" : "asleep");
  }
}

TEST(SlotsCsv, TimeThatWasLostIsMarked) {
  TempFolder folder;
  std::string text = kHeader;
  for (int ms = 0; ms < 2000; ms++) {
    const std::string at = "1," + std::to_string(kUnixOffset + ms * kMs);
    text += at + ",10,5,python3,user,1000000,0,1,,250000,x\n";
    if (ms == 1100 || ms == 1101 || ms == 1900) text += at + ",,,,lost,300000,0,0,,,x\n";
  }
  folder.Write("slots.csv", text);
  HostHistory history(kMs, 0);
  ASSERT_TRUE(ReadSlotsCsv(folder.At("slots.csv"), &history).ok());
  EXPECT_EQ(EvidenceAsJson(history, HangAt(1000), {})[1]["lost_ms"], 0.6);
  EXPECT_FALSE(EvidenceAsJson(history, HangAt(250), {})[1].contains("lost_ms"));
}

TEST(SlotsCsv, LongSlotsAreWhatTheyAre) {
  TempFolder folder;
  std::string text = kHeader;
  text.replace(text.find("1000000"), 7, "1000000000");
  for (int s = 0; s < 10; s++)
    text += "1," + std::to_string(kUnixOffset + s * 1000 * kMs) +
            ",10,5,python3,user,900000000,0,1,,250000,x\n";
  folder.Write("slots.csv", text);
  HostHistory history(kMs, 0);
  ASSERT_TRUE(ReadSlotsCsv(folder.At("slots.csv"), &history).ok());
  const auto evidence = EvidenceAsJson(history, HangAt(5150), {});
  EXPECT_EQ(evidence[1]["state"], "on_cpu");
  EXPECT_EQ(evidence[1]["slot_ms"], 1000.0);
}

TEST(SlotsCsv, WhatIsNoneIsAnError) {
  TempFolder folder;
  const char* kBad[] = {"", "a,b,c\n1,2,3\n", "{\"kind\":\"Event\"}\n"};
  for (const char* text : kBad) {
    folder.Write("slots.csv", text);
    HostHistory history(kMs, 0);
    EXPECT_EQ(ReadSlotsCsv(folder.At("slots.csv"), &history).code(), Exit::kBadInput) << text;
  }
  folder.Write("slots.csv", std::string(kHeader) + "1,x,10\n1,2\n");
  HostHistory history(kMs, 0);
  const Status status = ReadSlotsCsv(folder.At("slots.csv"), &history);
  EXPECT_NE(status.message().find("rows that cannot be read: 2"), std::string::npos) << status.message();
  EXPECT_EQ(ReadSlotsCsv(folder.At("none"), &history).code(), Exit::kBadInput);
}

TEST(HostHistoryTest, NothingIsKnownOfAMomentThatWasNotRecorded) {
  HostHistory history(1'000'000, 0);
  for (int64_t ms : {10, 11, 12, 50, 51}) history.OnSlot(ms * 1'000'000, 1'000'000);
  EXPECT_TRUE(history.Covers(12'500'000));
  EXPECT_FALSE(history.Covers(13'000'000)) << "a recorder was away";
  EXPECT_FALSE(history.Covers(49'999'999));
  EXPECT_TRUE(history.Covers(50'000'000));
  EXPECT_FALSE(history.Covers(52'000'000));
  EXPECT_FALSE(history.Covers(9'000'000));
}

}  // namespace
}  // namespace slotscope
