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
  // Takes some milliseconds.
  KernelTypes();

  // Null: the kernel has none, and then nothing is found.
  const btf* get() const { return types_.get(); }
  // Type of a member of a struct; null: there is no such member.
  const btf_type* MemberOf(const char* name, std::string_view member) const;
  // What is passed to a program on that tracepoint; 0 if there is no such tracepoint.
  size_t NrTracepointArguments(std::string_view tracepoint) const;
  // Is it a pointer to a struct, and not to pointers?
  bool PointsToStruct(const btf_type* pointer) const;

 private:
  // Null: it cannot be followed.
  const btf_type* Follow(const btf_type* type) const;
  const btf_type* WithoutModifiers(const btf_type* type) const;

  struct Deleter {
    void operator()(btf* types) const;
  };
  std::unique_ptr<btf, Deleter> types_;
};

}  // namespace slotscope
