// SPDX-License-Identifier: MIT
#include "run/output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "base/cpu_list.h"
#include "base/escape.h"
#include "base/perf_counter.h"
#include "base/say.h"
#include "base/size_text.h"
#include "base/version.h"
#include "run/summary_text.h"
#include "sinks/gpu_csv_sink.h"
#include "sinks/perfetto_sink.h"
#include "sinks/period_sink.h"
#include "sinks/process_sink.h"
#include "sinks/span_csv_sink.h"
#include "sinks/straggle_sink.h"
#include "sinks/wait_sink.h"
#include "slots/column.h"

namespace slotscope {

// What can be written beside the rows: to a file, if one is wanted, and as a table of a folder.
struct SideKind {
  std::string OutputOptions::*path;  // empty: no file is wanted; null: it is a table only
  const char* table;
  const char* extension;
  std::unique_ptr<SideSink> (*make)(const std::string& path, OutFile* file, const Facts& facts);
};

namespace {

constexpr SideKind kSideKinds[] = {
    {&OutputOptions::spans, "spans", "csv",
     [](const std::string& path, OutFile* file, const Facts&) -> std::unique_ptr<SideSink> {
       if (path.ends_with(".pftrace")) return std::make_unique<PerfettoSink>(file);
       return std::make_unique<SpanCsvSink>(file);
     }},
    {&OutputOptions::gpu_csv, "gpu", "csv",
     [](const std::string&, OutFile* file, const Facts& facts) -> std::unique_ptr<SideSink> {
       return std::make_unique<GpuCsvSink>(file, facts.gpus);
     }},
    {&OutputOptions::straggle, "straggle", "ndjson",
     [](const std::string&, OutFile* file, const Facts&) -> std::unique_ptr<SideSink> {
       return std::make_unique<StraggleSink>(file);
     }},
    {&OutputOptions::waits, "waits", "csv",
     [](const std::string&, OutFile* file, const Facts&) -> std::unique_ptr<SideSink> {
       return std::make_unique<WaitSink>(file);
     }},
    {&OutputOptions::processes, "processes", "csv",
     [](const std::string&, OutFile* file, const Facts&) -> std::unique_ptr<SideSink> {
       return std::make_unique<ProcessSink>(file);
     }},
};

// Can it be in a row of that recording?
bool IsMeasured(const Column& column, const Facts& facts) {
  if (column.part == RowPart::kSums && column.is_value()) return !(UnmeasuredOf(facts) >> column.id & 1);
  if (column.part == RowPart::kMore) return !(UnmeasuredMoreOf(facts) >> column.id % SS_MAX_MORE & 1);
  if (column.part == RowPart::kRdt && column.is_value()) {
    const bool has[kNrRdtValues] = {facts.rdt.has_mbm_total, facts.rdt.has_mbm_local,
                                    facts.rdt.has_occupancy};
    return has[column.id];
  }
  if (column.part == RowPart::kWait) return IsToldApart(WaitCausesOf(facts), column.id);
  if (column.part == RowPart::kState) return facts.has_states;
  // Another producer says memory and straggling only.
  if (column.part == RowPart::kGpu && column.id < kNrGpuValues && (kOfTurns >> column.id & 1) &&
      !facts.has_turns)
    return false;
  if (column.part == RowPart::kGpu && column.id == kNoWorkThrottled &&
      !IsToldApart(WaitCausesOf(facts), kWaitThrottled))
    return false;
  if (column.part == RowPart::kGpu)
    return !facts.gpu.empty() ||
           (!facts.joined.empty() &&
            (column.id == kGpuMemBytes || column.id == kStraggling || column.id == kThroughputDrop));
  return true;
}

std::string NotMeasured(const Facts& facts) {
  std::string names;
  for (const Column& column : kSlotColumns) {
    if (IsMeasured(column, facts)) continue;
    // Perf counters last to first, as this line has always been.
    if (column.part == RowPart::kSums)
      names = fmt::format("{} {}", column.name, names);
    else
      names += fmt::format("{} ", column.name);
  }
  for (const Column& column : MoreColumns(facts.nr_more()))
    if (!IsMeasured(column, facts)) names += fmt::format("{} ", column.name);
  if (names.empty()) return "nothing";
  names.pop_back();
  return names;
}

// So that a limit is kept by removing a small part of what is there.
constexpr uint64_t kSegmentsOfLimit = 16;

RotationOptions RotationOf(const OutputOptions& options) {
  return {options.segment_ns, BytesToKeep(options.keep, options.path) / kSegmentsOfLimit,
          options.keep.any()};
}

// Rises when a column changes its meaning, not with a new one.
constexpr const char* kFormat = "2";

HeaderLines MakeHeader(const OutputOptions& options, const Facts& facts) {
  HeaderLines lines = {
      {"slotscope", kVersion},
      {"format", kFormat},
      {"host", facts.host},
      {"boot_id", facts.boot_id},
      {"kernel", facts.kernel},
      {"source", fmt::format("{} ({})", facts.source, facts.source_reason)},
      {"backend", fmt::format("{} ({})", facts.backend, facts.backend_reason)},
      {"tick", facts.tick},
      {"slot_ns", std::to_string(options.slot_ns)},
      {"nr_cpus", std::to_string(facts.present_cpus.size())},
      {"clock", "slot_start_ns and start_time_ns are CLOCK_MONOTONIC"},
      {"unix_offset_ns", std::to_string(facts.unix_offset_ns)},
  };
  if (!facts.time_zone.empty()) lines.emplace_back("time_zone", facts.time_zone);
  if (!facts.joined.empty())
    lines.emplace_back("joined",
                       fmt::format("gpu_mem_bytes, straggle and throughput_drop_pct of processes that "
                                   "are not observed here are what {} says",
                                   facts.joined));
  if (!facts.gpu.empty()) lines.emplace_back("gpu", facts.gpu);
  for (const GpuDevice& gpu : facts.gpus)
    lines.emplace_back(fmt::format("gpu {}", gpu.label()),
                       fmt::format("{}, {}, {}, {} bytes{}", gpu.name, gpu.uuid, gpu.pci,
                                   gpu.total_bytes, gpu.divided ? ", divided" : ""));
  for (const L3Domain& domain : facts.rdt.domains)
    lines.emplace_back(fmt::format("l3_domain {}", domain.id),
                       fmt::format("CPUs {}", FormatCpuList(domain.cpus)));
  for (size_t i = 0; i < facts.events.size(); i++)
    if (!facts.events[i].empty())
      lines.emplace_back(fmt::format("event {}", kPerfCounters[i].name), facts.events[i]);
  lines.emplace_back("not_measured", NotMeasured(facts));
  for (const std::string& note : facts.notes) lines.emplace_back("note", note);
  return lines;
}

void SayLeftover(const std::string& path) {
  if (!path.empty())
    Say(stderr, "slotscope: an unfinished recording left its data; it is now {}\n", EscapeName(path));
}

// One that was recorded before goes when the new one is complete.
void SayReplaced(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0)
    Say(stderr, "slotscope: {} is there; it is replaced when the new one is complete\n",
        EscapeName(path));
}

}  // namespace

Status OpenRaw(RawFileWriter* file, const std::string& path) {
  if (Status status = file->Open(path); !status.ok()) return status;
  SayLeftover(file->leftover_path());
  SayReplaced(path);
  return {};
}

Status Output::Open() {
  switch (kind_) {
    case OutputKind::kFolder:
      if (Status status = RecordingFolder::Check(options_.path, options_.keep); !status.ok())
        return status;
      break;
    case OutputKind::kFile:
      if (Status status = file_.Open(options_.path); !status.ok()) return status;
      SayLeftover(file_.leftover_path());
      SayReplaced(options_.path);
      break;
    case OutputKind::kStream:
      // Whatever is said there goes to the screen instead.
      if (Status status = stream_.TakeStdout(); !status.ok()) return status;
      break;
  }
  for (const SideKind& kind : kSideKinds) {
    const std::string& path = options_.*kind.path;
    if (path.empty()) continue;
    Side& side = sides_.emplace_back();
    side.path = path;
    side.kind = &kind;
    if (Status status = side.file.Open(path); !status.ok()) return status;
    SayLeftover(side.file.leftover_path());
    SayReplaced(path);
  }
  return {};
}

OutFile* Output::file() {
  switch (kind_) {
    case OutputKind::kFolder:
      return rotation_->slots_file();
    case OutputKind::kStream:
      return &stream_;
    default:
      return &file_;
  }
}

Writer* Output::MakeWriter(const Facts& facts, Writer::Queue queue) {
  std::vector<SideSink*> sinks, of_tables;
  const auto make = [&](Side* side, OutFile* file) {
    side->sink = side->kind->make(side->path, file, facts);
    sinks.push_back(side->sink.get());
  };
  for (Side& side : sides_) make(&side, &side.file);
  if (kind_ == OutputKind::kFolder) {
    rotation_ = std::make_unique<Rotation>(&folder_, RotationOf(options_));
    for (const SideKind& kind : kSideKinds) {
      Side& table = tables_.emplace_back();
      table.kind = &kind;
      make(&table, rotation_->AddSide(kind.table, kind.extension));
      of_tables.push_back(table.sink.get());
    }
    const auto add = [&](SideSink* sink) {
      sinks.push_back(sink);
      of_tables.push_back(sink);
    };
    const auto make_sums = [&](const PeriodSink::Period& period, PeriodSink* finer) {
      auto sink =
          std::make_unique<PeriodSink>(rotation_->AddSide(period.table, "csv", Table::Contents::kSums),
                                       facts.unix_offset_ns, facts.nr_more(), period, finer);
      add(sink.get());
      return sink;
    };
    seconds_ = make_sums(kSecondsPeriod, nullptr);
    minutes_ = make_sums(kMinutesPeriod, seconds_.get());
    const auto make_lines = [&](std::string_view table, const char* extension, const char* columns) {
      auto sink =
          std::make_unique<LinesSink>(rotation_->AddSide(std::string(table), extension), columns);
      add(sink.get());
      return sink;
    };
    events_ = make_lines(kEventsTable, "csv", Incidents::kColumns);
    verdicts_ = make_lines(kVerdictsTable, "ndjson", "");
    incidents_ = std::make_unique<Incidents>(options_.triggers, &folder_, events_.get());
    rotation_->SetIncidents(incidents_.get());
  }
  csv_ = std::make_unique<CsvSink>(file(), facts.unix_offset_ns, options_.max_size, facts.nr_more());
  if (rotation_) rotation_->SetSinks(csv_.get(), std::move(of_tables));
  FoldOptions fold = options_.fold;
  fold.followed_only = facts.command_tgid != 0 && !options_.all;
  has_selection_ = fold.Selects();
  writer_ =
      std::make_unique<Writer>(queue, fold, csv_.get(), &table_, std::move(sinks), rotation_.get());
  return writer_.get();
}

Status Output::MakeFolder() {
  if (kind_ != OutputKind::kFolder) return {};
  if (Status status = folder_.Open(options_.path, options_.keep); !status.ok()) return status;
  const std::string name = EscapeName(options_.path);
  if (const size_t nr = folder_.nr_recovered())
    Say(stderr, "slotscope: {} segment{} of a recorder that was killed {} kept in {}\n", nr,
        nr == 1 ? "" : "s", nr == 1 ? "is" : "are", name);
  return {};
}

void Output::Stay() {
  const std::string name = EscapeName(options_.path);
  if (folder_.has_old())
    Say(stderr, "slotscope: the recording that was {} is now {}.old{}\n", name, name,
        folder_.has_older() ? "; the .old before it is removed" : "");
  folder_.Stay();
}

Status Output::OpenRawTable(const Facts& facts, uint64_t begin_ns, RawSink** sink) {
  *sink = nullptr;
  if (!options_.raw_table) return {};
  raw_table_ = std::make_unique<RawTable>(&folder_, RotationOf(options_));
  *sink = raw_table_.get();
  return raw_table_->Begin(facts, options_.slot_ns, begin_ns);
}

void Output::Begin(const Facts& facts, std::function<RunCounts()> counts) {
  const HeaderLines header = MakeHeader(options_, facts);
  not_measured_ = NotMeasured(facts);
  for (Side& side : sides_) side.sink->WriteHeader(header);
  if (rotation_)
    rotation_->Begin(facts, header, options_.slot_ns, std::move(counts));
  else
    csv_->WriteHeader(header);
  writer_->Start();
}

void Output::Report(const std::string& event, const std::string& what) {
  if (incidents_)
    incidents_->Report(event, what);
  else
    Say(stderr,
        "slotscope: {}: {}: nothing is kept around it, because --output is not a recording folder\n",
        event, what);
}

void Output::OnVerdict(const std::string& line) {
  const auto taken = verdicts_ ? verdicts_->Put(line) : LinesSink::Taken::kYes;
  if (taken == LinesSink::Taken::kNoRoom)
    Say(stderr, "slotscope: a verdict is not in {}: the disk does not keep up\n",
        EscapeName(options_.path));
  if (taken == LinesSink::Taken::kEnded)
    Say(stderr, "slotscope: a verdict came when {} had ended, and is not in it: {}\n",
        EscapeName(options_.path), line.substr(0, line.find('\n')));
}

void Output::OnEvent(const std::string& event, const std::string& what) {
  const TriggerOptions& triggers = options_.triggers;
  if ((triggers.xid && event == "xid") || (triggers.nccl_hang && event == "nccl_hang"))
    Report(event, what);
}

void Output::Discard() {
  file_.Discard();
  for (Side& side : sides_) side.file.Discard();
  if (folder_.has_old())
    Say(stderr, "slotscope: {} is the recording that it was before\n", EscapeName(options_.path));
  folder_.Discard();
}

std::vector<std::string> Output::TakeNews() {
  std::vector<std::string> news = writer_->TakeNews();
  if (!rotation_) return news;
  for (std::string& text : rotation_->TakeNews()) news.push_back(std::move(text));
  for (std::string& text : folder_.TakeNews()) news.push_back(std::move(text));
  for (std::string& text : incidents_->TakeNews()) news.push_back(std::move(text));
  if (raw_table_)
    for (std::string& text : raw_table_->TakeNews()) news.push_back(std::move(text));
  return news;
}

// The rows, with the last lines.
Status Output::CommitFile(const HeaderLines& last_lines) {
  if (kind_ != OutputKind::kFolder) {
    Status status = csv_->Finish(last_lines);
    return status.ok() && kind_ == OutputKind::kFile ? file_.Commit() : status;
  }
  Status status = writer_->border_status();
  if (status.ok()) {
    rotation_->BeforeLastLines();
    status = csv_->Finish(last_lines);
  }
  const Status finished = rotation_->Finish();
  const Status closed = folder_.Close();
  if (!status.ok()) return status;
  return finished.ok() ? closed : finished;
}

std::string Output::WhatWasWritten() const {
  const auto size_of = [](uint64_t bytes) { return SizeText(static_cast<double>(bytes)); };
  switch (kind_) {
    case OutputKind::kStream:
      return fmt::format("a stream of {}", size_of(stream_.size()));
    case OutputKind::kFile:
      return fmt::format("{} ({})", EscapeName(options_.path), size_of(file_.size()));
    default:
      break;
  }
  std::string text =
      fmt::format("{} ({} in {} segment{})", EscapeName(folder_.path()), size_of(folder_.bytes()),
                  folder_.nr_segments(), folder_.nr_segments() == 1 ? "" : "s");
  if (folder_.nr_removed()) text += fmt::format("; older ones removed: {}", folder_.nr_removed());
  return text;
}

// One that fails holds no other back. The first error; the others are said.
Status Output::CommitSides() {
  Status first;
  for (Side& side : sides_) {
    side.status = side.sink->Finish();
    if (side.status.ok()) side.status = side.file.Commit();
    if (first.ok())
      first = side.status;
    else if (!side.status.ok())
      Say(stderr, "slotscope: {}\n", side.status.message());
  }
  return first;
}

void Output::SaySummary(const RunSummary& run) const {
  Say(stdout, "{}", SummaryText(run, options_.has_details));
  if (csv_->is_full())
    Say(stdout, "note: stopped at --max-size; the last {} of these slots are not in the file\n",
        run.counts.nr_unwritten_slots);
  Say(stdout, "wrote {}\n", WhatWasWritten());
  for (const Side& side : sides_)
    if (side.status.ok()) Say(stdout, "wrote {} ({})\n", EscapeName(side.path), side.sink->Contents());
}

Status Output::Finish(RunSummary* run) {
  if (verdicts_ && !verdicts_->End())
    Say(stderr, "slotscope: the last verdicts came when {} had ended, and are not in it\n",
        EscapeName(options_.path));
  run->counts.nr_rows = csv_->nr_rows();
  run->counts.nr_unwritten_slots = csv_->nr_unwritten_slots();
  const Status raw = raw_table_ ? raw_table_->Finish() : Status();  // it may drop some more
  AddTo(&run->counts);
  run->totals = table_.totals.Sorted();
  run->pairs = table_.pairs.Worst(kShownPairs);
  run->not_measured = not_measured_;
  run->has_selection = has_selection_;
  Status status = CommitFile(SummaryLines(*run));
  if (status.ok()) status = raw;
  const Status sides = CommitSides();
  if (!status.ok()) {
    if (!sides.ok()) Say(stderr, "slotscope: {}\n", sides.message());
    return status;
  }
  if (!options_.is_quiet) SaySummary(*run);
  if (!run->counts.accounting.Holds())
    return {Exit::kIdentity,
            "the accounting identity is broken: please report this with the last lines of the file"};
  if (!sides.ok()) return sides;
  if (options_.strict && (HasLosses(run->counts) || !run->input_cut.empty()))
    return {Exit::kDataLost, "data was lost (--strict); the counters are above"};
  return {};
}

}  // namespace slotscope
