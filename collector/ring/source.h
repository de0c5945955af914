// SPDX-License-Identifier: MIT
// Where messages come from. Two live sources: the kernel module with the relay, and eBPF alone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "base/rdt_shape.h"
#include "base/status.h"
#include "ring/counters.h"
#include "ring/item.h"
#include "ring/perf_ring.h"

namespace slotscope {

// What the header of the output says about the source. All of it is known after Start().
struct SourceInfo {
  std::string name;                // "kmod" or "bpf"
  std::string backend;             // "emulated", "none" (no RDT), ...
  std::string backend_reason;      // a sentence
  std::string tick;                // how the 1 ms tick is made
  uint32_t counted = 0;            // a bit per perf counter
  uint32_t nr_more = 0;            // perf counters behind each measure
  bool has_waits = false;          // single waits are told
  bool has_quota = false;          // and which of them were due to a cgroup's quota
  bool has_steal = false;          // and how long the hypervisor ran something else meanwhile
  bool has_states = false;         // how a process leaves the CPU is told
  std::vector<std::string> notes;  // what this machine cannot measure, a sentence each
  RdtShape rdt;                    // only with the backend "hardware"
  std::vector<int> watched_cpus;   // present CPUs that the source will measure when they are online
};

// Gets whole messages, one behind the other, each a multiple of 8 bytes long; 4 KiB or so at a time.
using MessagesFn = std::function<void(std::span<const std::byte>)>;

// Used by one thread at a time.
class Source {
 public:
  virtual ~Source() = default;

  virtual const SourceInfo& info() const = 0;
  // Loads, opens the ring of every online CPU (births and deaths happen on those that are not watched
  // too) and the counters of the watched ones, and attaches. From here on births and deaths are seen,
  // and with the first Dump() measures begin.
  virtual Status Start() = 0;
  // Every process that is alive now: its task_meta, and rmid_existing if it has an RMID. A source
  // either hands them to `sink` or writes them into the rings; both are complete after the drain that
  // follows. `pump` is called now and then so that the rings do not fill meanwhile.
  virtual Status Dump(const MessagesFn& sink, const std::function<void()>& pump) = 0;
  // In ascending order; empty if that cannot be known.
  virtual std::vector<int> OnlineCpus() const { return ReadCpuList("online"); }
  // Opens the ring of a CPU that came online and, if it is watched, lets it be measured.
  virtual Status OnlineCpu(int cpu) = 0;
  virtual void OfflineCpu(int cpu) = 0;
  // Starts again what may have stopped by itself (a timer that lost its CPU). Cheap; call it often.
  virtual void Heal() = 0;
  // Detaches: no message is written after it. The rings can still be drained.
  virtual void Stop() = 0;
  virtual SourceLosses losses() const = 0;
  // A sentence on what the source does not do any more since the last call, or empty.
  virtual std::string TakeNews() { return {}; }
  // [cpu] -> messages that a program could not write there.
  virtual std::vector<uint64_t> output_errors() const = 0;
  // From Start() on: the map behind it, for other programs that write into the rings.
  virtual int output_errors_fd() const = 0;
  // Any thread, from Start() on: CPU time that our probes of switches and ticks took so far, about; 0:
  // it is not known.
  virtual uint64_t probe_ns() const = 0;
  // Any thread, from Start() on: whether perf counters are read. They are when it starts.
  virtual void ReadCounters(bool read) = 0;
  virtual PerfRings& rings() = 0;
};

struct SourceOptions {
  CounterSpecs counters;
  uint32_t nr_rmids = 512;  // eBPF source only; the module has its own parameter
  // Processes that get an RMID before others, with their children, while the source exists. Module only:
  // the RMIDs of the eBPF source count nothing.
  std::vector<int32_t> served_first;
  bool waits = true;       // single waits are to be told
  bool arguments = false;  // and what processes are given to do, which may hold secrets
  // eBPF source only: the time of an idle CPU may be told so late. Less than a slot waits.
  uint64_t max_idle_ns = 0;
};

// Does something on a CPU, unless that is away. If it goes while we are at it, that is no failure: the
// reader follows hotplug.
template <typename Fn>
Status IfOnline(int cpu, const Fn& what) {
  if (!IsCpuOnline(cpu)) return {};
  Status status = what();
  return status.ok() || IsCpuOnline(cpu) ? status : Status();
}

// The module and the relay. Fails with Exit::kModule if the module is absent or of another ABI.
std::unique_ptr<Source> MakeKmodSource(const SourceOptions& options);
// eBPF alone.
std::unique_ptr<Source> MakeNativeSource(const SourceOptions& options);

}  // namespace slotscope
