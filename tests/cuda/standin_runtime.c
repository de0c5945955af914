// SPDX-License-Identifier: MIT
// libcudart.so.13 of the stand-in. As the real one it opens the driver, asks it for its functions and calls them
// through pointers; and __cudaLaunchKernel, which nvcc makes of <<<>>>, calls cudaLaunchKernel.
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "standin.h"

#define MAX_DEVICES 8
#define INSUFFICIENT_DRIVER 35

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUcontext primary[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool usable;
static CUresult (*get_address)(const char *name, void **address, int version, uint64_t flags, int *status);
static __thread int device;
static __thread bool bound; /* this thread has a context */

static void open_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (driver)
		*(void **)&get_address = dlsym(driver, "cuGetProcAddress_v2");
	usable = get_address;
}

/* The driver's function of that name. */
static void *driver(const char *name)
{
	void *address = NULL;

	get_address(name, &address, 13000, 0, NULL);
	if (!address)
		abort();
	return address;
}

#define DRIVER(name) ((__typeof__(&name))driver(#name))
/* Without the version in the name. */
#define DRIVER2(name) ((__typeof__(&name##_v2))driver(#name))

/* The first call of a thread makes its device's primary context current. */
static int bind_thread(void)
{
	CUresult result = CU_OK;

	pthread_once(&once, open_driver);
	if (!usable)
		return INSUFFICIENT_DRIVER;
	if (bound)
		return 0;
	pthread_mutex_lock(&lock);
	if (!primary[device]) {
		result = DRIVER(cuInit)(0);
		if (!result)
			result = DRIVER(cuDevicePrimaryCtxRetain)(&primary[device], device);
	}
	pthread_mutex_unlock(&lock);
	if (!result)
		result = DRIVER(cuCtxSetCurrent)(primary[device]);
	bound = !result;
	return result;
}

#define BOUND(call)                       \
	do {                              \
		int error = bind_thread(); \
                                          \
		return error ? error : (call); \
	} while (0)

int cudaSetDevice(int to)
{
	int error, before = device;

	if (to < 0 || to >= MAX_DEVICES)
		return CU_INVALID_DEVICE;
	device = to;
	bound = false;
	error = bind_thread();
	if (error)
		device = before;
	return error;
}

int cudaGetDevice(int *to)
{
	int error = bind_thread();

	if (!error)
		*to = device;
	return error;
}

int cudaGetDeviceCount(int *count)
{
	BOUND(DRIVER(cuDeviceGetCount)(count));
}

int cudaGetDeviceProperties(cudaDeviceProp_c *properties, int of)
{
	BOUND(DRIVER(cuDeviceGetUuid)(&properties->uuid, of));
}

int cudaDeviceReset(void)
{
	BOUND(DRIVER2(cuDevicePrimaryCtxReset)(device));
}

int cudaDeviceSynchronize(void)
{
	BOUND(DRIVER(cuCtxSynchronize)());
}

int cudaMalloc(void **address, size_t bytes)
{
	BOUND(DRIVER2(cuMemAlloc)((CUdeviceptr *)address, bytes));
}

int cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
	BOUND(DRIVER(cuMemAllocManaged)((CUdeviceptr *)address, bytes, flags));
}

int cudaMallocHost(void **address, size_t bytes)
{
	BOUND(DRIVER2(cuMemAllocHost)(address, bytes));
}

int cudaMallocAsync(void **address, size_t bytes, CUstream stream)
{
	BOUND(DRIVER(cuMemAllocAsync)((CUdeviceptr *)address, bytes, stream));
}

int cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
	BOUND(DRIVER2(cuMemAllocPitch)((CUdeviceptr *)address, pitch, width, height, 4));
}

int cudaMalloc3D(cudaPitchedPtr_c *pointer, cudaExtent_c extent)
{
	pointer->width = extent.width;
	pointer->height = extent.height;
	BOUND(DRIVER2(cuMemAllocPitch)((CUdeviceptr *)&pointer->address, &pointer->pitch, extent.width,
				       extent.height * extent.depth, 4));
}

static CUarray3dDescriptor describe(const cudaChannelFormatDesc_c *format, cudaExtent_c extent)
{
	CUarray3dDescriptor of = { extent.width, extent.height, extent.depth, 0, 0, 0 };

	of.format = format->x == 32 ? 3 : format->x == 16 ? 2 : 1;
	of.channels = (format->x > 0) + (format->y > 0) + (format->z > 0) + (format->w > 0);
	return of;
}

int cudaMallocArray(CUarray *array, const cudaChannelFormatDesc_c *format, size_t width, size_t height,
		    unsigned flags)
{
	CUarray3dDescriptor of = describe(format, (cudaExtent_c){ width, height, 0 });

	(void)flags;
	BOUND(DRIVER2(cuArray3DCreate)(array, &of));
}

int cudaMalloc3DArray(CUarray *array, const cudaChannelFormatDesc_c *format, cudaExtent_c extent, unsigned flags)
{
	CUarray3dDescriptor of = describe(format, extent);

	(void)flags;
	BOUND(DRIVER2(cuArray3DCreate)(array, &of));
}

int cudaMallocMipmappedArray(CUarray *array, const cudaChannelFormatDesc_c *format, cudaExtent_c extent,
			     unsigned levels, unsigned flags)
{
	CUarray3dDescriptor of = describe(format, extent);

	(void)flags;
	BOUND(DRIVER(cuMipmappedArrayCreate)(array, &of, levels));
}

int cudaFree(void *address)
{
	BOUND(DRIVER2(cuMemFree)((CUdeviceptr)address));
}

int cudaFreeAsync(void *address, CUstream stream)
{
	BOUND(DRIVER(cuMemFreeAsync)((CUdeviceptr)address, stream));
}

int cudaFreeHost(void *address)
{
	BOUND(DRIVER(cuMemFreeHost)(address));
}

int cudaFreeArray(CUarray array)
{
	BOUND(DRIVER(cuArrayDestroy)(array));
}

int cudaFreeMipmappedArray(CUarray array)
{
	BOUND(DRIVER(cuMipmappedArrayDestroy)(array));
}

int cudaStreamCreate(CUstream *stream)
{
	BOUND(DRIVER(cuStreamCreate)(stream, 0));
}

int cudaStreamCreateWithFlags(CUstream *stream, unsigned flags)
{
	BOUND(DRIVER(cuStreamCreate)(stream, flags));
}

int cudaStreamDestroy(CUstream stream)
{
	BOUND(DRIVER2(cuStreamDestroy)(stream));
}

int cudaStreamSynchronize(CUstream stream)
{
	BOUND(DRIVER(cuStreamSynchronize)(stream));
}

int cudaStreamQuery(CUstream stream)
{
	BOUND(DRIVER(cuStreamQuery)(stream));
}

int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	BOUND(DRIVER(cuStreamWaitEvent)(stream, event, flags));
}

int cudaStreamBeginCapture(CUstream stream, int mode)
{
	BOUND(DRIVER2(cuStreamBeginCapture)(stream, mode));
}

int cudaStreamEndCapture(CUstream stream, void **graph)
{
	BOUND(DRIVER(cuStreamEndCapture)(stream, graph));
}

int cudaEventCreate(CUevent *event)
{
	BOUND(DRIVER(cuEventCreate)(event, 0));
}

int cudaEventDestroy(CUevent event)
{
	BOUND(DRIVER2(cuEventDestroy)(event));
}

int cudaEventRecord(CUevent event, CUstream stream)
{
	BOUND(DRIVER(cuEventRecord)(event, stream));
}

int cudaEventSynchronize(CUevent event)
{
	BOUND(DRIVER(cuEventSynchronize)(event));
}

int cudaEventQuery(CUevent event)
{
	BOUND(DRIVER(cuEventQuery)(event));
}

int cudaLaunchKernel(const void *function, dim3_c grid, dim3_c block, void **arguments, size_t shared_bytes,
		     CUstream stream)
{
	BOUND(DRIVER(cuLaunchKernel)((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
				     (unsigned)shared_bytes, stream, arguments, NULL));
}

int cudaLaunchKernel_ptsz(const void *function, dim3_c grid, dim3_c block, void **arguments,
			  size_t shared_bytes, CUstream stream)
{
	BOUND(DRIVER(cuLaunchKernel_ptsz)((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
					  (unsigned)shared_bytes, stream, arguments, NULL));
}

int __cudaLaunchKernel(const void *function, dim3_c grid, dim3_c block, void **arguments, size_t shared_bytes,
		       CUstream stream)
{
	return cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
}

int __cudaLaunchKernel_ptsz(const void *function, dim3_c grid, dim3_c block, void **arguments,
			    size_t shared_bytes, CUstream stream)
{
	return cudaLaunchKernel_ptsz(function, grid, block, arguments, shared_bytes, stream);
}

int cudaLaunchKernelExC(const CUlaunchConfig *config, const void *function, void **arguments)
{
	BOUND(DRIVER(cuLaunchKernelEx)(config, (void *)function, arguments, NULL));
}

int cudaGraphLaunch(void *graph, CUstream stream)
{
	BOUND(DRIVER(cuGraphLaunch)(graph, stream));
}

/* One call, several of the driver's. */
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	int error = bind_thread();

	if (!error && kind == 1)
		error = DRIVER2(cuMemcpyHtoD)((CUdeviceptr)to, from, bytes);
	else if (!error && kind == 2)
		error = DRIVER2(cuMemcpyDtoH)(to, (CUdeviceptr)from, bytes);
	else if (!error && kind != 3)
		error = CU_INVALID_VALUE;
	return error ? error : kind == 3 ? 0 : DRIVER(cuStreamSynchronize)(NULL);
}
