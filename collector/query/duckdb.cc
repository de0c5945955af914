// SPDX-License-Identifier: MIT
#include "query/duckdb.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/escape.h"

namespace slotscope {
namespace {

// Where it is looked for, behind $SLOTSCOPE_DUCKDB: where the loader looks, and where npm puts it if it
// is asked as doc/query.md says.
constexpr std::array kPlaces = {
    "libduckdb.so",
    "/usr/local/lib/libduckdb.so",
    "/usr/local/lib/slotscope/node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so",
};

constexpr const char* kHowToGet =
    "query needs DuckDB's library, libduckdb.so, and it is not on this machine. Put the one from "
    "libduckdb-linux-amd64.zip (duckdb.org) into /usr/local/lib and run ldconfig; or: npm install "
    "--prefix /usr/local/lib/slotscope @duckdb/node-bindings-linux-x64; or name one in "
    "$SLOTSCOPE_DUCKDB. Without it: slotscope explain --rows slots shows rows";

}  // namespace

// The part of its C interface that is used, which its documentation calls stable: handles are pointers,
// 0 is success.
struct DuckDb::Functions {
  struct Result {
    std::array<uint64_t, 16> its = {};  // larger than it is
  };
  int (*create_config)(void**);
  int (*set_config)(void*, const char*, const char*);
  void (*destroy_config)(void**);
  int (*open_ext)(const char*, void**, void*, char**);
  void (*close)(void**);
  int (*connect)(void*, void**);
  void (*disconnect)(void**);
  int (*query)(void*, const char*, Result*);
  const char* (*result_error)(Result*);
  void (*destroy_result)(Result*);
  uint64_t (*extract_statements)(void*, const char*, void**);
  const char* (*extract_statements_error)(void*);
  void (*destroy_extracted)(void**);
  void (*free)(void*);
  const char* (*library_version)();
};

DuckDb::~DuckDb() {
  if (connection_) functions_->disconnect(&connection_);
  if (database_) functions_->close(&database_);
  delete functions_;
  // Its threads may still be on their way out: it stays loaded.
}

Status DuckDb::Load() {
  const char* named = getenv("SLOTSCOPE_DUCKDB");
  if (named && *named) {
    library_ = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!library_)
      return {Exit::kUsage, fmt::format("$SLOTSCOPE_DUCKDB names {}, which cannot be loaded: {}",
                                        EscapeName(named), EscapeControls(dlerror()))};
  }
  std::string why;  // one that is there cannot be loaded
  for (const char* place : kPlaces) {
    if (library_) break;
    library_ = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (!library_ && access(place, F_OK) == 0) why = dlerror();
  }
  if (!library_)
    return {Exit::kUsage, why.empty() ? kHowToGet : fmt::format("DuckDB cannot be loaded: {}", why)};
  functions_ = new Functions();
  std::string missing;
  const auto find = [&](const char* name, auto** function) {
    *reinterpret_cast<void**>(function) = dlsym(library_, name);
    if (!*function) missing = name;
  };
  find("duckdb_create_config", &functions_->create_config);
  find("duckdb_set_config", &functions_->set_config);
  find("duckdb_destroy_config", &functions_->destroy_config);
  find("duckdb_open_ext", &functions_->open_ext);
  find("duckdb_close", &functions_->close);
  find("duckdb_connect", &functions_->connect);
  find("duckdb_disconnect", &functions_->disconnect);
  find("duckdb_query", &functions_->query);
  find("duckdb_result_error", &functions_->result_error);
  find("duckdb_destroy_result", &functions_->destroy_result);
  find("duckdb_extract_statements", &functions_->extract_statements);
  find("duckdb_extract_statements_error", &functions_->extract_statements_error);
  find("duckdb_destroy_extracted", &functions_->destroy_extracted);
  find("duckdb_free", &functions_->free);
  find("duckdb_library_version", &functions_->library_version);
  if (missing.empty()) return {};
  return {Exit::kUsage, fmt::format("the library that was found is no DuckDB, or one that this does not "
                                    "know: it has no {}",
                                    missing)};
}

Status DuckDb::Open() {
  if (Status status = Load(); !status.ok()) return status;
  version_ = functions_->library_version();
  void* config = nullptr;
  if (functions_->create_config(&config)) return {Exit::kUsage, "DuckDB makes no configuration"};
  // Nothing is downloaded: what it was built with has CSV, Parquet and JSON. And it is a guest here.
  const std::string threads = std::to_string(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN) / 4, 1, 8));
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"autoinstall_known_extensions", "false"},
           {"autoload_known_extensions", "false"},
           {"allow_community_extensions", "false"},
           {"custom_extension_repository", "/none"},
           {"threads", threads.c_str()}})
    if (functions_->set_config(config, name, value))
      return {Exit::kUsage, fmt::format("DuckDB {} has no setting {}", version_, name)};
  char* error = nullptr;
  const int failed = functions_->open_ext(nullptr, &database_, config, &error);
  functions_->destroy_config(&config);
  if (failed) {
    Status status(Exit::kUsage,
                  fmt::format("DuckDB does not start: {}", error ? error : "no reason given"));
    if (error) functions_->free(error);
    return status;
  }
  if (functions_->connect(database_, &connection_)) return {Exit::kUsage, "DuckDB makes no connection"};
  return {};
}

Status DuckDb::Check(const std::string& sql) {
  void* statements = nullptr;
  const uint64_t nr = functions_->extract_statements(connection_, sql.c_str(), &statements);
  Status status;
  if (nr != 1) {
    const char* error = nr == 0 ? functions_->extract_statements_error(statements) : nullptr;
    status = {Exit::kUsage, error ? error : "give one statement that returns rows, such as SELECT"};
  }
  functions_->destroy_extracted(&statements);
  return status;
}

Status DuckDb::Run(const std::string& sql) {
  Functions::Result result;
  const int failed = functions_->query(connection_, sql.c_str(), &result);
  Status status;
  if (failed) {
    const char* error = functions_->result_error(&result);
    status = {Exit::kUsage, error ? error : "DuckDB gives no reason"};
  }
  functions_->destroy_result(&result);
  return status;
}

}  // namespace slotscope
