// SPDX-License-Identifier: MIT
// Who preempts whom, by one CPU's measures.
#include "slots/preemptions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slotscope {
namespace {

constexpr ProcessKey kVictim = {100, 1};

class Cpu {
 public:
  Cpu() { preemptions_.Watch({kVictim, {300, 3}}); }
  // `tgid` runs for ns, then `next` does.
  void Run(int32_t tgid, uint64_t ns, int32_t next, uint32_t nr_preemptions = 0, uint32_t flags = 0) {
    ss_measure measure = {};
    measure.hdr.cpu = 2;
    measure.tgid = tgid;
    measure.start_time_ns = static_cast<uint64_t>(tgid) / 100;
    measure.next_tgid = next;
    measure.start_ns = now_ns_;
    measure.hdr.ts_ns = now_ns_ += ns;
    measure.preemptions = nr_preemptions;
    measure.flags = flags;
    preemptions_.OnMeasure(measure, &slot);
  }
  // "200:1/50": by tgid, times and ns.
  std::string Take() {
    Preemptions::Fold(&slot.preemptions);
    std::string text;
    for (const Preemption& one : slot.preemptions)
      text += (text.empty() ? "" : " ") + std::to_string(one.victim.tgid) + "<" +
              std::to_string(one.tgid) + ":" + std::to_string(one.nr) + "/" + std::to_string(one.ns);
    slot.preemptions.clear();
    return text;
  }
  OpenSlot slot;

 private:
  Preemptions preemptions_;
  uint64_t now_ns_ = 1000;
};

TEST(Preemptions, AreOfWhoRunsNextForAsLongAsItDoes) {
  Cpu cpu;
  cpu.Run(100, 10, 200, 1);
  cpu.Run(200, 50, 100);
  cpu.Run(100, 10, 200, 1);
  cpu.Run(200, 30, 200, 0, SS_MEASURE_TICK);  // it runs on
  cpu.Run(200, 20, 400);
  cpu.Run(400, 70, 100);  // took nothing from it: it took it from 200
  EXPECT_EQ(cpu.Take(), "100<200:2/100");
}

TEST(Preemptions, AreInvoluntaryAndOfWatchedProcessesByOthers) {
  Cpu cpu;
  cpu.Run(100, 10, 200);     // it went to sleep
  cpu.Run(200, 50, 400, 1);  // not watched
  cpu.Run(400, 50, 100);
  cpu.Run(100, 10, 0, 1);  // by nobody
  cpu.Run(0, 50, 100, 1, SS_MEASURE_IDLE);
  cpu.Run(100, 10, 100, 1, SS_MEASURE_TICK);  // by itself
  EXPECT_EQ(cpu.Take(), "");
}

TEST(Preemptions, EndWhereTheOrderIsNotKnown) {
  Cpu cpu;
  cpu.Run(100, 10, 200, 1);
  cpu.Run(500, 50, 200);  // the one in between was lost
  cpu.Run(200, 50, 100);
  EXPECT_EQ(cpu.Take(), "100<200:1/0");
  cpu.Run(100, 10, 200, 1);
  cpu.Run(200, 50, 100, 0, SS_MEASURE_UNKNOWN);
  EXPECT_EQ(cpu.Take(), "100<200:1/0");
}

TEST(Preemptions, ComeByVictimAndTgid) {
  Cpu cpu;
  cpu.Run(300, 10, 900, 1);
  cpu.Run(900, 5, 100);
  cpu.Run(100, 10, 900, 1);
  cpu.Run(900, 6, 100);
  cpu.Run(100, 10, 300, 1);
  cpu.Run(300, 7, 100, 1);  // back: each preempts the other
  cpu.Run(100, 8, 0);
  EXPECT_EQ(cpu.Take(), "100<300:1/7 100<900:1/6 300<100:1/8 300<900:1/5");
}

TEST(Preemptions, HaveAnEndPerSlotIfTheyAreDifferent) {
  Cpu cpu;
  for (size_t i = 0; i < 2 * Preemptions::kMaxPerSlot; i++) {
    cpu.Run(100, 1, 200, 1);
    cpu.Run(200, 1, 100);
  }
  EXPECT_EQ(cpu.Take(), "100<200:8192/8192");
  for (int32_t i = 0; i < static_cast<int32_t>(Preemptions::kMaxPerSlot) + 100; i++) {
    cpu.Run(100, 1, 1000 + i, 1);
    cpu.Run(1000 + i, 1, 100);
  }
  EXPECT_EQ(cpu.slot.preemptions.size(), Preemptions::kMaxPerSlot);
}

}  // namespace
}  // namespace slotscope
