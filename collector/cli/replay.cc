// SPDX-License-Identifier: MIT
#include "cli/replay.h"

#include <fmt/core.h>

#include <memory>

#include "base/escape.h"
#include "base/say.h"
#include "cli/exit_code.h"
#include "cli/output_parser.h"
#include "recording/reader.h"
#include "run/output.h"
#include "run/pipeline.h"
#include "run/raw_input.h"

namespace slotscope {
namespace {

// Everything but the clock and the source is as in a recording.
Status RunReplay(const ReplayOptions& options) {
  RawInput input;
  if (Status status = input.Open(options.path); !status.ok()) return status;
  if (!input.note().empty()) Say(stderr, "slotscope: {}\n", input.note());
  const Facts& facts = input.facts();
  Output output(options.output);
  if (Status status = output.Open(); !status.ok()) return status;
  if (Status status = output.MakeFolder(); !status.ok()) return status;
  Writer* writer = output.MakeWriter(facts, Writer::Queue::kFile);
  output.Begin(facts);

  Engine engine(facts, options.output.slot_ns, options.output.window_ns, KeepsOf(options.output),
                writer);
  RawInputEnd end;
  const Status begun = input.ReadAll(
      &engine, [&] { return writer->failed(); }, &end);
  writer->Stop();
  if (!begun.ok()) {
    output.Discard();
    return begun;
  }
  output.Stay();

  RunSummary run = Summarize(engine);
  if (facts.raw_segment > 0)
    run.notes.push_back(
        "the first part of the recording is missing here; the counts still begin at its start");
  run.input_error = end.error;
  run.input_cut = end.cut;
  Status status = output.Finish(&run);
  if (!run.input_error.empty()) return {Exit::kBadInput, run.input_error};
  if (!run.input_cut.empty() && run.counts.accounting.nr_slots == 0)
    return {Exit::kBadInput, fmt::format("{}; it holds no whole slot", run.input_cut)};
  return status;
}

Status RunGenerate(const GenerateOptions& options) {
  Generator generator(options.generator);
  RawFileWriter file;
  if (Status status = OpenRaw(&file, options.path); !status.ok()) return status;
  if (Status status = file.WriteFacts(generator.facts()); !status.ok()) return status;
  auto block = std::make_unique<Block>();
  while (generator.Next(block.get()))
    if (Status status = file.WriteItems(block->bytes()); !status.ok()) return status;
  if (Status status = file.Finish(); !status.ok()) return status;
  Say(stdout, "wrote {} ({:.1f} MB, {} messages)\n", EscapeName(options.path),
      static_cast<double>(file.size()) / 1e6, generator.nr_messages());
  return {};
}

}  // namespace

int Replay(const ReplayOptions& options) {
  if (!options.path.empty()) return ExitCode(RunReplay(options));
  ReplayOptions found = options;
  Status status = FindRecording(&found.path, kRawTable);
  if (status.ok()) status = CheckNames(found.output, "", "", {{"what is replayed", found.path}});
  return ExitCode(status.ok() ? RunReplay(found) : status);
}

int Generate(const GenerateOptions& options) { return ExitCode(RunGenerate(options)); }

}  // namespace slotscope
