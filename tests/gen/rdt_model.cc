// SPDX-License-Identifier: MIT
#include "tests/gen/rdt_model.h"

#include <slotscope/rmid_fifo.h>

#include <utility>

namespace slotscope {
namespace {

constexpr uint64_t kUnit = 64;  // bytes: a counter's step
constexpr uint64_t kCacheBytes = 32u << 20;
constexpr uint32_t kFirstId = 3;  // ids of L3 caches need not begin at 0

}  // namespace

RdtShape RdtModel::Shape() const {
  RdtShape shape;
  if (!on()) return shape;
  shape.has_occupancy = shape.has_mbm_total = shape.has_mbm_local = true;
  for (uint32_t domain = 0; domain < options_.nr_domains; domain++)
    shape.domains.push_back({kFirstId + domain, {}});
  for (uint64_t cpu = 0; cpu < options_.nr_cpus; cpu++)
    shape.domains[DomainOf(cpu)].cpus.push_back(static_cast<int>(cpu));
  return shape;
}

void RdtModel::Freed(uint32_t rmid, uint32_t generation, uint64_t freed_ns) {
  for (auto& counters : domains_)
    if (rmid < counters.size() && counters[rmid].generation == generation)
      counters[rmid].freed_ns = freed_ns;
}

void RdtModel::Ran(uint64_t domain, const RdtOwner& owner, uint64_t ran_ns, std::mt19937_64* random) {
  if (domain >= domains_.size()) domains_.resize(domain + 1);
  auto& counters = domains_[domain];
  if (owner.rmid >= counters.size()) counters.resize(owner.rmid + 1);
  Counters& mine = counters[owner.rmid];
  if (!mine.used || mine.generation != owner.generation) {
    mine = {};
    mine.used = true;
    mine.generation = owner.generation;
    mine.since_ns = owner.alloc_ns;
    mine.freed_ns = owner.freed_ns;
  }
  const uint64_t bytes = ran_ns * ((*random)() % 16) / 2 / kUnit * kUnit;
  mine.total += bytes;
  mine.local += bytes ? (*random)() % (bytes + 1) / kUnit * kUnit : 0;
  mine.occupancy = (mine.occupancy * 3 + (*random)() % kCacheBytes) / 4 / kUnit * kUnit;
  mine.dirty = true;
}

std::vector<ss_rdt_sample> RdtModel::Read(uint64_t domain, uint64_t part, uint64_t nr_parts,
                                          uint64_t ts_ns, std::mt19937_64* random) {
  std::vector<ss_rdt_sample> samples;
  if (domain >= domains_.size()) return samples;
  auto happens = [&](uint64_t ppm) { return ppm && (*random)() % 1'000'000 < ppm; };
  for (uint64_t rmid = part; rmid < domains_[domain].size(); rmid += nr_parts) {
    Counters& mine = domains_[domain][rmid];
    // A neighbour may be a step ahead.
    if (!mine.dirty || mine.since_ns >= ts_ns || happens(options_.skipped_ppm)) continue;
    if (ts_ns > mine.freed_ns && ts_ns - mine.freed_ns > SS_RMID_LIMBO_NS)
      continue;  // of the dead, or never
    mine.dirty = false;
    ss_rdt_sample sample = {};
    sample.since_ns = std::exchange(mine.since_ns, ts_ns);
    sample.rmid = static_cast<uint32_t>(rmid);
    sample.generation = mine.generation;
    sample.domain = kFirstId + static_cast<uint32_t>(domain);
    const std::pair<ss_rdt_event, uint64_t> values[] = {
        {SS_RDT_LLC_OCCUPANCY, mine.occupancy},
        {SS_RDT_MBM_TOTAL, std::exchange(mine.total, 0)},
        {SS_RDT_MBM_LOCAL, std::exchange(mine.local, 0)},
    };
    for (auto [event, value] : values) {
      sample.event = event;
      sample.value = options_.wrap && (*random)() % 4096 == 0 ? UINT64_MAX - 1000 : value;
      sample.status = SS_RDT_OK;
      if (happens(options_.failed_ppm))
        sample.status = static_cast<uint16_t>(1 + (*random)() % (SS_RDT_NR_STATUS - 1));
      samples.push_back(sample);
    }
  }
  return samples;
}

}  // namespace slotscope
