// SPDX-License-Identifier: MIT
// The detectors over inputs that go on: what has become true since the last look. Keeps no more than
// what a judgement may need.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/news.h"
#include "base/text_input.h"
#include "detect/inputs/json_texts.h"
#include "detect/inputs/kernel_log.h"
#include "detect/inputs/kubernetes.h"
#include "detect/live/file_follower.h"
#include "detect/live/fr_watch.h"
#include "detect/live/verdict_log.h"
#include "detect/patterns/detectors.h"

namespace slotscope {

struct LiveInputs {
  std::string fr_dir;
  std::string kmsg;
  std::string k8s_events;
  std::string node;  // of lines that do not say it
};

struct LiveCounts {
  uint64_t nr_verdicts = 0;  // updates included
  uint64_t nr_xids = 0;
  uint64_t nr_evictions = 0;  // of the last hour
  uint64_t nr_malformed = 0;  // lines and objects that could not be read
  uint64_t nr_lost = 0;       // records of the kernel log that it overwrote before we read them
  uint64_t nr_forgotten = 0;  // Xids and objects that are more than can be kept
};

class LiveJudge {
 public:
  // Empty inputs are not followed. Times are Unix times; what was over at start_ns is not told, but may
  // be the cause of what comes. `boot_ns`: for what the kernel log has had before.
  LiveJudge(const LiveInputs& inputs, const JudgeOptions& options, int64_t start_ns, int64_t boot_ns);

  // Ranks write their dumps one after the other: what they say together is judged when none has come
  // for so long.
  static constexpr int64_t kDumpsSettleNs = 5'000'000'000;
  // Whoever goes on writing does not keep the others from being judged.
  static constexpr int64_t kDumpsLatestNs = 30'000'000'000;

  // What is new. Never waits for anything. `is_last`: there will be no other look.
  std::vector<FoundNow> Look(int64_t now_ns, const EvidenceFn& evidence, bool is_last = false);
  // Sentences: what cannot be read, and Xids; each once an hour, of Xids that of a GPU and a number.
  std::vector<std::string> TakeNews();
  LiveCounts counts() const;

 private:
  void TellXid(const XidRecord& xid);
  bool ReadDumps(int64_t now_ns, bool is_last);
  bool ReadKernelLog(int64_t now_ns);
  bool ReadKubernetes();
  void TellText(const std::string& why);
  void Forget(int64_t now_ns);
  void CheckFollower(const FileFollower* follower);
  void Tell(const std::string& what, std::string sentence);

  JudgeOptions options_;
  const int64_t start_ns_;
  std::unique_ptr<FrWatch> dumps_;
  std::unique_ptr<FileFollower> kernel_log_, kubernetes_log_;
  LineSplitter lines_;
  KernelLogReader kernel_log_reader_;
  bool has_read_kernel_log_ = false;
  std::deque<XidRecord> xids_;
  JsonTexts texts_;
  KubernetesReader kubernetes_;
  uint64_t nr_bad_texts_ = 0;
  uint64_t nr_forgotten_xids_ = 0;
  struct Changed {
    int64_t first_ns, last_ns;
  };
  std::optional<Changed> dumps_changed_;  // since they were judged
  NcclRecords records_;                   // as of then
  VerdictLog log_;
  uint64_t nr_verdicts_ = 0;
  int64_t forgotten_ns_ = 0;  // when that was done last
  int64_t now_ns_ = 0;        // of this look, Unix time
  News news_;
};

}  // namespace slotscope
