// SPDX-License-Identifier: MIT
// Where processes were: in which container, pod and unit, by a recording's table of them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/table_rows.h"
#include "track/cgroup.h"
#include "track/tracker.h"

namespace slotscope {

// What it is in, for a sentence: "pod ml/train-0", "container 8eb88bae0604", "cron.service". Empty: in
// nothing that says more than its name does (a login, the system itself).
std::string PlaceText(const Cgroup& cgroup);

class ProcessPlaces {
 public:
  // Lines of the table processes, without newlines; of a process the last one counts. Names are kept as
  // they are written.
  void OnLine(std::string_view line);

  // Null: not known.
  std::shared_ptr<const Cgroup> Find(const ProcessKey& process) const;
  const std::unordered_map<ProcessKey, std::shared_ptr<const Cgroup>, ProcessKeyHash>& all() const {
    return places_;
  }
  // All that processes were called.
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  TableRows rows_{"slot_start_ns"};
  std::unordered_map<ProcessKey, std::shared_ptr<const Cgroup>, ProcessKeyHash> places_;
  std::map<std::string, std::shared_ptr<const Cgroup>, std::less<>> by_text_;  // of the columns
  std::set<std::string, std::less<>> names_;
};

}  // namespace slotscope
