// Errors, the current device and memory of the CUDA runtime, as objects that clean up after themselves.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "mpk/engine/error.hpp"

namespace mpk::engine {

// Throw an Error if a CUDA call failed. `what` completes "CUDA cannot ...".
inline void cuda_check(cudaError_t result, const char* what) {
    if (result == cudaSuccess) return;
    (void)cudaGetLastError();  // the caller of the library is told by status, not by the runtime's last error
    Status status = Status::cuda_error;
    if (result == cudaErrorMemoryAllocation) status = Status::out_of_memory;
    if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver)
        status = Status::unsupported_device;
    fail(status, "CUDA cannot ", what, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")");
}

// Makes a device current and puts the caller's back. Also lets the thread allocate while one of its streams
// is being captured: what is allocated then is not part of the graph.
class CudaScope {
public:
    // device -1: the current one.
    explicit CudaScope(std::int32_t device) {
        int count = 0;
        cuda_check(cudaGetDeviceCount(&count), "find a device");
        if (device < -1 || device >= count) {
            fail(Status::invalid_argument, "options.device is ", device,
                 ", expected -1 (the current one) to ", count - 1);
        }
        cuda_check(cudaGetDevice(&caller_), "read the current device");
        device_ = device < 0 ? caller_ : device;
        if (device_ != caller_) cuda_check(cudaSetDevice(device_), "select the device");
        (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    }
    CudaScope(const CudaScope&) = delete;
    CudaScope& operator=(const CudaScope&) = delete;
    ~CudaScope() {
        (void)cudaThreadExchangeStreamCaptureMode(&mode_);
        if (device_ != caller_) (void)cudaSetDevice(caller_);
    }
    int device() const { return device_; }

private:
    int caller_ = 0;
    int device_ = 0;
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Zeroed device memory.
class DeviceBuffer {
public:
    DeviceBuffer() = default;
    DeviceBuffer(std::size_t bytes, const char* purpose, cudaStream_t stream) {
        if (cudaMalloc(&data_, bytes == 0 ? 1 : bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            std::size_t free = 0;
            std::size_t total = 0;
            (void)cudaMemGetInfo(&free, &total);
            fail(Status::out_of_memory, "cannot allocate ", bytes, " bytes of device memory for ", purpose,
                 "; ", free, " of ", total, " bytes are free");
        }
        const cudaError_t cleared = cudaMemsetAsync(data_, 0, bytes, stream);
        if (cleared != cudaSuccess) (void)cudaFree(data_);
        cuda_check(cleared, "clear device memory");
    }
    DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~DeviceBuffer() {
        if (data_ != nullptr) (void)cudaFree(data_);
    }
    void* data() const { return data_; }

private:
    void* data_ = nullptr;
};

// Zeroed page-locked host memory that the device can read and write too.
class PinnedBuffer {
public:
    PinnedBuffer() = default;
    PinnedBuffer(std::size_t bytes, const char* purpose) {
        if (cudaHostAlloc(&data_, bytes, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
            (void)cudaGetLastError();
            fail(Status::out_of_memory, "cannot allocate ", bytes, " bytes of page-locked host memory for ",
                 purpose);
        }
        std::memset(data_, 0, bytes);
    }
    PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~PinnedBuffer() {
        if (data_ != nullptr) (void)cudaFreeHost(data_);
    }
    void* data() const { return data_; }
    void* device_data() const {
        void* device = nullptr;
        cuda_check(cudaHostGetDevicePointer(&device, data_, 0), "map host memory");
        return device;
    }

private:
    void* data_ = nullptr;
};

class CudaStream {
public:
    // Does not wait for the default stream, nor does that wait for it.
    CudaStream() { cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream"); }
    CudaStream(const CudaStream&) = delete;
    CudaStream& operator=(const CudaStream&) = delete;
    ~CudaStream() { (void)cudaStreamDestroy(stream_); }
    cudaStream_t get() const { return stream_; }
    void synchronize() const { cuda_check(cudaStreamSynchronize(stream_), "finish a copy"); }

private:
    cudaStream_t stream_ = nullptr;
};

class CudaEvent {
public:
    CudaEvent() { cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "make an event"); }
    CudaEvent(const CudaEvent&) = delete;
    CudaEvent& operator=(const CudaEvent&) = delete;
    ~CudaEvent() { (void)cudaEventDestroy(event_); }
    cudaEvent_t get() const { return event_; }

private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace mpk::engine
