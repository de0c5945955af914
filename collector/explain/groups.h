// SPDX-License-Identifier: MIT
// Processes as people speak of them: by name, and one by one where they live for long; or by place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "explain/history.h"
#include "explain/process_places.h"
#include "explain/stall.h"

namespace slotscope {

struct Group {
  std::string name;
  bool is_kernel = false;
  bool is_place = false;
  std::vector<uint32_t> members;  // places in processes()
};

// What a process goes by where all of a name, or of a place, are one.
struct GroupName {
  std::string name;
  bool is_kernel = false;
  bool is_place = false;  // false: it is in none, or nobody knows in which: it goes by its own name
};
// Which place that is; by name: the one that says most. Empty: none.
std::string PlaceOf(const Cgroup& cgroup, GroupBy by);
std::string PlaceOf(const ProcessPlaces& places, const ProcessKey& process, GroupBy by);
GroupName NameOfGroup(const ProcessHistory& process, GroupBy by);

// Those of a group who are meant; our own recorder only if it is asked for.
Group SelectedOf(const Group& group, const History& history, const Selection& selection);

Party PartyOf(const History& history, const Group& group);

class Groups {
 public:
  Groups(const History& history, GroupBy by);

  // All processes of one name are one, or, as it was asked for, of one place; those that are in none go
  // by their names. Threads of the kernel that differ by what is behind a slash are.
  const std::vector<Group>& by_name() const { return by_name_; }
  size_t NameOf(uint32_t process) const { return name_of_[process]; }
  // Who can be said to have been hindered: each process that lived for a second or was alone with its
  // name, and the others of each name together. Of places all together.
  const std::vector<Group>& subjects() const { return subjects_; }
  size_t SubjectOf(uint32_t process) const { return subject_of_[process]; }

 private:
  std::vector<Group> by_name_, subjects_;
  std::vector<size_t> name_of_, subject_of_;
};

}  // namespace slotscope
