// SPDX-License-Identifier: MIT
// The tables of a recording, for a database: from which files each comes, and as what.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "explain/history_reader.h"
#include "explain/stall.h"

namespace slotscope {

struct QueryTable {
  std::string name;
  std::vector<std::string> columns;  // as the database has them
  std::string sql;                   // that makes it, as a view
};

class QueryTables {
 public:
  // Of that time and of those processes; selection.members: of its groups. What is being written is
  // taken as it is now, so this is to be there as long as the views are.
  Status Open(const RecordingTables& recording, const UnixRange& range, const Selection& selection);

  const std::vector<QueryTable>& tables() const { return tables_; }
  // A sentence for what a database says of a table that is not there; anything else as it is.
  std::string Explained(const std::string& error) const;
  // What of these tables cannot be read, by our own reader.
  Status FindDamage(const RecordingTables& recording, const UnixRange& range) const;

 private:
  // What is to be read of a table.
  struct Files {
    std::vector<std::string> packed;  // as they are
    std::vector<std::string> texts;   // as they were unpacked, in memory
    std::vector<std::string> columns;
    bool is_json = false;
  };

  Status FindFiles(const RecordingTables& recording, std::string_view table, const UnixRange& range,
                   Files* files);
  Status Unpack(const std::string& path, Files* files);
  void Add(std::string_view table, const Files& files, const UnixRange& range,
           const Selection& selection);

  std::vector<QueryTable> tables_;
  std::vector<UniqueFd> memory_;  // what the texts are in
};

// A text between quotes, as SQL has them.
std::string QuotedName(std::string_view name);
std::string QuotedText(std::string_view text);

}  // namespace slotscope
