// SPDX-License-Identifier: MIT
#include "detect/inputs/fr_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "temp_folder.h"

namespace slotscope {
namespace {

constexpr const char* kDump =
    R"({"version":"2.10","entries":[{"process_group":["0","default_pg"],"collective_seq_id":7,)"
    R"("state":"started","time_created_ns":5},{}]})";

class FrFolderTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) const { folder_.Write(name, bytes); }
  const TempFolder folder_;
  const std::string path_ = folder_.path();
};

TEST_F(FrFolderTest, HasAFilePerRank) {
  Write("nccl_trace_rank_0", kDump);
  Write("nccl_trace_rank_11", kDump);
  Write("fault_injection.log", "no dump, and no rank");
  std::filesystem::create_directory(path_ + "/nccl_trace_rank_3");
  ASSERT_EQ(mkfifo((path_ + "/nccl_trace_rank_4").c_str(), 0600), 0);  // to open it would wait
  FrFolder folder;
  ASSERT_TRUE(ReadFrFolder(path_, &folder).ok());
  EXPECT_EQ(folder.records.ranks(), (std::set<int32_t>{0, 11}));
  EXPECT_EQ(folder.nr_malformed, 2u);
  EXPECT_TRUE(folder.problems.empty());
}

// Each host writes its own part of the name.
TEST_F(FrFolderTest, RanksOfSeveralHostsAreOfOneJob) {
  Write("nccl_trace_rank_container-node01_0", kDump);
  Write("nccl_trace_rank_container-node01_1", kDump);
  Write("nccl_trace_rank_container-node02_4", kDump);
  Write("nccl_trace_rank_container-node02_5", kDump);
  FrFolder folder;
  ASSERT_TRUE(ReadFrFolder(path_, &folder).ok());
  EXPECT_EQ(folder.records.ranks(), (std::set<int32_t>{0, 1, 4, 5}));
  EXPECT_TRUE(folder.problems.empty());
}

// What is no plain file now, though it was one when its name was read.
TEST_F(FrFolderTest, NothingIsFollowedAndNothingIsWaitedFor) {
  Write("target", kDump);
  std::filesystem::create_symlink("target", path_ + "/nccl_trace_rank_0");
  ASSERT_EQ(mkfifo((path_ + "/nccl_trace_rank_1").c_str(), 0600), 0);
  Write("nccl_trace_rank_2", "");
  std::filesystem::resize_file(path_ + "/nccl_trace_rank_2", 65ull << 20);  // without a block
  FrFileReader reader;
  FrDump dump;
  const auto why = [&](const char* name) { return reader.Read(path_ + name, &dump).message(); };
  EXPECT_EQ(why("/nccl_trace_rank_0"), "it is a link");
  EXPECT_EQ(why("/nccl_trace_rank_1"), "it is no regular file");
  EXPECT_EQ(why("/nccl_trace_rank_2"), "it is larger than 64 MiB");
  EXPECT_EQ(why(""), "it is no regular file");
  EXPECT_EQ(why("/target"), "");
}

TEST_F(FrFolderTest, WhatCannotBeReadIsNamedAndTheRestIsRead) {
  Write("rank_0", kDump);
  Write("rank_1", std::string(kDump).substr(0, 50));
  Write("rank_2",
        "\x80\x02"
        "cos\nsystem\n.");
  Write("other_0", kDump);
  FrFolder folder;
  ASSERT_TRUE(ReadFrFolder(path_, &folder).ok());
  EXPECT_EQ(folder.records.ranks(), (std::set<int32_t>{0}));
  ASSERT_EQ(folder.problems.size(), 3u);
  std::string all;
  for (const std::string& problem : folder.problems) all += problem + "\n";
  for (const char* says : {"rank_1: not a JSON text", "rank_2: not a pickle of plain data",
                           "opcode GLOBAL is refused", "rank 0 has another file"})
    EXPECT_NE(all.find(says), std::string::npos) << says << " is not in\n" << all;
}

TEST_F(FrFolderTest, TheNameThatMostFilesHaveIsTheJobs) {
  for (int rank = 0; rank < 4; rank++) Write("nccl_trace_rank_" + std::to_string(rank), kDump);
  Write("aaa_0", "junk");
  Write("nccl_trace_rank_1.json", "{}");  // the same again, for people
  FrFolder folder;
  ASSERT_TRUE(ReadFrFolder(path_, &folder).ok());
  EXPECT_EQ(folder.records.ranks().size(), 4u);
  ASSERT_EQ(folder.problems.size(), 1u);
  EXPECT_NE(folder.problems[0].find("aaa_0: rank 0 has another file"), std::string::npos);
}

TEST_F(FrFolderTest, AllTogetherHaveABound) {
  for (int rank = 0; rank < 3; rank++) Write("rank_" + std::to_string(rank), kDump);
  FrFolder folder;
  ASSERT_TRUE(ReadFrFolder(path_, &folder, 2 * std::string(kDump).size()).ok());
  EXPECT_EQ(folder.records.ranks(), (std::set<int32_t>{0, 1}));
  ASSERT_EQ(folder.problems.size(), 1u);
  EXPECT_NE(folder.problems[0].find("rank_2: those before it have"), std::string::npos);
}

TEST_F(FrFolderTest, WithoutAnyDumpIsAnError) {
  FrFolder folder;
  EXPECT_EQ(ReadFrFolder(path_, &folder).code(), Exit::kBadInput);
  EXPECT_EQ(ReadFrFolder(path_ + "/nowhere", &folder).code(), Exit::kBadInput);
  Write("rank_1", "");
  const Status status = ReadFrFolder(path_, &folder);
  EXPECT_EQ(status.code(), Exit::kBadInput);
  EXPECT_NE(status.message().find("the file is empty"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace slotscope
