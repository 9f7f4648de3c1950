// Errors of the CUDA runtime, and the device that is current while something is set up or taken down.
#pragma once

#include <cuda_runtime.h>

#include "pk/bootstrap/exchange.hpp"

namespace pk::bootstrap::cuda {

inline Status status_of(cudaError_t result) {
    if (result == cudaErrorMemoryAllocation) return Status::out_of_memory;
    if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver)
        return Status::unsupported_device;
    return Status::cuda_error;
}

// Throws if a call failed. `what` completes "cannot ...".
inline void check(cudaError_t result, const char* what) {
    if (result == cudaSuccess) return;
    (void)cudaGetLastError();  // the caller is told by the exception, not by the runtime's last error
    fail(status_of(result), "CUDA cannot ", what, ": ", cudaGetErrorString(result), " (",
         cudaGetErrorName(result), ")");
}

// Makes a device current and puts the caller's back. Also lets this thread allocate while one of its streams
// is being captured.
class DeviceScope {
public:
    explicit DeviceScope(int device) {
        int count = 0;
        check(cudaGetDeviceCount(&count), "find a device");
        if (device < 0 || device >= count) {
            fail(Status::invalid_argument, "the device is ", device, ", expected 0 to ", count - 1);
        }
        check(cudaGetDevice(&caller_), "read the current device");
        check(cudaSetDevice(device), "select the device");
        (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;
    ~DeviceScope() {
        (void)cudaThreadExchangeStreamCaptureMode(&mode_);
        (void)cudaSetDevice(caller_);
    }

private:
    int caller_ = 0;
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// For destructors, which have nobody to tell of a failure: runs `body` with the device current.
template <class Body>
void quietly_on(int device, Body&& body) noexcept {
    try {
        const DeviceScope scope(device);
        body();
    } catch (const Error&) {
        // The driver is going down with the process, and takes the memory along.
    }
    (void)cudaGetLastError();
}

class Stream {
public:
    // Does not wait for the default stream, nor does that wait for it.
    Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream"); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() {
        if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    }
    cudaStream_t get() const { return stream_; }
    void abandon() { stream_ = nullptr; }

private:
    cudaStream_t stream_ = nullptr;
};

// On the current device.
inline void clear(void* data, std::size_t bytes) {
    const Stream stream;
    check(cudaMemsetAsync(data, 0, bytes, stream.get()), "clear peer memory");
    check(cudaStreamSynchronize(stream.get()), "clear peer memory");
}

}  // namespace pk::bootstrap::cuda
