// SPDX-License-Identifier: MIT
#include "cuda/calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <unordered_set>

namespace slotscope {
namespace {

using Value = ss_cuda_value;

constexpr Value Constant(uint16_t value) { return {SS_FROM_CONSTANT, 0, value}; }
constexpr Value Arg(uint8_t index) { return {SS_FROM_ARG, index, 0}; }
constexpr Value Arg32(uint8_t index) { return {SS_FROM_ARG32, index, 0}; }
constexpr Value Arg32Pair(uint8_t index) { return {SS_FROM_ARG32_PAIR, index, 0}; }
constexpr Value Stack(uint8_t index) { return {SS_FROM_STACK, index, 0}; }
constexpr Value Stack32(uint8_t index) { return {SS_FROM_STACK32, index, 0}; }
// Of a struct that argument `index` points to.
constexpr Value Field(uint8_t index, uint16_t offset) { return {SS_FROM_MEMORY, index, offset}; }
constexpr Value Field32(uint8_t index, uint16_t offset) { return {SS_FROM_MEMORY32, index, offset}; }
// What the function writes to where argument `index` points.
constexpr Value Result(uint8_t index, uint16_t offset = 0) { return {SS_FROM_RESULT, index, offset}; }
constexpr Value Result32(uint8_t index) { return {SS_FROM_RESULT32, index, 0}; }

constexpr Value kOne = Constant(1);
constexpr Value kNothing = {};

struct Function {
  const char* name;
  ss_cuda_op op;
  std::array<Value, SS_CUDA_NR_VALUES> values;
};

// cudaLaunchConfig_t and CUlaunchConfig: grid 0, block 12, shared memory 24, stream 32.
constexpr std::array<Value, SS_CUDA_NR_VALUES> LaunchByConfig() {
  return {Field(0, 32), Arg(1), Field(0, 0), Field32(0, 8), Field(0, 12), Field32(0, 20)};
}
// (function, grid, block, arguments, shared memory, stream)
constexpr std::array<Value, SS_CUDA_NR_VALUES> LaunchByRuntime() {
  return {Stack(1), Arg(0), Arg(1), Arg32(2), Arg(3), Arg32(4)};
}
// (function, grid x, y, z, block x, y, z, shared memory, stream, ...)
constexpr std::array<Value, SS_CUDA_NR_VALUES> LaunchByDriver() {
  return {Stack(2), Arg(0), Arg32Pair(1), Arg32(3), Arg32Pair(4), Stack32(0)};
}
// (address*, bytes, ...)
constexpr std::array<Value, SS_CUDA_NR_VALUES> Alloc(ss_cuda_memory kind) {
  return {Result(0), Arg(1), kOne, kOne, Constant(static_cast<uint16_t>(kind))};
}
// (address*, pitch*, width, height, ...)
constexpr std::array<Value, SS_CUDA_NR_VALUES> AllocPitch() {
  return {Result(0), Result(1), Arg(3), kOne, Constant(SS_CUDA_LINEAR)};
}
constexpr std::array<Value, SS_CUDA_NR_VALUES> Free(ss_cuda_memory kind) {
  return {Arg(0), Constant(static_cast<uint16_t>(kind))};
}

constexpr uint16_t kMemory = 1, kLaunches = 2;  // see SS_CUDA_UNCOUNTED

const Function kRuntime[] = {
    {"cudaLaunchKernel", SS_CUDA_LAUNCH, LaunchByRuntime()},
    {"__cudaLaunchKernel", SS_CUDA_LAUNCH, LaunchByRuntime()},
    {"cudaLaunchCooperativeKernel", SS_CUDA_LAUNCH, LaunchByRuntime()},
    {"cudaLaunchKernelExC", SS_CUDA_LAUNCH, LaunchByConfig()},
    {"cudaGraphLaunch", SS_CUDA_GRAPH_LAUNCH, {Arg(1), Arg(0)}},

    {"cudaMalloc", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cudaMallocAsync", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cudaMallocFromPoolAsync", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cudaMallocManaged", SS_CUDA_ALLOC, Alloc(SS_CUDA_MANAGED)},
    {"cudaMallocHost", SS_CUDA_ALLOC, Alloc(SS_CUDA_HOST)},
    {"cudaHostAlloc", SS_CUDA_ALLOC, Alloc(SS_CUDA_HOST)},
    {"cudaMallocPitch", SS_CUDA_ALLOC, AllocPitch()},
    // (cudaPitchedPtr*, cudaExtent): the pitch is what the function chose.
    {"cudaMalloc3D",
     SS_CUDA_ALLOC,
     {Result(0), Result(0, 8), Stack(1), Stack(2), Constant(SS_CUDA_LINEAR)}},
    // (array*, cudaChannelFormatDesc*, ...)
    {"cudaMallocArray",
     SS_CUDA_ALLOC_ARRAY,
     {Result(0), Arg(2), Arg(3), kOne, Field(1, 0), Field(1, 8), kOne}},
    {"cudaMalloc3DArray",
     SS_CUDA_ALLOC_ARRAY,
     {Result(0), Stack(0), Stack(1), Stack(2), Field(1, 0), Field(1, 8), kOne}},
    {"cudaMallocMipmappedArray",
     SS_CUDA_ALLOC_ARRAY,
     {Result(0), Stack(0), Stack(1), Stack(2), Field(1, 0), Field(1, 8), Arg32(2)}},

    {"cudaFree", SS_CUDA_FREE, Free(SS_CUDA_LINEAR)},
    {"cudaFreeAsync", SS_CUDA_FREE, Free(SS_CUDA_LINEAR)},
    {"cudaFreeHost", SS_CUDA_FREE, Free(SS_CUDA_HOST)},
    {"cudaFreeArray", SS_CUDA_FREE, Free(SS_CUDA_ARRAY)},
    {"cudaFreeMipmappedArray", SS_CUDA_FREE, Free(SS_CUDA_MIPMAPPED_ARRAY)},

    {"cudaSetDevice", SS_CUDA_SET_DEVICE, {Arg32(0)}},
    {"cudaGetDevice", SS_CUDA_GOT_DEVICE, {Result32(0)}},
    {"cudaDeviceReset", SS_CUDA_RESET, {}},

    {"cudaStreamSynchronize", SS_CUDA_STREAM_DONE, {Arg(0)}},
    {"cudaStreamQuery", SS_CUDA_STREAM_DONE, {Arg(0)}},
    {"cudaDeviceSynchronize", SS_CUDA_DEVICE_DONE, {}},
    {"cudaEventSynchronize", SS_CUDA_EVENT_DONE, {Arg(0)}},
    {"cudaEventQuery", SS_CUDA_EVENT_DONE, {Arg(0)}},
    {"cudaEventRecord", SS_CUDA_EVENT_RECORD, {Arg(0), Arg(1)}},
    {"cudaEventRecordWithFlags", SS_CUDA_EVENT_RECORD, {Arg(0), Arg(1)}},
    {"cudaEventDestroy", SS_CUDA_EVENT_DESTROY, {Arg(0)}},
    {"cudaStreamCreate", SS_CUDA_STREAM_CREATE, {Result(0)}},
    {"cudaStreamCreateWithFlags", SS_CUDA_STREAM_CREATE, {Result(0), Arg32(1)}},
    {"cudaStreamCreateWithPriority", SS_CUDA_STREAM_CREATE, {Result(0), Arg32(1)}},
    {"cudaStreamDestroy", SS_CUDA_STREAM_DESTROY, {Arg(0)}},
    {"cudaStreamWaitEvent", SS_CUDA_STREAM_WAIT, {Arg(0), Arg(1)}},
    {"cudaStreamBeginCapture", SS_CUDA_CAPTURE_BEGIN, {Arg(0)}},
    {"cudaStreamBeginCaptureToGraph", SS_CUDA_CAPTURE_BEGIN, {Arg(0)}},
    {"cudaStreamEndCapture", SS_CUDA_CAPTURE_END, {Arg(0)}},

    // (destination, source, bytes, kind), and what has its kind and its bytes elsewhere.
    {"cudaMemcpy", SS_CUDA_COPY_DONE, {Arg32(3), Arg(2)}},
    {"cudaMemcpy2D", SS_CUDA_COPY_DONE, {Stack32(0), kNothing}},
    {"cudaMemcpyToSymbol", SS_CUDA_COPY_DONE, {Arg32(4), Arg(2)}},
    {"cudaMemcpyFromSymbol", SS_CUDA_COPY_DONE, {Arg32(4), Arg(2)}},

    {"cudaGraphAddMemAllocNode", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cudaImportExternalMemory", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
};

const Function kDriver[] = {
    {"cuInit", SS_CUDA_INIT, {}},
    // (CUuuid*, device); that of a MIG instance says only the second.
    {"cuDeviceGetUuid", SS_CUDA_DEVICE_IS, {Arg32(1), Result(0), Result(0, 8)}},
    {"cuDeviceGetUuid_v2", SS_CUDA_DEVICE_IS, {Arg32(1), Result(0), Result(0, 8)}},
    {"cuLaunchKernel", SS_CUDA_LAUNCH, LaunchByDriver()},
    {"cuLaunchCooperativeKernel", SS_CUDA_LAUNCH, LaunchByDriver()},
    {"cuLaunchKernelEx", SS_CUDA_LAUNCH, LaunchByConfig()},
    {"cuGraphLaunch", SS_CUDA_GRAPH_LAUNCH, {Arg(1), Arg(0)}},

    {"cuMemAlloc_v2", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cuMemAllocAsync", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cuMemAllocFromPoolAsync", SS_CUDA_ALLOC, Alloc(SS_CUDA_LINEAR)},
    {"cuMemAllocManaged", SS_CUDA_ALLOC, Alloc(SS_CUDA_MANAGED)},
    {"cuMemAllocHost_v2", SS_CUDA_ALLOC, Alloc(SS_CUDA_HOST)},
    {"cuMemHostAlloc", SS_CUDA_ALLOC, Alloc(SS_CUDA_HOST)},
    {"cuMemAllocPitch_v2", SS_CUDA_ALLOC, AllocPitch()},
    // CUDA_ARRAY_DESCRIPTOR: width 0, height 8, format 16, channels 20.
    {"cuArrayCreate_v2",
     SS_CUDA_ALLOC_DRIVER_ARRAY,
     {Result(0), Field(1, 0), Field(1, 8), kOne, Field(1, 16), kNothing, kOne}},
    // CUDA_ARRAY3D_DESCRIPTOR: width 0, height 8, depth 16, format 24, channels 28.
    {"cuArray3DCreate_v2",
     SS_CUDA_ALLOC_DRIVER_ARRAY,
     {Result(0), Field(1, 0), Field(1, 8), Field(1, 16), Field(1, 24), kNothing, kOne}},
    {"cuMipmappedArrayCreate",
     SS_CUDA_ALLOC_DRIVER_ARRAY,
     {Result(0), Field(1, 0), Field(1, 8), Field(1, 16), Field(1, 24), kNothing, Arg32(2)}},

    {"cuMemFree_v2", SS_CUDA_FREE, Free(SS_CUDA_LINEAR)},
    {"cuMemFreeAsync", SS_CUDA_FREE, Free(SS_CUDA_LINEAR)},
    {"cuMemFreeHost", SS_CUDA_FREE, Free(SS_CUDA_HOST)},
    {"cuArrayDestroy", SS_CUDA_FREE, Free(SS_CUDA_ARRAY)},
    {"cuMipmappedArrayDestroy", SS_CUDA_FREE, Free(SS_CUDA_MIPMAPPED_ARRAY)},

    // CUmemAllocationProp: location.type 8, location.id 12.
    {"cuMemCreate", SS_CUDA_MEM_CREATE, {Result(0), Arg(1), Field(2, 8)}},
    {"cuMemRelease", SS_CUDA_MEM_RELEASE, {Arg(0)}},
    {"cuMemMap", SS_CUDA_MEM_MAP, {Arg(0), Arg(1), Arg(3)}},
    {"cuMemUnmap", SS_CUDA_MEM_UNMAP, {Arg(0), Arg(1)}},
    {"cuMemRetainAllocationHandle", SS_CUDA_MEM_RETAIN, {Result(0), Arg(1)}},
    {"cuMemImportFromShareableHandle", SS_CUDA_MEM_IMPORT, {Result(0)}},

    {"cuCtxCreate_v2", SS_CUDA_CTX_CREATE, {Result(0), Arg32(2)}},
    {"cuCtxCreate_v3", SS_CUDA_CTX_CREATE, {Result(0), Arg32(4)}},
    {"cuCtxCreate_v4", SS_CUDA_CTX_CREATE, {Result(0), Arg32(3)}},
    {"cuCtxDestroy_v2", SS_CUDA_CTX_DESTROY, {Arg(0)}},
    {"cuCtxSetCurrent", SS_CUDA_CTX_SET, {Arg(0)}},
    {"cuCtxPushCurrent_v2", SS_CUDA_CTX_PUSH, {Arg(0)}},
    {"cuCtxPopCurrent_v2", SS_CUDA_CTX_POP, {Result(0)}},
    {"cuCtxGetDevice", SS_CUDA_GOT_DEVICE, {Result32(0)}},
    {"cuDevicePrimaryCtxRetain", SS_CUDA_CTX_RETAIN, {Result(0), Arg32(1)}},
    {"cuDevicePrimaryCtxRelease_v2", SS_CUDA_CTX_RELEASE, {Arg32(0)}},
    {"cuDevicePrimaryCtxReset_v2", SS_CUDA_CTX_RESET, {Arg32(0)}},

    {"cuStreamSynchronize", SS_CUDA_STREAM_DONE, {Arg(0)}},
    {"cuStreamQuery", SS_CUDA_STREAM_DONE, {Arg(0)}},
    {"cuCtxSynchronize", SS_CUDA_DEVICE_DONE, {}},
    {"cuCtxSynchronize_v2", SS_CUDA_DEVICE_DONE, {Arg(0)}},
    {"cuEventSynchronize", SS_CUDA_EVENT_DONE, {Arg(0)}},
    {"cuEventQuery", SS_CUDA_EVENT_DONE, {Arg(0)}},
    {"cuEventRecord", SS_CUDA_EVENT_RECORD, {Arg(0), Arg(1)}},
    {"cuEventRecordWithFlags", SS_CUDA_EVENT_RECORD, {Arg(0), Arg(1)}},
    {"cuEventDestroy_v2", SS_CUDA_EVENT_DESTROY, {Arg(0)}},
    {"cuStreamCreate", SS_CUDA_STREAM_CREATE, {Result(0), Arg32(1)}},
    {"cuStreamCreateWithPriority", SS_CUDA_STREAM_CREATE, {Result(0), Arg32(1)}},
    {"cuStreamDestroy_v2", SS_CUDA_STREAM_DESTROY, {Arg(0)}},
    {"cuStreamWaitEvent", SS_CUDA_STREAM_WAIT, {Arg(0), Arg(1)}},
    {"cuStreamBeginCapture_v2", SS_CUDA_CAPTURE_BEGIN, {Arg(0)}},
    {"cuStreamBeginCaptureToGraph", SS_CUDA_CAPTURE_BEGIN, {Arg(0)}},
    {"cuStreamEndCapture", SS_CUDA_CAPTURE_END, {Arg(0)}},

    // By cudaMemcpyKind: 1 to the device, 2 to the host, 3 on devices, 4 by the addresses.
    {"cuMemcpy", SS_CUDA_COPY_DONE, {Constant(4), Arg(2)}},
    {"cuMemcpyHtoD_v2", SS_CUDA_COPY_DONE, {Constant(1), Arg(2)}},
    {"cuMemcpyDtoH_v2", SS_CUDA_COPY_DONE, {Constant(2), Arg(2)}},

    {"cuGraphAddMemAllocNode", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuImportExternalMemory", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuMemMapArrayAsync", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuGreenCtxCreate", SS_CUDA_UNCOUNTED, {Constant(kLaunches)}},
    // Of CUDA 3 and before: other sizes of arguments, or none of what a launch needs.
    {"cuMemAlloc", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuMemAllocPitch", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuArrayCreate", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuArray3DCreate", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuMemFree", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuCtxCreate", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuCtxDestroy", SS_CUDA_UNCOUNTED, {Constant(kMemory)}},
    {"cuLaunch", SS_CUDA_UNCOUNTED, {Constant(kLaunches)}},
    {"cuLaunchGrid", SS_CUDA_UNCOUNTED, {Constant(kLaunches)}},
    {"cuLaunchGridAsync", SS_CUDA_UNCOUNTED, {Constant(kLaunches)}},
    {"cuLaunchCooperativeKernelMultiDevice", SS_CUDA_UNCOUNTED, {Constant(kLaunches)}},
};

// Names that look like a gap, and are none: they ask, prepare, or work on what has been counted.
const char* const kHarmless[] = {
    "cudaLaunchHostFunc",  // on the host
    "cuLaunchHostFunc",
    "cudaMallocInit",
    "cuMemAllocHost",      // memory of the host is not counted
    "cuIpcOpenMemHandle",  // another process's memory is not counted
    "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle",
    "cudaLaunchHostFunc_ptsz",
    "cuLaunchHostFunc_ptsz",
    // Addresses of memory that has been counted.
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastBindAddr",
    "cuMulticastUnbind",
    "cuMulticastGetGranularity",
};

constexpr std::string_view kGapPrefixes[] = {"cudaLaunch",
                                             "__cudaLaunch",
                                             "cuLaunch",
                                             "cudaGraphLaunch",
                                             "cuGraphLaunch",
                                             "cudaMalloc",
                                             "cuMemAlloc",
                                             "cudaHostAlloc",
                                             "cudaFree",
                                             "cuMemFree",
                                             "cuMemCreate",
                                             "cuMemRelease",
                                             "cuMemMap",
                                             "cuMemUnmap",
                                             "cuArrayCreate",
                                             "cuArray3DCreate",
                                             "cuMipmappedArrayCreate",
                                             "cuArrayDestroy",
                                             "cuMipmappedArrayDestroy",
                                             "cuCtxCreate",
                                             "cuCtxDestroy",
                                             "cuGreenCtxCreate",
                                             "cuMulticast",
                                             "cudaImportExternalMemory"};

void Append(std::vector<CudaCall>* calls, const Function& function, uint16_t flags) {
  CudaCall call = {function.name, {static_cast<uint16_t>(function.op), flags, 0, 0, {}}};
  for (uint16_t i = 0; i < SS_CUDA_NR_VALUES; i++) {
    const Value value = call.probe.values[i] = function.values[i];
    if (value.from != SS_FROM_NOTHING) call.probe.nr_values = i + 1;
    if (value.from == SS_FROM_RESULT || value.from == SS_FROM_RESULT32) call.probe.results |= 1u << i;
  }
  calls->push_back(call);
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    call.name = std::string(function.name) + suffix;
    call.probe.flags = flags | SS_CUDA_PER_THREAD;
    calls->push_back(call);
  }
}

std::vector<CudaCall> MakeCalls() {
  std::vector<CudaCall> calls;
  for (const Function& function : kRuntime) Append(&calls, function, 0);
  for (const Function& function : kDriver) Append(&calls, function, SS_CUDA_DRIVER);
  return calls;
}

}  // namespace

const std::vector<CudaCall>& CudaCalls() {
  static const std::vector<CudaCall> calls = MakeCalls();
  return calls;
}

bool IsCudaGap(std::string_view symbol) {
  static const std::unordered_set<std::string_view> known = [] {
    std::unordered_set<std::string_view> names(std::begin(kHarmless), std::end(kHarmless));
    for (const CudaCall& call : CudaCalls()) names.insert(call.name);
    return names;
  }();
  // A compiler's own, as .cold and .localalias, are parts of functions that have a name; and what C
  // cannot call (a symbol table holds any bytes) is no function of CUDA.
  auto in_identifier = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return std::all_of(symbol.begin(), symbol.end(), in_identifier) && !known.contains(symbol) &&
         std::any_of(std::begin(kGapPrefixes), std::end(kGapPrefixes),
                     [&](std::string_view prefix) { return symbol.starts_with(prefix); });
}

}  // namespace slotscope
