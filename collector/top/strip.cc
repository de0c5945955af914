// SPDX-License-Identifier: MIT
#include "top/strip.h"

#include <algorithm>

namespace slotscope {

Piece StripPiece(const StripStep& step) {
  if (!step.is_recorded) return {"/", Tone::kDim};
  const auto slot_ns = static_cast<double>(std::max<int64_t>(1, step.slot_ns));
  const double waited = static_cast<double>(step.worst.wait_ns) / slot_ns;
  if (waited > 0.5) return {step.worst.throttled_ns * 2 > step.worst.wait_ns ? "T" : "#", Tone::kHot};
  if (waited > 0.1) return {step.worst.throttled_ns * 2 > step.worst.wait_ns ? "T" : "=", Tone::kWarm};
  if (static_cast<double>(step.lost_ns) > 0.1 * static_cast<double>(step.slots_ns))
    return {"?", Tone::kDim};
  if (step.worst.wait_ns > 0) return {"-", Tone::kPlain};
  return {step.cpu_ns > 0 ? "." : " ", Tone::kPlain};
}

void AppendPiece(const Piece& piece, ScreenLine* line) {
  if (!line->empty() && line->back().tone == piece.tone)
    line->back().text += piece.text;
  else
    line->push_back(piece);
}

ScreenLine StripLine(const std::vector<StripStep>& steps, size_t first, size_t nr) {
  ScreenLine line;
  for (size_t i = first; i < std::min(steps.size(), first + nr); i++)
    AppendPiece(StripPiece(steps[i]), &line);
  return line;
}

size_t WorstStep(const std::vector<StripStep>& steps, bool* any) {
  const auto worst = std::max_element(
      steps.begin(), steps.end(),
      [](const StripStep& a, const StripStep& b) { return a.worst.wait_ns < b.worst.wait_ns; });
  *any = worst != steps.end() && worst->worst.wait_ns > 0;
  return *any ? static_cast<size_t>(worst - steps.begin()) : 0;
}

}  // namespace slotscope
