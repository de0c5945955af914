// SPDX-License-Identifier: MIT
#include "ring/pod_logs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/unit/temp_folder.h"

namespace slotscope {
namespace {

TEST(PodLogs, TellsTheNamesWhenTheyAreOthers) {
  TempFolder folder;
  const auto make = [&](const std::string& name) { mkdir(folder.At(name).c_str(), 0755); };
  make("ml_train-0_0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60");
  make("kube-system_etcd-node1_6db2a3c9e1f04b7a8c5d2e9f0a1b3c4d");
  for (const char* nonsense :
       {"one", "one_two", "_two_three", "one_two_", "one__three", "o ne_two_three"})
    make(nonsense);
  PodLogs logs(folder.path());
  ASSERT_GE(logs.fd(), 0);
  std::string lines;
  EXPECT_TRUE(logs.Take(&lines));
  EXPECT_EQ(lines,
            "0f4a2c1e-8d3b-4c55-9a70-1b2c3d4e5f60 ml/train-0\n"
            "6db2a3c9e1f04b7a8c5d2e9f0a1b3c4d kube-system/etcd-node1\n");
  EXPECT_FALSE(logs.Take(&lines));
  make("nonsense");
  EXPECT_FALSE(logs.Take(&lines));
  make("db_pg_1");
  EXPECT_TRUE(logs.Take(&lines));
  EXPECT_NE(lines.find("1 db/pg\n"), std::string::npos);
  rmdir(folder.At("db_pg_1").c_str());
  EXPECT_TRUE(logs.Take(&lines));
  EXPECT_EQ(lines.find("db/pg"), std::string::npos);
}

TEST(PodLogs, ThereNeedNotBeAny) {
  PodLogs logs("/nonexistent/pods");
  EXPECT_LT(logs.fd(), 0);
  std::string lines;
  EXPECT_FALSE(logs.Take(&lines));
}

}  // namespace
}  // namespace slotscope
