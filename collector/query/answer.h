// SPDX-License-Identifier: MIT
// What a query returns, for people and for programs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "query/duckdb.h"

namespace slotscope {

enum class AnswerFormat { kCsv, kJson, kJsonLines, kParquet };

// By the end of a file's name. Exit::kUsage: none of these.
Status FormatOf(std::string_view path, AnswerFormat* format);

// Of one statement that returns rows, into a file that is made, or is there.
Status WriteAnswer(DuckDb* database, std::string_view query, AnswerFormat format,
                   const std::string& path);
// The same as text.
Status ReadAnswer(DuckDb* database, std::string_view query, AnswerFormat format, std::string* text);

// CSV as a table for people: columns of one width, numbers to the right, and how many rows there are. Of
// one that is wider than a screen of that width each row is a block, without its empty fields; 0: none
// is.
std::string TableText(std::string_view csv, size_t screen_width = 0);

}  // namespace slotscope
