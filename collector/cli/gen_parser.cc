// SPDX-License-Identifier: MIT
#include "cli/gen_parser.h"

#include <fmt/core.h>
#include <slotscope/rmid_fifo.h>

#include <cstdint>

#include "cli/option_text.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

// A number of gen: its name, where it goes, and what it may be.
struct GenNumber {
  const char* name;
  uint64_t GeneratorOptions::*member;
  uint64_t min, max;
  const char* help;
};
constexpr GenNumber kGenNumbers[] = {
    {"seed", &GeneratorOptions::seed, 0, UINT64_MAX, "another seed, another run (default 1)"},
    {"cpus", &GeneratorOptions::nr_cpus, 1, 1024, "CPUs (default 2)"},
    {"missing-cpus", &GeneratorOptions::nr_missing_cpus, 0, 1023, "of these, present but never online"},
    {"milliseconds", &GeneratorOptions::duration_ms, 1, 86'400'000, "how long it runs (default 1000)"},
    {"processes", &GeneratorOptions::nr_processes, 1, 1'000'000, "alive at a time (default 200)"},
    {"kthreads", &GeneratorOptions::nr_kthreads, 0, 10'000, "kernel threads (default 8)"},
    {"rmids", &GeneratorOptions::nr_rmids, 2, SS_RMID_CAPACITY, "RMIDs (default 512)"},
    {"switches", &GeneratorOptions::switches_per_s, 1, 1'000'000, "per second and CPU (default 5000)"},
    {"births", &GeneratorOptions::births_per_s, 0, 1'000'000, "and deaths per second (default 100)"},
    {"tick-jitter", &GeneratorOptions::tick_jitter_ns, 0, 900'000,
     "ns behind the border (default 20000)"},
    {"lost", &GeneratorOptions::lost_ppm, 0, 1'000'000, "records lost, per million"},
    {"inverted", &GeneratorOptions::inverted_ppm, 0, 1'000'000, "written a little later, per million"},
    {"late", &GeneratorOptions::late_ppm, 0, 1'000'000, "written much later, per million"},
    {"malformed", &GeneratorOptions::malformed_ppm, 0, 1'000'000, "records with nonsense, per million"},
    {"unknown", &GeneratorOptions::unknown_ppm, 0, 1'000'000,
     "measures with a missed switch, per million"},
    {"stalls", &GeneratorOptions::stalls_per_s, 0, 1000, "times per second the collector stands still"},
    {"cpu-stalls", &GeneratorOptions::cpu_stalls_per_s, 0, 1000, "times one ring is not drained"},
    {"hotplugs", &GeneratorOptions::hotplugs_per_s, 0, 1000, "times a CPU goes away and comes back"},
    {"l3-domains", &GeneratorOptions::nr_l3_domains, 0, 1024,
     "with RDT counters each; 0: no RDT (default)"},
    {"rdt-skipped", &GeneratorOptions::rdt_skipped_ppm, 0, 1'000'000,
     "counters not read in a tick, per million"},
    {"rdt-failed", &GeneratorOptions::rdt_failed_ppm, 0, 1'000'000,
     "reads without a value, per million"},
    {"more-counters", &GeneratorOptions::nr_more, 0, SS_MAX_MORE,
     "perf counters behind the first three"},
    {"clock-steps", &GeneratorOptions::clock_steps_per_s, 0, 1000, "steps of the wall clock per second"},
};

}  // namespace

po::options_description DescribeGenerate(GenTexts* texts, GeneratorOptions* generator) {
  po::options_description options("Options of gen");
  for (const GenNumber& number : kGenNumbers)
    options.add_options()(number.name, Text(&(*texts)[number.name], "N"), number.help);
  options.add_options()("wrap", po::bool_switch(&generator->wrap),
                        "sequence numbers, generations and counters wrap")(
      "no-counters", po::bool_switch(&generator->no_counters), "as on a machine without a PMU")(
      "waits", po::bool_switch(&generator->waits), "tell single waits");
  return options;
}

Status ParseGenerate(const GenTexts& texts, GeneratorOptions* generator) {
  for (const GenNumber& number : kGenNumbers) {
    const std::string& text = texts.at(number.name);
    if (!text.empty() && !ParseNumber(text, number.min, number.max, &(generator->*number.member)))
      return Usage(fmt::format("--{} {}: give a number from {} to {}", number.name, text, number.min,
                               number.max));
  }
  if (generator->nr_missing_cpus >= generator->nr_cpus)
    return Usage("--missing-cpus: at least one CPU must be there");
  if (generator->nr_l3_domains > generator->nr_cpus) return Usage("--l3-domains: each must have a CPU");
  return {};
}

}  // namespace slotscope
