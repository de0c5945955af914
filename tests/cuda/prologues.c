// SPDX-License-Identifier: MIT
/*
 * Functions of a runtime that do nothing and begin as the compilers of real ones let them begin: what a
 * trap at their entry costs depends on that. As many of each kind, and enough to be taken for a runtime.
 */
#define BEGINS_WITH(name, enter, leave)                                                    \
	__asm__(".pushsection .text\n.globl " name "\n.type " name ", @function\n" name ":\n" \
		enter "\n" leave "\nxor %eax, %eax\nret\n.size " name ", . - " name "\n.popsection")

BEGINS_WITH("cudaFree", "push %rbp", "pop %rbp");
BEGINS_WITH("cudaFreeHost", "push %r15", "pop %r15");
BEGINS_WITH("cudaDeviceSynchronize", "endbr64", "");
BEGINS_WITH("cudaStreamSynchronize", "endbr64", "");
BEGINS_WITH("cudaSetDevice", "sub $8, %rsp", "add $8, %rsp");
BEGINS_WITH("cudaEventSynchronize", "mov %rdi, %r8", "");
