// SPDX-License-Identifier: MIT
// What a detector has found. Each detector has a type of its own, with what it knows; what all have in
// common is made of that where it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "detect/inputs/moment.h"
#include "detect/inputs/records.h"

namespace slotscope {

// Of what a detector looks at: the options that give it.
inline constexpr uint32_t kNeedsDumps = 1;       // --fr-dir
inline constexpr uint32_t kNeedsKernelLog = 2;   // --kmsg
inline constexpr uint32_t kNeedsKubernetes = 4;  // --k8s-events

// A kind of trouble that a detector looks for.
struct Pattern {
  const char* id;    // pattern.id, by which others know it
  const char* name;  // as --detect has it
  // What has happened, of one and of many: "pod was evicted".
  const char* one;
  const char* many;
  // It holds for a while and may be over one day; else it happened at some moment.
  bool is_state;
  uint32_t needs;
  // The option that says from when on it is one, with - or _ between words; null: there is none.
  const char* threshold;
  int64_t threshold_ns;  // without that option
  const char* help;
};

struct Evidence {
  const char* kind;
  std::string uid;
  Moment when;
  std::string description;
};

// What the cluster says of an eviction, and of a node's condition.
Evidence EvidenceOf(const PodEviction& eviction);
Evidence EvidenceOf(const PressureChange& change);

class Finding {
 public:
  explicit Finding(const Pattern& pattern) : pattern_(&pattern) {}
  Finding(const Finding&) = default;
  Finding(Finding&&) = default;
  Finding& operator=(const Finding&) = default;
  Finding& operator=(Finding&&) = default;
  virtual ~Finding() = default;

  const Pattern& pattern() const { return *pattern_; }
  virtual Moment When() const = 0;
  // Names what it is about: what is said later of the same has the same.
  virtual std::string Key() const = 0;
  // Another name of the same; empty: it has none. Not of a state.
  virtual std::string Alias() const { return {}; }
  // What of it is worth telling again when it changes.
  virtual std::string State() const { return {}; }
  virtual std::string Headline() const = 0;
  virtual std::string Remediation() const = 0;
  virtual std::vector<Evidence> Trail() const = 0;
  // What the pattern adds to a verdict, as its schema in deploy/schemas/ has it.
  virtual void PutFields(nlohmann::ordered_json* verdict) const = 0;
  // Sentences for people, beside the headline.
  virtual std::vector<std::string> Remarks() const { return {}; }
  // When it was over, if what it was found in says so.
  virtual std::optional<Moment> ResolvedAt() const { return {}; }
  // Of a state that was found earlier: whether these say that it is over. Where they say nothing, nobody
  // knows.
  virtual bool HasResolved(const DetectRecords&) const { return false; }

 private:
  const Pattern* pattern_;
};

using Findings = std::vector<std::shared_ptr<const Finding>>;

// Null if it is of another type.
template <typename T>
const T* As(const Finding& finding) {
  return dynamic_cast<const T*>(&finding);
}

// Those of that type, in their order.
template <typename T>
std::vector<T> AllOf(const Findings& findings) {
  std::vector<T> all;
  for (const auto& finding : findings)
    if (const T* one = As<T>(*finding)) all.push_back(*one);
  return all;
}

}  // namespace slotscope
