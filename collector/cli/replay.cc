// SPDX-License-Identifier: MIT
#include "cli/replay.h"

#include <fmt/core.h>

#include <memory>

#include "base/escape.h"
#include "base/say.h"
#include "raw/raw_file.h"
#include "run/output.h"
#include "run/pipeline.h"
#include "run/raw_input.h"

namespace slotscope {
namespace {

int Fail(const Status& status) {
  if (!status.ok()) Say(stderr, "slotscope: {}\n", status.message());
  return static_cast<int>(status.code());
}

// Everything but the clock and the source is as in a recording.
Status RunReplay(const ReplayOptions& options) {
  RawFileReader reader;
  if (Status status = reader.Open(options.path); !status.ok()) return status;
  const Facts& facts = reader.facts();
  Output output(options.output);
  if (Status status = output.Open(); !status.ok()) return status;
  if (Status status = output.MakeFolder(); !status.ok()) return status;
  Writer* writer = output.MakeWriter(facts, Writer::Queue::kFile);
  output.Begin(facts);

  Engine engine(facts, options.output.slot_ns, options.output.window_ns, KeepsOf(options.output),
                writer);
  const RawInputEnd end = ReadAll(&reader, options.path, &engine, [&] { return writer->failed(); });
  writer->Stop();

  RunSummary run = Summarize(engine);
  run.notes = facts.notes;
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

int Replay(const ReplayOptions& options) { return Fail(RunReplay(options)); }

int Generate(const GenerateOptions& options) { return Fail(RunGenerate(options)); }

}  // namespace slotscope
