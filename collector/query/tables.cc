// SPDX-License-Identifier: MIT
#include "query/tables.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/text_input.h"
#include "recording/reader.h"
#include "recording/segment_name.h"

namespace slotscope {
namespace {

// In the order in which people speak of them.
constexpr std::array<std::string_view, 10> kTables = {
    kSlotsTable, kSecondsTable, kMinutesTable,  kWaitsTable,  kProcessesTable,
    "gpu",       "spans",       kStraggleTable, kEventsTable, kVerdictsTable};

// What a column holds: numbers, unless it is one of these.
constexpr std::array<std::string_view, 22> kWords = {
    "comm",         "ran_comm", "kind",     "rdt_status", "state",  "cause", "executable",
    "arguments",    "cgroup",   "pod",      "pod_uid",    "unit",   "span",  "container_id",
    "event",        "what",     "gpu_uuid", "handle",     "memory", "end",   "sm_active_source",
    "earlier_cause"};

const char* TypeOf(std::string_view column) {
  if (std::find(kWords.begin(), kWords.end(), column) != kWords.end()) return "VARCHAR";
  return column.ends_with("_pct") ? "DOUBLE" : "BIGINT";
}

// Of older recordings they are NULL.
constexpr std::array<std::string_view, 2> kLaterOfWaits = {"wait_until_ns", "earlier_cause"};

bool Has(const std::vector<std::string>& columns, std::string_view name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// The names of columns in a text that begins with a header.
void AddColumns(std::string_view text, std::vector<std::string>* columns) {
  while (text.starts_with("#")) text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  std::string_view line = text.substr(0, text.find('\n'));
  while (!line.empty()) {
    const size_t comma = line.find(',');
    const std::string_view name = line.substr(0, comma);
    if (!Has(*columns, name)) columns->emplace_back(name);
    line.remove_prefix(comma == line.npos ? line.size() : comma + 1);
  }
}

template <typename Texts>
std::string ListOf(const Texts& texts) {
  std::string list;
  for (const auto& text : texts) list += (list.empty() ? "" : ", ") + QuotedText(text);
  return "[" + list + "]";
}

// Names are escaped in our files, so nothing is quoted in them.
std::string ReadCsvSql(const std::vector<std::string>& paths, const char* compression) {
  return fmt::format(
      "FROM read_csv({}, header = true, delim = ',', quote = '', escape = '', comment = '#', "
      "all_varchar = true, union_by_name = true, compression = '{}')",
      ListOf(paths), compression);
}

// The first kilobytes of its text.
Status ReadBeginning(const std::string& path, std::string* text) {
  constexpr size_t kMost = 64 * 1024;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string bytes(kMost, '\0');
  const ssize_t got = fd.valid() ? pread(fd.get(), bytes.data(), bytes.size(), 0) : -1;
  if (got < 0)
    return {Exit::kBadInput, fmt::format("cannot read {}: {}", EscapeControls(path), ErrnoText(errno))};
  bytes.resize(static_cast<size_t>(got));
  if (!path.ends_with(".zst")) {
    *text = std::move(bytes);
    return {};
  }
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  text->assign(kMost, '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out = {text->data(), text->size(), 0};
  while (in.pos < in.size && out.pos < out.size)
    if (const size_t left = ZSTD_decompressStream(context.get(), &out, &in); ZSTD_isError(left))
      return {Exit::kBadInput, fmt::format("{} is damaged", EscapeControls(path))};
  text->resize(out.pos);
  return {};
}

const char* CompressionOf(const std::string& path) { return path.ends_with(".zst") ? "zstd" : "none"; }

// Whether a row is of those that are asked for, as Selection::Has() has it.
std::string SelectionSql(const Selection& selection, const std::vector<std::string>& columns) {
  std::vector<std::string> parts;
  if (!selection.pids.empty())
    parts.push_back(fmt::format("tgid IN ({})", fmt::join(selection.pids, ", ")));
  if (!selection.comms.empty() && Has(columns, "comm"))
    parts.push_back(fmt::format("list_contains({}, comm)", ListOf(selection.comms)));
  if (!selection.members.empty() && Has(columns, "start_time_ns")) {
    std::vector<std::string> members;
    for (const ProcessKey& key : selection.members)
      members.push_back(fmt::format("({}, {})", key.tgid, key.start_time_ns));
    std::sort(members.begin(), members.end());
    parts.push_back(fmt::format("(tgid, start_time_ns) IN ({})", fmt::join(members, ", ")));
  }
  if (parts.empty()) parts.emplace_back("false");
  return fmt::format("({})", fmt::join(parts, " OR "));
}

}  // namespace

std::string QuotedName(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

std::string QuotedText(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + '\'';
}

Status QueryTables::Open(const RecordingTables& recording, const UnixRange& range,
                         const Selection& selection) {
  for (const std::string_view table : kTables) {
    if (!recording.Has(table)) continue;
    Files files;
    if (Status status = FindFiles(recording, table, range, &files); !status.ok()) return status;
    if (!files.packed.empty() || !files.texts.empty()) Add(table, files, range, selection);
  }
  return {};
}

std::string QueryTables::Explained(const std::string& error) const {
  constexpr std::string_view kBefore = "Table with name ", kBehind = " does not exist";
  const size_t begin = error.find(kBefore), end = error.find(kBehind);
  if (begin != error.npos && end != error.npos && begin < end) {
    const std::string name = error.substr(begin + kBefore.size(), end - begin - kBefore.size());
    if (std::find(kTables.begin(), kTables.end(), name) != kTables.end())
      return fmt::format(
          "this recording has no table {}: there was nothing for it, or the ring has removed it", name);
    std::vector<std::string> names;
    for (const QueryTable& table : tables_) names.push_back(table.name);
    return fmt::format(
        "there is no table {}; this recording has {} (slotscope query without SQL: their "
        "columns)",
        name, fmt::join(names, ", "));
  }
  return error;
}

Status QueryTables::FindDamage(const RecordingTables& recording, const UnixRange& range) const {
  for (const QueryTable& table : tables_)
    if (Status status = recording.ReadTableLines(table.name, range, [](std::string_view) {});
        !status.ok())
      return status;
  return {};
}

Status QueryTables::FindFiles(const RecordingTables& recording, std::string_view table,
                              const UnixRange& range, Files* files) {
  for (const std::string& path : recording.FilesOf(table, range)) {
    files->is_json |= path.find(".ndjson") != path.npos;
    if (files->is_json || path.ends_with(kPart)) {
      if (Status status = Unpack(path, files); !status.ok()) return status;
      continue;
    }
    std::string beginning;
    if (Status status = ReadBeginning(path, &beginning); !status.ok()) {
      if (access(path.c_str(), F_OK) == 0) return status;
      // One that the ring has removed meanwhile is left out.
      if (Status gone = recording.WhyGone(path); !gone.ok()) return gone;
      continue;
    }
    AddColumns(beginning, &files->columns);
    files->packed.push_back(path);
  }
  return {};
}

// Into memory: what of it is whole.
Status QueryTables::Unpack(const std::string& path, Files* files) {
  RecordingReader reader;
  // It may have got its name just now.
  const std::string now = access(path.c_str(), F_OK) ? std::string(WithoutPart(path)) : path;
  if (Status status = reader.Open(now); !status.ok()) return status;
  UniqueFd memory(memfd_create("slotscope", MFD_CLOEXEC));
  std::string error;
  bool is_first = true, any_row = false;
  LineSplitter splitter;
  std::string rows;
  const auto on_line = [&](std::string_view line) {
    if (line.starts_with("# ") || line.starts_with(R"({"state":"header")")) return;
    any_row = true;
    rows += line;
    rows += '\n';
  };
  Status status = reader.Read("", {}, [&](std::string_view text) {
    if (std::exchange(is_first, false) && !files->is_json) AddColumns(text, &files->columns);
    rows.clear();
    splitter.Feed(text, on_line);
    if (error.empty() &&
        write(memory.get(), rows.data(), rows.size()) != static_cast<ssize_t>(rows.size()))
      error = ErrnoText(errno);
  });
  if (!error.empty())
    status = {Exit::kBadInput, fmt::format("cannot unpack {}: {}", EscapeControls(path), error)};
  if (!status.ok() || !any_row) return status;
  files->texts.push_back(fmt::format("/proc/self/fd/{}", memory.get()));
  memory_.push_back(std::move(memory));
  return {};
}

void QueryTables::Add(std::string_view table, const Files& files, const UnixRange& range,
                      const Selection& selection) {
  QueryTable made;
  made.name = table;
  std::string from;
  if (files.is_json) {
    from = fmt::format("FROM read_json({}, format = 'newline_delimited', union_by_name = true)",
                       ListOf(files.texts));
    made.sql = fmt::format("CREATE VIEW {} AS {}", table, from);
    tables_.push_back(std::move(made));
    return;
  }
  std::map<std::string, std::vector<std::string>> packed;  // by how they are
  for (const std::string& path : files.packed) packed[CompressionOf(path)].push_back(path);
  for (const std::string& path : files.texts) packed["none"].push_back(path);
  for (const auto& [compression, paths] : packed)
    from += fmt::format("{}SELECT * {}", from.empty() ? "" : " UNION ALL BY NAME ",
                        ReadCsvSql(paths, compression.c_str()));
  std::string columns;
  constexpr std::string_view kTime = "slot_start_unix_ns";
  if (Has(files.columns, kTime)) {
    made.columns.emplace_back("time");
    columns = fmt::format("make_timestamp_ns(CAST({} AS BIGINT)) AS time, ", kTime);
  }
  for (const std::string& column : files.columns) {
    made.columns.push_back(column);
    columns += fmt::format("{}CAST({} AS {}) AS {}", column == files.columns.front() ? "" : ", ",
                           QuotedName(column), TypeOf(column), QuotedName(column));
  }
  if (table == kWaitsTable)
    for (const std::string_view column : kLaterOfWaits) {
      if (Has(files.columns, column)) continue;
      made.columns.emplace_back(column);
      columns += fmt::format(", CAST(NULL AS {}) AS {}", TypeOf(column), column);
    }
  std::vector<std::string> conditions;
  if (Has(files.columns, kTime)) {
    // A second, or a minute, is of that time if a part of it is.
    const bool is_period = Has(files.columns, "slots");
    if (range.from_ns != UnixRange().from_ns)
      conditions.push_back(is_period ? fmt::format("{} + slot_ns > {}", kTime, range.from_ns)
                                     : fmt::format("{} >= {}", kTime, range.from_ns));
    if (range.to_ns != UnixRange().to_ns)
      conditions.push_back(fmt::format("{} < {}", kTime, range.to_ns));
  }
  if (selection.any() && Has(files.columns, "tgid"))
    conditions.push_back(SelectionSql(selection, files.columns));
  made.sql = fmt::format("CREATE VIEW {} AS SELECT * FROM (SELECT {} FROM ({})){}{}", table, columns,
                         from, conditions.empty() ? "" : " WHERE ", fmt::join(conditions, " AND "));
  tables_.push_back(std::move(made));
}

}  // namespace slotscope
