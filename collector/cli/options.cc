// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <sstream>
#include <string_view>

#include "cli/detect_parser.h"
#include "cli/gen_parser.h"
#include "cli/option_text.h"
#include "cli/output_parser.h"
#include "cli/reader_parser.h"
#include "cli/record_parser.h"
#include "cli/ship_parser.h"
#include "cli/top_parser.h"

namespace slotscope {
namespace {

namespace po = boost::program_options;

struct VerbText {
  std::string_view name;
  std::string_view words;          // behind it
  std::string_view does;           // its lines
  std::string_view examples = "";  // behind its options
  bool is_for_tests = false;
};

// Of slotscope check.
constexpr const char* kTrialSeconds = "3";

constexpr VerbText kVerbs[] = {
    {"check", "[--json]",
     "says what this machine can and cannot measure, and what to do about it;\n"
     "what a recording costs here, and how far back a ring would reach\n"},
    {"record", "[options] [-- COMMAND [ARG...]]",
     "writes a row per process and millisecond to slotscope.rec until Ctrl-C,\n"
     "for --duration, or until COMMAND exits (the rest is one row)\n",
     "  slotscope record --duration 10                 all, to ./slotscope.rec\n"
     "  slotscope record -- make -j8                   a command, and its descendants\n"
     "  slotscope record --pid 4711 -o one.csv         a process, to one plain file\n"
     "  slotscope record --keep 24h,10G --metrics      for months: the newest part\n"
     "  slotscope record --spans run.pftrace           also for ui.perfetto.dev\n"},
    {"explain", "[options] [RECORDING]",
     "the five worst moments of a recording: who was held up, why, by whom\n"
     "(default: the newest recording here, else the service's); no root\n",
     "  slotscope explain                              the worst of the newest\n"
     "  slotscope explain --at 03:12:07.120            100 ms of it, whatever is usual\n"
     "  slotscope explain --since -1h --comm web,db    whose, and when\n"},
    {"report", "[options] [RECORDING]",
     "makes a page, report.html, of the worst two minutes of a recording,\n"
     "or of the part that is asked for; it needs no network; no root\n",
     "  slotscope report                               of the newest recording\n"
     "  slotscope report --since 03:05 --until 03:20 -o night.html\n"},
    {"top", "[options] [RECORDING]",
     "the last second of a recording while it is written: who waited, and who\n"
     "ran instead (default: one here, else the service's, else top records)\n",
     "  slotscope top                                  in a terminal; ? shows the keys\n"
     "  slotscope top --group-by pod                   a row for each pod\n"
     "  slotscope top --once --sort cpu -n 5           one second, for scripts\n"},
    {"query", "[options] [\"SELECT ...\" [RECORDING]]",
     "SQL over the tables of a recording, by DuckDB if it is installed;\n"
     "without SQL: which tables and columns there are; no root\n",
     "  slotscope query \"SELECT comm, sum(cpu_ns) FROM slots GROUP BY comm\"\n"
     "  slotscope query --since -10min \"FROM waits\" -o waits.parquet\n"},
    {"replay", "[options] [RECORDING|FILE]",
     "makes a recording again from what --raw-table or --raw FILE kept\n",
     "  slotscope replay --slot 100 -o coarse.csv      the newest, in slots of 100 ms\n"
     "  slotscope replay run.raw --pid 4711            one process of a file\n"},
    {"ship", "--clickhouse URL [options] [RECORDING]",
     "puts a recording into a fleet's ClickHouse, each row once; no root\n",
     "  slotscope ship --clickhouse http://db:8123 --set-up     once: makes the tables\n"
     "  slotscope ship --clickhouse http://db:8123              what is not there yet\n"
     "  slotscope ship --clickhouse https://rack7@db:8443 --password-file pw --follow\n"},
    {"gen", "[options] FILE", "makes a raw FILE of a machine that does not exist, for tests\n", "",
     true},
    {"rmids", "", "prints the RMID table of the kernel module\n"},
    {"gpu", "[RECORDING|FILE]",
     "prints the GPUs, the processes that use CUDA, and how far each is\n"
     "traced; for a recording: their memory, activity and leaks\n"},
    {"detect", "[--fr-dir FOLDER] [--kmsg FILE] [--k8s-events FILE] ...",
     "hung ranks, GPU errors and evictions, and who caused them: from flight\n"
     "recorders, kernel logs and Kubernetes events (see --demo)\n",
     "  slotscope detect --fr-dir /tmp/dumps           which ranks hold up a job\n"
     "  journalctl -k -o json | slotscope detect --kmsg -\n"},
};

std::string Synopsis(const VerbText& verb) {
  return fmt::format("slotscope {}{}{}", verb.name, verb.words.empty() ? "" : " ", verb.words);
}

// Of all verbs.
std::string HelpOverview() {
  std::string text = "Usage: slotscope VERB [options]\n\n";
  for (const VerbText& verb : kVerbs) {
    if (verb.is_for_tests) continue;
    std::string_view name = verb.name;
    for (std::string_view rest = verb.does; !rest.empty(); name = "") {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      rest.remove_prefix(line.size());
      text += fmt::format("{:<9}{}", name, line);
    }
  }
  return text +
         "\nFirst: slotscope check, then slotscope record. Options and examples of a verb:\n"
         "slotscope VERB --help. The version: slotscope -V. All of it: man slotscope.\n";
}

std::string VerbNames() {
  std::string names;
  for (const VerbText& verb : kVerbs)
    if (!verb.is_for_tests) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return names;
}

// Without blanks at the ends of lines, and with one empty line between groups.
std::string Tidy(const std::string& text) {
  std::string tidy;
  for (char c : text) {
    if (c == '\n')
      while (tidy.ends_with(' ')) tidy.pop_back();
    if (c != '\n' || !tidy.ends_with("\n\n")) tidy += c;
  }
  return tidy;
}

// Of one verb. REQUIRES: there is such a verb.
std::string HelpOf(std::string_view name, const po::options_description* description) {
  const VerbText& verb = *std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                       [&](const auto& one) { return one.name == name; });
  std::ostringstream text;
  text << "Usage: " << Synopsis(verb) << "\n\n" << name << ' ' << verb.does;
  if (description) text << *description;
  if (!verb.examples.empty()) text << "\nExamples:\n" << verb.examples;
  return Tidy(text.str());
}

// Parses a verb's `words` by `description`. Words that belong to no option go to *rest.
Status ParseWords(const std::string& verb, const std::vector<std::string>& words,
                  const po::options_description& description, std::vector<std::string>* rest,
                  bool* help) {
  try {
    namespace style = po::command_line_style;
    po::variables_map variables;
    po::options_description all;
    all.add(description).add_options()("stray", po::value(rest));
    auto parsed = po::command_line_parser(words)
                      .options(all)
                      .positional(po::positional_options_description().add("stray", -1))
                      .style(style::unix_style & ~style::allow_guessing)
                      .run();
    po::store(parsed, variables);
    po::notify(variables);
    for (const auto& [name, value] : variables)
      if (const auto* text = boost::any_cast<std::string>(&value.value());
          text && text->empty() && name != "help")
        return Usage(fmt::format("--{}: the value is empty; give one, or leave the option out", name));
    *help = variables.count("help");
  } catch (const po::error& error) {
    // The library puts the words into its message where it finds %name%, also into those words: for
    // ever.
    for (const std::string& word : words)
      if (word.find('%') != std::string::npos)
        return Usage(fmt::format(
            "there is an option that does not exist, or one without its value; see slotscope {} --help",
            verb));
    return Usage(fmt::format("{}; see slotscope {} --help", error.what(), verb));
  }
  return {};
}

Status TakeFile(const char* verb, const std::vector<std::string>& rest, std::string* path) {
  if (rest.size() != 1 || rest[0].empty())
    return Usage(fmt::format("{} wants one file, and got {}", verb, rest.size()));
  *path = rest[0];
  return {};
}

Status TakeCommand(std::vector<std::string>* words, std::vector<std::string>* command) {
  for (size_t i = 0; i < words->size(); i++) {
    if ((*words)[i] != "--") continue;
    command->assign(words->begin() + static_cast<ptrdiff_t>(i) + 1, words->end());
    words->resize(i);
    if (command->empty()) return Usage("there is no command after --");
    break;
  }
  return {};
}

}  // namespace

Status ParseOptions(int argc, char** argv, Options* options) {
  RecordTexts record;
  OutputTexts replay;
  GenTexts gen;
  DetectTexts detect;
  po::options_description of_record = DescribeRecord(&record, &options->record);
  po::options_description of_replay = DescribeOutput(&replay, &options->replay.output);
  po::options_description of_gen = DescribeGenerate(&gen, &options->generate.generator);
  po::options_description of_detect = DescribeDetect(&detect, &options->detect);
  ReaderTexts explain;
  std::string explain_nr;
  po::options_description of_explain = DescribeReader(&explain, &options->explain.reader);
  of_explain.add_options()(",n", Text(&explain_nr, "N"), "how many moments (default 5)")(
      "rows", Text(&options->explain.rows, "TABLE"),
      "shows the rows of that table instead: slots, seconds, minutes, waits or processes")("help,h",
                                                                                           "this text");
  ReaderTexts report;
  po::options_description of_report = DescribeReader(&report, &options->report.reader, false);
  of_report.add_options()("output,o", Text(&options->report.output, "FILE"),
                          "the page (default report.html)")("help,h", "this text");
  ReaderTexts query;
  po::options_description of_query = DescribeReader(&query, &options->query.reader, true, nullptr);
  of_query.add_options()("output,o", Text(&options->query.output, "FILE"),
                         "the rows, to FILE.csv, FILE.json, FILE.ndjson or FILE.parquet")("help,h",
                                                                                          "this text");
  ShipTexts ship;
  po::options_description of_ship = DescribeShip(&ship, &options->ship);
  of_ship.add_options()("help,h", "this text");
  TopTexts top;
  po::options_description of_top = DescribeTop(&top, &options->top);
  of_top.add_options()("help,h", "this text");
  options->help = HelpOverview();
  of_gen.add_options()("help,h", "this text");
  of_detect.add_options()("help,h", "this text");

  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return Usage("say what to do: slotscope record, or slotscope --help");
  if (words.size() == 2 && words[0] == "help") words = {words[1], "--help"};
  const std::string verb = words[0];
  words.erase(words.begin());
  std::vector<std::string> rest;
  bool wants_help = false;
  const auto show_help = [&](const po::options_description* description) {
    options->help = HelpOf(verb, description);
    return Status();
  };
  if (verb == "--help" || verb == "-h" || verb == "help") return {};
  if (verb == "--version" || verb == "-V" || verb == "version") {
    options->verb = Options::Verb::kShowVersion;
    return {};
  }
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if ((verb == "rmids" || verb == "gpu" || verb == "check") &&
      std::any_of(words.begin(), words.end(), is_help))
    return show_help(nullptr);
  if (verb == "rmids") {
    if (!words.empty()) return Usage(fmt::format("rmids takes no '{}'", words[0]));
    options->verb = Options::Verb::kRmids;
    return {};
  }
  if (verb == "check") {
    for (const std::string& word : words)
      if (word != "--json")
        return Usage(fmt::format("check takes no '{}'; see slotscope check --help", word));
    options->verb = Options::Verb::kCheck;
    options->check.json = !words.empty();
    record.duration = kTrialSeconds;
    return ParseRecord(record, &options->check.trial);
  }
  if (verb == "explain") {
    if (Status status = ParseWords(verb, words, of_explain, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_explain);
    options->verb = Options::Verb::kExplain;
    if (!rest.empty())
      if (Status status = TakeFile("explain", rest, &options->explain.reader.path); !status.ok())
        return status;
    uint64_t nr = options->explain.nr;
    if (!explain_nr.empty() && !options->explain.rows.empty())
      return Usage("--rows shows all rows of a range, and -n is a number of moments: leave it out");
    if (!explain_nr.empty() && !ParseNumber(explain_nr, 1, 1000, &nr))
      return Usage(fmt::format("-n {}: give a number of moments, 1 to 1000", explain_nr));
    options->explain.nr = nr;
    if (!options->explain.rows.empty() && options->explain.reader.json)
      return Usage("--rows shows rows as they stand there: leave --json out");
    return ParseReader(explain, &options->explain.reader);
  }
  if (verb == "report") {
    if (Status status = ParseWords(verb, words, of_report, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_report);
    options->verb = Options::Verb::kReport;
    if (!rest.empty())
      if (Status status = TakeFile("report", rest, &options->report.reader.path); !status.ok())
        return status;
    if (options->report.output.empty() || options->report.output == "-")
      return Usage("--output: give the name of a file");
    return ParseReader(report, &options->report.reader);
  }
  if (verb == "query") {
    if (Status status = ParseWords(verb, words, of_query, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_query);
    options->verb = Options::Verb::kQuery;
    if (rest.size() > 2)
      return Usage(
          fmt::format("query wants SQL and at most one recording, and got {} words: put the SQL "
                      "into quotes",
                      rest.size()));
    // A recording alone: its tables.
    if (rest.size() == 1 && access(rest[0].c_str(), F_OK) == 0) rest.insert(rest.begin(), "");
    // Or the recording first: SQL is the name of no file.
    if (rest.size() == 2 && access(rest[0].c_str(), F_OK) == 0 && access(rest[1].c_str(), F_OK))
      std::swap(rest[0], rest[1]);
    if (!rest.empty()) options->query.sql = rest[0];
    if (rest.size() == 1 && options->query.sql.find_first_not_of(" \t\n;") == std::string::npos)
      return Usage("query: the SQL is empty; give some, or leave it out to see which tables there are");
    if (rest.size() > 1) options->query.reader.path = rest[1];
    if (options->query.reader.json && !options->query.output.empty())
      return Usage("--json goes to standard output: leave it out, or end --output in .json");
    return ParseReader(query, &options->query.reader);
  }
  if (verb == "top") {
    if (Status status = ParseWords(verb, words, of_top, &rest, &wants_help); !status.ok()) return status;
    if (wants_help) return show_help(&of_top);
    options->verb = Options::Verb::kTop;
    if (!rest.empty())
      if (Status status = TakeFile("top", rest, &options->top.reader.path); !status.ok()) return status;
    return ParseTop(top, &options->top);
  }
  if (verb == "ship") {
    if (Status status = ParseWords(verb, words, of_ship, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_ship);
    options->verb = Options::Verb::kShip;
    if (!rest.empty())
      if (Status status = TakeFile("ship", rest, &options->ship.path); !status.ok()) return status;
    return ParseShip(ship, &options->ship);
  }
  if (verb == "gpu") {
    options->verb = Options::Verb::kGpu;
    for (const std::string& word : words)
      if (word.starts_with("-"))
        return Usage(fmt::format("gpu has no option '{}'; see slotscope gpu --help", word));
    if (words.size() > 1)
      return Usage(fmt::format("gpu takes one file at most, and got {}", words.size()));
    if (!words.empty() && words[0].empty()) return Usage("gpu: the file's name is empty");
    if (!words.empty()) options->gpu.path = words[0];
    return {};
  }
  if (verb == "record") {
    if (Status status = TakeCommand(&words, &options->record.command); !status.ok()) return status;
    if (Status status = ParseWords(verb, words, of_record, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_record);
    if (!rest.empty())
      return Usage(fmt::format("'{}' is no option; to record a command write: slotscope record -- {}",
                               rest[0], rest[0]));
    if (!options->record.command.empty() && KindOf(options->record.output.path) == OutputKind::kStream)
      return Usage(
          "--output - and a COMMAND would both write to standard output: give another --output");
    options->verb = Options::Verb::kRecord;
    return ParseRecord(record, &options->record);
  }
  if (verb == "replay") {
    if (Status status = ParseWords(verb, words, of_replay, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_replay);
    options->verb = Options::Verb::kReplay;
    if (!rest.empty())
      if (Status status = TakeFile("replay", rest, &options->replay.path); !status.ok()) return status;
    if (Status status = ParseOutput(replay, &options->replay.output); !status.ok()) return status;
    return CheckNames(options->replay.output, "", "", {{"what is replayed", options->replay.path}});
  }
  if (verb == "gen") {
    if (Status status = ParseWords(verb, words, of_gen, &rest, &wants_help); !status.ok()) return status;
    if (wants_help) return show_help(&of_gen);
    options->verb = Options::Verb::kGenerate;
    if (Status status = TakeFile("gen", rest, &options->generate.path); !status.ok()) return status;
    return ParseGenerate(gen, &options->generate.generator);
  }
  if (verb == "detect") {
    if (Status status = ParseWords(verb, words, of_detect, &rest, &wants_help); !status.ok())
      return status;
    if (wants_help) return show_help(&of_detect);
    if (!rest.empty())
      return Usage(fmt::format("detect takes no '{}'; see slotscope detect --help", rest[0]));
    options->verb = Options::Verb::kDetect;
    return ParseDetect(detect, &options->detect);
  }
  return Usage(
      fmt::format("unknown verb '{}'; the verbs are {}: see slotscope --help", verb, VerbNames()));
}

}  // namespace slotscope
