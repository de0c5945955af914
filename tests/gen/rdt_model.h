// SPDX-License-Identifier: MIT
// RDT counters of a machine that does not exist: one of each kind for every RMID in every L3 domain.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <random>
#include <vector>

#include "base/rdt_shape.h"

namespace slotscope {

struct RdtModelOptions {
  uint64_t nr_cpus = 0;
  uint64_t nr_domains = 0;   // 0: no RDT
  uint64_t skipped_ppm = 0;  // counters that a tick has no time for
  uint64_t failed_ppm = 0;   // reads that give no value
  bool wrap = false;         // now and then a delta is as large as can be
};

// Who has an RMID, and from when to when; UINT64_MAX: no end is known.
struct RdtOwner {
  uint32_t rmid;
  uint32_t generation;
  uint64_t alloc_ns;
  uint64_t freed_ns;
};

class RdtModel {
 public:
  explicit RdtModel(const RdtModelOptions& options) : options_(options) {}

  bool on() const { return options_.nr_domains > 0; }
  RdtShape Shape() const;
  // Neighbouring CPUs share a domain.
  uint64_t DomainOf(uint64_t cpu) const { return cpu * options_.nr_domains / options_.nr_cpus; }
  // It ran there under its RMID for so long.
  void Ran(uint64_t domain, const RdtOwner& owner, uint64_t ran_ns, std::mt19937_64* random);
  void Freed(uint32_t rmid, uint32_t generation, uint64_t freed_ns);
  // What the `part`th of nr_parts CPUs that share a domain's work reads in its tick: the RMIDs that ran
  // there since they were read. Headers are for others to fill.
  std::vector<ss_rdt_sample> Read(uint64_t domain, uint64_t part, uint64_t nr_parts, uint64_t ts_ns,
                                  std::mt19937_64* random);

 private:
  struct Counters {
    uint32_t generation = 0;
    uint64_t since_ns = 0;
    uint64_t freed_ns = 0;
    uint64_t total = 0;
    uint64_t local = 0;
    uint64_t occupancy = 0;
    bool dirty = false;
    bool used = false;
  };

  RdtModelOptions options_;
  std::vector<std::vector<Counters>> domains_;  // [domain][rmid]
};

}  // namespace slotscope
