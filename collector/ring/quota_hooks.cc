// SPDX-License-Identifier: MIT
#include "ring/quota_hooks.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace slotscope {
namespace {

// May a program be put onto that function? (It is refused where the kernel is locked down, too.)
bool IsAllowed(const btf* types, const char* function) {
  const int id = btf__find_by_name_kind(types, function, BTF_KIND_FUNC);
  if (id < 0) return false;
  constexpr bpf_insn kReturn[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  options.expected_attach_type = BPF_TRACE_FENTRY;
  options.attach_btf_id = static_cast<uint32_t>(id);
  return UniqueFd(bpf_prog_load(BPF_PROG_TYPE_TRACING, "ss_look", "GPL", kReturn, std::size(kReturn),
                                &options))
      .valid();
}

// Type of a member; null: there is no such member.
const btf_type* MemberOf(const btf* types, const char* name, std::string_view member) {
  const int id = btf__find_by_name_kind(types, name, BTF_KIND_STRUCT);
  if (id < 0) return nullptr;
  const btf_type* type = btf__type_by_id(types, static_cast<uint32_t>(id));
  const btf_member* members = btf_members(type);
  for (size_t i = 0; i < btf_vlen(type); i++)
    if (const char* is = btf__name_by_offset(types, members[i].name_off); is && member == is)
      return btf__type_by_id(types, members[i].type);
  return nullptr;
}

// Is it a pointer to a struct, and not to pointers?
bool PointsToStruct(const btf* types, const btf_type* pointer) {
  while (pointer && (btf_is_mod(pointer) || btf_is_typedef(pointer) || btf_is_type_tag(pointer)))
    pointer = btf__type_by_id(types, pointer->type);
  if (!pointer || !btf_is_ptr(pointer)) return false;
  const btf_type* to = btf__type_by_id(types, pointer->type);
  while (to && (btf_is_mod(to) || btf_is_typedef(to) || btf_is_type_tag(to)))
    to = btf__type_by_id(types, to->type);
  return to && btf_is_struct(to);
}

}  // namespace

void QuotaHooks::Deleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

QuotaWay QuotaHooks::Best(bool fields) {
  QuotaWay way;
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__load_vmlinux_btf(), btf__free);
  if (!types) return way;
  way.has_per_cpu_queues = PointsToStruct(types.get(), MemberOf(types.get(), "task_group", "cfs_rq"));
  if (IsAllowed(types.get(), "tg_throttle_down") && IsAllowed(types.get(), "tg_unthrottle_up"))
    way.view = QuotaView::kHooks;
  else if (fields && MemberOf(types.get(), "task_struct", "throttled") &&
           MemberOf(types.get(), "cfs_rq", "throttled_clock_self_time"))
    way.view = QuotaView::kFields;
  return way;
}

void QuotaHooks::Choose(QuotaView view, bpf_program* throttle, bpf_program* unthrottle) {
  for (bpf_program* program : {throttle, unthrottle}) {
    bpf_program__set_autoload(program, view == QuotaView::kHooks);
    bpf_program__set_autoattach(program, false);
  }
}

bool QuotaHooks::Attach(const bpf_program* throttle, const bpf_program* unthrottle) {
  throttle_.reset(bpf_program__attach(throttle));
  if (throttle_) unthrottle_.reset(bpf_program__attach(unthrottle));
  if (throttle_ && unthrottle_) return true;
  Detach();
  return false;
}

void QuotaHooks::Detach() {
  throttle_.reset();
  unthrottle_.reset();
}

}  // namespace slotscope
