// SPDX-License-Identifier: MIT
#include "cli/query.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/say.h"
#include "base/unique_fd.h"
#include "cli/exit_code.h"
#include "cli/reader_parser.h"
#include "query/answer.h"
#include "query/duckdb.h"
#include "query/tables.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

constexpr size_t kTableWidth = 80;

// Names behind each other, in lines.
std::string Wrapped(const std::string& first, const std::vector<std::string>& names) {
  std::string text, line = first;
  for (const std::string& name : names) {
    if (line.size() + name.size() + 2 > kTableWidth) {
      text += line + '\n';
      line = std::string(first.size(), ' ');
    }
    line += ' ' + name;
  }
  return text + line + '\n';
}

std::string TablesText(const QueryTables& tables, const std::string& path) {
  std::string text =
      fmt::format("The tables of {}, and their columns (time: UTC):\n\n", EscapeName(path));
  for (const QueryTable& table : tables.tables())
    text += Wrapped(fmt::format("{:<10}", table.name), table.columns);
  return text +
         "\nFor example: slotscope query \"SELECT comm, sum(wait_ns) / 1e6 AS ms FROM slots\n"
         "GROUP BY comm ORDER BY ms DESC LIMIT 10\". What columns mean: man slots.csv\n";
}

// What DuckDB finds wrong with the words of a query, before it reads anything.
bool IsOfTheQuery(const Status& status) {
  constexpr std::array kOfQuery = {"Parser Error", "Binder Error", "Catalog Error"};
  return std::any_of(kOfQuery.begin(), kOfQuery.end(),
                     [&](const char* begin) { return status.message().starts_with(begin); });
}

// Without "LINE 1: ...", which shows SQL that is ours.
std::string WithoutSql(const std::string& error) {
  const size_t at = error.find("\n\nLINE ");
  const bool is_ours =
      error.find(" COPY (", at) != error.npos || error.find(" CREATE VIEW ", at) != error.npos;
  return is_ours ? error.substr(0, at) : error;
}

// 0: standard output is no terminal.
size_t ScreenWidth() {
  winsize size = {};
  return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// It appears when it is complete.
Status WriteFile(DuckDb* database, const QueryOptions& options) {
  AnswerFormat format;
  if (Status status = FormatOf(options.output, &format); !status.ok()) return status;
  const std::string part = options.output + std::string(kPart);
  umask(0027);
  // DuckDB says of a file that it cannot write what it says of SQL that cannot be meant.
  if (const UniqueFd file(open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)); !file.valid())
    return {Exit::kOutput,
            fmt::format("cannot write {}: {}", EscapeName(options.output), ErrnoText(errno))};
  Status status = WriteAnswer(database, options.sql, format, part);
  if (status.ok() && rename(part.c_str(), options.output.c_str()))
    status = {Exit::kOutput,
              fmt::format("cannot give {} its name: {}", EscapeName(part), ErrnoText(errno))};
  if (!status.ok()) unlink(part.c_str());
  if (status.ok()) Say(stderr, "wrote {}\n", EscapeName(options.output));
  return status;
}

Status RunQuery(const QueryOptions& options) {
  RecordingTables recording;
  if (Status status = OpenRecording(options.reader, std::string(kSlotsTable), &recording); !status.ok())
    return status;
  ReaderRange asked;
  if (Status status = FindRange(options.reader, recording.facts(), &asked); !status.ok()) return status;
  Selection selection = options.reader.selection;
  ProcessPlaces places;
  Status damage;
  if (Status status = FindPlaces(recording, asked.range, &selection, &places, &damage); !status.ok())
    return status;
  if (!damage.ok()) return damage;
  const UnixRange range = asked.is_part ? asked.range : UnixRange();
  QueryTables tables;
  if (Status status = tables.Open(recording, range, selection); !status.ok()) return status;
  if (options.sql.empty()) {
    Say(stdout, "{}", TablesText(tables, recording.path()));
    return {};
  }
  // Where a file is damaged, our reader says it better.
  const auto explained = [&](const Status& status) -> Status {
    if (status.ok()) return {};
    if (!IsOfTheQuery(status))
      if (Status found = tables.FindDamage(recording, range); !found.ok()) return found;
    return {status.code(), tables.Explained(WithoutSql(status.message()))};
  };
  DuckDb database;
  if (Status status = database.Open(); !status.ok()) return status;
  for (const QueryTable& table : tables.tables())
    if (Status status = explained(database.Run(table.sql)); !status.ok())
      return {Exit::kBadInput, fmt::format("the table {} cannot be read: {}", table.name,
                                           EscapeControls(status.message()))};
  if (!options.output.empty()) return explained(WriteFile(&database, options));
  std::string text;
  const AnswerFormat format = options.reader.json ? AnswerFormat::kJson : AnswerFormat::kCsv;
  if (Status status = ReadAnswer(&database, options.sql, format, &text); !status.ok())
    return explained(status);
  Say(stdout, "{}", options.reader.json ? text : TableText(text, ScreenWidth()));
  return {};
}

}  // namespace

int Query(const QueryOptions& options) { return ExitCode(RunQuery(options)); }

}  // namespace slotscope
