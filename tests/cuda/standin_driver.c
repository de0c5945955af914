// SPDX-License-Identifier: MIT
// libcuda.so.1 of the stand-in. SLOTSCOPE_STANDIN_DEVICES: how many GPUs there are (default 2), each with 1 GiB.
// CUDA_VISIBLE_DEVICES as of the real one: numbers, or UUIDs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

#define MAX_DEVICES 8
#define MAX_CONTEXTS 64
#define MAX_DEPTH 16
#define DEVICE_BYTES (1ull << 30)
#define PITCH 512

enum memory { LINEAR = 1, MANAGED, HOST, ARRAY, MIPMAPPED, VIRTUAL };

struct CUctx_st {
	int device;
	bool live, primary;
	int references;
};

struct CUstream_st {
	CUcontext context;
	unsigned flags;
	bool live, capturing;
	uint64_t busy_until_ns;
	struct CUstream_st *next;
};

struct CUevent_st {
	CUstream stream;
	uint64_t done_ns; /* 0: never recorded */
};

struct allocation {
	uint64_t handle;
	uint64_t bytes;
	enum memory kind;
	CUcontext context;
	int device;
	int references, mappings; /* VIRTUAL */
	struct allocation *next;
};

struct mapping {
	uint64_t address, bytes;
	struct allocation *of;
	struct mapping *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized;
static int nr_devices;
static int gpus[MAX_DEVICES]; /* of the machine's, by device */
static uint64_t used[MAX_DEVICES];
static struct CUctx_st contexts[MAX_CONTEXTS]; /* the first MAX_DEVICES are primary */
static struct CUstream_st defaults[MAX_DEVICES];
static struct CUstream_st *streams;
static struct allocation *allocations;
static struct mapping *mappings;
static uint64_t next_address = 0x7f0000000000;
static __thread CUcontext stack[MAX_DEPTH];
static __thread int depth;
static __thread struct CUstream_st own; /* the per-thread default stream */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
}

static CUcontext current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static CUresult add(uint64_t *handle, uint64_t bytes, enum memory kind, int device, CUcontext context)
{
	bool on_device = kind != HOST && kind != MANAGED;
	struct allocation *new;

	if (bytes == 0)
		return CU_INVALID_VALUE;
	if (on_device && used[device] + bytes > DEVICE_BYTES)
		return CU_OUT_OF_MEMORY;
	new = calloc(1, sizeof(*new));
	*new = (struct allocation){ next_address, bytes, kind, context, device, 1, 0, allocations };
	next_address += (bytes + 0xfffff) & ~0xfffffull;
	allocations = new;
	if (on_device)
		used[device] += bytes;
	*handle = new->handle;
	return CU_OK;
}

static struct allocation **find(uint64_t handle)
{
	struct allocation **at = &allocations;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

static void drop(struct allocation **at)
{
	struct allocation *gone = *at;

	if (gone->kind != HOST && gone->kind != MANAGED)
		used[gone->device] -= gone->bytes;
	*at = gone->next;
	free(gone);
}

static CUresult alloc(uint64_t *handle, uint64_t bytes, enum memory kind)
{
	CUcontext context = current();
	CUresult result;

	if (!handle)
		return CU_INVALID_VALUE;
	if (!context || !context->live)
		return CU_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	result = add(handle, bytes, kind, context->device, context);
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult release(uint64_t handle, unsigned kinds)
{
	CUresult result = CU_INVALID_VALUE;
	struct allocation **at;

	pthread_mutex_lock(&lock);
	at = find(handle);
	if (*at && (kinds >> (*at)->kind & 1)) {
		drop(at);
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static void free_all(CUcontext context)
{
	for (struct allocation **at = &allocations; *at;)
		if ((*at)->context == context && (*at)->kind != VIRTUAL)
			drop(at);
		else
			at = &(*at)->next;
	context->live = false;
}

static int find_gpu(const char *entry, size_t length, int nr_gpus)
{
	char text[64];

	if (length == 0 || length >= sizeof(text))
		return -1;
	memcpy(text, entry, length);
	text[length] = '\0';
	if (!strncmp(text, "GPU-" STANDIN_UUID_TEXT, 36) && length == 40)
		return (int)strtol(text + 36, NULL, 16) >> 8;
	return strspn(text, "0123456789") == length && atoi(text) < nr_gpus ? atoi(text) : -1;
}

static void find_devices(void)
{
	const char *text = getenv("SLOTSCOPE_STANDIN_DEVICES"), *visible = getenv("CUDA_VISIBLE_DEVICES");
	const int nr_gpus = text && atoi(text) > 0 && atoi(text) <= MAX_DEVICES ? atoi(text) : 2;

	for (nr_devices = 0; !visible && nr_devices < nr_gpus; nr_devices++)
		gpus[nr_devices] = nr_devices;
	while (visible && nr_devices < MAX_DEVICES) {
		const size_t length = strcspn(visible, ",");
		const int gpu = find_gpu(visible, length, nr_gpus);

		if (gpu < 0)
			break;
		gpus[nr_devices++] = gpu;
		visible = visible[length] ? visible + length + 1 : NULL;
	}
}

CUresult cuInit(unsigned flags)
{
	if (flags)
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!initialized)
		find_devices();
	for (int i = 0; i < MAX_DEVICES; i++) {
		contexts[i].device = i;
		contexts[i].primary = true;
		defaults[i].context = &contexts[i];
		defaults[i].live = true;
	}
	initialized = true;
	pthread_mutex_unlock(&lock);
	return CU_OK;
}

CUresult cuDeviceGetCount(int *count)
{
	if (!initialized)
		return CU_NOT_INITIALIZED;
	*count = nr_devices;
	return CU_OK;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!initialized)
		return CU_NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= nr_devices)
		return CU_INVALID_DEVICE;
	*device = ordinal;
	return CU_OK;
}

static bool bad_device(CUdevice device)
{
	return device < 0 || device >= nr_devices;
}

static CUresult get_uuid(CUuuid_c *uuid, CUdevice device)
{
	if (!uuid || bad_device(device))
		return CU_INVALID_DEVICE;
	*uuid = (CUuuid_c){ { STANDIN_UUID_BYTES, (unsigned char)gpus[device], 0 } };
	return CU_OK;
}

CUresult cuDeviceGetUuid(CUuuid_c *uuid, CUdevice device)
{
	return get_uuid(uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid_c *uuid, CUdevice device)
{
	return get_uuid(uuid, device);
}

/* As the real one: the newest version of a function, at its exported address. */
CUresult cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
	char versioned[128];

	(void)version;
	(void)flags;
	for (int i = 2; i >= 1; i--) {
		strncpy(versioned, name, sizeof(versioned) - 4);
		versioned[sizeof(versioned) - 4] = '\0';
		if (i > 1)
			strcat(versioned, "_v2");
		*address = dlsym(RTLD_DEFAULT, versioned);
		if (*address)
			break;
	}
	if (status)
		*status = *address ? 0 : 1;
	return *address ? CU_OK : CU_NOT_FOUND;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!initialized)
		return CU_NOT_INITIALIZED;
	if (bad_device(device))
		return CU_INVALID_DEVICE;
	if (getenv("SLOTSCOPE_STANDIN_RETAIN_US")) /* a real one takes 100 ms */
		usleep((unsigned)atoi(getenv("SLOTSCOPE_STANDIN_RETAIN_US")));
	pthread_mutex_lock(&lock);
	contexts[device].live = true;
	contexts[device].references++;
	*context = &contexts[device];
	pthread_mutex_unlock(&lock);
	return CU_OK;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	if (bad_device(device))
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	free_all(&contexts[device]);
	contexts[device].live = true;
	pthread_mutex_unlock(&lock);
	return CU_OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult result = CU_OK;

	if (bad_device(device))
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (contexts[device].references == 0)
		result = CU_INVALID_CONTEXT;
	else if (--contexts[device].references == 0)
		free_all(&contexts[device]);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	if (!context || depth == MAX_DEPTH)
		return CU_INVALID_CONTEXT;
	stack[depth++] = context;
	return CU_OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	if (depth == 0)
		return CU_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return CU_OK;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return CU_OK;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	CUresult result = CU_OUT_OF_MEMORY;

	(void)flags;
	if (!initialized)
		return CU_NOT_INITIALIZED;
	if (bad_device(device))
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	for (int i = MAX_DEVICES; i < MAX_CONTEXTS && result; i++)
		if (!contexts[i].live) {
			contexts[i] = (struct CUctx_st){ device, true, false, 1 };
			*context = &contexts[i];
			result = CU_OK;
		}
	pthread_mutex_unlock(&lock);
	return result ? result : cuCtxPushCurrent_v2(*context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!context || !context->live || context->primary)
		return CU_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	free_all(context);
	pthread_mutex_unlock(&lock);
	if (current() == context)
		depth--;
	return CU_OK;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	if (!current())
		return CU_INVALID_CONTEXT;
	*device = current()->device;
	return CU_OK;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	if (!current())
		return CU_INVALID_CONTEXT;
	*free_bytes = DEVICE_BYTES - used[current()->device];
	*total_bytes = DEVICE_BYTES;
	return CU_OK;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	return alloc(address, bytes, LINEAR);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	(void)flags;
	return alloc(address, bytes, MANAGED);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)stream;
	return alloc(address, bytes, LINEAR);
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
	return alloc((uint64_t *)address, bytes, HOST);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
	(void)element;
	*pitch = (width + PITCH - 1) / PITCH * PITCH;
	return alloc(address, *pitch * height, LINEAR);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	return address ? release(address, 1u << LINEAR | 1u << MANAGED) : CU_OK;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	(void)stream;
	return release(address, 1u << LINEAR);
}

CUresult cuMemFreeHost(void *address)
{
	return release((uint64_t)address, 1u << HOST);
}

/* CUarray_format: 1 to 3 and 8 to 10 are integers of 1, 2 and 4 bytes, 0x10 is half, 0x20 float. */
static size_t element_bytes(unsigned format, unsigned channels)
{
	size_t bytes = format == 0x20 ? 4 : format == 0x10 ? 2 : 1ul << ((format & 7) ? (format & 7) - 1 : 0);

	if (format >= 8 && format <= 10)
		bytes = 1ul << (format - 8);
	return bytes * channels;
}

static size_t array_bytes(const CUarray3dDescriptor *of, unsigned levels)
{
	size_t width = of->width, height = of->height, depth_ = of->depth, sum = 0;

	for (unsigned i = 0; i < levels; i++) {
		sum += width * (height ? height : 1) * (depth_ ? depth_ : 1) *
		       element_bytes(of->format, of->channels);
		width = width > 1 ? width / 2 : 1;
		height = height > 1 ? height / 2 : height;
		depth_ = depth_ > 1 ? depth_ / 2 : depth_;
	}
	return sum;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUarray3dDescriptor *descriptor)
{
	return alloc((uint64_t *)array, array_bytes(descriptor, 1), ARRAY);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUarrayDescriptor *descriptor)
{
	CUarray3dDescriptor three = { descriptor->width, descriptor->height, 0, descriptor->format,
				      descriptor->channels, 0 };

	return alloc((uint64_t *)array, array_bytes(&three, 1), ARRAY);
}

CUresult cuArrayDestroy(CUarray array)
{
	return release((uint64_t)array, 1u << ARRAY);
}

CUresult cuMipmappedArrayCreate(CUarray *array, const CUarray3dDescriptor *descriptor, unsigned levels)
{
	return alloc((uint64_t *)array, array_bytes(descriptor, levels), MIPMAPPED);
}

CUresult cuMipmappedArrayDestroy(CUarray array)
{
	return release((uint64_t)array, 1u << MIPMAPPED);
}

CUresult cuMemCreate(CUmemHandle *handle, size_t bytes, const CUmemProp *prop, unsigned long long flags)
{
	CUresult result;

	(void)flags;
	if (!initialized)
		return CU_NOT_INITIALIZED;
	if (prop->location.type == 1 && bad_device(prop->location.id))
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	result = add(handle, bytes, prop->location.type == 1 ? VIRTUAL : HOST, prop->location.id, NULL);
	pthread_mutex_unlock(&lock);
	return result;
}

static void put(struct allocation **at)
{
	if ((*at)->references == 0 && (*at)->mappings == 0)
		drop(at);
}

CUresult cuMemRelease(CUmemHandle handle)
{
	CUresult result = CU_INVALID_VALUE;
	struct allocation **at;

	pthread_mutex_lock(&lock);
	at = find(handle);
	if (*at && (*at)->references > 0) {
		(*at)->references--;
		put(at);
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags)
{
	CUresult result = CU_INVALID_VALUE;
	struct allocation *of;

	(void)offset;
	(void)flags;
	pthread_mutex_lock(&lock);
	of = *find(handle);
	if (of && of->references > 0) {
		struct mapping *new = calloc(1, sizeof(*new));

		*new = (struct mapping){ address, bytes, of, mappings };
		mappings = new;
		of->mappings++;
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static struct mapping **find_mapping(uint64_t address)
{
	struct mapping **at = &mappings;

	while (*at && (address < (*at)->address || address - (*at)->address >= (*at)->bytes))
		at = &(*at)->next;
	return at;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUresult result = CU_INVALID_VALUE;
	struct mapping **at;

	pthread_mutex_lock(&lock);
	while (*(at = find_mapping(address)) && (*at)->bytes <= bytes) {
		struct mapping *gone = *at;

		*at = gone->next;
		gone->of->mappings--;
		put(find(gone->of->handle));
		address += gone->bytes;
		bytes -= gone->bytes;
		free(gone);
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemRetainAllocationHandle(CUmemHandle *handle, void *address)
{
	CUresult result = CU_INVALID_VALUE;
	struct mapping *of;

	pthread_mutex_lock(&lock);
	of = *find_mapping((uint64_t)address);
	if (of) {
		of->of->references++;
		*handle = of->of->handle;
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* Null: not a stream. */
static CUstream stream_of(CUstream handle, bool per_thread)
{
	CUcontext context = current();

	if (!context)
		return NULL;
	if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread)) {
		own.context = context;
		own.live = true;
		return &own;
	}
	if (!handle || handle == CU_STREAM_LEGACY)
		return &defaults[context->device];
	for (CUstream at = streams; at; at = at->next)
		if (at == handle && at->live)
			return at;
	return NULL;
}

/* When all that is in it now is done: the default stream is behind all blocking ones. */
static uint64_t end_of(CUstream stream)
{
	uint64_t end_ns = stream->busy_until_ns;
	int device = stream->context->device;

	if (stream == &defaults[device]) {
		for (CUstream at = streams; at; at = at->next)
			if (at->live && at->context->device == device && !(at->flags & CU_STREAM_NON_BLOCKING) &&
			    at->busy_until_ns > end_ns)
				end_ns = at->busy_until_ns;
	} else if (!(stream->flags & CU_STREAM_NON_BLOCKING) && defaults[device].busy_until_ns > end_ns) {
		end_ns = defaults[device].busy_until_ns;
	}
	return end_ns;
}

static CUresult run(CUstream handle, bool per_thread, uint64_t duration_ns)
{
	CUresult result = CU_INVALID_HANDLE;
	CUstream stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(handle, per_thread);
	if (stream) {
		uint64_t start_ns = now_ns(), end_ns = end_of(stream);

		if (!stream->capturing)
			stream->busy_until_ns = (end_ns > start_ns ? end_ns : start_ns) + duration_ns;
		result = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* A real one is busy for some microseconds, and more where the driver's queue is full. */
static void be_busy(void)
{
	static int us = -1;
	struct timespec now;
	int64_t end_ns;

	if (us < 0)
		us = getenv("SLOTSCOPE_STANDIN_LAUNCH_US") ? atoi(getenv("SLOTSCOPE_STANDIN_LAUNCH_US")) : 0;
	if (us == 0)
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	end_ns = now.tv_sec * 1000000000ll + now.tv_nsec + us * 1000ll;
	while (now.tv_sec * 1000000000ll + now.tv_nsec < end_ns)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

static CUresult launch(const CUlaunchConfig *config, void *function, bool per_thread)
{
	uint64_t blocks = (uint64_t)config->grid_x * config->grid_y * config->grid_z;
	uint64_t threads = (uint64_t)config->block_x * config->block_y * config->block_z;

	if (!function || blocks == 0 || threads == 0 || threads > 1024)
		return CU_INVALID_VALUE;
	be_busy();
	return run(config->stream, per_thread, config->shared_bytes * 1000);
}

CUresult cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
			void **extra)
{
	CUlaunchConfig config = { grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, 0, 0 };

	(void)parameters;
	(void)extra;
	return launch(&config, function, false);
}

CUresult cuLaunchKernel_ptsz(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
			     CUstream stream, void **parameters, void **extra)
{
	CUlaunchConfig config = { grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, 0, 0 };

	(void)parameters;
	(void)extra;
	return launch(&config, function, true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, void *function, void **parameters, void **extra)
{
	(void)parameters;
	(void)extra;
	return launch(config, function, false);
}

/* A graph is how many microseconds it runs. */
CUresult cuGraphLaunch(void *graph, CUstream stream)
{
	return graph ? run(stream, false, (uint64_t)graph * 1000) : CU_INVALID_VALUE;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	if (!current())
		return CU_INVALID_CONTEXT;
	*stream = calloc(1, sizeof(**stream));
	pthread_mutex_lock(&lock);
	**stream = (struct CUstream_st){ current(), flags, true, false, 0, streams };
	streams = *stream;
	pthread_mutex_unlock(&lock);
	return CU_OK;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUstream found;

	pthread_mutex_lock(&lock);
	found = stream_of(stream, false);
	if (found)
		found->live = false; /* not given back: a handle is never used twice */
	pthread_mutex_unlock(&lock);
	return found ? CU_OK : CU_INVALID_HANDLE;
}

static CUresult wait_for(CUstream handle, bool wait)
{
	uint64_t end_ns = 0;
	CUstream stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(handle, false);
	if (stream)
		end_ns = end_of(stream);
	pthread_mutex_unlock(&lock);
	if (!stream)
		return CU_INVALID_HANDLE;
	if (wait)
		sleep_until(end_ns);
	return wait || end_ns <= now_ns() ? CU_OK : CU_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return wait_for(stream, true);
}

CUresult cuStreamQuery(CUstream stream)
{
	return wait_for(stream, false);
}

CUresult cuCtxSynchronize(void)
{
	CUcontext context = current();
	uint64_t end_ns;

	if (!context)
		return CU_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	end_ns = defaults[context->device].busy_until_ns;
	for (CUstream at = streams; at; at = at->next)
		if (at->live && at->context->device == context->device && at->busy_until_ns > end_ns)
			end_ns = at->busy_until_ns;
	pthread_mutex_unlock(&lock);
	if (own.live && own.busy_until_ns > end_ns)
		end_ns = own.busy_until_ns;
	sleep_until(end_ns);
	return CU_OK;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
	CUstream stream;

	(void)flags;
	pthread_mutex_lock(&lock);
	stream = stream_of(handle, false);
	if (stream && stream->busy_until_ns < event->done_ns)
		stream->busy_until_ns = event->done_ns;
	pthread_mutex_unlock(&lock);
	return stream ? CU_OK : CU_INVALID_HANDLE;
}

static CUresult capture(CUstream handle, bool on)
{
	CUstream stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(handle, false);
	if (stream)
		stream->capturing = on;
	pthread_mutex_unlock(&lock);
	return stream ? CU_OK : CU_INVALID_HANDLE;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	(void)mode;
	return capture(stream, true);
}

CUresult cuStreamEndCapture(CUstream stream, void **graph)
{
	*graph = (void *)1;
	return capture(stream, false);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(**event));
	return CU_OK;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	free(event);
	return CU_OK;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
	CUstream stream;

	pthread_mutex_lock(&lock);
	stream = stream_of(handle, false);
	if (stream) {
		event->stream = stream;
		event->done_ns = end_of(stream);
	}
	pthread_mutex_unlock(&lock);
	return stream ? CU_OK : CU_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	sleep_until(event->done_ns);
	return CU_OK;
}

CUresult cuEventQuery(CUevent event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	return event->done_ns <= now_ns() ? CU_OK : CU_NOT_READY;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	(void)from;
	return to && bytes ? wait_for(NULL, true) : CU_INVALID_VALUE;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	(void)to;
	return from && bytes ? wait_for(NULL, true) : CU_INVALID_VALUE;
}
