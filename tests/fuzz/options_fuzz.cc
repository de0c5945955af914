// SPDX-License-Identifier: MIT
// The command line, a word per line; and the small texts that we read elsewhere.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_list.h"
#include "cli/options.h"
#include "ring/counters.h"
#include "ring/module_info.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  const std::string text(reinterpret_cast<const char*>(data), size);
  CounterSpecs specs;
  (void)ParseCounterSpecs(text, &specs);
  (void)ParseCpuList(text);
  (void)ParseModuleInfo(text);

  std::vector<std::string> words = {"slotscope"};
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Options options;
  Status status = ParseOptions(static_cast<int>(words.size()), argv.data(), &options);
  // A refusal says why, and what is accepted is within its limits.
  if (!status.ok() && (status.message().empty() || status.code() != Exit::kUsage)) std::abort();
  if (status.ok() && options.verb == Options::Verb::kRecord &&
      (options.record.output.slot_ns == 0 || options.record.output.path.empty()))
    std::abort();
  return 0;
}
