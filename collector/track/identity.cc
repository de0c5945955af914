// SPDX-License-Identifier: MIT
#include "track/identity.h"

#include <algorithm>
#include <utility>

#include "base/trim.h"

namespace slotscope {
namespace {

bool Equals(const std::shared_ptr<const std::string>& known, std::string_view text) {
  return known && *known == text;
}

void Set(std::shared_ptr<const std::string>* known, std::string_view text) {
  if (!Equals(*known, text)) *known = std::make_shared<const std::string>(text);
}

}  // namespace

void Identities::Queue(Text text) {
  auto at = queue_.end();
  while (at != queue_.begin() && IsBefore(text.ts_ns, std::prev(at)->ts_ns)) --at;
  queue_.insert(at, std::move(text));
}

void Identities::OnText(const ss_text& text, uint64_t ts_ns) {
  std::string words(text.text, text.text_len);
  if (text.hdr.type == SS_ARGUMENTS) {
    while (words.ends_with('\0')) words.pop_back();
    std::replace(words.begin(), words.end(), '\0', ' ');
  } else {
    words.resize(std::min(words.size(), words.find('\0')));
  }
  if (text.flags & SS_TEXT_CUT) words += "...";
  Queue({ts_ns, text.hdr.type, {text.tgid, text.start_time_ns}, 0, text.cgroup_id, std::move(words)});
}

void Identities::OnBirth(ProcessKey process, int32_t ppid, uint64_t ts_ns) {
  Queue({ts_ns, kBirth, process, ppid, 0, {}});
}

void Identities::OnPods(std::string_view lines, uint64_t ts_ns) {
  Queue({ts_ns, kPods, {}, 0, 0, std::string(lines)});
}

Identities::Known& Identities::Of(uint32_t id, const Tracker& tracker) {
  GrowTo(&known_, id);
  Known& known = known_[id];
  if (known.key != tracker.process(id).key) {
    known = {};
    known.key = tracker.process(id).key;
  }
  return known;
}

Identities::Known* Identities::Find(ProcessKey key, const Tracker& tracker) {
  if (key.start_time_ns == 0)
    if (auto youngest = by_tgid_.find(key.tgid); youngest != by_tgid_.end()) key = youngest->second;
  const uint32_t id = tracker.Lookup(key);
  if (id == Tracker::kNoProcess) return nullptr;
  changed_.push_back(id);
  return &Of(id, tracker);
}

void Identities::Apply(const Text& text, const Tracker& tracker) {
  Known* known = text.key.tgid > 0 ? Find(text.key, tracker) : nullptr;
  switch (text.type) {
    case kBirth:
      if (!known) return;
      if (auto parent = by_tgid_.find(text.ppid); parent != by_tgid_.end()) {
        const uint32_t id = tracker.Lookup(parent->second);
        if (id == Tracker::kNoProcess) return;
        known->executable = Of(id, tracker).executable;
        known->arguments = Of(id, tracker).arguments;
      }
      return;
    case SS_EXEC:
      if (!known) return;
      Set(&known->executable, text.text);
      // Of a state dump: it is what it has been.
      if (text.key.start_time_ns) known->arguments = nullptr;
      return;
    case SS_ARGUMENTS:
      if (known) Set(&known->arguments, text.text);
      return;
    case SS_CGROUP:
      OnCgroup(text);
      return;
    case SS_CGROUP_GONE:
      cgroups_.erase(text.cgroup_id);
      return;
    case kPods:
      TakePods(text.text);
      return;
    default:
      return;
  }
}

void Identities::NamePod(Cgroup* cgroup) const {
  const auto pod = pods_.find(cgroup->pod_uid);
  cgroup->pod = pod == pods_.end() ? "" : pod->second;
}

void Identities::OnCgroup(const Text& text) {
  if (cgroups_.size() >= kMaxCgroups && !cgroups_.contains(text.cgroup_id)) return;
  std::shared_ptr<const Cgroup>& known = cgroups_[text.cgroup_id];
  if (known && known->path == text.text) return;
  Cgroup cgroup = ParseCgroup(text.text);
  NamePod(&cgroup);
  known = std::make_shared<const Cgroup>(std::move(cgroup));
  cgroups_changed_ = true;
}

void Identities::TakePods(const std::string& lines) {
  pods_.clear();
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t blank = line.find(' ');
    if (blank != 0 && blank != std::string_view::npos)
      pods_.emplace(line.substr(0, blank), line.substr(blank + 1));
  }
  for (auto& [id, known] : cgroups_) {
    if (known->pod_uid.empty()) continue;
    Cgroup cgroup = *known;
    NamePod(&cgroup);
    // Its log may go before it does.
    if (cgroup.pod.empty() || cgroup == *known) continue;
    known = std::make_shared<const Cgroup>(std::move(cgroup));
    cgroups_changed_ = true;
  }
}

// Returns false if it is who it was when it was told.
bool Identities::Tell(uint32_t id, const Tracker& tracker, ProcessIdentity* to) {
  const Process& process = tracker.process(id);
  Known& known = Of(id, tracker);
  if (const auto found = cgroups_.find(process.cgroup_id); found != cgroups_.end()) {
    known.cgroup_id = process.cgroup_id;
    known.cgroup = found->second;
  } else if (known.cgroup_id != process.cgroup_id) {  // else it was removed since
    known.cgroup_id = process.cgroup_id;
    known.cgroup = nullptr;
  }
  *to = {process.key,      false,           process.kernel, process.ppid, process.comm,
         known.executable, known.arguments, known.cgroup};
  const bool is_told = known.is_told && known.told_executable == to->executable &&
                       known.told_arguments == to->arguments && known.told_cgroup == to->cgroup &&
                       known.told_comm == to->comm;
  known.is_told = true;
  known.told_executable = to->executable;
  known.told_arguments = to->arguments;
  known.told_cgroup = to->cgroup;
  known.told_comm = to->comm;
  return !is_told;
}

std::vector<ProcessIdentity> Identities::Advance(uint64_t ts_ns, Tracker* tracker) {
  Tracker::Changes changes = tracker->TakeChanges();
  for (const uint32_t id : changes.ids) {
    if (!tracker->has(id)) continue;
    const ProcessKey key = Of(id, *tracker).key;
    ProcessKey& youngest = by_tgid_.try_emplace(key.tgid, key).first->second;
    if (IsBefore(youngest.start_time_ns, key.start_time_ns)) youngest = key;
    changed_.push_back(id);
  }
  while (!queue_.empty() && !IsBefore(ts_ns, queue_.front().ts_ns)) {
    Apply(queue_.front(), *tracker);
    queue_.pop_front();
  }
  if (std::exchange(cgroups_changed_, false))
    for (uint32_t id = 0; id < known_.size(); id++) changed_.push_back(id);
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());

  std::vector<ProcessIdentity> told;
  for (const uint32_t id : changed_) {
    if (!tracker->has(id) || known_[id].key != tracker->process(id).key || !tracker->process(id).named)
      continue;
    ProcessIdentity identity;
    if (Tell(id, *tracker, &identity)) told.push_back(std::move(identity));
  }
  changed_.clear();
  ShrinkTo(&known_, tracker->nr_ids());
  for (const ProcessKey& key : changes.forgotten) {
    if (auto found = by_tgid_.find(key.tgid); found != by_tgid_.end() && found->second == key)
      by_tgid_.erase(found);
    ProcessIdentity gone;
    gone.key = key;
    gone.gone = true;
    told.push_back(std::move(gone));
  }
  std::sort(told.begin(), told.end(),
            [](const ProcessIdentity& a, const ProcessIdentity& b) { return a.key < b.key; });
  return told;
}

}  // namespace slotscope
