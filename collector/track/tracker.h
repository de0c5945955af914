// SPDX-License-Identifier: MIT
// Who is who, as of a point in time.
//
// A process is (tgid, start_time_ns): a reborn tgid is another process. An RMID's owner is named by
// (rmid, generation). Changes are queued as they arrive and take effect in Advance(), which is called
// with the end of each slot that retires: a name is the one that held at the slot's end.
//
// A freed RMID's process keeps its metadata through the slot in which it died, and as long after as
// measures of it may still turn up in open slots; then it is forgotten, so memory follows the
// processes alive and not the run.
//
// What a measure says of its process's RMID is believed: the message that gave it may be lost.
//
// Nothing is hashed per measure: where a process was found last is remembered by its RMID, and verified.
#pragma once

#include <slotscope/events.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <unordered_map>
#include <utility>
#include <vector>

#include "track/former_names.h"
#include "track/process_key.h"

namespace slotscope {

// Is a before b, on a clock that may wrap?
inline bool IsBefore(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b) < 0; }

// What each row needs of its process comes first, in one cache line.
struct alignas(64) Process {
  ProcessKey key = {};
  Comm comm = {};
  uint64_t seen_ns = 0;  // last message or measure about it
  uint64_t held_ns = 0;  // see Tracker::Hold()
  uint32_t rmid = 0;     // 0: none
  uint32_t generation = 0;
  bool named = false;     // comm is known
  bool kernel = false;    // a kernel thread
  bool dead = false;      // its RMID was freed, it exited without one, or it is presumed dead
  bool presumed = false;  // dead only because a state dump did not name it
  bool followed = false;  // Follow()ed, or a descendant of one that is
  int32_t ppid = 0;
  uint64_t cgroup_id = 0;
  uint64_t rmid_ns = 0;  // when it got the RMID, 0: not known
  uint64_t dead_ns = 0;  // when it died

  template <typename Archive>
  void State(Archive& state) {
    state(key, comm, seen_ns, held_ns, rmid, generation, named, kernel, dead, presumed, followed, ppid,
          cgroup_id, rmid_ns, dead_ns);
  }
};
static_assert(offsetof(Process, followed) < 64);

struct TrackerStats {
  uint64_t nr_allocs = 0;
  uint64_t nr_frees = 0;
  uint64_t nr_taken_back = 0;        // of them: the process lives on without
  uint64_t nr_duplicate_allocs = 0;  // of an RMID and generation that was live already
  uint64_t nr_unknown_frees = 0;     // of an RMID that nobody had, or of another generation
  uint64_t nr_late = 0;              // changes that arrived behind the watermark
  uint64_t nr_forgotten = 0;         // processes that a state dump no longer named
};

class Tracker {
 public:
  static constexpr uint32_t kNoProcess = UINT32_MAX;

  // Memory of the dead is kept this much longer than their end (wrap-safe, in ns).
  explicit Tracker(uint64_t keep_dead_ns);

  // Queued, to take effect at Advance(ts) for any ts at or after ts_ns.
  void Alloc(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns);
  // `ended`: so has its process; else it lives on without.
  void Free(uint32_t rmid, uint32_t generation, bool ended, uint64_t ts_ns);
  void Meta(const ss_task_meta& meta, uint64_t ts_ns);
  // It was moved there.
  void MoveToCgroup(ProcessKey process, uint64_t cgroup_id, uint64_t ts_ns);
  // The state dump named this RMID: like Alloc(), but ignored unless its generation is newer.
  void Existing(uint32_t rmid, uint32_t generation, ProcessKey owner, uint64_t ts_ns);
  // A state dump that began at begin_ns is complete: whoever was not seen since is gone.
  void DumpEnd(uint64_t begin_ns, uint64_t ts_ns);

  // Applies what is queued up to and with ts_ns, in the order of time (of arrival where equal).
  void Advance(uint64_t ts_ns);
  // Processes with a name that a state dump did not name any more, since the last call. The others may
  // have found no room in the kernel's table, which is what a dump says.
  std::vector<ProcessKey> TakeMissing() { return std::exchange(missing_, {}); }

  // Since the last call. By whom they are read: track/identity.h.
  struct Changes {
    std::vector<uint32_t> ids;          // named (but for mere renames) or moved; some several times
    std::vector<ProcessKey> forgotten;  // no slot names them any more
  };
  Changes TakeChanges() { return std::exchange(changes_, {}); }

  // The process of a measure; made, without a name, if it is not known. The id is small. `rmid` is a
  // hint where to look; 0 if it has none.
  uint32_t Resolve(ProcessKey key, uint32_t rmid, uint64_t ts_ns) {
    uint32_t& hint = hints_[rmid && rmid < kNrRmidHints
                                ? rmid
                                : kNrRmidHints + static_cast<uint32_t>(key.tgid) % kNrTgidHints];
    if (hint < keys_.size() && keys_[hint] == key) return hint;
    return hint = Find(key, ts_ns);
  }
  // The same, but kNoProcess if it is not known.
  uint32_t Lookup(ProcessKey key) const {
    auto found = by_key_.find(key);
    return found == by_key_.end() ? kNoProcess : found->second;
  }
  // Also of one that was forgotten some seconds ago; {}: it is not known.
  Comm NameOf(ProcessKey key) const {
    const uint32_t id = Lookup(key);
    return id == kNoProcess ? former_names_.Find(key) : processes_[id].comm;
  }
  // A measure of it was seen at ts_ns, which ran under that RMID (0: under none).
  void Seen(uint32_t id, uint64_t ts_ns, uint32_t rmid, uint32_t generation) {
    const Process& process = Touch(id, ts_ns);
    if (rmid && (process.rmid != rmid || process.generation != generation))
      SetRmid(id, rmid, generation, 0, ts_ns);
  }
  // Its id is not given to another one before Advance() has passed until_ns: a slot that ends then names
  // it.
  void Hold(uint32_t id, uint64_t until_ns) {
    Process& process = processes_[id];
    process.held_ns = IsBefore(process.held_ns, until_ns) ? until_ns : process.held_ns;
  }
  const Process& process(uint32_t id) const { return processes_[id]; }
  // [id] -> its place in the order of (tgid, start_time_ns): below nr_ranks(), and some are nobody's.
  // Valid until a process is made.
  const std::vector<uint32_t>& Ranks();
  size_t nr_ranks() const { return order_.size(); }
  // Whose (rmid, generation) is or was, as long as that process is remembered; else kNoProcess.
  uint32_t Owner(uint32_t rmid, uint32_t generation) const {
    auto found = by_rmid_.find(RmidKey(rmid, generation));
    return found == by_rmid_.end() ? kNoProcess : found->second;
  }

  // Marks the process that is or will be `tgid`, and all that it and its descendants give birth to.
  void Follow(int32_t tgid);

  size_t nr_processes() const { return by_key_.size(); }
  // All ids are below; those of a burst that has gone are no ids any more.
  size_t nr_ids() const { return processes_.size(); }
  // One of that id is known.
  bool has(uint32_t id) const { return id < keys_.size() && Lookup(keys_[id]) == id; }
  // Everything (base/state.h).
  template <typename Archive>
  void State(Archive& state);
  const TrackerStats& stats() const { return stats_; }
  void CountLate() { stats_.nr_late++; }

 private:
  enum class Kind { kAlloc, kFree, kTakenBack, kMeta, kCgroup, kExisting, kDumpEnd };
  struct Change {
    uint64_t ts_ns;
    Kind kind;
    uint32_t rmid;
    uint32_t generation;
    ProcessKey key;
    uint64_t begin_ns;
    ss_task_meta meta;

    template <typename Archive>
    void State(Archive& state) {
      state(ts_ns, rmid, generation, key, begin_ns);
      state.Enum(kind, Kind::kDumpEnd);
      state.Plain(meta);
    }
  };
  struct Death {
    uint32_t process;
    uint64_t ts_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(process, ts_ns);
    }
  };
  // An RMID that a process had before it lost it. What it counted may still be on its way.
  struct PastRmid {
    uint64_t rmid_key;
    uint32_t process;
    uint64_t ts_ns;

    template <typename Archive>
    void State(Archive& state) {
      state(rmid_key, process, ts_ns);
    }
  };
  struct Lease {
    uint32_t generation = 0;
    uint32_t process = 0;
    ProcessKey key = {};  // of its process, whose id may be another's by now
    bool live = false;
    bool known = false;

    template <typename Archive>
    void State(Archive& state) {
      state(generation, process, key, live, known);
    }
  };

  static uint64_t RmidKey(uint32_t rmid, uint32_t generation) {
    return uint64_t{rmid} << 32 | generation;
  }

  uint32_t Find(ProcessKey key, uint64_t ts_ns);
  // rmid_ns: see Process.
  void SetRmid(uint32_t id, uint32_t rmid, uint32_t generation, uint64_t rmid_ns, uint64_t ts_ns);
  void LeaveRmid(uint32_t id, uint64_t ts_ns);
  void DropRmid(uint64_t rmid_key, uint32_t id);
  void ForgetPastRmids(uint64_t ts_ns);
  void Queue(const Change& change);
  void SortArrived();
  void Apply(const Change& change);
  void ApplyAlloc(const Change& change);
  void ApplyFree(const Change& change);
  void ApplyMeta(const Change& change);
  void ApplyCgroup(const Change& change);
  void ApplyDumpEnd(const Change& change);
  // Something was heard of the process at ts_ns. If it was only presumed dead before, it is not.
  Process& Touch(uint32_t id, uint64_t ts_ns) {
    Process& process = processes_[id];
    // Assigned either way: CPUs take turns, and which was later is no branch to be predicted.
    process.seen_ns = IsBefore(process.seen_ns, ts_ns) ? ts_ns : process.seen_ns;
    if (process.dead && process.presumed && IsBefore(process.dead_ns, ts_ns)) process.dead = false;
    return process;
  }
  void MarkDead(uint32_t id, uint64_t ts_ns, bool presumed);
  void ForgetDead(uint64_t ts_ns);
  void Trim(uint64_t ts_ns);
  void LeaveRanks(uint32_t id);
  Lease* FindLease(uint32_t rmid);
  bool FindAgain();

  // RMIDs are small; anything above is a malformed message and must not make us allocate.
  static constexpr uint32_t kMaxRmid = 65536;
  // The key of an id that is nobody's: no message has this tgid.
  static constexpr ProcessKey kNobody = {INT32_MIN, UINT64_MAX};
  static constexpr uint32_t kNrRmidHints = 1024;
  static constexpr uint32_t kNrTgidHints = 1024;
  uint64_t keep_dead_ns_;
  std::deque<Change> queue_;     // in order of ts_ns, of arrival where equal
  std::vector<Change> arrived_;  // since the first that does not follow it, to be sorted into it
  std::vector<Process> processes_;
  std::vector<ProcessKey> keys_;    // [id], as in processes_: all that a measure needs
  std::vector<uint32_t> hints_;     // -> id
  std::vector<uint32_t> free_ids_;  // a heap, the lowest first
  uint64_t next_trim_ns_ = 0;
  // All processes by key, as of the last Ranks(). Those that have gone leave their places empty, until
  // these are too many.
  struct Place {
    ProcessKey key;
    uint32_t process;  // kNoProcess: it has gone
  };
  std::vector<Place> order_;
  size_t nr_gone_ = 0;                            // of them
  std::vector<Place> made_;                       // since
  std::vector<uint32_t> ranks_;                   // [id] -> its place in order_, kNoProcess: none yet
  std::vector<Place> behind_;                     // for Ranks()
  std::pmr::unsynchronized_pool_resource nodes_;  // of these two
  std::pmr::unordered_map<ProcessKey, uint32_t, ProcessKeyHash> by_key_{&nodes_};
  std::pmr::unordered_map<uint64_t, uint32_t> by_rmid_{&nodes_};  // RmidKey() -> who has it, or had
  std::vector<Lease> leases_;                                     // by rmid
  std::deque<PastRmid> past_rmids_;                               // in the order in which they were lost
  std::deque<Death> deaths_;                                      // in order of dead_ns; may be outdated
  std::unordered_map<int32_t, uint32_t> followed_tgids_;          // -> process, kNoProcess: not seen yet
  std::vector<ProcessKey> missing_;
  FormerNames former_names_;
  Changes changes_;
  TrackerStats stats_;
};

}  // namespace slotscope
