// SPDX-License-Identifier: MIT
#include "cli/ship_parser.h"

#include <fmt/core.h>

#include "base/escape.h"
#include "cli/option_text.h"

namespace slotscope {

namespace po = boost::program_options;

namespace {

constexpr uint64_t kMaxTtlDays = 36'500;

}  // namespace

po::options_description DescribeShip(ShipTexts* texts, ShipVerbOptions* ship) {
  po::options_description options("Where to, and what");
  options.add_options()(
      "clickhouse", Text(&ship->server.url, "URL"),
      "the server: http[s]://[USER@]HOST:PORT[/DATABASE] (default database: slotscope)")(
      "set-up", po::bool_switch(&ship->set_up), "makes the tables there, or brings them up to date")(
      "ttl", Text(&texts->ttl, "DAYS"),
      "with --set-up: from now on its rows are deleted when they are so old, such as 30d")(
      "follow", po::bool_switch(&ship->follow),
      "goes on: ships each segment when it is complete, and waits while the server is away")(
      "milliseconds", Text(&texts->milliseconds, "WHICH"),
      "all (default), or incidents: those around what record --trigger keeps; seconds are always "
      "shipped")(
      "max-waiting", Text(&texts->max_waiting, "BYTES"),
      "gives up the oldest that waits beyond that, with --follow (K, M, G, T; default: what the "
      "recording keeps)")("password-file", Text(&ship->server.password_file, "FILE"),
                          "its one line is USER's password")(
      "ca-file", Text(&ship->server.ca_file, "FILE"), "who signs the server's certificate")(
      "metrics", Text(&ship->metrics, "ADDRESS"),
      "metrics of the shipper for Prometheus, with --follow: a port of the loopback interface, such as "
      "9466, or HOST:PORT");
  return options;
}

Status ParseShip(const ShipTexts& texts, ShipVerbOptions* ship) {
  if (ship->server.url.empty()) return Usage("ship: say where to: --clickhouse http://HOST:8123");
  if (Status status = CheckServerUrl(ship->server.url); !status.ok()) return status;
  if (!ship->server.ca_file.empty() && !ship->server.url.starts_with("https://"))
    return Usage("--ca-file is for a server with https://: leave it out");
  if (ship->set_up && (ship->follow || !ship->path.empty()))
    return Usage("--set-up only makes tables: leave --follow and the recording out, and ship then");
  if (!texts.ttl.empty()) {
    std::string_view days = texts.ttl;
    TakeUnit({{'d', 1}}, &days);
    if (!ParseNumber(days, 1, kMaxTtlDays, &ship->ttl_days))
      return Usage(fmt::format("--ttl {}: give a number of days, such as 30d", EscapeName(texts.ttl)));
    if (!ship->set_up) return Usage("--ttl is for --set-up: leave it out");
  }
  if (!texts.milliseconds.empty() && texts.milliseconds != "all" && texts.milliseconds != "incidents")
    return Usage(
        fmt::format("--milliseconds {}: give all or incidents", EscapeName(texts.milliseconds)));
  ship->ship.only_incidents = texts.milliseconds == "incidents";
  if (!ship->metrics.empty()) {
    if (!ship->follow) return Usage("--metrics is for --follow: leave it out");
    if (Status status = CheckMetrics(ship->metrics); !status.ok()) return status;
  }
  if (texts.max_waiting.empty()) return {};
  if (!ship->follow) return Usage("--max-waiting is for --follow: leave it out");
  if (!ParseSize(texts.max_waiting, 1u << 20, &ship->ship.max_waiting_bytes))
    return Usage(fmt::format("--max-waiting {}: give a size of at least 1M, such as 500M or 10G",
                             EscapeName(texts.max_waiting)));
  return {};
}

}  // namespace slotscope
