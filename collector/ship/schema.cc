// SPDX-License-Identifier: MIT
#include "ship/schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/escape.h"
#include "base/scan.h"

// See the Makefile: each file behind a line with its name.
extern const char kSchemaBegin[] asm("_binary_schema_sql_start");
extern const char kSchemaEnd[] asm("_binary_schema_sql_end");

namespace slotscope {
namespace {

// Those of it that every table of rows has.
constexpr std::string_view kOurs[] = {"host", "boot_id", "batch", "row", "time"};

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == line.npos; }

// As IF NOT EXISTS of an ALTER TABLE ... ADD COLUMN, which not every server knows.
Reply IsThereAlready(ClickHouse* server, std::string_view statement, bool* is_there) {
  constexpr std::string_view kAlter = "ALTER TABLE ", kAdd = " ADD COLUMN ";
  *is_there = false;
  const size_t add = statement.find(kAdd);
  if (!statement.starts_with(kAlter) || add == statement.npos) return {};
  const std::string_view table = statement.substr(kAlter.size(), add - kAlter.size());
  statement.remove_prefix(add + kAdd.size());
  Reply reply = server->Ask(fmt::format(
      "SELECT count() FROM system.columns WHERE database = {} AND table = {} AND name = {}",
      SqlText(server->database()), SqlText(table), SqlText(statement.substr(0, statement.find(' ')))));
  *is_there = reply.text == "1\n";
  return reply;
}

// Up to the first that fails.
Reply AskAll(ClickHouse* server, const std::vector<std::string>& statements) {
  for (const std::string& statement : statements) {
    bool is_there = false;
    Reply reply = IsThereAlready(server, statement, &is_there);
    if (reply.ok() && !is_there) reply = server->Ask(statement);
    if (!reply.ok()) return reply;
  }
  return {};
}

}  // namespace

std::vector<SchemaFile> SchemaFiles() {
  constexpr std::string_view kMark = "-- file: ";
  std::string_view text(kSchemaBegin, static_cast<size_t>(std::distance(kSchemaBegin, kSchemaEnd)));
  std::vector<SchemaFile> files;
  while (text.starts_with(kMark)) {
    const size_t next = std::min(text.find(kMark, 1), text.size());
    std::string_view file = text.substr(kMark.size(), next - kMark.size());
    text.remove_prefix(next);
    const std::string_view name = file.substr(0, file.find('\n'));
    file.remove_prefix(name.size());
    files.push_back({NumberOf<uint32_t>(name.substr(0, name.find('-'))).value_or(0), name, file});
  }
  return files;
}

std::vector<SchemaPart> PartsOf(std::string_view sql) {
  constexpr std::string_view kWhere = "-- where ";
  std::vector<SchemaPart> parts(1);
  std::string statement;
  while (!sql.empty()) {
    const std::string_view line = sql.substr(0, sql.find('\n'));
    sql.remove_prefix(std::min(sql.size(), line.size() + 1));
    if (line.starts_with(kWhere)) {
      const size_t colon = std::min(line.find(": "), line.size() - 2);
      parts.push_back({std::string(line.substr(kWhere.size(), colon - kWhere.size())), {}, {}});
      for (std::string_view rest = line.substr(colon + 2); !rest.empty();) {
        const std::string_view probe = rest.substr(0, rest.find("; "));
        rest.remove_prefix(std::min(rest.size(), probe.size() + 2));
        parts.back().probes.emplace_back(probe);
      }
    } else if (line.starts_with("-- everywhere")) {
      parts.emplace_back();
    }
    if (line.starts_with("--") || IsBlank(line)) continue;
    const bool ends = line.ends_with(';');
    statement += line.substr(0, line.size() - ends);
    statement += '\n';
    if (ends) parts.back().statements.push_back(std::exchange(statement, {}));
  }
  return parts;
}

Reply ReadSchemaVersion(ClickHouse* server, uint32_t* version) {
  *version = 0;
  Reply reply = server->Ask("SELECT max(version) FROM schema_versions");
  if (reply.answered == Answered::kLacking) return {};
  if (!reply.ok()) return reply;
  const auto rows = FieldsOf(reply.text);
  const auto number = rows.size() == 1 ? NumberOf<uint32_t>(rows[0][0]) : std::nullopt;
  if (!number) return {Answered::kFailed, "it says nothing of a version in schema_versions"};
  *version = *number;
  return reply;
}

Reply SetUpSchema(ClickHouse* server, const std::function<void(const std::string&)>& on_step) {
  const std::string& database = server->database();
  if (Reply reply =
          server->Ask("CREATE DATABASE IF NOT EXISTS " + database, ClickHouse::In::kNoDatabase);
      !reply.ok())
    return reply;
  uint32_t version;
  if (Reply reply = ReadSchemaVersion(server, &version); !reply.ok()) return reply;
  for (const SchemaFile& file : SchemaFiles()) {
    if (file.version <= version) continue;
    for (const SchemaPart& part : PartsOf(file.sql)) {
      Reply reply = AskAll(server, part.probes);
      if (reply.answered == Answered::kUnknown) {
        on_step(fmt::format("{}: this server has no {}: it does without", file.name, part.needs));
        continue;
      }
      if (reply.ok()) reply = AskAll(server, part.statements);
      if (!reply.ok()) return reply;
    }
    Reply reply = server->Ask(
        fmt::format("INSERT INTO schema_versions (version, applied) VALUES ({}, now())", file.version));
    if (!reply.ok()) return reply;
    on_step(fmt::format("applied {}", file.name));
  }
  return {};
}

Reply ReadServerTables(ClickHouse* server, std::vector<ServerTable>* tables) {
  tables->clear();
  Reply reply = server->Ask(fmt::format(
      "SELECT table, name, type FROM system.columns WHERE database = {} ORDER BY table, name",
      SqlText(server->database())));
  if (!reply.ok()) return reply;
  for (const auto& row : FieldsOf(reply.text)) {
    if (row.size() != 3) return {Answered::kFailed, "it does not say which columns there are"};
    if (tables->empty() || tables->back().name != row[0]) tables->push_back({row[0], {}});
    // One of a type that we do not write is one that this table does not have.
    if (const auto type = ParseServerType(row[2])) tables->back().columns.emplace_back(row[1], *type);
  }
  // Views, and what has no rows of ours.
  std::erase_if(*tables, [](const ServerTable& table) {
    return !std::all_of(std::begin(kOurs), std::end(kOurs), [&](std::string_view name) {
      return std::any_of(table.columns.begin(), table.columns.end(),
                         [&](const auto& column) { return column.first == name; });
    });
  });
  return {};
}

Reply SetTtl(ClickHouse* server, uint64_t days) {
  std::vector<ServerTable> tables;
  Reply reply = ReadServerTables(server, &tables);
  for (size_t i = 0; i < tables.size() && reply.ok(); i++)
    reply = server->Ask(
        fmt::format("ALTER TABLE {} MODIFY TTL time + INTERVAL {} DAY", tables[i].name, days));
  return reply;
}

}  // namespace slotscope
