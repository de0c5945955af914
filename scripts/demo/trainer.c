// SPDX-License-Identifier: MIT
/*
 * trainer SECONDS | trainer --hog SECONDS: the programs of the demo.
 *
 * A training loop, as slotscope sees one: a loader makes a batch and sends it through a pipe, the trainer takes it, works
 * on it for 2 ms, launches a kernel of 6 ms, and waits for it. On a GPU, or with the stand-in libraries of tests/cuda,
 * which have no modules: there a kernel takes as many us as it wants bytes of shared memory. With --hog one that only
 * takes CPU time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_US 6000u
#define PREPARE_US 2000u
#define BATCH_US 3000u
#define BATCH_BYTES 4096 // a page: a pipe of two pages is as many batches ahead as a loader is

// Spins for so many ns by the GPU's own clock.
static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry spin(.param .u64 ns)\n{\n"
	".reg .u64 %t<5>;\n.reg .pred %p;\n"
	"ld.param.u64 %t1, [ns];\nmov.u64 %t2, %globaltimer;\n"
	"more:\nmov.u64 %t3, %globaltimer;\nsub.u64 %t4, %t3, %t2;\n"
	"setp.lt.u64 %p, %t4, %t1;\n@%p bra more;\nret;\n}\n";

static int (*init)(unsigned);
static int (*retain)(void **, int);
static int (*set_current)(void *);
static int (*load)(void **, const void *);
static int (*function_of)(void **, void *, const char *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int (*synchronize)(void);

static void *find(void *library, const char *name, bool must)
{
	void *function = dlsym(library, name);

	if (!function && must) {
		fprintf(stderr, "trainer: libcuda.so.1 has no %s\n", name);
		exit(1);
	}
	return function;
}

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "trainer: %s: CUDA says error %d\n", what, error);
	exit(1);
}

static uint64_t now_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

// Of CPU time: who has no CPU takes longer.
static void work(uint64_t us)
{
	const uint64_t end_us = now_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (now_us(CLOCK_THREAD_CPUTIME_ID) < end_us)
		continue;
}

// A child that makes batches as long as they are taken. Returns where they come from.
static int start_loader(void)
{
	static char batch[BATCH_BYTES];
	int ends[2];

	if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, 2 * BATCH_BYTES) < 0) {
		perror("trainer: pipe");
		exit(1);
	}
	if (fork() == 0) {
		cpu_set_t all;

		prctl(PR_SET_NAME, "loader");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CPU_ZERO(&all);
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			CPU_SET(cpu, &all);
		CPU_CLR(0, &all);
		sched_setaffinity(0, sizeof(all), &all); // anywhere but with the trainer; where there is one CPU, there
		do
			work(BATCH_US);
		while (write(ends[1], batch, sizeof(batch)) == sizeof(batch));
		_exit(0);
	}
	close(ends[1]);
	return ends[0];
}

static void *prepare_kernel(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *context, *module, *kernel = &launch; // what the stand-in takes for one

	if (!library) {
		fprintf(stderr, "trainer: %s\n", dlerror());
		exit(1);
	}
	init = find(library, "cuInit", true);
	retain = find(library, "cuDevicePrimaryCtxRetain", true);
	set_current = find(library, "cuCtxSetCurrent", true);
	launch = find(library, "cuLaunchKernel", true);
	synchronize = find(library, "cuCtxSynchronize", true);
	load = find(library, "cuModuleLoadData", false);
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(set_current(context), "cuCtxSetCurrent");
	if (load) {
		function_of = find(library, "cuModuleGetFunction", true);
		check(load(&module, ptx), "cuModuleLoadData");
		check(function_of(&kernel, module, "spin"), "cuModuleGetFunction");
	}
	return kernel;
}

static int train(uint64_t seconds)
{
	const uint64_t end_us = now_us(CLOCK_MONOTONIC) + seconds * 1000000u;
	uint64_t ns = KERNEL_US * 1000u;
	void *parameters[] = { &ns };
	void *kernel = prepare_kernel();
	int batches = start_loader();
	char batch[BATCH_BYTES];

	while (now_us(CLOCK_MONOTONIC) < end_us && read(batches, batch, sizeof(batch)) == sizeof(batch)) {
		work(PREPARE_US);
		check(launch(kernel, 1, 1, 1, 32, 1, 1, load ? 0 : KERNEL_US, NULL, load ? parameters : NULL, NULL),
		      "cuLaunchKernel");
		check(synchronize(), "cuCtxSynchronize");
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && argv[1][0] == '-') {
		prctl(PR_SET_NAME, "compactor");
		work(strtoull(argv[2], NULL, 10) * 1000000u);
		return 0;
	}
	return train(argc > 1 ? strtoull(argv[1], NULL, 10) : 10);
}
