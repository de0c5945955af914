// SPDX-License-Identifier: MIT
// Any bytes as an answer of Prometheus; and a node that is judged by what is understood of it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fleet/judgement.h"
#include "fleet/threshold.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotscope;
  const ThresholdAnswer answer = ParseThreshold({reinterpret_cast<const char*>(data), size});
  Require(answer.text.empty() == (answer.kind != ThresholdAnswer::Kind::kMalformed));
  for (char c : answer.text) Require(static_cast<unsigned char>(c) >= ' ');
  if (answer.kind != ThresholdAnswer::Kind::kValue) return 0;
  Require(std::isfinite(answer.value) && answer.value >= -3 && answer.value <= 1);
  Require(std::isfinite(answer.age_s) && answer.age_s >= 0);
  Require(ChooseThreshold({true, true, answer.value, 5}, {}, ThresholdAges(), 7).has_value());
  return 0;
}
