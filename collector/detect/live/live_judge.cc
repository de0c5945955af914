// SPDX-License-Identifier: MIT
#include "detect/live/live_judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/errno_text.h"
#include "base/escape.h"
#include "detect/patterns/xid_correlation.h"

namespace slotscope {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr size_t kMaxText = 16u << 20;
constexpr size_t kMaxXids = 10'000;
// Of a log that was there before us.
constexpr uint64_t kLogTail = 1u << 20;
// How long records are kept beyond the window, since others may come late.
constexpr int64_t kLateNs = 3600 * kSecond;
// Kubernetes forgets its Events after an hour, and a watch that begins anew says all of them again.
constexpr int64_t kToldNs = 7200 * kSecond;
constexpr int64_t kForgetEveryNs = 60 * kSecond;

LogTimeOptions TimesAt(int64_t now_ns, int64_t boot_ns) {
  LogTimeOptions times;
  times.boot_ns = boot_ns;
  times.newest_ns = now_ns;
  return times;
}

}  // namespace

LiveJudge::LiveJudge(const LiveInputs& inputs, const JudgeOptions& options, int64_t start_ns,
                     int64_t boot_ns)
    : options_(options),
      start_ns_(start_ns),
      kernel_log_reader_(TimesAt(start_ns, boot_ns), inputs.node),
      texts_(kMaxText) {
  options_.clock = NcclClock::kReceipt;
  if (!inputs.fr_dir.empty()) dumps_ = std::make_unique<FrWatch>(inputs.fr_dir);
  if (!inputs.kmsg.empty()) kernel_log_ = std::make_unique<FileFollower>(inputs.kmsg, kLogTail);
  if (!inputs.k8s_events.empty()) kubernetes_log_ = std::make_unique<FileFollower>(inputs.k8s_events, 0);
}

// What was before us is history.
void LiveJudge::TellXid(const XidRecord& xid) {
  if (xid.when.last_ns() >= start_ns_)
    Tell(fmt::format("{} {} {}", xid.node, xid.bus, xid.code),
         fmt::format("{}: {}", EscapeControls(xid.node), DescribeXid(xid)));
}

bool LiveJudge::ReadDumps(int64_t now_ns, bool is_last) {
  if (dumps_->Poll(now_ns, is_last)) {
    if (!dumps_changed_) dumps_changed_ = {now_ns, now_ns};
    dumps_changed_->last_ns = now_ns;
  }
  if (!dumps_changed_) return false;
  const bool is_settled = now_ns - dumps_changed_->last_ns >= kDumpsSettleNs ||
                          now_ns - dumps_changed_->first_ns >= kDumpsLatestNs;
  if (!is_settled && !is_last) return false;
  dumps_changed_.reset();
  records_ = dumps_->Records();
  return true;
}

bool LiveJudge::ReadKernelLog(int64_t now_ns) {
  const uint64_t nr_before = kernel_log_reader_.stats().nr_xids;
  kernel_log_reader_.times().SetNewest(now_ns);
  const bool is_more = kernel_log_->Poll(
      [&](std::string_view bytes) {
        lines_.Feed(bytes, [&](std::string_view line) {
          // What was there before us has the time that stands in it, or none.
          auto xid = kernel_log_reader_.OnLine(
              line, has_read_kernel_log_ ? std::optional(now_ns) : std::nullopt);
          if (!xid || xid->clock == LogClock::kNone) return;
          TellXid(*xid);
          if (xids_.size() >= kMaxXids) {
            xids_.pop_front();
            nr_forgotten_xids_++;
          }
          xids_.push_back(std::move(*xid));
        });
      },
      [&] { lines_.Reset(); });
  if (!is_more) has_read_kernel_log_ = true;
  return kernel_log_reader_.stats().nr_xids != nr_before;
}

bool LiveJudge::ReadKubernetes() {
  bool is_changed = false;
  kubernetes_log_->Poll(
      [&](std::string_view bytes) {
        texts_.Feed(bytes, [&](std::string_view text) {
          if (const Status status = kubernetes_.OnText(text); !status.ok()) {
            nr_bad_texts_++;
            TellText(status.message());
          }
          is_changed = true;
        });
      },
      [&] { texts_.Reset(); });
  if (texts_.nr_malformed()) TellText("there is something in it that is no JSON object");
  return is_changed;
}

// The first of many.
void LiveJudge::TellText(const std::string& why) {
  Tell("text", fmt::format("{}: {}", EscapeControls(kubernetes_log_->path()), why));
}

// Said, and again if it is another error.
void LiveJudge::CheckFollower(const FileFollower* follower) {
  if (!follower || !follower->error()) return;
  const std::string sentence = fmt::format("{}: cannot read it: {}", EscapeControls(follower->path()),
                                           ErrnoText(follower->error()));
  Tell(sentence, sentence);
}

void LiveJudge::Tell(const std::string& what, std::string sentence) {
  news_.TellFirstOf(what, std::move(sentence), static_cast<uint64_t>(now_ns_));
}

void LiveJudge::Forget(int64_t now_ns) {
  if (now_ns - forgotten_ns_ < kForgetEveryNs) return;
  forgotten_ns_ = now_ns;
  int64_t longest_ns = 0;  // that anybody looks back at what is in logs
  for (const Detector& detector : Detectors())
    if (detector.pattern->needs & (kNeedsKernelLog | kNeedsKubernetes))
      longest_ns = std::max(longest_ns, options_.ThresholdNs(*detector.pattern));
  const int64_t before_ns = now_ns - longest_ns - kLateNs;
  std::erase_if(xids_, [&](const XidRecord& xid) { return xid.when.last_ns() < before_ns; });
  kubernetes_.Forget(before_ns);
  log_.Forget(now_ns - kToldNs);
}

std::vector<FoundNow> LiveJudge::Look(int64_t now_ns, const EvidenceFn& evidence, bool is_last) {
  now_ns_ = now_ns;
  bool is_changed = dumps_ && ReadDumps(now_ns, is_last);
  if (kernel_log_) is_changed |= ReadKernelLog(now_ns);
  if (kubernetes_log_) is_changed |= ReadKubernetes();
  CheckFollower(kernel_log_.get());
  CheckFollower(kubernetes_log_.get());
  if (!is_changed) return {};
  // Afterwards: what comes late may be what the last of it needs.
  DetectRecords records;
  records.nccl = records_;
  records.xids.assign(xids_.begin(), xids_.end());
  records.cluster = kubernetes_.Records();
  Findings findings = Judge(records, options_);
  std::erase_if(findings, [&](const auto& finding) {
    // A Pod stays in the API for days, and each watch begins with all of them.
    return !finding->pattern().is_state &&
           finding->When().last_ns() < std::max(start_ns_, now_ns - kLateNs);
  });
  std::vector<FoundNow> news =
      log_.Take(findings, now_ns, [&](const Finding& finding) { return finding.HasResolved(records); });
  // Only of those that are told: it takes a while.
  for (FoundNow& one : news)
    if (const auto* hang = As<NcclHang>(*one.finding); hang && evidence && !one.resolved)
      one.host_evidence = evidence(*hang);
  nr_verdicts_ += news.size();
  Forget(now_ns);
  return news;
}

std::vector<std::string> LiveJudge::TakeNews() {
  std::vector<std::string> news = news_.Take();
  if (dumps_)
    for (std::string& problem : dumps_->TakeProblems()) news.push_back(std::move(problem));
  return news;
}

LiveCounts LiveJudge::counts() const {
  LiveCounts counts;
  counts.nr_verdicts = nr_verdicts_;
  counts.nr_xids = kernel_log_reader_.stats().nr_xids;
  counts.nr_evictions = kubernetes_.nr_evictions();
  counts.nr_malformed = kernel_log_reader_.stats().nr_malformed + texts_.nr_malformed() + nr_bad_texts_ +
                        kubernetes_.stats().nr_malformed;
  counts.nr_lost = kernel_log_ ? kernel_log_->nr_lost() : 0;
  counts.nr_forgotten = nr_forgotten_xids_ + kubernetes_.stats().nr_forgotten;
  return counts;
}

}  // namespace slotscope
