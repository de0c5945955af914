// SPDX-License-Identifier: MIT
#include "ship/shipper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <set>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/escape.h"
#include "base/scan.h"
#include "base/size_text.h"
#include "base/unique_fd.h"
#include "base/version.h"
#include "recording/folder.h"
#include "ship/packed_bytes.h"
#include "ship/schema.h"

namespace slotscope {
namespace {

// A table of the server, and where its rows are.
struct Shipped {
  std::string_view table;
  std::string_view file;            // the recording's table
  std::string_view each = "";       // see ShipSource
  bool is_of_milliseconds = false;  // there is something of every millisecond
};

// Of a segment, in the order in which they are shipped: first whose rows the others are.
constexpr std::array<Shipped, 10> kShipped = {{{kProcessesTable, kProcessesTable},
                                               {kSecondsTable, kSecondsTable},
                                               {"events", "events"},
                                               {"straggle", "straggle"},
                                               {"verdicts", "verdicts"},
                                               {"rank_evidence", "verdicts", "host_evidence"},
                                               {kSlotsTable, kSlotsTable, "", true},
                                               {kWaitsTable, kWaitsTable, "", true},
                                               {"gpu", "gpu", "", true},
                                               {"spans", "spans", "", true}}};

bool IsFinished(const Segment& segment) {
  return std::none_of(segment.files.begin(), segment.files.end(),
                      [](const auto& file) { return file.second.name.ends_with(kPart); });
}

bool IsProtected(const Segment& segment, const Intervals& protections) {
  return std::any_of(protections.begin(), protections.end(), [&](const auto& interval) {
    return segment.times.unix_end_ns() > interval.first &&
           segment.times.unix_start_ns() < interval.second;
  });
}

// How often rows are counted again; and while a request may be carried out later, of which nobody knows
// what became, and for how long that may be.
constexpr uint64_t kCountNs = 600ull * 1'000'000'000, kCountInDoubtNs = 20ull * 1'000'000'000;
constexpr uint64_t kDoubtNs = 15ull * 60 * 1'000'000'000;
// Rows are of a time that is about that of their segment.
constexpr int64_t kEarlierS = 3600;

// Of Unix time, as a DateTime has them.
int64_t SecondsOf(int64_t unix_ns) {
  return std::clamp<int64_t>(unix_ns / 1'000'000'000, 0, std::numeric_limits<uint32_t>::max());
}

// Exit::kBadInput: not all of its bytes can be read.
Status ReadAll(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::vector<char> bytes(1u << 20);
  ssize_t got = fd.valid() ? 1 : -1;
  while (got > 0) got = read(fd.get(), bytes.data(), bytes.size());
  if (got == 0) return {};
  return {Exit::kBadInput,
          fmt::format("cannot read {}: {}; it waits", EscapeControls(path), ErrnoText(errno))};
}

bool IsMissing(const std::string& path) { return access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

}  // namespace

uint64_t BatchName(const Segment& segment, std::string_view table, uint64_t bytes) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", segment.host, segment.boot_id, table, segment.number,
                  segment.times.start_ns, segment.times.end_ns, bytes);
  return XXH64(text.data(), text.size(), 0);
}

Status Shipper::OpenRecording() {
  if (access(path_.c_str(), F_OK) != 0)
    return {Exit::kBadInput, fmt::format("cannot read {}: {}", EscapeName(path_), ErrnoText(errno))};
  if (!RecordingReader::IsFolder(path_))
    return {Exit::kUsage,
            fmt::format("{} is no recording (a folder): files are not shipped", EscapeName(path_))};
  // Before what is there: what was being written then is left alone.
  is_held_ = IsHeld(path_);
  RecordingReader reader;
  if (Status status = reader.Open(path_); !status.ok()) return status;
  Segments all;
  protections_.clear();
  if (options_.only_incidents)
    if (Status status = ReadManifest(path_, &all, &protections_); !status.ok()) return status;
  reader_ = std::move(reader);
  return {};
}

// What nobody writes any more is complete, also if who did was killed.
void Shipper::FindWaiting() {
  const std::vector<Batch> before = std::move(waiting_);
  waiting_.clear();
  backlog_.bytes = 0;
  has_open_segment_ = false;
  std::unordered_set<uint64_t> there;
  for (const auto& [number, segment] : reader_.segments()) {
    if (is_held_ && !IsFinished(segment)) {
      has_open_segment_ = true;
      continue;
    }
    const bool wants_milliseconds = !options_.only_incidents || IsProtected(segment, protections_);
    for (const Shipped& shipped : kShipped) {
      const auto file = segment.files.find(std::string(shipped.file));
      if (file == segment.files.end()) continue;
      const auto& [file_name, bytes] = file->second;
      const uint64_t name = BatchName(segment, shipped.table, bytes);
      there.insert(name);
      if (done_.contains(name) || (shipped.is_of_milliseconds && !wants_milliseconds)) continue;
      if (absent_.contains(name) && IsMissing(path_ + "/" + file_name)) continue;
      waiting_.push_back({name, std::string(shipped.table), std::string(shipped.each),
                          path_ + "/" + file_name, bytes, shipped.each.empty() ? bytes : 0,
                          shipped.is_of_milliseconds, file_name.find(".ndjson") != file_name.npos,
                          segment.host, segment.boot_id, number, segment.times});
      backlog_.bytes += waiting_.back().disk_bytes;
    }
  }
  for (const Batch& batch : before)
    if (!there.contains(batch.name) && !done_.contains(batch.name)) removed_.push_back(batch);
  // Of what is gone nobody asks again.
  std::erase_if(done_, [&](uint64_t name) { return !there.contains(name); });
  TellProgress(waiting_.size(), waiting_.empty() ? nullptr : &waiting_.front());
}

// In the order in which they were recorded.
void Shipper::TellProgress(size_t nr_batches, const Batch* oldest) {
  backlog_.nr_batches = nr_batches;
  backlog_.oldest_unix_ns = oldest ? oldest->times.unix_end_ns() : 0;
  if (on_progress_ && backlog_.is_known) on_progress_(stats_, backlog_);
}

Reply Shipper::IsEntered(const Batch& batch, bool* is_entered) {
  Reply reply = server_->Ask(fmt::format(
      "SELECT count() > 0 FROM batches WHERE host = {} AND start = toDateTime({}) AND batch = {}",
      SqlText(batch.host), SecondsOf(batch.times.unix_start_ns()), batch.name));
  *is_entered = reply.text == "1\n";
  return reply;
}

Reply Shipper::EnterRemoved() {
  while (!removed_.empty()) {
    const Batch& batch = removed_.back();
    // It may have been shipped before: the server was not there to say so.
    bool is_entered = false;
    if (Reply reply = IsEntered(batch, &is_entered); !reply.ok()) return reply;
    if (is_entered) {
      removed_.pop_back();
      continue;
    }
    if (Reply reply = Enter(batch, "removed", 0); !reply.ok()) return reply;
    stats_.nr_removed++;
    if (told_.insert("removed").second)
      on_news_(
          fmt::format("{} was removed from the recording before it was shipped: let it keep more "
                      "(record --keep); further ones are only counted",
                      EscapeName(batch.path)));
    removed_.pop_back();
  }
  return {};
}

// Which batches of this recording the server has, and which tables.
Reply Shipper::Begin() {
  uint32_t version;
  if (Reply reply = ReadSchemaVersion(server_, &version); !reply.ok()) return reply;
  const uint32_t wanted = SchemaFiles().back().version;
  if (version < wanted)
    return {Answered::kLacking,
            version == 0 ? fmt::format("there are no tables in its database {}", server_->database())
                         : fmt::format("its tables are of version {}, and this slotscope needs {}",
                                       version, wanted)};
  if (version > wanted && told_.insert("newer").second)
    on_news_(
        fmt::format("its tables are of version {}, and this slotscope knows {}: what they have more "
                    "stays empty",
                    version, wanted));
  if (Reply reply = ReadServerTables(server_, &tables_); !reply.ok()) return reply;
  std::unordered_set<uint64_t> done, absent;
  std::set<std::string> hosts;
  int64_t oldest_ns = std::numeric_limits<int64_t>::max();
  for (const auto& [number, segment] : reader_.segments()) {
    hosts.insert(segment.host);
    oldest_ns = std::min(oldest_ns, segment.times.unix_start_ns());
  }
  for (const std::string& host : hosts) {
    Reply reply = server_->Ask(
        fmt::format("SELECT batch, min(state = 'removed') FROM batches WHERE host = {} AND start >= "
                    "toDateTime({}) GROUP BY batch",
                    SqlText(host), SecondsOf(oldest_ns)));
    if (!reply.ok()) {
      tables_.clear();
      return reply;
    }
    for (const auto& row : FieldsOf(reply.text))
      if (const auto name = NumberOf<uint64_t>(row[0]))
        (row.back() == "1" && row.size() == 2 ? absent : done).insert(*name);
  }
  done_ = std::move(done);
  absent_ = std::move(absent);
  backlog_.is_known = true;
  // Whoever shipped before may have been killed before he counted.
  if (hosts_.empty()) entered_since_s_ = SecondsOf(oldest_ns);
  hosts_.assign(hosts.begin(), hosts.end());
  return {};
}

// The oldest go first.
Reply Shipper::GiveUp() {
  while (options_.max_waiting_bytes && backlog_.bytes > options_.max_waiting_bytes) {
    const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                     [](const Batch& batch) { return batch.is_of_milliseconds; });
    const Batch batch = oldest == waiting_.end() ? waiting_.front() : *oldest;
    if (Reply reply = Enter(batch, "given up", 0); !reply.ok()) return reply;
    stats_.nr_given_up++;
    if (told_.insert("given up").second)
      on_news_(
          fmt::format("{} is not shipped: {} wait, and --max-waiting is {}; further ones are only "
                      "counted",
                      EscapeName(batch.path), SizeText(static_cast<double>(backlog_.bytes)),
                      SizeText(static_cast<double>(options_.max_waiting_bytes))));
    done_.insert(batch.name);
    backlog_.bytes -= batch.disk_bytes;
    waiting_.erase(oldest == waiting_.end() ? waiting_.begin() : oldest);
    TellProgress(waiting_.size(), waiting_.empty() ? nullptr : &waiting_.front());
  }
  return {};
}

Reply Shipper::ShipAll(Status* status) {
  *status = OpenRecording();
  is_readable_ = status->ok();
  has_asked_ = false;
  if (!is_readable_) return {};
  FindWaiting();
  Reply reply;
  // Each time that something waits: it may be another server, or one that was set up anew.
  if (tables_.empty() || !waiting_.empty()) {
    has_asked_ = true;
    reply = Begin();
    FindWaiting();
  }
  if (reply.ok()) reply = EnterRemoved();
  if (reply.ok()) reply = GiveUp();
  if (reply.ok()) reply = ShipWaiting(status);
  if (reply.ok() && MonotonicNs() >= next_count_ns_) reply = Settle();
  if (!reply.ok()) tables_.clear();
  return reply;
}

// One that cannot be shipped now stands in nobody's way.
Reply Shipper::ShipWaiting(Status* status) {
  std::vector<Batch> left;
  Reply reply;
  size_t i = 0;
  for (; i < waiting_.size() && reply.ok(); i++) {
    Done done = Done::kNo;
    Status of_batch;
    reply = Ship(waiting_[i], &of_batch, &done);
    if (status->ok()) *status = of_batch;
    if (done == Done::kYes) {
      if (!absent_.contains(waiting_[i].name)) done_.insert(waiting_[i].name);
      missing_.erase(waiting_[i].name);
      backlog_.bytes -= waiting_[i].disk_bytes;
    } else {
      left.push_back(waiting_[i]);
    }
    const Batch* const next = i + 1 < waiting_.size() ? &waiting_[i + 1] : nullptr;
    TellProgress(left.size() + waiting_.size() - i - 1, left.empty() ? next : &left.front());
  }
  left.insert(left.end(), waiting_.begin() + static_cast<ptrdiff_t>(i), waiting_.end());
  waiting_ = std::move(left);
  return reply;
}

Reply Shipper::Ship(const Batch& batch, Status* status, Done* done) {
  const auto table = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const ServerTable& one) { return one.name == batch.table; });
  if (table == tables_.end()) {
    *status = {Exit::kUsage, fmt::format("there is no table {} in the database {}: what is for it waits",
                                         batch.table, server_->database())};
    return {};
  }
  const ShipSource source = {
      batch.host,    batch.boot_id, batch.times.unix_start_ns(), batch.times.unix_offset_ns, batch.name,
      batch.is_json, batch.each};
  Reply reply;
  uint64_t nr_shipped = 0;  // a row that is refused takes those of its block with it
  BlockMaker maker(*table, source, [&](const BlockMaker::Block& block) -> Status {
    reply = ShipBlock(*table, batch, block);
    if (reply.ok()) nr_shipped += block.nr_rows;
    return reply.ok() ? Status() : Status(Exit::kOutput, reply.text);
  });
  RecordingReader file;
  Status taken;
  Status read = file.Open(batch.path);
  if (read.ok())
    read = file.Read("", {}, [&](std::string_view text) {
      if (taken.ok()) taken = maker.Take(text);
    });
  if (taken.ok()) taken = maker.Finish();
  if (!reply.ok()) return reply;
  if (!read.ok() && IsMissing(batch.path)) {
    // It may have been removed by the ring, or have got its name, since the recording was looked into:
    // only when we look again it is missing.
    if (missing_.insert(batch.name).second) return {};
    on_news_(fmt::format("{} is not there any more: nothing of it is shipped", EscapeName(batch.path)));
    if (reply = Enter(batch, "removed", 0); !reply.ok()) return reply;
    absent_.insert(batch.name);
    stats_.nr_missing++;
    *done = Done::kYes;
    return {};
  }
  // What cannot be read now may be later; what is damaged stays so.
  if (!read.ok())
    if (Status whole = ReadAll(batch.path); !whole.ok()) {
      *status = whole;
      return {};
    }
  for (const std::string& column : maker.lacking())
    if (told_.insert(batch.table + "." + column).second)
      on_news_(fmt::format("the database has no column {} in its table {}: it is not shipped",
                           EscapeName(column), batch.table));
  std::string_view state = "shipped";
  if (!taken.ok()) {
    state = "refused";
    on_news_(fmt::format("{}: {}; {} rows in front of it were shipped", EscapeName(batch.path),
                         taken.message(), nr_shipped));
  } else if (!read.ok() || maker.nr_malformed() > 0) {
    state = "damaged";
    on_news_(fmt::format("{}; what could be read was shipped",
                         read.ok() ? fmt::format("{}: {} lines of it are no rows",
                                                 EscapeName(batch.path), maker.nr_malformed())
                                   : read.message()));
  }
  reply = Enter(batch, state, nr_shipped);
  if (!reply.ok()) return reply;
  stats_.nr_batches++;
  stats_.nr_refused += state == "refused";
  stats_.nr_damaged += state == "damaged";
  stats_.nr_malformed += maker.nr_malformed();
  stats_.nr_rows += nr_shipped;
  *done = Done::kYes;
  return {};
}

Reply Shipper::CountRows(const std::string& table, const std::string& where, uint64_t* nr_distinct) {
  Reply reply = server_->Ask(fmt::format("SELECT uniqExact(row) FROM {} WHERE {}", table, where));
  std::string_view text = reply.text;
  if (!reply.ok() || TakeNumber(&text, nr_distinct)) return reply;
  return {Answered::kFailed, "it does not say how many rows there are"};
}

// It is asked for, put in if it is not there, and counted. See Settle() for what is there twice then.
Reply Shipper::ShipBlock(const ServerTable& table, const Batch& batch, const BlockMaker::Block& block) {
  const std::string where = fmt::format(
      "host = {} AND time >= toDateTime({}) AND time <= toDateTime({}) AND batch = {} AND row >= {} AND "
      "row < {}",
      SqlText(batch.host), block.first_s, block.last_s, batch.name, block.first_row,
      block.first_row + block.nr_rows);
  uint64_t nr_distinct = 0;
  if (Reply reply = CountRows(table.name, where, &nr_distinct); !reply.ok()) return reply;
  if (nr_distinct >= block.nr_rows) {
    stats_.nr_there++;
    Doubt(batch);  // who has sent it may be at it still
    return {};
  }
  PackedBytes body;
  PutBlock(block, &body);
  const std::string bytes = body.Take();
  std::string columns;
  for (const ShipColumn* column : block.columns)
    columns += fmt::format("{}`{}`", columns.empty() ? "" : ", ", column->name());
  Reply reply = server_->Insert(table.name, columns,
                                fmt::format("slotscope-{:016x}-{}", batch.name, block.number), bytes);
  if (reply.answered == Answered::kAway) Doubt(batch);
  if (!reply.ok()) return reply;
  stats_.sent_bytes += bytes.size();
  if (reply = CountRows(table.name, where, &nr_distinct); !reply.ok()) return reply;
  if (nr_distinct >= block.nr_rows) return {};
  return {Answered::kFailed, fmt::format("it took {} rows for its table {}, and has {} of them",
                                         block.nr_rows, table.name, nr_distinct)};
}

void Shipper::Doubt(const Batch& batch) {
  doubtful_until_ns_ = MonotonicNs() + kDoubtNs;
  doubted_since_s_ = std::min(doubted_since_s_, SecondsOf(batch.times.unix_start_ns()));
  next_count_ns_ = 0;
}

Reply Shipper::FindTwiceIn(std::string_view table, const std::string& host, int64_t since_s,
                           Days* days) {
  const std::string where = fmt::format("host = {} AND time >= toDateTime({})", SqlText(host), since_s);
  const std::string more = fmt::format(
      "SELECT batch FROM (SELECT batch, count() AS nr FROM {0} WHERE {1} GROUP BY batch) AS there ANY "
      "INNER JOIN (SELECT batch, max(rows) AS nr_entered FROM batches WHERE host = {2} AND start >= "
      "toDateTime({3}) AND table_name = {4} GROUP BY batch) AS entered USING (batch) WHERE nr > "
      "nr_entered",
      table, where, SqlText(host), since_s, SqlText(table));
  Reply any = server_->Ask(more + " LIMIT 1");
  if (!any.ok() || FieldsOf(any.text).empty()) return any;
  // There may be more than was entered without one being there twice: of a file that was damaged later,
  // or that was given up or removed when a part of it had been sent.
  Reply twice = server_->Ask(
      fmt::format("SELECT DISTINCT day FROM (SELECT toYYYYMMDD(time) AS day, batch FROM {} WHERE {} AND "
                  "batch IN ({}) GROUP BY day, batch HAVING count() > uniqExact(row)) AS twice",
                  table, where, more));
  if (!twice.ok()) return twice;
  for (const auto& row : FieldsOf(twice.text))
    if (const auto day = NumberOf<uint32_t>(row[0])) days->emplace_back(table, *day);
  return twice;
}

Reply Shipper::FindTwice(int64_t since_s, Days* days) {
  for (const std::string& host : hosts_)
    for (const ServerTable& table : tables_) {
      const bool is_ours = std::any_of(kShipped.begin(), kShipped.end(), [&](const Shipped& shipped) {
        return shipped.table == table.name;
      });
      if (!is_ours) continue;
      if (Reply reply = FindTwiceIn(table.name, host, since_s, days); !reply.ok()) return reply;
    }
  return {};
}

// Rows of one key become one where parts are merged, which a server that has little to do never does.
// (The whole day of all hosts is merged: it is as rare as requests that are carried out twice.)
Reply Shipper::Settle() {
  const int64_t since_s = std::min({entered_since_s_, counted_since_s_, doubted_since_s_});
  if (since_s == kNothing) return {};
  has_asked_ = true;
  const int64_t from_s = std::max<int64_t>(since_s - kEarlierS, 0);
  const auto not_yet = [](std::string_view table) -> Reply {
    return {Answered::kRunning,
            fmt::format("rows of {} are there twice until it has merged them", table)};
  };
  Days days;
  if (Reply reply = FindTwice(from_s, &days); !reply.ok()) return reply;
  for (const auto& [table, day] : days) {
    Reply reply = server_->Ask(fmt::format("OPTIMIZE TABLE {} PARTITION {} FINAL", table, day));
    if (reply.answered == Answered::kAway) return not_yet(table);  // it takes longer than we wait
    if (!reply.ok()) return reply;
  }
  Days left;
  if (!days.empty())
    if (Reply reply = FindTwice(from_s, &left); !reply.ok()) return reply;
  if (!left.empty()) return not_yet(left.front().first);
  const bool is_doubtful = MonotonicNs() < doubtful_until_ns_;
  counted_since_s_ = std::exchange(entered_since_s_, kNothing);
  if (!is_doubtful) doubted_since_s_ = kNothing;
  next_count_ns_ = MonotonicNs() + (is_doubtful ? kCountInDoubtNs : kCountNs);
  return {};
}

// What became of it, for everybody who asks the database what it has.
Reply Shipper::Enter(const Batch& batch, std::string_view state, uint64_t nr_rows) {
  entered_since_s_ = std::min(entered_since_s_, SecondsOf(batch.times.unix_start_ns()));
  return server_->Ask(fmt::format(
      "INSERT INTO batches (host, batch, boot_id, segment, table_name, start, start_unix_ns, "
      "end_unix_ns, rows, bytes, state, version) VALUES ({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
      "{})",
      SqlText(batch.host), batch.name, SqlText(batch.boot_id), batch.number, SqlText(batch.table),
      SecondsOf(batch.times.unix_start_ns()), batch.times.unix_start_ns(), batch.times.unix_end_ns(),
      nr_rows, batch.bytes, SqlText(state), SqlText(kVersion)));
}

}  // namespace slotscope
