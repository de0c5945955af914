// SPDX-License-Identifier: MIT
#include "cli/ship.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/escape.h"
#include "base/say.h"
#include "base/size_text.h"
#include "cli/exit_code.h"
#include "metrics/exposer.h"
#include "recording/reader.h"
#include "ship/schema.h"
#include "ship/ship_metrics.h"
#include "ship/shipper.h"

namespace slotscope {
namespace {

// How often a recording is looked into, and how long until a server that has said no is asked again.
constexpr time_t kLookAgainS = 2, kFirstRetryS = 2, kLastRetryS = 60;
constexpr int kMaxBusy = 15;  // times that a question may still be being answered

volatile std::sig_atomic_t stop_requested = 0;

void StopShipping(int) { stop_requested = 1; }

bool IsStopped() { return stop_requested; }

// SIGINT and SIGTERM end what goes on; a second one ends the process.
void TakeSignals() {
  struct sigaction action = {};
  action.sa_handler = StopShipping;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

// Until then, or until a signal.
void Sleep(time_t seconds) {
  const timespec time = {seconds, 0};
  if (!stop_requested) nanosleep(&time, nullptr);
}

// What is wrong with the server, and what to do.
std::string Sentence(const ClickHouse& server, const Reply& reply) {
  const auto with = [&](const char* format) {
    return fmt::format(fmt::runtime(format), server.host(), reply.text);
  };
  switch (reply.answered) {
    case Answered::kAway:
      return with("{} does not answer: {}");
    case Answered::kRefused:
      return with(
          "{} refuses: {} (the user is in the URL, its password in --password-file; what it must be "
          "allowed is in doc/fleet-database.md)");
    case Answered::kStopped:
      return "stopped by a signal";
    case Answered::kLacking:
      return with("{}: {}: run slotscope ship --set-up, by a user who may make tables");
    case Answered::kRunning:
      return with("{} is still at what it was sent before: {}");
    default:
      return with("{} cannot do it: {}");
  }
}

Exit ExitOf(const Reply& reply) {
  if (reply.answered == Answered::kRefused) return Exit::kPrivilege;
  if (reply.answered == Answered::kLacking) return Exit::kUsage;
  const bool goes_on = reply.answered == Answered::kRunning || reply.answered == Answered::kStopped;
  return goes_on ? Exit::kBusy : Exit::kOutput;
}

// What is not shipped yet; "" if there is nothing.
std::string Waiting(const Shipper& shipper) {
  const Backlog& backlog = shipper.backlog();
  if (!backlog.nr_batches) return "";
  return fmt::format("{}{} {} still to be shipped ({})", backlog.is_known ? "" : "up to ",
                     backlog.nr_batches, backlog.nr_batches == 1 ? "file is" : "files are",
                     SizeText(static_cast<double>(backlog.bytes)));
}

std::string Summary(const Shipper& shipper, const ClickHouse& server) {
  const ShipStats& stats = shipper.stats();
  std::string text =
      fmt::format("shipped {} rows to {}: {} tables of segments, {} sent", stats.nr_rows, server.host(),
                  stats.nr_batches, SizeText(static_cast<double>(stats.sent_bytes)));
  const std::array<std::pair<uint64_t, const char*>, 7> more = {
      {{stats.nr_there, "blocks were there already"},
       {stats.nr_given_up, "given up (--max-waiting)"},
       {stats.nr_removed, "removed from the recording before they were shipped"},
       {stats.nr_missing, "missing in the recording"},
       {stats.nr_damaged, "damaged"},
       {stats.nr_refused, "refused"},
       {stats.nr_malformed, "lines were no rows"}}};
  for (const auto& [nr, what] : more)
    if (nr) text += fmt::format("; {} {}", nr, what);
  if (const std::string waiting = Waiting(shipper); !waiting.empty()) text += "; " + waiting;
  if (shipper.has_open_segment()) text += "; the segment that is being written is not complete yet";
  return text;
}

Status SetUp(ClickHouse* server, uint64_t ttl_days) {
  const uint32_t newest = SchemaFiles().back().version;
  uint32_t version = 0;
  Reply reply = SetUpSchema(server, [](const std::string& step) { Say(stdout, "{}\n", step); });
  if (reply.ok()) reply = ReadSchemaVersion(server, &version);
  if (!reply.ok()) return {ExitOf(reply), Sentence(*server, reply)};
  Say(stdout, "the database {} of {} is {} (version {})\n", server->database(), server->host(),
      version > newest ? fmt::format("newer than this slotscope, which knows version {}", newest)
                       : "up to date",
      version);
  if (ttl_days == 0) return {};
  reply = SetTtl(server, ttl_days);
  if (reply.answered == Answered::kUnknown)
    return {Exit::kUsage, fmt::format("--ttl: {} cannot delete rows by itself (it is too old for that): "
                                      "delete days by hand, see doc/fleet-database.md",
                                      server->host())};
  if (!reply.ok()) return {ExitOf(reply), Sentence(*server, reply)};
  Say(stdout, "its rows are deleted when they are {} days old\n", ttl_days);
  return {};
}

// All of it, once.
Status ShipOnce(Shipper* shipper, ClickHouse* server) {
  Status status;
  Reply reply = shipper->ShipAll(&status);
  if (status.ok() && reply.ok() && shipper->wants_another_look()) reply = shipper->ShipAll(&status);
  for (int i = 0; i < kMaxBusy && reply.answered == Answered::kRunning && !stop_requested; i++) {
    Sleep(kLookAgainS);
    reply = shipper->ShipAll(&status);
  }
  if ((status.ok() && reply.ok()) || shipper->stats().nr_batches > 0)
    Say(stdout, "{}\n", Summary(*shipper, *server));
  if (!status.ok()) return status;
  const ShipStats& stats = shipper->stats();
  if (const uint64_t nr = stats.nr_damaged + stats.nr_missing + stats.nr_refused; reply.ok() && nr)
    return {
        Exit::kBadInput,
        fmt::format("{} not shipped, or not all of {}: the view lost_batches has which",
                    nr == 1 ? "a file was" : fmt::format("{} files were", nr), nr == 1 ? "it" : "them")};
  if (reply.ok()) return {};
  const std::string waiting = Waiting(*shipper);
  return {ExitOf(reply), fmt::format("{}{}", Sentence(*server, reply),
                                     waiting.empty() ? "" : "; " + waiting + ": run this again")};
}

// Whatever is wrong may be mended meanwhile: this goes on until a signal comes.
Status Follow(Shipper* shipper, ClickHouse* server, ShipMeter* meter) {
  std::string told;
  bool was_server = false;  // whose trouble was told
  time_t retry_s = kFirstRetryS;
  while (!stop_requested) {
    Status status;
    const Reply reply = shipper->ShipAll(&status);
    if (stop_requested) break;
    meter->OnRound({shipper->is_readable(), status.ok(),
                    shipper->has_asked() ? std::optional(reply.ok()) : std::nullopt},
                   static_cast<int64_t>(ClockNs(CLOCK_REALTIME)));
    const std::string trouble =
        status.ok() ? reply.ok() ? "" : Sentence(*server, reply) : status.message();
    if (trouble != told) {
      const std::string waiting = Waiting(*shipper);
      const std::string rest = waiting.empty() ? "" : "; " + waiting;
      if (trouble.empty())
        Say(stderr, "slotscope: {}; {}\n",
            was_server ? server->host() + " answers again" : "the recording can be read now",
            shipper->has_open_segment() ? "what is complete is shipped" : "all of it is shipped");
      else
        Say(stderr, "slotscope: {}{}; this tries again\n", trouble, rest);
    }
    told = trouble;
    was_server = status.ok();
    Sleep(trouble.empty() ? kLookAgainS : retry_s);
    retry_s = trouble.empty() ? kFirstRetryS : std::min(retry_s * 2, kLastRetryS);
  }
  Say(stdout, "{}\n", Summary(*shipper, *server));
  return {};
}

// Its threads take no signal: one that comes ends the sleep of this one.
Status StartMetrics(const std::string& address, const ShipMeter& meter, Exposer* exposer) {
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  Status status = exposer->Start(address, [&meter] { return meter.families(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

Status RunShip(const ShipVerbOptions& options) {
  TakeSignals();
  ClickHouse server;
  if (Status status = server.Open(options.server, IsStopped); !status.ok()) return status;
  if (options.set_up) return SetUp(&server, options.ttl_days);
  std::string path = options.path;
  if (path.empty())
    if (Status status = FindRecording(&path); !status.ok()) return status;
  ShipMeter meter;
  Shipper shipper(
      path, options.ship, &server, [](const std::string& news) { Say(stderr, "slotscope: {}\n", news); },
      [&](const ShipStats& stats, const Backlog& backlog) { meter.OnProgress(stats, backlog); });
  if (!options.follow) return ShipOnce(&shipper, &server);
  Exposer exposer;
  if (!options.metrics.empty())
    if (Status status = StartMetrics(options.metrics, meter, &exposer); !status.ok()) return status;
  return Follow(&shipper, &server, &meter);
}

}  // namespace

int Ship(const ShipVerbOptions& options) { return ExitCode(RunShip(options)); }

}  // namespace slotscope
