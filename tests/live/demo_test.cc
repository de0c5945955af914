// SPDX-License-Identifier: MIT
// The demo tells the story that it is there for: who ran instead of the trainer, for how long, and that
// it is over when that one is moved.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
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
