// SPDX-License-Identifier: MIT
#include "cli/judge_parser.h"

#include <fmt/core.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <span>

#include "base/escape.h"
#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

// 300, 300s, 5m, 1h. Whole seconds, at least one.
Status ParseThreshold(const char* name, const std::string& text, int64_t* ns) {
  std::string_view digits = text;
  uint64_t unit = 1, number;
  if (!digits.empty() && (digits.back() == 's' || digits.back() == 'm' || digits.back() == 'h')) {
    unit = digits.back() == 's' ? 1 : digits.back() == 'm' ? 60 : 3600;
    digits.remove_suffix(1);
  }
  constexpr uint64_t kMaxSeconds = 1'000'000;
  if (!ParseNumber(digits, 1, kMaxSeconds / unit, &number))
    return Usage(fmt::format("{} {}: give a number of seconds, at least 1, such as 300 or 5m", name,
                             EscapeControls(text)));
  *ns = static_cast<int64_t>(number * unit) * 1'000'000'000;
  return {};
}

// A threshold of a detector: by a line of the configuration, or by an option, which goes before.
struct Threshold {
  std::string key;
  std::string option;
  std::string given;  // with the option
  int64_t* ns;
};

Status ReadConfig(const std::string& path, std::span<const Threshold> thresholds) {
  const std::string name = fmt::format("--config {}", EscapeControls(path));
  std::map<std::string, std::string> values;
  po::options_description keys;
  for (const Threshold& one : thresholds)
    keys.add_options()(one.key.c_str(), po::value(&values[one.key]));
  std::ifstream file(path);
  if (!file) return Usage(fmt::format("{}: cannot open it", name));
  try {
    po::variables_map variables;
    po::store(po::parse_config_file(file, keys), variables);
    po::notify(variables);
  } catch (const po::error& error) {
    return Usage(fmt::format("{}: {}; it has nccl_hang_threshold = S and xid_correlation_window = S",
                             name, EscapeControls(error.what())));
  }
  for (const Threshold& one : thresholds) {
    const std::string& value = values[one.key];
    if (value.empty()) continue;
    const std::string line = fmt::format("{}: {}", name, one.key);
    if (Status status = ParseThreshold(line.c_str(), value, one.ns); !status.ok()) return status;
  }
  return {};
}

}  // namespace

void DescribeThresholds(JudgeTexts* texts, po::options_description* options) {
  options->add_options()(
      "nccl-hang-threshold", Text(&texts->nccl_hang_threshold, "S"),
      "seconds (or 5m) after which a collective hangs, at least 1 (default 300), or its "
      "own timeout if that is less")(
      "xid-correlation-window", Text(&texts->xid_correlation_window, "S"),
      "seconds within which an eviction follows an Xid, at least 1 (default 60)")(
      "config", Text(&texts->config, "FILE"),
      "lines of nccl_hang_threshold = S and xid_correlation_window = S; options go before");
}

Status ParseJudge(const JudgeTexts& texts, JudgeOptions* judge) {
  const Threshold thresholds[] = {{"nccl_hang_threshold", "--nccl-hang-threshold",
                                   texts.nccl_hang_threshold, &judge->nccl_hang.threshold_ns},
                                  {"xid_correlation_window", "--xid-correlation-window",
                                   texts.xid_correlation_window, &judge->xid_window_ns}};
  if (!texts.config.empty())
    if (Status status = ReadConfig(texts.config, thresholds); !status.ok()) return status;
  for (const Threshold& one : thresholds) {
    if (one.given.empty()) continue;
    if (Status status = ParseThreshold(one.option.c_str(), one.given, one.ns); !status.ok())
      return status;
  }
  return {};
}

Status ParseDetectors(const std::string& text, DetectorSet* set) {
  if (text.empty() || text == "all") return {};
  *set = {false, false, false};
  for (const std::string& item : Split(text)) {
    if (item == "nccl_hang")
      set->nccl_hang = true;
    else if (item == "xid_correlation")
      set->xid_correlation = true;
    else if (item == "pod_evicted")
      set->pod_evicted = true;
    else
      return Usage(
          fmt::format("--detect {}: there is no '{}', but nccl_hang, xid_correlation and "
                      "pod_evicted",
                      EscapeControls(text), EscapeControls(item)));
  }
  if (!set->nccl_hang && !set->xid_correlation && !set->pod_evicted)
    return Usage(fmt::format("--detect {}: there is no detector in it", EscapeControls(text)));
  return {};
}

}  // namespace slotscope
