// SPDX-License-Identifier: MIT
// The CPUs that a process ran on, and for how long: two of them in its row, the others beside it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slotscope {

struct RowPlaces {
  std::array<uint32_t, 2> cpus = {};
  std::array<uint32_t, 2> ns = {};  // 0: that one is free
  uint32_t more = 0;                // index of the last one of the others, + 1

  template <typename Archive>
  void State(Archive& state) {
    state(cpus, ns, more);
  }
};

// Those of the rows of a slot.
class Places {
 public:
  // How many CPUs, and where it ran longest (of several that of the smallest number).
  struct Where {
    uint32_t nr_cpus = 0;
    uint32_t main_cpu = 0;
  };

  void Add(RowPlaces* row, uint32_t cpu, uint32_t ns) {
    for (size_t i = 0; i < row->cpus.size(); i++)
      if (row->cpus[i] == cpu || row->ns[i] == 0) {
        row->cpus[i] = cpu;
        row->ns[i] += ns;
        return;
      }
    AddOther(row, cpu, ns);
  }

  Where Of(const RowPlaces& row) const {
    if (row.ns[1] == 0) return {row.ns[0] > 0, row.cpus[0]};  // most often
    Where where;
    uint32_t longest_ns = 0;
    const auto take = [&](uint32_t cpu, uint32_t ns) {
      if (ns == 0) return;
      where.nr_cpus++;
      if (ns < longest_ns || (ns == longest_ns && cpu > where.main_cpu)) return;
      longest_ns = ns;
      where.main_cpu = cpu;
    };
    for (size_t i = 0; i < row.cpus.size(); i++) take(row.cpus[i], row.ns[i]);
    for (uint32_t at = row.more; at != 0; at = others_[at - 1].next)
      take(others_[at - 1].cpu, others_[at - 1].ns);
    return where;
  }

  void clear() { others_.clear(); }
  size_t nr_others() const { return others_.size(); }
  // May be larger than they need.
  void Free() { std::vector<Other>().swap(others_); }
  bool Has(const RowPlaces& row) const { return row.more <= others_.size(); }
  // False: some lead nowhere, or in a circle. Of a state that was read.
  bool IsValid() const {
    for (size_t i = 0; i < others_.size(); i++)
      if (others_[i].next > i) return false;
    return true;
  }

  template <typename Archive>
  void State(Archive& state) {
    state(others_);
  }

 private:
  struct Other {
    uint32_t cpu = 0;
    uint32_t ns = 0;
    uint32_t next = 0;  // as RowPlaces::more

    template <typename Archive>
    void State(Archive& state) {
      state(cpu, ns, next);
    }
  };

  [[gnu::noinline]] void AddOther(RowPlaces* row, uint32_t cpu, uint32_t ns) {
    for (uint32_t at = row->more; at != 0; at = others_[at - 1].next)
      if (others_[at - 1].cpu == cpu) {
        others_[at - 1].ns += ns;
        return;
      }
    others_.push_back({cpu, ns, row->more});
    row->more = static_cast<uint32_t>(others_.size());
  }

  std::vector<Other> others_;
};

}  // namespace slotscope
