// SPDX-License-Identifier: MIT
// The demo tells the story that it is there for: who ran instead of the trainer, for how long, and that
// it is over when that one is moved.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/live/harness.h"

namespace slotscope {
namespace {

namespace fs = std::filesystem;

uint64_t Number(const std::string& text) { return text.empty() ? 0 : std::stoull(text); }

TEST(Demo, NamesWhoRanInsteadAndWhenItWasOver) {
  const fs::path build = fs::path(SlotscopeBinary()).parent_path();
  const fs::path script = build.parent_path() / "scripts/demo/demo.sh";
  if (!fs::exists(script)) GTEST_SKIP() << "it is only where the sources are";
  if (UsesModule()) GTEST_SKIP() << "it chooses its source itself";
  if (NrCpus() < 2) GTEST_SKIP() << "there is one CPU, nowhere to move anybody to";
  const std::string dir = MakeDir("demo");
  std::string output;
  ASSERT_EQ(Shell("cd " + dir + " && " + script.string() + " " + build.string(), &output), 0) << output;
  const std::string output_of_demo = output;
  EXPECT_NE(output.find("The trainer, second by second"), std::string::npos) << output;
  EXPECT_GT(fs::file_size(dir + "/slotscope-demo/report.html"), 50'000u);

  // Of the trainer's rows, from when the one who is in its way ran for the first time.
  ASSERT_EQ(Shell("cd " + dir +
                      "/slotscope-demo && $S explain --rows waits --comm trainer demo.rec >waits.csv"
                      " && $S explain --rows seconds --comm trainer demo.rec >seconds.csv",
                  &output),
            0)
      << output;
  std::map<uint64_t, uint64_t> waited_ns;  // for the compactor, by ms
  for (const CsvRow& row : ReadCsv(dir + "/slotscope-demo/waits.csv").rows)
    if (row.at("comm") == "trainer" && row.at("ran_comm") == "compactor")
      waited_ns[Number(row.at("slot_start_ns")) / 1'000'000] += Number(row.at("ns"));
  ASSERT_FALSE(waited_ns.empty()) << output;
  const uint64_t begin_ms = waited_ns.begin()->first;
  uint64_t meanwhile_ns = 0, after_ns = 0;
  for (const auto& [ms, ns] : waited_ns) (ms < begin_ms + 2100 ? meanwhile_ns : after_ns) += ns;
  // It takes what it gets of two seconds; others may have been there as well.
  EXPECT_GT(meanwhile_ns, 100'000'000u);
  EXPECT_LT(after_ns, meanwhile_ns / 10) << "it was moved";
  // What is said of it, on the screen and on the page, is what these rows say.
  std::string text = output_of_demo;
  for (size_t at; (at = text.find("\n   ")) != text.npos;) text.replace(at, 4, " ");
  for (size_t at; (at = text.find("  ")) != text.npos;) text.erase(at, 1);
  ASSERT_EQ(Shell("cd " + dir +
                      "/slotscope-demo && $S explain demo.rec --comm trainer -n 1 --json >story.json",
                  &output),
            0)
      << output;
  std::ifstream story_file(dir + "/slotscope-demo/story.json");
  const auto moment = nlohmann::json::parse(story_file).at("moments").at(0);
  const auto sentence = moment.at("sentence").get<std::string>();
  EXPECT_NE(text.find(sentence), text.npos) << sentence << "\n" << text;
  EXPECT_EQ(moment.at("who").at("name"), "trainer");
  EXPECT_EQ(moment.at("cause"), "others");
  uint64_t said_ns = 0, true_ns = 0;
  for (const auto& neighbor : moment.at("neighbors"))
    if (neighbor.at("name") == "compactor") said_ns = neighbor.at("ran_instead_ns");
  for (const CsvRow& row : ReadCsv(dir + "/slotscope-demo/waits.csv").rows)
    if (row.at("comm") == "trainer" && row.at("ran_comm") == "compactor" &&
        Number(row.at("slot_start_unix_ns")) >= moment.at("from_unix_ns") &&
        Number(row.at("slot_start_unix_ns")) < moment.at("to_unix_ns"))
      true_ns += Number(row.at("ns"));
  EXPECT_NEAR(static_cast<double>(said_ns), static_cast<double>(true_ns),
              static_cast<double>(true_ns) / 50 + 2e6);
  EXPECT_GT(said_ns, meanwhile_ns / 2) << "of who was in its way the moment has most";
  std::ifstream page(dir + "/slotscope-demo/report.html");
  std::stringstream html;
  html << page.rdbuf();
  EXPECT_NE(html.str().find("compactor"), std::string::npos);
  // Before, meanwhile, and after: what its GPU lost to that.
  double without_s = 0, waited_ms[2] = {};
  for (const CsvRow& row : ReadCsv(dir + "/slotscope-demo/seconds.csv").rows) {
    const uint64_t ms = Number(row.at("slot_start_ns")) / 1'000'000;
    const bool is_meanwhile = ms + 1000 > begin_ms && ms < begin_ms + 2100;
    without_s += !is_meanwhile;
    waited_ms[is_meanwhile] += static_cast<double>(Number(row.at("gpu_no_work_waited_ns"))) / 1e6;
  }
  EXPECT_GT(without_s, 4);
  std::printf(
      "GPU without work, as the trainer waited: %.0f ms in the seconds of the compactor, %.0f in "
      "others\n",
      waited_ms[1], waited_ms[0]);
  EXPECT_GE(waited_ms[1] * 1e6, static_cast<double>(said_ns) * 0.9);
  uint64_t nr_launches = 0, no_work_ns = 0;
  for (const CsvRow& row : ReadCsv(dir + "/slotscope-demo/seconds.csv").rows) {
    nr_launches += Number(row.at("gpu_launches"));
    no_work_ns += Number(row.at("gpu_no_work_ns"));
  }
  EXPECT_GT(nr_launches, 50u);
  EXPECT_GT(no_work_ns, 100'000'000u);
}

}  // namespace
}  // namespace slotscope
