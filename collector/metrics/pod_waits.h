// SPDX-License-Identifier: MIT
// Waiting by pod, of so many pods as a monitoring system is to be troubled with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "slots/slot.h"

namespace slotscope {

class PodWaits {
 public:
  static constexpr size_t kMost = 200;
  struct Pod {
    WaitCauseSums wait_ns = {};
    size_t nr_processes = 0;  // that are in it
  };

  // Each slot, in order.
  void OnSlot(const Slot& slot);
  // By NAMESPACE/NAME, or by uid where the name is not known. Beyond kMost they are in "other". One that
  // has ended goes when another one needs its place.
  const std::map<std::string, Pod>& pods() const { return pods_; }

 private:
  void Enter(const ProcessKey& process, const std::string& pod);
  void Leave(const ProcessKey& process);

  std::map<std::string, Pod> pods_;
  std::unordered_map<ProcessKey, std::string, ProcessKeyHash> pod_of_;
};

}  // namespace slotscope
