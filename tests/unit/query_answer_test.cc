// SPDX-License-Identifier: MIT
#include "query/answer.h"

#include <gtest/gtest.h>

namespace slotscope {
namespace {

TEST(QueryAnswer, IsATableWithNumbersToTheRight) {
  EXPECT_EQ(TableText("comm,ms\nweb,1.5\nbackup,20\n"),
            "comm     ms\n"
            "web     1.5\n"
            "backup   20\n"
            "2 rows\n");
  EXPECT_EQ(TableText(""), "0 rows\n");
}

TEST(QueryAnswer, WiderThanTheScreenIsABlockForEachRow) {
  const char* csv = "comm,cpu_ns,cycles\nweb,1000,\nbackup,20,7\n";
  const std::string as_table = TableText(csv, 22);
  EXPECT_EQ(as_table, TableText(csv)) << "it fits";
  const std::string blocks = TableText(csv, 21);
  EXPECT_EQ(blocks.substr(0, blocks.find("Empty")),
            "row 1\n"
            "  comm    web\n"
            "  cpu_ns  1000\n"
            "\n"
            "row 2\n"
            "  comm    backup\n"
            "  cpu_ns  20\n"
            "  cycles  7\n"
            "\n"
            "2 rows\n");
  EXPECT_EQ(TableText("sql\nthe only column is as wide as it is\n", 10),
            TableText("sql\nthe only column is as wide as it is\n"));
}

}  // namespace
}  // namespace slotscope
