// SPDX-License-Identifier: MIT
// A ClickHouse server, over HTTP. What it answers is not trusted, nor that it answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace slotscope {

struct ServerOptions {
  std::string url;            // http[s]://[USER@]HOST[:PORT][/DATABASE]
  std::string password_file;  // empty: there is no password
  std::string ca_file;        // of who signs the server's certificate; empty: who this machine trusts
};

// What came of a question.
enum class Answered : uint8_t {
  kYes,
  kAway,     // nobody is there, or goes away in the midst of it: nobody knows what was done
  kStopped,  // by us, and the same
  kRefused,  // the user, the password or the right to do this
  kLacking,  // there is no such database, table or column
  kUnknown,  // it knows no such type or word
  kRunning,  // a question of that name is still being answered
  kFailed,   // anything else; nothing was done
};

struct Reply {
  Answered answered = Answered::kYes;
  std::string text;  // of kYes the answer; else a sentence, without who says it

  bool ok() const { return answered == Answered::kYes; }
};

class ClickHouse {
 public:
  static constexpr long kConnectTimeoutS = 10;
  static constexpr long kSilenceS = 120;           // without a byte in any direction it is away
  static constexpr size_t kMaxAnswer = 64u << 20;  // bytes

  ClickHouse();
  ~ClickHouse();
  ClickHouse(const ClickHouse&) = delete;

  // Exit::kUsage: what is given cannot be meant. Whether anybody is there is found out by a question.
  // `stop`: what goes on when it returns true is given up; asked about each second.
  using Stop = bool (*)();
  Status Open(const ServerOptions& options, Stop stop);

  // "HOST:PORT", and the database that tables without a name of one are in.
  const std::string& host() const;
  const std::string& database() const;

  // One statement, with its whole answer, of rows as TabSeparated. kNoDatabase: it may not be there yet.
  enum class In { kDatabase, kNoDatabase };
  Reply Ask(const std::string& sql, In in = In::kDatabase);
  // INSERT INTO `table` (`columns`) FORMAT Native; the body is a PackedBytes's. `id`: of a second one by
  // this name the server wants nothing to know as long as it is at the first.
  Reply Insert(std::string_view table, const std::string& columns, const std::string& id,
               std::string_view body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Of --clickhouse: Exit::kUsage with what is wrong with it.
Status CheckServerUrl(const std::string& url);

// Text between quotes, as its SQL has it.
std::string SqlText(std::string_view text);

// The fields of an answer of Ask(): lines with tabs between them, in which tabs and quotes in texts are
// escaped. Each line has at least one.
std::vector<std::vector<std::string>> FieldsOf(std::string_view answer);

}  // namespace slotscope
