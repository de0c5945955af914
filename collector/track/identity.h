// SPDX-License-Identifier: MIT
// Who a process is, in words, as of a point in time: what it executes, and its cgroup.
//
// What is said of it is queued as it arrives and takes effect in Advance(), behind the tracker's, with
// the end of each slot that retires. A child executes what its parent did, until it says otherwise.
#pragma once

#include <slotscope/events.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "track/cgroup.h"
#include "track/tracker.h"

namespace slotscope {

struct ProcessIdentity {
  ProcessKey key = {};
  bool gone = false;  // it has ended some time ago: no row names it any more. The rest is empty.
  bool kernel = false;
  int32_t ppid = 0;
  Comm comm = {};
  // Null: not known. All are raw. The arguments' "..." says that there were more.
  std::shared_ptr<const std::string> executable, arguments;
  std::shared_ptr<const Cgroup> cgroup;
};

class Identities {
 public:
  // Valid (merge/message.h), to take effect at Advance(ts) for any ts at or after ts_ns.
  void OnText(const ss_text& text, uint64_t ts_ns);
  void OnBirth(ProcessKey process, int32_t ppid, uint64_t ts_ns);
  // The names of all pods of this machine: "UID NAMESPACE/NAME" lines.
  void OnPods(std::string_view lines, uint64_t ts_ns);

  // Behind tracker->Advance(ts_ns). Those that are not who they were before, by key.
  std::vector<ProcessIdentity> Advance(uint64_t ts_ns, Tracker* tracker);

  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state);

 private:
  // Untrusted sources must not make us hold without end. A real machine has thousands.
  static constexpr size_t kMaxCgroups = 65536;
  static constexpr uint16_t kBirth = 0, kPods = UINT16_MAX;  // beside the types of messages

  struct Text {
    uint64_t ts_ns = 0;
    uint16_t type = 0;
    ProcessKey key = {};
    int32_t ppid = 0;
    uint64_t cgroup_id = 0;
    std::string text;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns, type, key, ppid, cgroup_id, text);
    }
  };
  struct Known {
    ProcessKey key = {};  // whose this is; the id may be another's by now
    std::shared_ptr<const std::string> executable, arguments;
    uint64_t cgroup_id = 0;
    std::shared_ptr<const Cgroup> cgroup;
    bool is_told = false;  // and what of it
    std::shared_ptr<const std::string> told_executable, told_arguments;
    std::shared_ptr<const Cgroup> told_cgroup;
    Comm told_comm = {};

    template <typename Archive>
    void State(Archive& state);
  };
  struct Place {
    std::shared_ptr<const Cgroup> cgroup;

    template <typename Archive>
    void State(Archive& state);
  };

  void Queue(Text text);
  void Apply(const Text& text, const Tracker& tracker);
  // Null: that process is not known.
  Known* Find(ProcessKey key, const Tracker& tracker);
  Known& Of(uint32_t id, const Tracker& tracker);
  void OnCgroup(const Text& text);
  void TakePods(const std::string& lines);
  void NamePod(Cgroup* cgroup) const;
  bool Tell(uint32_t id, const Tracker& tracker, ProcessIdentity* to);

  std::deque<Text> queue_;                           // in order of ts_ns, of arrival where equal
  std::vector<Known> known_;                         // [tracker's id]
  std::unordered_map<int32_t, ProcessKey> by_tgid_;  // the youngest
  std::unordered_map<uint64_t, std::shared_ptr<const Cgroup>> cgroups_;
  std::map<std::string, std::string> pods_;  // uid -> NAMESPACE/NAME
  std::vector<uint32_t> changed_;            // ids, since the last Advance()
  bool cgroups_changed_ = false;             // one that processes may be in already
};

}  // namespace slotscope
