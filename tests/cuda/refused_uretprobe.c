// SPDX-License-Identifier: MIT
/*
 * To be preloaded: plays a kernel whose uretprobes use a system call that filters may refuse. 335 exists, and under
 * any filter it gives the error that the filter of collector/cuda/uretprobe_safety.cc gives.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

long syscall(long number, ...)
{
	long args[6], result;
	va_list list;
	int i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (number == 335 && prctl(PR_GET_SECCOMP) == 2) {
		errno = 3333;
		return -1;
	}
	if (number == 335)
		return 0;
	register long r10 __asm__("r10") = args[3];
	register long r8 __asm__("r8") = args[4];
	register long r9 __asm__("r9") = args[5];

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}
