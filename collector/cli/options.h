// SPDX-License-Identifier: MIT
// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/reader_parser.h"
#include "detect/host/rank_note.h"
#include "detect/inputs/inputs.h"
#include "detect/inputs/timestamp.h"
#include "detect/patterns/detectors.h"
#include "run/host_input.h"
#include "run/options.h"
#include "ship/click_house.h"
#include "ship/shipper.h"
#include "tests/gen/generator.h"
#include "top/control.h"

namespace slotscope {

struct ReplayOptions {
  ReplayOptions() { output.path = "replay.rec"; }  // what is replayed is called slotscope.rec, mostly

  OutputOptions output;
  std::string path;
};

struct GenerateOptions {
  GeneratorOptions generator;
  std::string path;
};

struct CheckOptions {
  RecordOptions trial;
  bool json = false;
};

struct ExplainOptions {
  ReaderOptions reader;
  std::string rows;  // the table whose rows are shown instead
  size_t nr = 5;
};

struct ReportOptions {
  ReaderOptions reader;
  std::string output = "report.html";
};

struct TopOptions {
  ReaderOptions reader;
  TopGroupBy by;
  SortBy sort = SortBy::kWait;
  size_t nr_rows = 20;  // of one second
  bool once = false;
};

struct QueryOptions {
  ReaderOptions reader;
  std::string sql;     // empty: which tables there are
  std::string output;  // empty: to stdout
};

struct ShipVerbOptions {
  std::string path;  // empty: the newest recording here, else the service's
  ServerOptions server;
  ShipOptions ship;
  std::string metrics;    // an Exposer's address; empty: none
  uint64_t ttl_days = 0;  // with set_up; 0: as it is
  bool follow = false;
  bool set_up = false;
};

struct GpuOptions {
  std::string path;  // a raw file; empty: this machine, now
};

enum class VerdictFormat : uint8_t {
  kAuto,  // kStory in a terminal, kJson elsewhere
  kStory,
  kJson,
  kOtlp,
};

struct DetectOptions {
  DetectPaths paths;
  LogTimeOptions times;
  std::string node_id;              // empty: the host's name
  std::optional<int64_t> as_of_ns;  // Unix time
  JudgeOptions judge;
  HostRecording host;
  VerdictFormat format = VerdictFormat::kAuto;
  bool demo = false;
};

struct Options {
  enum class Verb {
    kShowHelp,
    kShowVersion,
    kRecord,
    kReplay,
    kGenerate,
    kRmids,
    kGpu,
    kDetect,
    kCheck,
    kExplain,
    kReport,
    kTop,
    kQuery,
    kShip
  } verb = Verb::kShowHelp;
  std::string help;  // for kShowHelp
  RecordOptions record;
  ReplayOptions replay;
  GenerateOptions generate;
  GpuOptions gpu;
  DetectOptions detect;
  CheckOptions check;
  ExplainOptions explain;
  ReportOptions report;
  TopOptions top;
  QueryOptions query;
  ShipVerbOptions ship;
};

// Exit::kUsage with a sentence for whatever cannot be meant.
Status ParseOptions(int argc, char** argv, Options* options);

}  // namespace slotscope
