// SPDX-License-Identifier: MIT
// Files that others write to.
#include "detect/live/file_follower.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "temp_folder.h"

namespace slotscope {
namespace {

class FileFollowerTest : public testing::Test {
 protected:
  // What is new; '^' where it begins anew.
  std::string Poll(FileFollower* follower) {
    std::string text;
    follower->Poll([&](std::string_view bytes) { text += bytes; }, [&] { text += '^'; });
    return text;
  }
  TempFolder folder_;
  std::string path_ = folder_.At("log");
};

TEST_F(FileFollowerTest, ReadsWhatIsAdded) {
  FileFollower follower(path_, 0);
  EXPECT_EQ(Poll(&follower), "") << "it is not there yet";
  EXPECT_EQ(follower.error(), 0);
  folder_.Append("log", "one\n");
  EXPECT_EQ(Poll(&follower), "^one\n");
  EXPECT_EQ(Poll(&follower), "");
  folder_.Append("log", "tw");
  EXPECT_EQ(Poll(&follower), "tw");
  folder_.Append("log", "o\n");
  EXPECT_EQ(Poll(&follower), "o\n");
}

TEST_F(FileFollowerTest, GoesOnWhenTheFileIsRotated) {
  folder_.Append("log", "one\n");
  FileFollower follower(path_, 0);
  EXPECT_EQ(Poll(&follower), "^one\n");
  std::filesystem::rename(path_, path_ + ".1");
  folder_.Append("log.1", "two\n");  // its writer has not noticed yet
  folder_.Append("log", "three\n");
  EXPECT_EQ(Poll(&follower), "two\n^three\n");
  // And where the new one comes later.
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(Poll(&follower), "");
  folder_.Append("log.1", "late\n");
  EXPECT_EQ(Poll(&follower), "late\n");
  folder_.Append("log", "four\n");
  EXPECT_EQ(Poll(&follower), "^four\n");
  // And where it is there, empty, before its writer has been told (logrotate's "create").
  std::filesystem::rename(path_, path_ + ".1");
  folder_.Append("log", "");
  EXPECT_EQ(Poll(&follower), "");
  folder_.Append("log.1", "later\n");
  EXPECT_EQ(Poll(&follower), "later\n");
  folder_.Append("log.1", "last\n");
  folder_.Append("log", "five\n");
  EXPECT_EQ(Poll(&follower), "last\n^five\n");
}

TEST_F(FileFollowerTest, BeginsAnewWhenTheFileIsTruncated) {
  folder_.Append("log", "one\n");
  FileFollower follower(path_, 0);
  EXPECT_EQ(Poll(&follower), "^one\n");
  folder_.Write("log", "2\n");
  EXPECT_EQ(Poll(&follower), "^2\n");
}

TEST_F(FileFollowerTest, OfALongFileTheEndIsEnough) {
  folder_.Append("log", std::string(1000, 'a') + "\nend\n");
  FileFollower follower(path_, 10);
  EXPECT_EQ(Poll(&follower), "^end\n") << "whole lines";
  // But of the next one all of it.
  std::filesystem::rename(path_, path_ + ".1");
  folder_.Append("log", "all of it\n");
  EXPECT_EQ(Poll(&follower), "^all of it\n");
}

TEST_F(FileFollowerTest, OthersGetTheirTurn) {
  folder_.Append("log", std::string(40 << 20, 'x'));
  FileFollower follower(path_, 0);
  size_t nr_bytes = 0, nr_polls = 0;
  const auto count = [&](std::string_view bytes) { nr_bytes += bytes.size(); };
  while (follower.Poll(count, [] {})) nr_polls++;
  EXPECT_EQ(nr_bytes, 40u << 20);
  EXPECT_GE(nr_polls, 2u);
}

TEST_F(FileFollowerTest, NothingIsWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  FileFollower follower(path_, 0);
  EXPECT_EQ(Poll(&follower), "^");
  FileFollower of_folder(folder_.path(), 0);
  EXPECT_EQ(Poll(&of_folder), "");
  EXPECT_EQ(of_folder.error(), EISDIR);
}

}  // namespace
}  // namespace slotscope
