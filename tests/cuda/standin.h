/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for CUDA's libraries, for machines without a GPU: libcuda.so.1 and libcudart.so.13 with the
 * real functions' names and signatures, that keep books of devices, contexts, memory, streams and
 * events. Kernels take time and do nothing: dynamic shared memory, in bytes, is how many microseconds
 * one runs.
 */
#ifndef SLOTSCOPE_TESTS_CUDA_STANDIN_H
#define SLOTSCOPE_TESTS_CUDA_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  CU_OK = 0,
  CU_INVALID_VALUE = 1,
  CU_OUT_OF_MEMORY = 2,
  CU_NOT_INITIALIZED = 3,
  CU_INVALID_DEVICE = 101,
  CU_INVALID_CONTEXT = 201,
  CU_INVALID_HANDLE = 400,
  CU_NOT_FOUND = 500,
  CU_NOT_READY = 600,
};

/* Of every UUID but the last two bytes: which GPU, and 0 or 1 + the instance. */
#define STANDIN_UUID_TEXT "51075c09-0102-0304-0506-0708090a"
#define STANDIN_UUID_BYTES 0x51, 0x07, 0x5c, 0x09, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

typedef struct {
  unsigned char bytes[16];
} CUuuid_c;

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint64_t CUmemHandle;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUarray_st* CUarray;

#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)
#define CU_STREAM_NON_BLOCKING 1u

typedef struct {
  size_t width, height;
  unsigned format, channels;
} CUarrayDescriptor;

typedef struct {
  size_t width, height, depth;
  unsigned format, channels, flags;
} CUarray3dDescriptor;

typedef struct {
  unsigned type, handle_types;
  struct {
    unsigned type;
    int id;
  } location;
  void* reserved[4];
} CUmemProp;

typedef struct {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
  size_t shared_bytes;
  CUstream stream;
  void* attributes;
  unsigned nr_attributes;
} CUlaunchConfig;

CUresult cuInit(unsigned flags);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetUuid(CUuuid_c* uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid_c* uuid, CUdevice device);
CUresult cuGetProcAddress_v2(const char* name, void** address, int version, uint64_t flags, int* status);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext* context);
CUresult cuCtxGetDevice(CUdevice* device);
CUresult cuCtxSynchronize(void);
CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes);
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes);
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags);
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream);
CUresult cuMemAllocHost_v2(void** address, size_t bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemFreeHost(void* address);
CUresult cuArrayCreate_v2(CUarray* array, const CUarrayDescriptor* descriptor);
CUresult cuArray3DCreate_v2(CUarray* array, const CUarray3dDescriptor* descriptor);
CUresult cuArrayDestroy(CUarray array);
CUresult cuMipmappedArrayCreate(CUarray* array, const CUarray3dDescriptor* descriptor, unsigned levels);
CUresult cuMipmappedArrayDestroy(CUarray array);
CUresult cuMemCreate(CUmemHandle* handle, size_t bytes, const CUmemProp* prop, unsigned long long flags);
CUresult cuMemRelease(CUmemHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemHandle* handle, void* address);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, void** graph);
CUresult cuEventCreate(CUevent* event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventQuery(CUevent event);
CUresult cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernel_ptsz(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, void* function, void** parameters, void** extra);
CUresult cuGraphLaunch(void* graph, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes);

/* The beginning of the real one, which is 1008 bytes. */
typedef struct {
  char name[256];
  CUuuid_c uuid;
  char rest[736];
} cudaDeviceProp_c;

typedef struct {
  unsigned x, y, z;
} dim3_c;
typedef struct {
  size_t width, height, depth;
} cudaExtent_c;
typedef struct {
  void* address;
  size_t pitch, width, height;
} cudaPitchedPtr_c;
typedef struct {
  int x, y, z, w;
  int kind;
} cudaChannelFormatDesc_c;

int cudaSetDevice(int device);
int cudaGetDevice(int* device);
int cudaGetDeviceCount(int* count);
int cudaGetDeviceProperties(cudaDeviceProp_c* properties, int device);
int cudaDeviceReset(void);
int cudaDeviceSynchronize(void);
int cudaMalloc(void** address, size_t bytes);
int cudaMallocManaged(void** address, size_t bytes, unsigned flags);
int cudaMallocHost(void** address, size_t bytes);
int cudaMallocAsync(void** address, size_t bytes, CUstream stream);
int cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height);
int cudaMalloc3D(cudaPitchedPtr_c* pointer, cudaExtent_c extent);
int cudaMallocArray(CUarray* array, const cudaChannelFormatDesc_c* format, size_t width, size_t height,
                    unsigned flags);
int cudaMalloc3DArray(CUarray* array, const cudaChannelFormatDesc_c* format, cudaExtent_c extent,
                      unsigned flags);
int cudaMallocMipmappedArray(CUarray* array, const cudaChannelFormatDesc_c* format, cudaExtent_c extent,
                             unsigned levels, unsigned flags);
int cudaFree(void* address);
int cudaFreeAsync(void* address, CUstream stream);
int cudaFreeHost(void* address);
int cudaFreeArray(CUarray array);
int cudaFreeMipmappedArray(CUarray array);
int cudaStreamCreate(CUstream* stream);
int cudaStreamCreateWithFlags(CUstream* stream, unsigned flags);
int cudaStreamDestroy(CUstream stream);
int cudaStreamSynchronize(CUstream stream);
int cudaStreamQuery(CUstream stream);
int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
int cudaStreamBeginCapture(CUstream stream, int mode);
int cudaStreamEndCapture(CUstream stream, void** graph);
int cudaEventCreate(CUevent* event);
int cudaEventDestroy(CUevent event);
int cudaEventRecord(CUevent event, CUstream stream);
int cudaEventSynchronize(CUevent event);
int cudaEventQuery(CUevent event);
int cudaLaunchKernel(const void* function, dim3_c grid, dim3_c block, void** arguments,
                     size_t shared_bytes, CUstream stream);
int __cudaLaunchKernel(const void* function, dim3_c grid, dim3_c block, void** arguments,
                       size_t shared_bytes, CUstream stream);
int __cudaLaunchKernel_ptsz(const void* function, dim3_c grid, dim3_c block, void** arguments,
                            size_t shared_bytes, CUstream stream);
int cudaLaunchKernelExC(const CUlaunchConfig* config, const void* function, void** arguments);
int cudaGraphLaunch(void* graph, CUstream stream);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);

#ifdef __cplusplus
}
#endif

#endif /* SLOTSCOPE_TESTS_CUDA_STANDIN_H */
