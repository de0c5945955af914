// SPDX-License-Identifier: MIT
// A libcudart.so.13 as nobody would write it, for tests of what probes make of it: it succeeds whatever it is given, and
// its cudaDeviceSynchronize may never return. Memory is numbers only; the driver is the stand-in's.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "standin.h"

/* Done within cudaDeviceSynchronize. */
void (*hostile_within)(void);

static void init_driver(void)
{
	static CUresult (*init)(unsigned int);

	if (init)
		return;
	*(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), "cuInit");
	if (!init || init(0))
		abort();
}

int cudaMalloc(void **address, size_t bytes)
{
	static uintptr_t next = 0x700000000000;

	init_driver();
	*address = (void *)next;
	next += bytes;
	return 0;
}

/* Does not look at the format. */
int cudaMallocArray(CUarray *array, const cudaChannelFormatDesc_c *format, size_t width, size_t height, unsigned int flags)
{
	static uintptr_t next = 0x100;

	(void)format, (void)width, (void)height, (void)flags;
	init_driver();
	*array = (CUarray)next++;
	return 0;
}

int cudaDeviceSynchronize(void)
{
	init_driver();
	if (hostile_within)
		hostile_within();
	return 0;
}
