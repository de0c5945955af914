// SPDX-License-Identifier: MIT
// What /proc says of processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slotscope {

// The tgids of all that this user can see; of a process's task folder, the threads.
std::vector<int32_t> ListProcesses(const char* folder = "/proc");

// Its name, escaped; empty if it is gone.
std::string ReadComm(int32_t tgid);

// When it began, in the kernel's ticks; 0 if it is gone. Another process of the same number has another.
uint64_t ReadStartTicks(int32_t tgid);

// Where its stack begins, which each exec places anew (but where addresses are not random); 0 if it is
// gone, or we may not know.
uint64_t ReadStackStart(int32_t tgid);

// As it was when the program began, and up to 4 MiB of it: a hostile process's is as long as it likes.
// Empty if it is gone, has none, or cannot be read soon.
std::string ReadEnvironment(int32_t tgid);

// 0 if it is gone, or has none.
int32_t ReadParent(int32_t tgid);

}  // namespace slotscope
