// SPDX-License-Identifier: MIT
#include "ring/quota_hooks.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <iterator>

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

}  // namespace

void QuotaHooks::Deleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

QuotaWay QuotaHooks::Best(const KernelTypes& types, bool fields) {
  QuotaWay way;
  if (!types.get()) return way;
  way.has_per_cpu_queues = types.PointsToStruct(types.MemberOf("task_group", "cfs_rq"));
  if (way.has_per_cpu_queues && !types.HasVariable("this_cpu_off")) return way;
  if (IsAllowed(types.get(), "tg_throttle_down") && IsAllowed(types.get(), "tg_unthrottle_up"))
    way.view = QuotaView::kHooks;
  else if (fields && types.MemberOf("task_struct", "throttled") &&
           types.MemberOf("cfs_rq", "throttled_clock_self_time"))
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
