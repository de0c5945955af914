// SPDX-License-Identifier: MIT
// A machine of many CPUs, on the few that there are: a source with a ring of the kernel's for each of
// them, and threads that fill these as so many CPUs would (wide.bpf.c). What it has written is the truth
// for what is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "raw/facts.h"
#include "ring/source.h"
#include "run/pipeline.h"
#include "sinks/csv_sink.h"
#include "sinks/writer.h"

struct wide;

namespace slotscope {

struct WideShape {
  size_t nr_cpus = 256;  // 1024 at most
  uint32_t switches_per_s = 5000;
  uint32_t nr_processes = 8;  // of each CPU, which takes turns between them
  uint32_t nr_mute = 0;       // of the first CPUs: they say that they write, and do not
  uint32_t detach_ms = 0;     // Stop() takes so long, and nothing is written meanwhile
};

class WideMachine final : public Source {
 public:
  // Of all rings.
  struct Truth {
    uint64_t nr_written = 0;  // messages that are in the rings
    uint64_t nr_refused = 0;  // by full rings
    uint64_t measured_ns = 0;
  };

  explicit WideMachine(const WideShape& shape) : shape_(shape) {}
  ~WideMachine() override;

  const SourceInfo& info() const override { return info_; }
  Status Start() override;
  // Tells who there is, and lets the CPUs run.
  Status Dump(const MessagesFn& sink, const std::function<void()>& pump) override;
  Status OnlineCpu(int) override { return {}; }
  void OfflineCpu(int) override {}
  std::vector<int> OnlineCpus() const override { return info_.watched_cpus; }
  void Heal() override {}
  // All that was written before it, and nothing after.
  void Stop() override;
  SourceLosses losses() const override { return {}; }
  std::vector<uint64_t> output_errors() const override { return std::vector<uint64_t>(shape_.nr_cpus); }
  int output_errors_fd() const override { return -1; }
  uint64_t probe_ns() const override { return 0; }
  void ReadCounters(bool) override {}
  PerfRings& rings() override { return *rings_; }

  Facts MakeFacts(const ClockPair& clocks) const;
  // After Stop().
  Truth truth() const;
  uint64_t nr_dumps() const { return nr_dumps_; }
  // It could not write all of it.
  bool failed() const { return failed_; }
  // CPU time that it took to be those CPUs; after Stop().
  uint64_t own_cpu_ns() const { return own_cpu_ns_; }

 private:
  struct Deleter {
    void operator()(wide* skeleton) const;
  };
  // The rings that one of the CPUs that there are fills.
  struct Share {
    int cpu;
    size_t first, end;
  };

  void Run(const Share& share);

  WideShape shape_;
  SourceInfo info_;
  std::unique_ptr<wide, Deleter> skeleton_;
  std::unique_ptr<PerfRings> rings_;
  std::vector<Share> shares_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<uint64_t> own_cpu_ns_{0};
  std::atomic<bool> failed_{false};
  uint64_t nr_dumps_ = 0;
};

// One that is recorded, as `slotscope record --top N` does it; the rows go to a sink of the caller's.
class WideRecording final : public SlotSink {
 public:
  WideRecording(const WideShape& shape, size_t top, OutFile* file);
  ~WideRecording() override { Stop(); }

  Status Start();
  void Stop();

  WideMachine& machine() { return machine_; }
  // After Stop().
  RunCounts counts() const { return CountsOf(pipeline_->engine()); }
  uint64_t nr_rows() const { return nr_rows_; }  // before most of them are folded
  uint64_t nr_slots() const { return nr_slots_; }
  uint64_t nr_shown_rows() const { return csv_->nr_rows(); }
  void OnSlot(Slot* slot) override;

 private:
  size_t top_;
  OutFile* file_;
  WideMachine machine_;
  RunTables table_;
  ItemQueue others_;
  OutputOptions output_;
  std::unique_ptr<CsvSink> csv_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Pipeline> pipeline_;
  uint64_t nr_rows_ = 0, nr_slots_ = 0;
};

}  // namespace slotscope
