// SPDX-License-Identifier: MIT
#include "cli/judge_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <vector>

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

std::string WithUnderscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<const Pattern*> PatternsWithThreshold() {
  std::vector<const Pattern*> patterns;
  for (const Detector& detector : Detectors())
    if (detector.pattern->threshold) patterns.push_back(detector.pattern);
  return patterns;
}

// "a, b and c".
std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); i++)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// Lines of `nccl_hang_threshold = 300`.
Status ReadConfig(const std::string& path, JudgeOptions* judge) {
  const std::string name = fmt::format("--config {}", EscapeControls(path));
  std::map<std::string, std::string> values;
  std::vector<std::string> forms;
  po::options_description keys;
  for (const Pattern* pattern : PatternsWithThreshold()) {
    const std::string key = WithUnderscores(pattern->threshold);
    keys.add_options()(key.c_str(), po::value(&values[key]));
    forms.push_back(key + " = S");
  }
  std::ifstream file(path);
  if (!file) return Usage(fmt::format("{}: cannot open it", name));
  try {
    po::variables_map variables;
    po::store(po::parse_config_file(file, keys), variables);
    po::notify(variables);
  } catch (const po::error& error) {
    return Usage(fmt::format("{}: {}; it has {}", name, EscapeControls(error.what()), Joined(forms)));
  }
  for (const Pattern* pattern : PatternsWithThreshold()) {
    const std::string key = WithUnderscores(pattern->threshold), value = values[key];
    if (value.empty()) continue;
    const std::string line = fmt::format("{}: {}", name, key);
    if (Status status = ParseThreshold(line.c_str(), value, &judge->thresholds_ns[pattern->name]);
        !status.ok())
      return status;
  }
  return {};
}

}  // namespace

bool JudgeTexts::empty() const {
  return config.empty() && std::all_of(thresholds.begin(), thresholds.end(),
                                       [](const auto& one) { return one.second.empty(); });
}

void DescribeThresholds(JudgeTexts* texts, po::options_description* options) {
  std::vector<std::string> lines;
  for (const Pattern* pattern : PatternsWithThreshold()) {
    options->add_options()(pattern->threshold, Text(&texts->thresholds[pattern->threshold], "S"),
                           pattern->help);
    lines.push_back(WithUnderscores(pattern->threshold) + " = S");
  }
  const std::string help = "lines of " + Joined(lines) + "; options go before";
  options->add_options()("config", Text(&texts->config, "FILE"), help.c_str());
}

Status ParseJudge(const JudgeTexts& texts, JudgeOptions* judge) {
  if (!texts.config.empty())
    if (Status status = ReadConfig(texts.config, judge); !status.ok()) return status;
  for (const Pattern* pattern : PatternsWithThreshold()) {
    const auto given = texts.thresholds.find(pattern->threshold);
    if (given == texts.thresholds.end() || given->second.empty()) continue;
    const std::string option = fmt::format("--{}", pattern->threshold);
    if (Status status =
            ParseThreshold(option.c_str(), given->second, &judge->thresholds_ns[pattern->name]);
        !status.ok())
      return status;
  }
  return {};
}

Status ParseDetectors(const std::string& text, JudgeOptions* judge) {
  if (text.empty() || text == "all") return {};
  for (const Detector& detector : Detectors()) judge->off.insert(detector.pattern->name);
  for (const std::string& item : Split(text)) {
    const auto detectors = Detectors();
    const auto at = std::find_if(detectors.begin(), detectors.end(),
                                 [&](const Detector& one) { return one.pattern->name == item; });
    if (at == detectors.end())
      return Usage(fmt::format("--detect {}: there is no '{}', but {}", EscapeControls(text),
                               EscapeControls(item), DetectorNames()));
    judge->off.erase(item);
  }
  if (judge->off.size() == Detectors().size())
    return Usage(fmt::format("--detect {}: there is no detector in it", EscapeControls(text)));
  return {};
}

std::string DetectorNames() {
  std::vector<std::string> names;
  for (const Detector& detector : Detectors()) names.emplace_back(detector.pattern->name);
  return Joined(names);
}

std::string NeededInputs(const Pattern& pattern) {
  std::vector<std::string> options;
  if (pattern.needs & kNeedsDumps) options.emplace_back("--fr-dir");
  if (pattern.needs & kNeedsKernelLog) options.emplace_back("--kmsg");
  if (pattern.needs & kNeedsKubernetes) options.emplace_back("--k8s-events");
  return Joined(options);
}

}  // namespace slotscope
