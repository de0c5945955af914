// SPDX-License-Identifier: MIT
#include "query/answer.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/text_input.h"
#include "base/unique_fd.h"
#include "query/tables.h"

namespace slotscope {
namespace {

constexpr std::array kFormats = {"FORMAT csv, HEADER", "FORMAT json, ARRAY true", "FORMAT json",
                                 "FORMAT parquet, COMPRESSION zstd"};

// Without blanks and semicolons at its end.
std::string_view Trimmed(std::string_view query) {
  while (!query.empty() &&
         (std::isspace(static_cast<unsigned char>(query.back())) || query.back() == ';'))
    query.remove_suffix(1);
  while (!query.empty() && std::isspace(static_cast<unsigned char>(query.front())))
    query.remove_prefix(1);
  return query;
}

// What COPY takes as it is; the rest (DESCRIBE, SUMMARIZE, SHOW) it takes as a source.
bool IsSelect(std::string_view query) {
  std::string word;
  for (const char c : query.substr(0, query.find_first_of(" \t\n(")))
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array kSelects = {"select", "with", "from", "values", "pivot", "unpivot", "table"};
  return query.starts_with("(") || query.starts_with("-") || query.starts_with("/") ||
         std::find(kSelects.begin(), kSelects.end(), word) != kSelects.end();
}

// Rows of CSV whose fields may be in quotes.
std::vector<std::vector<std::string>> RowsOf(std::string_view csv) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool is_quoted = false;
  for (size_t i = 0; i < csv.size(); i++) {
    const char c = csv[i];
    if (is_quoted && c == '"' && i + 1 < csv.size() && csv[i + 1] == '"') {
      row.back() += '"';
      i++;
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      row.emplace_back();
    } else if (!is_quoted && c == '\n') {
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
    } else if (c != '\r' || is_quoted) {
      row.back() += c;
    }
  }
  return rows;
}

bool IsNumber(const std::string& text) { return text.find_first_not_of("0123456789.-+e") == text.npos; }

// A line for each field that is not empty; rows[0] are the names.
std::string BlocksText(const std::vector<std::vector<std::string>>& rows) {
  size_t widest = 0;
  for (const std::string& name : rows[0]) widest = std::max(widest, EscapeControls(name).size());
  std::string text;
  for (size_t i = 1; i < rows.size(); i++) {
    text += fmt::format("row {}\n", i);
    for (size_t k = 0; k < std::min(rows[i].size(), rows[0].size()); k++)
      if (!rows[i][k].empty())
        text += fmt::format("  {:<{}}  {}\n", EscapeControls(rows[0][k]), widest,
                            EscapeControls(rows[i][k]));
    text += '\n';
  }
  return text;
}

}  // namespace

Status FormatOf(std::string_view path, AnswerFormat* format) {
  constexpr std::array<std::pair<std::string_view, AnswerFormat>, 5> kEnds = {
      {{".csv", AnswerFormat::kCsv},
       {".json", AnswerFormat::kJson},
       {".ndjson", AnswerFormat::kJsonLines},
       {".jsonl", AnswerFormat::kJsonLines},
       {".parquet", AnswerFormat::kParquet}}};
  for (const auto& [end, its] : kEnds)
    if (path.ends_with(end)) {
      *format = its;
      return {};
    }
  return {Exit::kUsage, fmt::format("--output {}: its name says what it becomes; end it in .csv, .json, "
                                    ".ndjson or .parquet",
                                    EscapeName(path))};
}

Status WriteAnswer(DuckDb* database, std::string_view query, AnswerFormat format,
                   const std::string& path) {
  query = Trimmed(query);
  // What is wrong with it as it was given.
  if (Status status = database->Check(std::string(query)); !status.ok()) return status;
  // A line of its own for the parenthesis: the query may end in a comment. And no file beside that one.
  const Status status = database->Run(fmt::format(
      "COPY ({}{}\n{}) TO {} ({}, USE_TMP_FILE false)", IsSelect(query) ? "" : "FROM (", query,
      IsSelect(query) ? "" : ")", QuotedText(path), kFormats[static_cast<size_t>(format)]));
  if (status.ok() || !status.message().starts_with("Parser Error")) return status;
  return {Exit::kUsage, "give one statement that returns rows, such as SELECT"};
}

Status ReadAnswer(DuckDb* database, std::string_view query, AnswerFormat format, std::string* text) {
  UniqueFd memory(memfd_create("slotscope", MFD_CLOEXEC));
  const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
  if (Status status = WriteAnswer(database, query, format, path); !status.ok()) return status;
  return ReadInput(path, text);
}

std::string TableText(std::string_view csv, size_t screen_width) {
  const auto rows = RowsOf(csv);
  if (rows.empty()) return "0 rows\n";
  std::vector<size_t> widths(rows[0].size());
  std::vector<bool> are_numbers(rows[0].size(), true);
  for (size_t i = 0; i < rows.size(); i++)
    for (size_t k = 0; k < std::min(rows[i].size(), widths.size()); k++) {
      widths[k] = std::max(widths[k], EscapeControls(rows[i][k]).size());
      if (i > 0 && !IsNumber(rows[i][k])) are_numbers[k] = false;
    }
  const std::string nr_rows = fmt::format("{} row{}\n", rows.size() - 1, rows.size() == 2 ? "" : "s");
  const size_t width = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  if (screen_width && width > screen_width && widths.size() > 1)
    return BlocksText(rows) + nr_rows +
           "Empty fields are not shown. For less: name the columns, or -o x.csv.\n";
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t k = 0; k < std::min(row.size(), widths.size()); k++)
      line += are_numbers[k] ? fmt::format("{}{:>{}}", k ? "  " : "", EscapeControls(row[k]), widths[k])
                             : fmt::format("{}{:<{}}", k ? "  " : "", EscapeControls(row[k]), widths[k]);
    while (line.ends_with(' ')) line.pop_back();
    text += line + '\n';
  }
  return text + nr_rows;
}

}  // namespace slotscope
