// SPDX-License-Identifier: MIT
#include "merge/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace slotscope {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Message>
Bytes BytesOf(Message message, uint16_t type) {
  message.hdr.type = type;
  message.hdr.size = sizeof(message);
  Bytes bytes(sizeof(message));
  std::memcpy(bytes.data(), &message, sizeof(message));
  return bytes;
}

void SetSize(Bytes* bytes, size_t size) {
  auto field = static_cast<uint16_t>(size);
  std::memcpy(bytes->data() + offsetof(ss_hdr, size), &field, sizeof(field));
}

ss_measure Measure() {
  ss_measure measure = {};
  measure.hdr.ts_ns = 2000;
  measure.start_ns = 1000;
  measure.switches = 3;
  measure.preemptions = 3;
  for (ss_counter& counter : measure.counters) counter = {77, 1000, 1000};
  return measure;
}

struct Typed {
  const char* name;
  Bytes bytes;
};

ss_rdt_sample Sample() {
  ss_rdt_sample sample = {};
  sample.hdr.ts_ns = 20;
  sample.since_ns = 10;
  sample.rmid = 1;
  sample.event = SS_RDT_MBM_TOTAL;
  return sample;
}

ss_cuda_call Call() {
  ss_cuda_call call = {};
  call.hdr.ts_ns = 20;
  call.start_ns = 10;
  call.tgid = call.tid = 7;
  call.op = SS_CUDA_LAUNCH;
  return call;
}

ss_wait Wait() {
  ss_wait wait = {};
  wait.hdr.ts_ns = wait.end_ns = 5'000'000;
  wait.wait_ns = 1'000'000;
  return wait;
}

std::vector<Typed> OneOfEachType() {
  return {
      {"measure", BytesOf(Measure(), SS_MEASURE)},
      {"task_meta", BytesOf(ss_task_meta{}, SS_TASK_META)},
      {"rmid_alloc", BytesOf(ss_rmid_event{}, SS_RMID_ALLOC)},
      {"rmid_free", BytesOf(ss_rmid_event{}, SS_RMID_FREE)},
      {"rmid_alloc_failed", BytesOf(ss_rmid_event{}, SS_RMID_ALLOC_FAILED)},
      {"rmid_existing", BytesOf(ss_rmid_event{}, SS_RMID_EXISTING)},
      {"rdt_sample", BytesOf(Sample(), SS_RDT_SAMPLE)},
      {"tick", BytesOf(ss_tick{}, SS_TICK)},
      {"cpu_state", BytesOf(ss_cpu_state{}, SS_CPU_STATE)},
      {"wait", BytesOf(Wait(), SS_WAIT)},
      {"cuda_call", BytesOf(Call(), SS_CUDA_CALL)},
  };
}

Decoded Decode(const Bytes& bytes) {
  ss_any_message message;
  return DecodeMessage(bytes, &message);
}

TEST(DecodeMessage, TakesOneOfEachType) {
  for (const Typed& typed : OneOfEachType()) {
    ss_any_message message;
    EXPECT_EQ(DecodeMessage(typed.bytes, &message), Decoded::kValid) << typed.name;
    EXPECT_EQ(std::memcmp(&message, typed.bytes.data(), typed.bytes.size()), 0) << typed.name;
  }
}

TEST(DecodeMessage, EveryTruncatedLengthOfEachTypeIsMalformed) {
  for (const Typed& typed : OneOfEachType()) {
    for (size_t size = 0; size < typed.bytes.size(); size++) {
      Bytes cut(typed.bytes.begin(), typed.bytes.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(Decode(cut), Decoded::kMalformed) << typed.name << " cut to " << size;
      if (size < sizeof(ss_hdr)) continue;
      SetSize(&cut, size);
      EXPECT_EQ(Decode(cut), Decoded::kMalformed) << typed.name << " that says it is " << size;
    }
  }
}

TEST(DecodeMessage, AWaitThatCannotBeIsMalformed) {
  const auto decode = [](const ss_wait& wait) { return Decode(BytesOf(wait, SS_WAIT)); };
  ss_wait wait = Wait();
  wait.end_ns++;
  EXPECT_EQ(decode(wait), Decoded::kMalformed) << "it ends after it was told";
  wait = Wait();
  wait.wait_ns = wait.end_ns + 1;
  EXPECT_EQ(decode(wait), Decoded::kMalformed) << "it began before the boot";
  wait = Wait();
  wait.start_ns = wait.end_ns;
  EXPECT_EQ(decode(wait), Decoded::kMalformed) << "nothing is between";
  wait = Wait();
  wait.tgid = -1;
  EXPECT_EQ(decode(wait), Decoded::kMalformed);
}

TEST(DecodeMessage, SizeFieldMustBeTheLength) {
  for (const Typed& typed : OneOfEachType())
    for (size_t size :
         {size_t{0}, size_t{16}, typed.bytes.size() - 1, typed.bytes.size() + 1, size_t{65535}}) {
      Bytes wrong = typed.bytes;
      SetSize(&wrong, size);
      EXPECT_EQ(Decode(wrong), Decoded::kMalformed) << typed.name << " that says it is " << size;
    }
}

TEST(DecodeMessage, SamplesThatCannotBeAreMalformed) {
  const struct {
    const char* what;
    std::function<void(ss_rdt_sample*)> change;
    bool valid;
  } cases[] = {
      {"of no length", [](auto* sample) { sample->since_ns = sample->hdr.ts_ns; }, true},
      {"ends before it begins", [](auto* sample) { sample->since_ns = sample->hdr.ts_ns + 1; }, false},
      {"at the beginning of time", [](auto* sample) { sample->since_ns = sample->hdr.ts_ns = 0; },
       false},
      {"RMID 0 is nobody's", [](auto* sample) { sample->rmid = 0; }, false},
      {"first event", [](auto* sample) { sample->event = SS_RDT_LLC_OCCUPANCY; }, true},
      {"last event", [](auto* sample) { sample->event = SS_RDT_MBM_LOCAL; }, true},
      {"no event", [](auto* sample) { sample->event = 0; }, false},
      {"unknown event", [](auto* sample) { sample->event = SS_RDT_MBM_LOCAL + 1; }, false},
      {"last status", [](auto* sample) { sample->status = SS_RDT_NR_STATUS - 1; }, true},
      {"unknown status", [](auto* sample) { sample->status = SS_RDT_NR_STATUS; }, false},
  };
  for (const auto& c : cases) {
    ss_rdt_sample sample = Sample();
    c.change(&sample);
    EXPECT_EQ(Decode(BytesOf(sample, SS_RDT_SAMPLE)) == Decoded::kValid, c.valid) << c.what;
  }
}

TEST(DecodeMessage, CallsThatCannotBeAreMalformed) {
  const struct {
    const char* what;
    std::function<void(ss_cuda_call*)> change;
    bool valid;
  } cases[] = {
      {"of no length", [](auto* call) { call->start_ns = call->hdr.ts_ns; }, true},
      {"ends before it begins", [](auto* call) { call->start_ns = call->hdr.ts_ns + 1; }, false},
      {"at the beginning of time", [](auto* call) { call->start_ns = call->hdr.ts_ns = 0; }, false},
      {"nobody's", [](auto* call) { call->tgid = 0; }, false},
      {"of no thread", [](auto* call) { call->tid = -1; }, false},
      {"first op", [](auto* call) { call->op = SS_CUDA_INIT; }, true},
      {"last op", [](auto* call) { call->op = SS_CUDA_NR_OPS - 1; }, true},
      {"no op", [](auto* call) { call->op = 0; }, false},
      {"unknown op", [](auto* call) { call->op = SS_CUDA_NR_OPS; }, false},
  };
  for (const auto& c : cases) {
    ss_cuda_call call = Call();
    c.change(&call);
    EXPECT_EQ(Decode(BytesOf(call, SS_CUDA_CALL)) == Decoded::kValid, c.valid) << c.what;
  }
}

TEST(DecodeMessage, OtherTypesAreUnknown) {
  for (uint32_t type = 0; type <= UINT16_MAX; type++) {
    bool known = (type >= SS_MEASURE && type <= SS_WAIT) || type == SS_CUDA_CALL || type == SS_CUDA_TURN;
    Decoded verdict = Decode(BytesOf(ss_measure{}, static_cast<uint16_t>(type)));
    ASSERT_EQ(verdict != Decoded::kUnknownType, known) << type;
  }
}

TEST(DecodeMessage, LongerMessagesOfNewerWritersAreTaken) {
  for (const Typed& typed : OneOfEachType())
    for (size_t extra : {1u, 7u, 8u, 1000u}) {
      Bytes longer = typed.bytes;
      longer.resize(typed.bytes.size() + extra, std::byte{0xee});
      SetSize(&longer, longer.size());
      ss_any_message message;
      ASSERT_EQ(DecodeMessage(longer, &message), Decoded::kValid) << typed.name << " +" << extra;
      // What we know is there, and what we do not know is not.
      EXPECT_EQ(std::memcmp(reinterpret_cast<std::byte*>(&message) + sizeof(ss_hdr),
                            typed.bytes.data() + sizeof(ss_hdr), typed.bytes.size() - sizeof(ss_hdr)),
                0);
      for (size_t i = typed.bytes.size(); i < sizeof(message); i++)
        ASSERT_EQ(reinterpret_cast<std::byte*>(&message)[i], std::byte{0})
            << typed.name << " byte " << i;
    }
}

TEST(DecodeMessage, LeavesNothingOfTheMessageBefore) {
  ss_any_message message;
  std::memset(static_cast<void*>(&message), 0xff, sizeof(message));
  ASSERT_EQ(DecodeMessage(BytesOf(ss_tick{}, SS_TICK), &message), Decoded::kValid);
  for (size_t i = sizeof(ss_tick); i < sizeof(message); i++)
    ASSERT_EQ(reinterpret_cast<std::byte*>(&message)[i], std::byte{0}) << "byte " << i;
}

TEST(DecodeMessage, ImpossibleMeasuresAreMalformed) {
  const struct {
    const char* what;
    std::function<void(ss_measure*)> change;
    Decoded expected;
  } cases[] = {
      {"as it is", [](ss_measure*) {}, Decoded::kValid},
      {"no length", [](ss_measure* m) { m->start_ns = m->hdr.ts_ns; }, Decoded::kValid},
      {"start after end", [](ss_measure* m) { m->start_ns = m->hdr.ts_ns + 1; }, Decoded::kMalformed},
      {"start at the end of time", [](ss_measure* m) { m->start_ns = UINT64_MAX; }, Decoded::kMalformed},
      {"no preemption", [](ss_measure* m) { m->preemptions = 0; }, Decoded::kValid},
      {"more preemptions than switches", [](ss_measure* m) { m->preemptions = 4; }, Decoded::kMalformed},
      {"preemption without switch", [](ss_measure* m) { m->switches = 0; }, Decoded::kMalformed},
      {"counter 0 ran too long", [](ss_measure* m) { m->counters[0].running_ns++; },
       Decoded::kMalformed},
      {"counter 1 ran too long", [](ss_measure* m) { m->counters[1].running_ns++; },
       Decoded::kMalformed},
      {"counter 2 ran too long", [](ss_measure* m) { m->counters[2].running_ns++; },
       Decoded::kMalformed},
      {"counter 2 not measured", [](ss_measure* m) { m->counters[2] = {}; }, Decoded::kValid},
      {"counter 0 shared", [](ss_measure* m) { m->counters[0].running_ns = 1; }, Decoded::kValid},
      {"largest delta", [](ss_measure* m) { m->counters[0].delta = UINT64_MAX; }, Decoded::kValid},
  };
  for (const auto& c : cases) {
    ss_measure measure = Measure();
    c.change(&measure);
    EXPECT_EQ(Decode(BytesOf(measure, SS_MEASURE)), c.expected) << c.what;
  }
}

TEST(DecodeMessage, CommMustEndInItsSixteenBytes) {
  const struct {
    std::string comm;  // the rest is zero
    Decoded expected;
  } cases[] = {
      {"", Decoded::kValid},
      {"bash", Decoded::kValid},
      {"123456789abcdef", Decoded::kValid},
      {"123456789abcdefg", Decoded::kMalformed},
  };
  for (const auto& c : cases) {
    ss_task_meta meta = {};
    std::memcpy(meta.comm, c.comm.data(), c.comm.size());
    EXPECT_EQ(Decode(BytesOf(meta, SS_TASK_META)), c.expected) << c.comm;
  }
}

TEST(DecodeMessage, WhatItTakesFromRandomBytesKeepsItsPromises) {
  std::mt19937_64 random(1);
  size_t nr_valid = 0;
  for (int i = 0; i < 300'000; i++) {
    Bytes bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Half of them get past the header.
    if (i % 2 && bytes.size() >= sizeof(ss_hdr)) {
      auto type = static_cast<uint16_t>(random() % 12);
      std::memcpy(bytes.data() + offsetof(ss_hdr, type), &type, sizeof(type));
      SetSize(&bytes, bytes.size());
    }
    ss_any_message message;
    if (DecodeMessage(bytes, &message) != Decoded::kValid) continue;
    nr_valid++;
    ASSERT_EQ(message.hdr.size, bytes.size());
    if (message.hdr.type == SS_MEASURE) {
      ASSERT_LE(message.measure.start_ns, message.hdr.ts_ns);
    } else if (message.hdr.type == SS_TASK_META) {
      ASSERT_LT(strnlen(message.task_meta.comm, SS_COMM_LEN), size_t{SS_COMM_LEN});
    }
  }
  EXPECT_GT(nr_valid, 1000u);
}

// Of that many bytes, with that text.
Bytes Text(uint16_t type, size_t size, int32_t tgid, size_t text_len) {
  ss_text text = {};
  text.hdr = {20, type, static_cast<uint16_t>(size), 0};
  text.tgid = tgid;
  text.text_len = static_cast<uint16_t>(text_len);
  std::memset(text.text, 'x', sizeof(text.text));
  Bytes bytes(std::max(size, sizeof(text)));
  std::memcpy(bytes.data(), &text, sizeof(text));
  bytes.resize(size);
  return bytes;
}

TEST(Text, ItIsAsLongAsItSaysWithinItsMessage) {
  constexpr size_t kHead = offsetof(ss_text, text);
  const struct {
    const char* what;
    Bytes bytes;
    bool is_valid;
  } cases[] = {
      {"an executable", Text(SS_EXEC, kHead + 16, 7, 9), true},
      {"as long as it can be", Text(SS_ARGUMENTS, sizeof(ss_text), 7, SS_TEXT_LEN), true},
      {"without a text", Text(SS_CGROUP_MOVE, kHead + 8, 7, 0), true},
      {"a cgroup", Text(SS_CGROUP, kHead + 8, 0, 8), true},
      {"of a newer writer", Text(SS_CGROUP, sizeof(ss_text) + 64, 0, 8), true},
      {"longer than its message", Text(SS_EXEC, kHead + 8, 7, 9), false},
      {"longer than any", Text(SS_EXEC, sizeof(ss_text) + 64, 7, SS_TEXT_LEN + 1), false},
      {"half a head", Text(SS_EXEC, kHead - 8, 7, 0), false},
      {"of nobody", Text(SS_EXEC, kHead + 8, 0, 1), false},
      {"a cgroup of somebody", Text(SS_CGROUP_GONE, kHead + 8, 7, 1), false},
      {"of a negative process", Text(SS_EXEC, kHead + 8, -1, 1), false},
  };
  for (const auto& c : cases) {
    ss_text text;
    EXPECT_EQ(DecodeText(c.bytes, &text) == Decoded::kValid, c.is_valid) << c.what;
    if (c.is_valid) {
      EXPECT_EQ(std::string(text.text, text.text_len), std::string(text.text_len, 'x')) << c.what;
    }
  }
  Bytes other_size = Text(SS_EXEC, kHead + 16, 7, 9);
  SetSize(&other_size, kHead + 8);
  ss_text text;
  EXPECT_EQ(DecodeText(other_size, &text), Decoded::kMalformed);
}

}  // namespace
}  // namespace slotscope
