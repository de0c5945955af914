// SPDX-License-Identifier: MIT
#include "ship/shipper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
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

// How long rows of which nobody knows what became are counted again, and of how many requests.
constexpr uint64_t kDoubtNs = 15ull * 60 * 1'000'000'000;
constexpr size_t kMaxDoubts = 1000;

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

// The day, as 20261128.
int PartitionOf(uint32_t unix_s) {
  const std::chrono::year_month_day day{
      std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(unix_s)))};
  return static_cast<int>(day.year()) * 10000 +
         static_cast<int>(static_cast<unsigned>(day.month())) * 100 +
         static_cast<int>(static_cast<unsigned>(day.day()));
}

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
  waiting_bytes_ = 0;
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
      waiting_.push_back({name, std::string(shipped.table), std::string(shipped.each),
                          path_ + "/" + file_name, bytes, shipped.is_of_milliseconds,
                          file_name.find(".ndjson") != file_name.npos, segment.host, segment.boot_id,
                          number, segment.times});
      waiting_bytes_ += bytes;
    }
  }
  for (const Batch& batch : before)
    if (!there.contains(batch.name) && !done_.contains(batch.name)) removed_.push_back(batch);
  // Of what is gone nobody asks again.
  std::erase_if(done_, [&](uint64_t name) { return !there.contains(name); });
}

Reply Shipper::EnterRemoved() {
  while (!removed_.empty()) {
    const Batch& batch = removed_.back();
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
  if (Reply reply = ReadServerTables(server_, &tables_); !reply.ok()) return reply;
  done_.clear();
  std::set<std::string> hosts;
  int64_t oldest_ns = std::numeric_limits<int64_t>::max();
  for (const auto& [number, segment] : reader_.segments()) {
    hosts.insert(segment.host);
    oldest_ns = std::min(oldest_ns, segment.times.unix_start_ns());
  }
  for (const std::string& host : hosts) {
    Reply reply = server_->Ask(
        fmt::format("SELECT DISTINCT batch FROM batches WHERE host = {} AND start >= toDateTime({})",
                    SqlText(host), SecondsOf(oldest_ns)));
    if (!reply.ok()) {
      tables_.clear();
      return reply;
    }
    for (std::string_view rest = reply.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (const auto name = NumberOf<uint64_t>(line)) done_.insert(*name);
    }
  }
  return {};
}

// The oldest go first.
Reply Shipper::GiveUp() {
  while (options_.max_waiting_bytes && waiting_bytes_ > options_.max_waiting_bytes) {
    const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                     [](const Batch& batch) { return batch.is_of_milliseconds; });
    const Batch batch = oldest == waiting_.end() ? waiting_.front() : *oldest;
    if (Reply reply = Enter(batch, "given up", 0); !reply.ok()) return reply;
    stats_.nr_given_up++;
    if (told_.insert("given up").second)
      on_news_(
          fmt::format("{} is not shipped: {} wait, and --max-waiting is {}; further ones are only "
                      "counted",
                      EscapeName(batch.path), SizeText(static_cast<double>(waiting_bytes_)),
                      SizeText(static_cast<double>(options_.max_waiting_bytes))));
    done_.insert(batch.name);
    waiting_bytes_ -= batch.bytes;
    waiting_.erase(oldest == waiting_.end() ? waiting_.begin() : oldest);
  }
  return {};
}

Reply Shipper::ShipAll(Status* status) {
  *status = OpenRecording();
  if (!status->ok()) return {};
  FindWaiting();
  Reply reply;
  // Each time that something waits: it may be another server, or one that was set up anew.
  if (tables_.empty() || !waiting_.empty()) {
    reply = Begin();
    FindWaiting();
  }
  if (reply.ok()) reply = EnterRemoved();
  if (reply.ok()) reply = GiveUp();
  if (reply.ok()) reply = ShipWaiting(status);
  if (reply.ok()) reply = SettleDoubts();
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
      done_.insert(waiting_[i].name);
      waiting_bytes_ -= waiting_[i].bytes;
    } else {
      left.push_back(waiting_[i]);
    }
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
  if (!read.ok() && access(batch.path.c_str(), F_OK) != 0) return {};  // see FindWaiting()
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
  stats_.nr_malformed += maker.nr_malformed();
  const char* state = "shipped";
  if (!taken.ok()) {
    state = "refused";
    stats_.nr_refused++;
    on_news_(fmt::format("{}: {}; {} rows in front of it were shipped", EscapeName(batch.path),
                         taken.message(), nr_shipped));
  } else if (!read.ok() || maker.nr_malformed() > 0) {
    state = "damaged";
    stats_.nr_damaged++;
    on_news_(fmt::format("{}; what could be read was shipped",
                         read.ok() ? fmt::format("{}: {} lines of it are no rows",
                                                 EscapeName(batch.path), maker.nr_malformed())
                                   : read.message()));
  }
  reply = Enter(batch, state, nr_shipped);
  if (!reply.ok()) return reply;
  stats_.nr_batches++;
  stats_.nr_rows += nr_shipped;
  *done = Done::kYes;
  return {};
}

Reply Shipper::CountRows(const std::string& table, const std::string& where, uint64_t* nr,
                         uint64_t* nr_distinct) {
  Reply reply =
      server_->Ask(fmt::format("SELECT count(), uniqExact(row) FROM {} WHERE {}", table, where));
  if (!reply.ok()) return reply;
  std::string_view text = reply.text;
  if (TakeNumber(&text, nr) && TakeText(&text, "\t") && TakeNumber(&text, nr_distinct)) return reply;
  return {Answered::kFailed, "it does not say how many rows there are"};
}

// Rows of one key become one where parts are merged. (The whole day of all hosts is: it is as rare as
// requests that are carried out twice.)
Reply Shipper::MakeOne(const std::string& table, const std::string& where, uint64_t nr_rows,
                       uint32_t first_s) {
  if (Reply reply =
          server_->Ask(fmt::format("OPTIMIZE TABLE {} PARTITION {} FINAL", table, PartitionOf(first_s)));
      !reply.ok())
    return reply;
  uint64_t nr = 0, nr_distinct = 0;
  if (Reply reply = CountRows(table, where, &nr, &nr_distinct); !reply.ok()) return reply;
  if (nr <= nr_rows) return {};
  return {Answered::kRunning, fmt::format("rows of {} are there twice until it has merged them", table)};
}

// Exactly once: it is asked for, put in if it is not there, and counted.
Reply Shipper::ShipBlock(const ServerTable& table, const Batch& batch, const BlockMaker::Block& block) {
  const std::string where = fmt::format(
      "host = {} AND time >= toDateTime({}) AND time <= toDateTime({}) AND batch = {} AND row >= {} AND "
      "row < {}",
      SqlText(batch.host), block.first_s, block.last_s, batch.name, block.first_row,
      block.first_row + block.nr_rows);
  uint64_t nr = 0, nr_distinct = 0;
  if (Reply reply = CountRows(table.name, where, &nr, &nr_distinct); !reply.ok()) return reply;
  if (nr_distinct >= block.nr_rows) {
    stats_.nr_there++;
  } else {
    PackedBytes body;
    PutBlock(block, &body);
    const std::string bytes = body.Take();
    std::string columns;
    for (const ShipColumn* column : block.columns)
      columns += fmt::format("{}`{}`", columns.empty() ? "" : ", ", column->name());
    Reply reply = server_->Insert(table.name, columns,
                                  fmt::format("slotscope-{:016x}-{}", batch.name, block.number), bytes);
    if (reply.answered == Answered::kAway && doubts_.size() < kMaxDoubts)
      doubts_.push_back({table.name, where, block.nr_rows, block.first_s, MonotonicNs()});
    if (!reply.ok()) return reply;
    stats_.sent_bytes += bytes.size();
    if (reply = CountRows(table.name, where, &nr, &nr_distinct); !reply.ok()) return reply;
    if (nr_distinct < block.nr_rows)
      return {Answered::kFailed, fmt::format("it took {} rows for its table {}, and has {} of them",
                                             block.nr_rows, table.name, nr_distinct)};
  }
  if (nr <= block.nr_rows) return {};
  return MakeOne(table.name, where, block.nr_rows, block.first_s);
}

Reply Shipper::SettleDoubts() {
  for (size_t i = 0; i < doubts_.size();) {
    const Doubt& doubt = doubts_[i];
    uint64_t nr = 0, nr_distinct = 0;
    if (Reply reply = CountRows(doubt.table, doubt.where, &nr, &nr_distinct); !reply.ok()) return reply;
    if (nr > doubt.nr_rows)
      if (Reply reply = MakeOne(doubt.table, doubt.where, doubt.nr_rows, doubt.first_s); !reply.ok())
        return reply;
    if (MonotonicNs() - doubt.since_ns > kDoubtNs)
      doubts_.erase(doubts_.begin() + static_cast<ptrdiff_t>(i));
    else
      i++;
  }
  return {};
}

// What became of it, for everybody who asks the database what it has.
Reply Shipper::Enter(const Batch& batch, std::string_view state, uint64_t nr_rows) {
  return server_->Ask(fmt::format(
      "INSERT INTO batches (host, batch, boot_id, segment, table_name, start, start_unix_ns, "
      "end_unix_ns, rows, bytes, state, version) VALUES ({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
      "{})",
      SqlText(batch.host), batch.name, SqlText(batch.boot_id), batch.number, SqlText(batch.table),
      SecondsOf(batch.times.unix_start_ns()), batch.times.unix_start_ns(), batch.times.unix_end_ns(),
      nr_rows, batch.bytes, SqlText(state), SqlText(kVersion)));
}

}  // namespace slotscope
