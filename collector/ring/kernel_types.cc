// SPDX-License-Identifier: MIT
#include "ring/kernel_types.h"

#include <bpf/btf.h>
#include <fmt/core.h>
#include <linux/bpf.h>

#include <mutex>

namespace slotscope {

void KernelTypes::Deleter::operator()(btf* types) const { btf__free(types); }

KernelTypes::KernelTypes() : types_(btf__load_vmlinux_btf()) {}

std::shared_ptr<const KernelTypes> KernelTypes::Get() {
  static std::mutex mutex;
  static std::weak_ptr<const KernelTypes> held;
  std::lock_guard lock(mutex);
  std::shared_ptr<const KernelTypes> types = held.lock();
  if (!types) held = types = std::shared_ptr<const KernelTypes>(new KernelTypes);
  return types;
}

bool KernelTypes::HasFunction(const char* name) const {
  return types_ && btf__find_by_name_kind(types_.get(), name, BTF_KIND_FUNC) >= 0;
}

bool KernelTypes::HasVariable(const char* name) const {
  return types_ && btf__find_by_name_kind(types_.get(), name, BTF_KIND_VAR) >= 0;
}

const btf_type* KernelTypes::Follow(const btf_type* type) const {
  return type ? btf__type_by_id(types_.get(), type->type) : nullptr;
}

const btf_type* KernelTypes::WithoutModifiers(const btf_type* type) const {
  while (type && (btf_is_mod(type) || btf_is_typedef(type) || btf_is_type_tag(type)))
    type = Follow(type);
  return type;
}

const btf_type* KernelTypes::MemberOf(const char* name, std::string_view member) const {
  if (!types_) return nullptr;
  const int id = btf__find_by_name_kind(types_.get(), name, BTF_KIND_STRUCT);
  if (id < 0) return nullptr;
  const btf_type* type = btf__type_by_id(types_.get(), static_cast<uint32_t>(id));
  const btf_member* members = btf_members(type);
  for (size_t i = 0; i < btf_vlen(type); i++)
    if (const char* is = btf__name_by_offset(types_.get(), members[i].name_off); is && member == is)
      return btf__type_by_id(types_.get(), members[i].type);
  return nullptr;
}

size_t KernelTypes::NrTracepointArguments(std::string_view tracepoint) const {
  if (!types_) return 0;
  const int id = btf__find_by_name_kind(types_.get(), fmt::format("btf_trace_{}", tracepoint).c_str(),
                                        BTF_KIND_TYPEDEF);
  const btf_type* pointer =
      id < 0 ? nullptr : Follow(btf__type_by_id(types_.get(), static_cast<uint32_t>(id)));
  const btf_type* function = pointer && btf_is_ptr(pointer) ? Follow(pointer) : nullptr;
  if (!function || !btf_is_func_proto(function) || btf_vlen(function) == 0) return 0;
  return btf_vlen(function) - 1u;  // the first one is the probe's own
}

bool KernelTypes::PointsToStruct(const btf_type* pointer) const {
  pointer = WithoutModifiers(pointer);
  if (!pointer || !btf_is_ptr(pointer)) return false;
  const btf_type* to = WithoutModifiers(Follow(pointer));
  return to && btf_is_struct(to);
}

}  // namespace slotscope
