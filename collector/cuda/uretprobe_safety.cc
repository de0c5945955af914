// SPDX-License-Identifier: MIT
#include "cuda/uretprobe_safety.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "ring/kernel_types.h"

namespace slotscope {
namespace {

// Of x86-64; headers of older kernels do not have them.
constexpr struct {
  long number;
  const char* function;  // of the kernel
} kUretprobeCalls[] = {{335, "__x64_sys_uretprobe"}, {336, "__x64_sys_uprobe"}};
// No kernel has this error.
constexpr unsigned kFilterError = 3333;

// How a child ends that has called it.
enum ChildExit { kAnswered = 0, kIsMissing = 1, kIsRefused = 2, kHasNoFilter = 3, kCannotFilter = 4 };

// Refuses one system call and allows all others.
bool InstallFilter(long system_call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | kFilterError),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// In the child: nothing that a fork of a process with threads may not do.
[[noreturn]] void CallAndExit(long system_call, bool filtered) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // a signal is expected, and no crash report
  if (filtered && !InstallFilter(system_call)) _exit(errno == EINVAL ? kHasNoFilter : kCannotFilter);
  if (syscall(system_call) != -1) _exit(kAnswered);
  if (errno == ENOSYS) _exit(kIsMissing);
  _exit(errno == kFilterError ? kIsRefused : kAnswered);
}

// A wait status; -1 if there is no child to be had.
int StatusOfChild(long system_call, bool filtered) {
  const pid_t child = fork();
  if (child == 0) CallAndExit(system_call, filtered);
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

bool HasExited(int status, ChildExit code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

}  // namespace

FilterVerdict TryUnderFilter(long system_call) {
  const int bare = StatusOfChild(system_call, false);
  if (bare == -1) return FilterVerdict::kUnknown;
  if (HasExited(bare, kIsMissing))
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_DISABLED ? FilterVerdict::kNoSuchCall
                                                                      : FilterVerdict::kHidden;
  const int filtered = StatusOfChild(system_call, true);
  if (filtered == -1 || HasExited(filtered, kCannotFilter)) return FilterVerdict::kUnknown;
  if (HasExited(filtered, kHasNoFilter)) return FilterVerdict::kPasses;  // nobody has one here
  if (HasExited(filtered, kIsRefused) || (WIFSIGNALED(filtered) && WTERMSIG(filtered) == SIGSYS))
    return FilterVerdict::kRefuses;
  return FilterVerdict::kPasses;  // by a signal, too: it was called out of place
}

Status CheckUretprobesAreSafe() {
  for (const auto& call : kUretprobeCalls) {
    FilterVerdict verdict = TryUnderFilter(call.number);
    if (verdict == FilterVerdict::kHidden) {
      // Where the kernel has the call, our filter has just refused it.
      const auto types = KernelTypes::Get();
      if (types->get())
        verdict =
            types->HasFunction(call.function) ? FilterVerdict::kRefuses : FilterVerdict::kNoSuchCall;
    }
    switch (verdict) {
      case FilterVerdict::kNoSuchCall:
      case FilterVerdict::kPasses:
        break;
      case FilterVerdict::kRefuses:
        return {
            Exit::kKernel,
            "on this kernel a container's seccomp filter kills a process that is traced by uretprobes "
            "(known of kernels 6.11 to 6.12.13); update the kernel to trace CUDA"};
      case FilterVerdict::kHidden:
      case FilterVerdict::kUnknown:
        return {Exit::kKernel,
                "it cannot be tried out whether uretprobes are safe here (no child process could try it "
                "under "
                "a seccomp filter of its own); tracing CUDA could kill processes in containers"};
    }
  }
  return {};
}

}  // namespace slotscope
