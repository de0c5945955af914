// SPDX-License-Identifier: MIT
#include "sinks/process_sink.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "explain/process_places.h"
#include "slots/group_members.h"
#include "tests/unit/text_file.h"

namespace slotscope {
namespace {

const std::string kColumns =
    "slot_start_ns,slot_start_unix_ns,tgid,start_time_ns,ppid,comm,kind,executable,arguments,cgroup,"
    "container_id,pod_uid,pod,unit\n";

ProcessIdentity Who(int32_t tgid, const char* comm, const char* executable, const char* cgroup) {
  ProcessIdentity who;
  who.key = {tgid, 5};
  strncpy(who.comm.data(), comm, who.comm.size() - 1);
  if (executable) who.executable = std::make_shared<const std::string>(executable);
  if (cgroup) who.cgroup = std::make_shared<const Cgroup>(ParseCgroup(cgroup));
  return who;
}

ProcessIdentity Gone(int32_t tgid) {
  ProcessIdentity who;
  who.key = {tgid, 5};
  who.gone = true;
  return who;
}

Slot SlotOf(uint64_t start_ns, std::vector<ProcessIdentity> identities) {
  Slot slot;
  slot.start_ns = start_ns;
  slot.unix_offset_ns = 1000;
  slot.identities = std::move(identities);
  return slot;
}

TEST(ProcessSink, ASegmentBeginsWithAllThatThereAre) {
  TextFile file;
  ProcessSink sink(&file);
  sink.WriteHeader({});
  sink.OnSlot(SlotOf(1, {Who(2, "b", "/bin/b", "/system.slice/b.service")}));
  sink.OnSlot(SlotOf(2, {Who(1, "a", nullptr, nullptr), Gone(9)}));
  sink.OnSlot(SlotOf(3, {}));
  sink.WriteHeader({});
  sink.OnSlot(SlotOf(4, {}));
  sink.OnSlot(SlotOf(5, {Gone(2)}));
  sink.WriteHeader({});
  sink.OnSlot(SlotOf(6, {Who(3, "c", "", "/")}));
  EXPECT_TRUE(sink.Finish().ok());
  EXPECT_EQ(sink.Contents(), "6 rows");
  EXPECT_EQ(file.text, kColumns + "1,1001,2,5,,b,user,/bin/b,,/system.slice/b.service,,,,b.service\n" +
                           "2,1002,1,5,,a,user,,,,,,,\n" + kColumns +
                           "4,1004,1,5,,a,user,,,,,,,\n"
                           "4,1004,2,5,,b,user,/bin/b,,/system.slice/b.service,,,,b.service\n" +
                           kColumns +
                           "6,1006,1,5,,a,user,,,,,,,\n"
                           "6,1006,3,5,,c,user,,,/,,,,\n");
}

TEST(ProcessSink, NoNameCanLookLikeAnotherColumn) {
  TextFile file;
  ProcessSink sink(&file);
  sink.WriteHeader({});
  ProcessIdentity who = Who(2, "a,b\n", "/tmp/x,y\n#", "/evil\x1b[2J,z");
  who.arguments = std::make_shared<const std::string>("a\xff\"");
  who.kernel = true;
  who.ppid = 7;
  sink.OnSlot(SlotOf(1, {who}));
  EXPECT_TRUE(sink.Finish().ok());
  EXPECT_EQ(file.text, kColumns +
                           "1,1001,2,5,7,a\\x2cb\\x0a,kernel,/tmp/x\\x2cy\\x0a\\x23,a\\xff\\x22,"
                           "/evil\\x1b[2J\\x2cz,,,,\n");
}

TEST(ProcessSink, WhatItWritesIsReadAsThePlacesOfProcesses) {
  TextFile file;
  ProcessSink sink(&file);
  sink.WriteHeader({{"host", "h"}});
  const std::string pod = "/kubepods/pod0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60/" + std::string(64, 'a');
  sink.OnSlot(SlotOf(1, {Who(1, "a", nullptr, "/a"), Who(2, "b", nullptr, pod.c_str())}));
  sink.OnSlot(SlotOf(2, {Who(1, "a", nullptr, "/system.slice/a.service")}));
  EXPECT_TRUE(sink.Finish().ok());
  ProcessPlaces places;
  for (size_t at = 0, end; at < file.text.size(); at = end + 1) {
    end = file.text.find('\n', at);
    places.OnLine(std::string_view(file.text).substr(at, end - at));
  }
  ASSERT_EQ(places.all().size(), 2u);
  EXPECT_EQ(*places.Find({1, 5}), ParseCgroup("/system.slice/a.service"));
  EXPECT_EQ(*places.Find({2, 5}), ParseCgroup(pod));
  EXPECT_EQ(places.Find({2, 6}), nullptr);
  EXPECT_EQ(PlaceText(*places.Find({1, 5})), "a.service");
  EXPECT_EQ(PlaceText(*places.Find({2, 5})), "pod 0f4a2c1e");
  EXPECT_EQ(PlaceText(ParseCgroup("/user.slice/user-0.slice/session-1.scope")), "");
  EXPECT_EQ(PlaceText(ParseCgroup("/docker/" + std::string(64, 'b'))), "container bbbbbbbbbbbb");
}

TEST(GroupMembers, AreThoseOfTheLastSlot) {
  GroupMembers members({{"/x"}, {}, {}});
  members.OnSlot(SlotOf(
      1, {Who(1, "a", nullptr, "/x/y"), Who(2, "b", nullptr, "/z"), Who(3, "c", nullptr, nullptr)}));
  EXPECT_TRUE(members.Has({1, 5}));
  EXPECT_FALSE(members.Has({1, 6}));
  EXPECT_FALSE(members.Has({2, 5}));
  EXPECT_FALSE(members.Has({3, 5}));
  members.OnSlot(SlotOf(2, {Who(1, "a", nullptr, "/z"), Who(2, "b", nullptr, "/x")}));
  EXPECT_FALSE(members.Has({1, 5}));
  EXPECT_TRUE(members.Has({2, 5}));
  members.OnSlot(SlotOf(3, {Gone(2)}));
  EXPECT_FALSE(members.Has({2, 5}));
}

}  // namespace
}  // namespace slotscope
