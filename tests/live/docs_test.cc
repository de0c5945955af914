// SPDX-License-Identifier: MIT
// doc/tutorial.md does what it says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness.h"

namespace slotscope {
namespace {

// The blocks of code for a shell, as they stand there.
std::vector<std::string> ShellBlocks(const std::string& text) {
  std::vector<std::string> blocks;
  const std::string begin = "```sh\n";
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    const size_t end = text.find("```", at);
    blocks.push_back(text.substr(at, end - at));
  }
  return blocks;
}

TEST(Docs, TheTutorialFindsTheNeighbor) {
  std::ifstream chapter("doc/tutorial.md");
  if (!chapter.is_open()) GTEST_SKIP() << "needs doc/tutorial.md, in the project's folder";
  std::stringstream text;
  text << chapter.rdbuf();
  const std::vector<std::string> blocks = ShellBlocks(text.str());
  ASSERT_EQ(blocks.size(), 4u);
  const std::string dir = MakeDir("tutorial");
  std::string script = "cd " + dir + " && export PATH=$(dirname $(realpath $S)):$PATH\n";
  for (size_t i = 0; i < blocks.size(); i++)
    script += "exec >out" + std::to_string(i) + " 2>&1\n" + blocks[i];
  std::ofstream(dir + "/all.sh") << script;
  std::string output;
  ASSERT_EQ(Shell("S=$(realpath $S) bash -e " + dir + "/all.sh", &output), 0)
      << output << Text(dir + "/out3");
  EXPECT_NE(Text(dir + "/out1").find("slotscope.rec"), std::string::npos) << Text(dir + "/out1");
  // On a machine that has much else to do, something else may be worse, and kept it waiting for longer.
  std::string answer;
  ASSERT_EQ(Shell("$S explain --comm web " + dir + "/tutorial/slotscope.rec", &answer), 0) << answer;
  EXPECT_NE(answer.find("1. "), std::string::npos) << answer;
  EXPECT_NE(answer.find("web ("), std::string::npos) << answer;
  std::string rows;
  ASSERT_EQ(Shell("$S explain --comm web --rows waits " + dir + "/tutorial/slotscope.rec", &rows), 0)
      << rows;
  EXPECT_NE(rows.find(",backup,"), std::string::npos) << answer;
  EXPECT_TRUE(std::filesystem::exists(dir + "/tutorial/report.html"));
  EXPECT_NE(Text(dir + "/out3").find("RAN INSTEAD"), std::string::npos) << Text(dir + "/out3");
}

}  // namespace
}  // namespace slotscope
