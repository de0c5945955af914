// SPDX-License-Identifier: MIT
// The types of the kernel that runs (its BTF): what it has is asked of them, not of its version.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

struct btf;
struct btf_type;

namespace slotscope {

class KernelTypes {
 public:
  // Reads them, which takes tens of milliseconds, unless somebody holds them: all share what is held.
  static std::shared_ptr<const KernelTypes> Get();

  // Null: the kernel has none, and then nothing is found.
  const btf* get() const { return types_.get(); }
  // Type of a member of a struct; null: there is no such member.
  const btf_type* MemberOf(const char* name, std::string_view member) const;
  bool HasFunction(const char* name) const;
  // A link may have all functions of a file (since 6.6); else each takes a perf event of its own.
  bool HasUprobeMulti() const { return HasFunction("bpf_uprobe_multi_link_attach"); }
  bool HasVariable(const char* name) const;  // per-CPU ones
  bool HasTracepoint(std::string_view name) const { return NrTracepointArguments(name) > 0; }
  // What is passed to a program on that tracepoint; 0 if there is no such tracepoint.
  size_t NrTracepointArguments(std::string_view tracepoint) const;
  // Is it a pointer to a struct, and not to pointers?
  bool PointsToStruct(const btf_type* pointer) const;

 private:
  KernelTypes();
  // Null: it cannot be followed.
  const btf_type* Follow(const btf_type* type) const;
  const btf_type* WithoutModifiers(const btf_type* type) const;

  struct Deleter {
    void operator()(btf* types) const;
  };
  std::unique_ptr<btf, Deleter> types_;
};

}  // namespace slotscope
