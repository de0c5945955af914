// SPDX-License-Identifier: MIT
// The tables of the database: numbered files of SQL (deploy/clickhouse), of which the database says how
// far it has them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ship/block.h"
#include "ship/click_house.h"

namespace slotscope {

struct SchemaFile {
  uint32_t version;
  std::string_view name;  // "0001-tables.sql"
  std::string_view sql;
};

// Those that this program was built with, in the order of their numbers, which begin with 1.
std::vector<SchemaFile> SchemaFiles();

// Its statements, without comments. Each may be carried out again: a file may have been applied in part,
// and a column that an ALTER TABLE t ADD COLUMN c adds is left alone if it is there. Behind a line "--
// where NAME: STATEMENT; STATEMENT" are those for servers that can do these, up to another one or a line
// "-- everywhere".
struct SchemaPart {
  std::string needs;                // a name; empty: of every server
  std::vector<std::string> probes;  // whether it has that
  std::vector<std::string> statements;
};
std::vector<SchemaPart> PartsOf(std::string_view sql);

// How far the database is: 0 if there is none, or it is empty.
Reply ReadSchemaVersion(ClickHouse* server, uint32_t* version);

// Makes what is missing. `on_step`: what was done, a sentence for each file, and for what the server
// does without.
Reply SetUpSchema(ClickHouse* server, const std::function<void(const std::string&)>& on_step);

// From now on rows are deleted when they are so many days old. kUnknown: this server cannot do that.
Reply SetTtl(ClickHouse* server, uint64_t days);

// The tables that rows are put into, and their columns.
Reply ReadServerTables(ClickHouse* server, std::vector<ServerTable>* tables);

}  // namespace slotscope
