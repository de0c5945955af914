// SPDX-License-Identifier: MIT
// libnvidia-ml.so.1 of the stand-in: the GPUs of libcuda.so.1's, each half full and 37.5% busy by GPM.
// SLOTSCOPE_STANDIN_DEVICES: how many (default 2). SLOTSCOPE_STANDIN_MIG: the last one is divided into two instances.
// SLOTSCOPE_STANDIN_NVML_ERROR: nvmlInit_v2() fails with that. SLOTSCOPE_STANDIN_NAME: the name of the first one.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
#define MAX_DEVICES 8
#define INSTANCES 2

struct device {
	int gpu, instance; /* -1: whole */
};
static struct device devices[MAX_DEVICES][1 + INSTANCES];

static int nr_devices(void)
{
	const char *text = getenv("SLOTSCOPE_STANDIN_DEVICES");
	int nr = text ? atoi(text) : 2;

	return nr > 0 && nr <= MAX_DEVICES ? nr : 2;
}

static int is_divided(int gpu)
{
	return getenv("SLOTSCOPE_STANDIN_MIG") && gpu == nr_devices() - 1;
}

static volatile int released;

/* It hangs no more. */
void standin_nvml_release(void)
{
	released = 1;
}

/*
 * SLOTSCOPE_STANDIN_NVML_HANG: the driver hangs, at once (init) or when it is asked for memory by its newer function
 * (memory).
 */
static void hang(const char *where)
{
	const char *text = getenv("SLOTSCOPE_STANDIN_NVML_HANG");

	if (text && !strcmp(text, where))
		while (!released)
			usleep(1000);
}

int nvmlInit_v2(void)
{
	const char *error = getenv("SLOTSCOPE_STANDIN_NVML_ERROR");

	released = 0;
	hang("init");
	for (int gpu = 0; gpu < MAX_DEVICES; gpu++)
		for (int i = 0; i <= INSTANCES; i++)
			devices[gpu][i] = (struct device){ gpu, i - 1 };
	return error ? atoi(error) : OK;
}

int nvmlShutdown(void)
{
	return OK;
}

const char *nvmlErrorString(int error)
{
	return error == 9 ? "Driver Not Loaded" : "Some Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)nr_devices();
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
	if (index >= (unsigned)nr_devices())
		return INVALID;
	*device = &devices[index][0];
	return OK;
}

int nvmlDeviceGetUUID(struct device *device, char *text, unsigned size)
{
	if (size < 41)
		return TOO_SMALL;
	snprintf(text, size, "%s-%s%02x%02x", device->instance < 0 ? "GPU" : "MIG", STANDIN_UUID_TEXT, device->gpu,
		 device->instance + 1);
	return OK;
}

int nvmlDeviceGetName(struct device *device, char *text, unsigned size)
{
	const char *name = getenv("SLOTSCOPE_STANDIN_NAME");

	snprintf(text, size, "%s", name && device->gpu == 0 ? name : "Stand-in 1G");
	return OK;
}

int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor)
{
	*minor = (unsigned)device->gpu;
	return OK;
}

struct memory {
	uint64_t total, free, used;
};

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory)
{
	const uint64_t total = device->instance < 0 ? 1ull << 30 : 1ull << 28;

	*memory = (struct memory){ total, total / 2, total / 2 };
	return OK;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, void *memory)
{
	(void)device;
	(void)memory;
	hang("memory");
	return NOT_SUPPORTED;
}

struct pci_info {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char text[32];
};

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci_info *info)
{
	memset(info, 0, sizeof(*info));
	info->bus = (unsigned)device->gpu + 1;
	snprintf(info->text, sizeof(info->text), "00000000:%02X:00.0", info->bus);
	return OK;
}

struct process {
	unsigned pid;
	uint64_t bytes;
	unsigned gpu_instance, compute_instance;
};

/* As many processes as SLOTSCOPE_STANDIN_CLIENTS, this one and those behind it. */
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count, struct process *processes)
{
	const char *text = getenv("SLOTSCOPE_STANDIN_CLIENTS");
	const unsigned nr = text ? (unsigned)atoi(text) : 1, room = *count;

	*count = nr;
	if (nr > room)
		return TOO_SMALL;
	for (unsigned i = 0; i < nr; i++)
		processes[i] = (struct process){ (unsigned)getpid() + i, i == 1 ? UINT64_MAX : 1000 + i,
						 (unsigned)device->gpu, 0 };
	return OK;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *mode, unsigned *pending)
{
	*mode = *pending = (unsigned)is_divided(device->gpu);
	return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count)
{
	*count = is_divided(device->gpu) ? 7 : 0;
	return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **instance)
{
	if (!is_divided(device->gpu) || index >= INSTANCES)
		return NOT_FOUND;
	*instance = &devices[device->gpu][1 + index];
	return OK;
}

int nvmlDeviceGetGpuInstanceId(struct device *device, unsigned *id)
{
	*id = (unsigned)device->instance + 1;
	return OK;
}

struct gpm_support {
	unsigned version, supported;
};

int nvmlGpmQueryDeviceSupport(struct device *device, struct gpm_support *support)
{
	(void)device;
	if (support->version != 1)
		return INVALID;
	support->supported = !getenv("SLOTSCOPE_STANDIN_NO_GPM");
	return OK;
}

struct gpm_sample {
	int filled;
};

int nvmlGpmSampleAlloc(struct gpm_sample **sample)
{
	*sample = calloc(1, sizeof(**sample));
	return OK;
}

int nvmlGpmSampleFree(struct gpm_sample *sample)
{
	free(sample);
	return OK;
}

int nvmlGpmSampleGet(struct device *device, struct gpm_sample *sample)
{
	(void)device;
	sample->filled = 1;
	return OK;
}

int nvmlGpmMigSampleGet(struct device *device, unsigned instance, struct gpm_sample *sample)
{
	if (!is_divided(device->gpu) || instance == 0)
		return INVALID;
	sample->filled = 1;
	return OK;
}

struct gpm_metrics {
	unsigned version, nr;
	struct gpm_sample *first, *second;
	struct {
		unsigned id;
		int status;
		double value;
		const char *texts[3];
	} metrics[98];
};

int nvmlGpmMetricsGet(struct gpm_metrics *get)
{
	if (get->version != 1 || !get->first->filled || !get->second->filled)
		return INVALID;
	for (unsigned i = 0; i < get->nr; i++) {
		get->metrics[i].status = get->metrics[i].id == 2 ? OK : NOT_SUPPORTED;
		get->metrics[i].value = 37.5;
	}
	return OK;
}
