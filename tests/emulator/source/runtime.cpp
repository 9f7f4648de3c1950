#include "emulator/runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/builtins.hpp"
#include "emulator/thread.hpp"
#include "launch.hpp"
#include "memory.hpp"

namespace emulator {

namespace {

// Of a chip with the memory of sm_90.
constexpr int most_shared = 232448;

std::mutex& guard() {
    static std::mutex mutex;
    return mutex;
}

std::map<const void*, Call>& calls() {
    static std::map<const void*, Call> all;
    return all;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

// Clusters of eight that run at the same time.
int clusters() {
    return static_cast<int>(setting("EMULATOR_CLUSTERS", 9));
}

cudaError_t last = cudaSuccess;
cudaError_t say(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

cudaError_t launch(const Shape& shape, const void* kernel, void** arguments) {
    const std::lock_guard lock(guard());
    const auto call = calls().find(kernel);
    if (call == calls().end()) return say(cudaErrorInvalidValue);
    // Every launch has another order.
    static std::uint64_t launches = 0;
    const std::uint64_t seed = setting("EMULATOR_SEED", 1) * 1'000'003 + launches++;
    static std::uint64_t clock = 1'000'000'000;
    Launch one(shape, [&] { call->second(kernel, arguments); }, seed);
    one.clock = clock;
    ::gridDim = shape.grid;
    ::blockDim = shape.threads;
    const bool done = one.run();
    clock = one.clock;
    return say(done ? cudaSuccess : cudaErrorLaunchFailure);
}

}  // namespace

void know_kernel(const void* kernel, Call call) {
    const std::lock_guard lock(guard());
    calls()[kernel] = call;
}

const uint3& block_index() {
    return running->block->index;
}
unsigned char* dynamic_memory() {
    return running->block->memory;
}
void* static_memory(const void* key, std::uint32_t bytes) {
    auto& variable = running->block->variables[key];
    if (variable.empty()) variable.assign(bytes, 0xff);
    return variable.data();
}
std::uint64_t virtual_time() {
    return current->clock;
}

}  // namespace emulator

using namespace emulator;

dim3 blockDim, gridDim;

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidDevice:
            return "invalid device";
        case cudaErrorLaunchFailure:
            return "the emulated kernel could not go on (stderr says why)";
        case cudaErrorNotSupported:
            return "not emulated";
        default:
            return "invalid value";
    }
}
const char* cudaGetErrorName(cudaError_t error) {
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
cudaError_t cudaGetLastError() {
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    switch (which) {
        case cudaDevAttrMultiProcessorCount:
            *value = clusters() * 8 + 4;  // some are left over, as on a real chip
            break;
        case cudaDevAttrComputeCapabilityMajor:
            *value = 9;
            break;
        case cudaDevAttrComputeCapabilityMinor:
            *value = 0;
            break;
        case cudaDevAttrCooperativeLaunch:
            *value = 1;
            break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = most_shared;
            break;
    }
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return say(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    const std::lock_guard lock(guard());
    *memory = allocate_guarded(bytes, 256);
    return say(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
    const std::lock_guard lock(guard());
    free_guarded(memory);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int) {
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
    return cudaFree(memory);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int) {
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = std::size_t{8} << 30;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
    *stream = nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
    *event = nullptr;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned int) {
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = {256};
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
    return say(value <= most_shared ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
    *blocks = 1;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void*, const cudaLaunchConfig_t*) {
    *count = clusters();
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments, std::size_t bytes,
                             cudaStream_t) {
    return launch({grid, threads, 1, static_cast<std::uint32_t>(bytes), false}, kernel, arguments);
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                                        std::size_t bytes, cudaStream_t) {
    return launch({grid, threads, 1, static_cast<std::uint32_t>(bytes), true}, kernel, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
    Shape shape = {config->gridDim, config->blockDim, 1, static_cast<std::uint32_t>(config->dynamicSmemBytes),
                   false};
    for (unsigned int i = 0; i < config->numAttrs; ++i) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            shape.cluster = config->attrs[i].val.clusterDim.x;
        if (config->attrs[i].id == cudaLaunchAttributeCooperative)
            shape.at_once = config->attrs[i].val.cooperative != 0;
    }
    if (shape.cluster > 1) shape.at_once = true;
    return launch(shape, kernel, arguments);
}
