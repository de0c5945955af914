// SPDX-License-Identifier: MIT
// --cgroup, --pod and --unit: the same words wherever processes are selected.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "base/status.h"
#include "track/group_filter.h"

namespace slotscope {

// As they were given.
struct GroupTexts {
  std::string cgroup, pod, unit;
};

void DescribeGroups(GroupTexts* texts, boost::program_options::options_description* options);
// Exit::kUsage where one has no name in it.
Status ParseGroups(const GroupTexts& texts, GroupFilter* groups);

}  // namespace slotscope
