// SPDX-License-Identifier: MIT
// A trace, read again: the numbers of its fields are those of Perfetto's .proto files.
#include "sinks/perfetto_sink.h"

#include <gtest/gtest.h>

#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "tests/unit/instruction_count.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

using protozero::pbf_reader;

struct Track {
  std::string name;
  uint64_t parent = 0;
  int32_t pid = 0;
  uint32_t unit = 0;
};
struct Event {
  uint64_t ns = 0;
  uint32_t type = 0;
  uint64_t track = 0;
  std::string name;
  int64_t value = 0;
  std::map<std::string, uint64_t> annotations;
  uint64_t arrow_from = 0, arrow_to = 0;  // that begins, or ends there
};
struct Trace {
  std::map<uint64_t, Track> tracks;
  std::vector<Event> events;
  std::vector<std::map<uint32_t, uint64_t>> clocks;
};

Track ReadTrack(pbf_reader in, uint64_t* uuid) {
  Track track;
  while (in.next()) switch (in.tag()) {
      case 1:
        *uuid = in.get_uint64();
        break;
      case 2:
        track.name = in.get_string();
        break;
      case 3:
        for (pbf_reader process = in.get_message(); process.next();) {
          if (process.tag() == 1) track.pid = process.get_int32();
          if (process.tag() == 6) track.name = process.get_string();
        }
        break;
      case 5:
        track.parent = in.get_uint64();
        break;
      case 8:
        for (pbf_reader counter = in.get_message(); counter.next();)
          if (counter.tag() == 3) track.unit = counter.get_uint32();
    }
  return track;
}

Event ReadEvent(pbf_reader in) {
  Event event;
  while (in.next()) switch (in.tag()) {
      case 4: {
        std::string key;
        for (pbf_reader annotation = in.get_message(); annotation.next();) {
          if (annotation.tag() == 10) key = annotation.get_string();
          if (annotation.tag() == 3) event.annotations[key] = annotation.get_uint64();
        }
        break;
      }
      case 9:
        event.type = in.get_uint32();
        break;
      case 11:
        event.track = in.get_uint64();
        break;
      case 23:
        event.name = in.get_string();
        break;
      case 30:
        event.value = in.get_int64();
        break;
      case 47:
        event.arrow_from = in.get_fixed64();
        break;
      case 48:
        event.arrow_to = in.get_fixed64();
    }
  return event;
}

Trace Read(const std::string& text) {
  Trace trace;
  pbf_reader in(text);
  while (in.next()) {
    EXPECT_EQ(in.tag(), 1u);
    pbf_reader packet = in.get_message();
    uint64_t ns = 0;
    uint32_t clock = 0, sequence = 0;
    while (packet.next()) switch (packet.tag()) {
        case 6: {
          std::map<uint32_t, uint64_t> clocks;
          for (pbf_reader snapshot = packet.get_message(); snapshot.next();) {
            if (snapshot.tag() != 1) {
              EXPECT_EQ(snapshot.tag(), 2u);
              EXPECT_EQ(snapshot.get_uint32(), 3u);
              continue;
            }
            uint32_t id = 0;
            for (pbf_reader one = snapshot.get_message(); one.next();) {
              if (one.tag() == 1) id = one.get_uint32();
              if (one.tag() == 2) clocks[id] = one.get_uint64();
            }
          }
          trace.clocks.push_back(clocks);
          break;
        }
        case 8:
          ns = packet.get_uint64();
          break;
        case 10:
          sequence = packet.get_uint32();
          break;
        case 58:
          clock = packet.get_uint32();
          break;
        case 11:
          trace.events.push_back(ReadEvent(packet.get_message()));
          trace.events.back().ns = ns;
          EXPECT_EQ(clock, 3u);
          break;
        case 60: {
          uint64_t uuid = 0;
          const Track track = ReadTrack(packet.get_message(), &uuid);
          trace.tracks[uuid] = track;
          break;
        }
        default:
          ADD_FAILURE() << "tag " << packet.tag();
      }
    EXPECT_EQ(sequence, 1u);
  }
  return trace;
}

Row RowOf(int32_t tgid, uint64_t cpu_ns) {
  Row row;
  row.key = {tgid, static_cast<uint64_t>(tgid) * 10};
  row.comm = {'p'};
  row.named = true;
  row.sums[kCpuNs] = cpu_ns;
  row.unmeasured = ~(1u << kCpuNs);
  return row;
}

class PerfettoTest : public testing::Test {
 protected:
  Slot& slot(uint64_t start_ns) {
    slot_ = {};
    slot_.start_ns = start_ns;
    slot_.end_ns = slot_.start_ns + 1'000'000;
    slot_.unix_offset_ns = 1000;
    return slot_;
  }
  Trace Finish() {
    EXPECT_TRUE(sink_.Finish().ok());
    return Read(file_.text);
  }
  // Values of the counter of that name, as "ns=value".
  static std::string ValuesOf(const Trace& trace, const std::string& name) {
    std::string text;
    for (const Event& event : trace.events)
      if (event.type == 4 && trace.tracks.at(event.track).name == name)
        text += std::to_string(event.ns) + "=" + std::to_string(event.value) + " ";
    return text;
  }

  TextFile file_;
  PerfettoSink sink_{&file_};
  Slot slot_;
};

TEST_F(PerfettoTest, SlotsAreCounters) {
  slot(100).rows = {RowOf(7, 50)};
  sink_.OnSlot(slot_);
  slot(200).rows = {RowOf(7, 50)};  // no change
  sink_.OnSlot(slot_);
  sink_.OnSlot(slot(300));
  sink_.OnSlot(slot(400));
  slot(500).rows = {RowOf(7, 60)};
  sink_.OnSlot(slot_);
  const Trace trace = Finish();
  EXPECT_EQ(ValuesOf(trace, "cpu_ns"), "100=50 300=0 500=60 ");
  ASSERT_EQ(trace.tracks.size(), 2u) << "what is not measured has no track";
  for (const auto& [uuid, track] : trace.tracks) {
    if (track.name == "cpu_ns") {
      EXPECT_EQ(track.unit, 1u);
      EXPECT_EQ(trace.tracks.at(track.parent).pid, 7);
    } else {
      EXPECT_EQ(track.name, "p");
    }
  }
}

TEST_F(PerfettoTest, ClocksAreToldAgainWhenTheyAreSet) {
  sink_.OnSlot(slot(100));
  sink_.OnSlot(slot(200));
  slot(300).unix_offset_ns = 5000;
  sink_.OnSlot(slot_);
  const Trace trace = Finish();
  ASSERT_EQ(trace.clocks.size(), 2u);
  EXPECT_EQ(trace.clocks[0], (std::map<uint32_t, uint64_t>{{1, 1100}, {3, 100}}));
  EXPECT_EQ(trace.clocks[1], (std::map<uint32_t, uint64_t>{{1, 5300}, {3, 300}}));
}

TEST_F(PerfettoTest, OnlyProcessesHaveTracks) {
  slot(100).rows = {RowOf(0, 50), RowOf(0, 60)};
  slot_.rows[0].kind = RowKind::kIdle;
  slot_.rows[1].kind = RowKind::kLost;
  sink_.OnSlot(slot_);
  EXPECT_TRUE(Finish().tracks.empty());
}

TEST_F(PerfettoTest, WhatAGpuHoldsStaysWithoutARow) {
  slot(100).rows = {RowOf(7, 50)};
  slot_.gpu = {{{4096, 70, 2}, 0, true}};
  slot_.rows[0].gpu = 1;
  sink_.OnSlot(slot_);
  sink_.OnSlot(slot(200));
  const Trace trace = Finish();
  EXPECT_EQ(ValuesOf(trace, "gpu_mem_bytes"), "100=4096 ");
  EXPECT_EQ(ValuesOf(trace, "gpu_active_ns"), "100=70 200=0 ");
  EXPECT_EQ(ValuesOf(trace, "gpu_launches"), "100=2 200=0 ");
}

TEST_F(PerfettoTest, SpansThatOverlapDoNotShareATrack) {
  slot(1000).gpu_detail.spans = {{{{7, 70}, 0, 0xabc, 100, 300, 5, 64, KernelsEnd::kWaited},
                                  {{7, 70}, 0, 0xabc, 300, 350, 1, 0, KernelsEnd::kForced}},
                                 {{{7, 70}, 0, 0x1000, 10, SS_CUDA_LINEAR, 100, 200, false},
                                  {{7, 70}, 0, 0x2000, 20, SS_CUDA_MANAGED, 200, 400, false},
                                  {{7, 70}, 0, 0x3000, 30, SS_CUDA_ARRAY, 150, 500, true}}};
  sink_.OnSlot(slot_);
  const Trace trace = Finish();
  std::map<uint64_t, std::vector<std::pair<uint64_t, uint64_t>>> slices;  // by track
  std::map<std::string, uint64_t> bytes;
  for (const Event& event : trace.events) {
    if (event.type == 1) slices[event.track].push_back({event.ns, 0});
    if (event.type == 2) slices[event.track].back().second = event.ns;
    if (event.annotations.contains("bytes")) bytes[event.name] = event.annotations.at("bytes");
  }
  for (const auto& [track, of] : slices)
    for (size_t i = 1; i < of.size(); i++) EXPECT_LE(of[i - 1].second, of[i].first);
  EXPECT_EQ(slices.size(), 3u);
  EXPECT_EQ(bytes,
            (std::map<std::string, uint64_t>{{"linear", 10}, {"managed", 20}, {"array (leaked)", 30}}));
  EXPECT_EQ(trace.events[0].name, "kernels");
  EXPECT_EQ(trace.events[0].annotations,
            (std::map<std::string, uint64_t>{{"launches", 5}, {"avg_threads", 64}}));
  EXPECT_EQ(trace.events[2].name, "kernels (forced)");
  EXPECT_EQ(trace.tracks.at(trace.events[0].track).name, "device 0 stream 0xabc");
  EXPECT_EQ(sink_.Contents(), "5 spans, 0 arrows, 0 values");
}

// Of one stream, as an event that is waited for ends one of them: slices of a track have to nest.
TEST_F(PerfettoTest, KernelsThatOverlapHaveTracksOfTheirOwn) {
  slot(1000).gpu_detail.spans.kernels = {{{7, 70}, 0, 0xabc, 100, 300, 1, 0, KernelsEnd::kWaited},
                                         {{7, 70}, 0, 0xabc, 200, 400, 1, 0, KernelsEnd::kWaited},
                                         {{7, 70}, 0, 0xabc, 350, 500, 1, 0, KernelsEnd::kWaited}};
  sink_.OnSlot(slot_);
  const Trace trace = Finish();
  std::map<uint64_t, std::vector<uint64_t>> times;  // of begins and ends, by track
  for (const Event& event : trace.events) times[event.track].push_back(event.ns);
  EXPECT_EQ(times.size(), 2u);
  for (const auto& [track, of] : times) {
    EXPECT_EQ(trace.tracks.at(track).name, "device 0 stream 0xabc");
    EXPECT_TRUE(std::is_sorted(of.begin(), of.end()));
  }
}

// A span of memory begins on the track whose last one ended latest before it, so few tracks are enough.
TEST_F(PerfettoTest, TracksOfMemoryAreUsedAgain) {
  auto& memory = slot(1000).gpu_detail.spans.memory;
  for (uint64_t i = 0; i < 100; i++)
    for (uint64_t beside = 0; beside < 3; beside++)
      memory.push_back({{7, 70}, 0, i, 10, SS_CUDA_LINEAR, i * 10 + beside, i * 10 + 5 + beside, false});
  sink_.OnSlot(slot_);
  EXPECT_EQ(Finish().tracks.size(), 1u + 3) << "the process, and three at a time";
}

// 8 keeps 7 waiting in the first two slots, and 9 does in the third; then 9 waits, less than is shown.
TEST_F(PerfettoTest, AnArrowLeadsFromWhoRanToWhoWaited) {
  const auto waits = [&](uint64_t slot_ns, int32_t waiter, int32_t ran, uint64_t ns) {
    slot(slot_ns).rows = {RowOf(waiter, 5)};
    slot_.rows[0].wait = 1;
    slot_.wait_causes = kAnyWaitCauses;
    slot_.waits.resize(1);
    slot_.waits[0].ran_instead = RowOf(ran, 0).key;
    slot_.waits[0].ran_ns = ns;
    slot_.wait_details = {{slot_.rows[0].key, {}, kWaitOthers, RowOf(ran, 0).key, {'r'}, 0, 0, ns, 1}};
    sink_.OnSlot(slot_);
  };
  waits(1'000'000, 7, 8, 400'000);
  waits(2'000'000, 7, 8, 300'000);
  waits(3'000'000, 7, 9, 200'000);
  waits(4'000'000, 9, 7, 99'999);
  waits(5'000'000, 9, 7, 100'000);
  const Trace trace = Finish();
  std::vector<std::string> arrows(4);
  std::map<uint64_t, uint64_t> ends;  // of the slices of a track, as they come
  for (const Event& event : trace.events) {
    if (event.type == 2) ends[event.track] = event.ns;
    if (event.type != 1) continue;
    const Track& track = trace.tracks.at(event.track);
    for (uint64_t arrow : {event.arrow_from, event.arrow_to})
      if (arrow)
        arrows.at(arrow) += std::to_string(trace.tracks.at(track.parent).pid) + " " + track.name + " " +
                            event.name + " at " + std::to_string(event.ns / 1'000'000) + " for " +
                            std::to_string(event.annotations.at("ran_instead_ns")) + "\n";
  }
  EXPECT_EQ(arrows[1],
            "8 ran instead of p 7 at 1 for 700000\n7 waited while it ran r 8 at 1 for 700000\n");
  EXPECT_EQ(arrows[2],
            "9 ran instead of p 7 at 3 for 200000\n7 waited while it ran r 9 at 3 for 200000\n");
  EXPECT_EQ(arrows[3],
            "7 ran instead of p 9 at 5 for 100000\n9 waited while it ran r 7 at 5 for 100000\n");
  for (const auto& [track, end_ns] : ends) EXPECT_EQ(end_ns % 1'000'000, 0u);
  EXPECT_EQ(sink_.Contents(), "0 spans, 3 arrows, 3 values");
}

// Processes come and go, and so do streams: what is known of them is bounded, and begins anew.
TEST_F(PerfettoTest, WhatIsKnownOfTracksIsBounded) {
  slot(100).rows = {RowOf(7, 50)};
  sink_.OnSlot(slot_);
  auto& kernels = slot(200).gpu_detail.spans.kernels;
  for (uint64_t stream = 0; stream <= 65536; stream++)
    kernels.push_back({{8, 80}, 0, stream, 100, 300, 1, 0, KernelsEnd::kWaited});
  slot_.rows = {RowOf(7, 60)};
  sink_.OnSlot(slot_);
  slot(300).rows = {RowOf(7, 60)};
  sink_.OnSlot(slot_);
  sink_.OnSlot(slot(400));
  const Trace trace = Finish();
  EXPECT_EQ(ValuesOf(trace, "cpu_ns"), "100=50 200=60 300=60 400=0 ") << "at 300 it was described anew";
}

TEST_F(PerfettoTest, WhatIsKnownOfProcessesIsBounded) {
  slot(100).rows = {RowOf(7, 50)};
  sink_.OnSlot(slot_);
  slot(200).rows.clear();
  for (int32_t tgid = 8; tgid <= 8 + 65536; tgid++) slot_.rows.push_back(RowOf(tgid, 1));
  sink_.OnSlot(slot_);
  slot(300).rows = {RowOf(7, 50)};
  sink_.OnSlot(slot_);
  slot(400).rows = {RowOf(7, 50)};
  sink_.OnSlot(slot_);
  uint64_t nr_described = 0, nr_values = 0;
  const Trace trace = Finish();
  for (const auto& [uuid, track] : trace.tracks) nr_described += track.pid == 7;
  for (const Event& event : trace.events) nr_values += event.ns >= 300 && event.value == 50;
  EXPECT_EQ(nr_described, 2u);
  EXPECT_EQ(nr_values, 1u) << "at 300 it was described anew, and at 400 it was known";
}

// Of two processes, when so many others have been seen and are gone.
uint64_t InstructionsOfASlot(int32_t nr_seen) {
  TextFile file;
  PerfettoSink sink{&file};
  Slot all, two;
  const auto show = [&](Slot* slot, uint64_t start_ns, int32_t nr) {
    slot->start_ns = start_ns;
    slot->end_ns = start_ns + 1'000'000;
    for (int32_t tgid = 1; tgid <= nr; tgid++) slot->rows.push_back(RowOf(tgid, start_ns));
    sink.OnSlot(*slot);
  };
  show(&all, 1'000'000, nr_seen);
  show(&two, 2'000'000, 2);  // the others end here
  two.rows.clear();
  return CountInstructions([&] { show(&two, 3'000'000, 2); });
}

TEST(PerfettoCost, IsOfWhatChangesAndNotOfAllThatWasEverSeen) {
  const uint64_t after_few = InstructionsOfASlot(20), after_many = InstructionsOfASlot(20'000);
  if (after_few == 0) GTEST_SKIP() << "ptrace is not allowed here";
  EXPECT_GT(after_few, 100u);
  EXPECT_LT(after_many, 3 * after_few);
}

TEST_F(PerfettoTest, ANameMayComeLater) {
  slot(100).rows = {RowOf(7, 50)};
  slot_.rows[0].named = false;
  sink_.OnSlot(slot_);
  slot(200).rows = {RowOf(7, 60)};
  sink_.OnSlot(slot_);
  const Trace trace = Finish();
  EXPECT_EQ(trace.tracks.size(), 2u);
  bool found = false;
  for (const auto& [uuid, track] : trace.tracks) found |= track.name == "p" && track.pid == 7;
  EXPECT_TRUE(found);
}

TEST_F(PerfettoTest, WhatCannotBeWrittenIsSaidAtTheEnd) {
  file_.fails = true;
  sink_.OnSlot(slot(100));
  EXPECT_EQ(sink_.Finish().code(), Exit::kOutput);
}

}  // namespace
}  // namespace slotscope
