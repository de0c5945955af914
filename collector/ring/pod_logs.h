// SPDX-License-Identifier: MIT
// The names of this machine's pods: the kubelet has a folder per pod for its logs, which it makes before
// the pod begins, and names it NAMESPACE_NAME_UID. So nobody has to be asked, and nothing to be allowed.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace slotscope {

class PodLogs {
 public:
  explicit PodLogs(std::string folder = "/var/log/pods");

  // Can be read once a pod has come or gone since Take(). Not valid: this is no node of Kubernetes, or
  // its logs are elsewhere.
  int fd() const { return events_.get(); }
  // "UID NAMESPACE/NAME" lines, if they are others than at the last call. Nothing else is given out.
  bool Take(std::string* lines);

 private:
  std::string folder_;
  UniqueFd events_;
  bool looked_ = false;
  std::string lines_;
};

}  // namespace slotscope
