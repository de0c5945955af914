// SPDX-License-Identifier: MIT
#include "cli/group_parser.h"

#include <fmt/core.h>

#include "cli/option_text.h"

namespace slotscope {

void DescribeGroups(GroupTexts* texts, boost::program_options::options_description* options) {
  options->add_options()(
      "cgroup", Text(&texts->cgroup, "LIST"),
      "the processes of these cgroups (a path, with all below it; or a container's id, "
      "12 characters or more)")("pod", Text(&texts->pod, "LIST"),
                                "of these pods of Kubernetes: NAMESPACE/NAME, NAME, or a uid")(
      "unit", Text(&texts->unit, "LIST"), "of these units of systemd: cron.service, or cron");
}

Status ParseGroups(const GroupTexts& texts, GroupFilter* groups) {
  const auto parse = [](const char* option, const std::string& text, std::vector<std::string>* names) {
    *names = Split(text);
    if (!text.empty() && names->empty())
      return Usage(fmt::format("{} {}: there is no name in it", option, text));
    return Status();
  };
  if (Status status = parse("--cgroup", texts.cgroup, &groups->cgroups); !status.ok()) return status;
  if (Status status = parse("--pod", texts.pod, &groups->pods); !status.ok()) return status;
  return parse("--unit", texts.unit, &groups->units);
}

}  // namespace slotscope
