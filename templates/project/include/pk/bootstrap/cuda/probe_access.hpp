// Words of peer memory, written and read by a kernel of this rank's device as a real one would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "pk/bootstrap/cuda/scope.hpp"
#include "pk/bootstrap/deadline.hpp"

namespace pk::bootstrap::cuda {

// Volatile accesses of global memory are relaxed ones of system scope; the end of a kernel publishes them.
template <class Word>
__global__ void probe_store(volatile Word* to, Word value) {
    *to = value;
}

template <class Word>
__global__ void probe_load(const volatile Word* from, volatile Word* result, unsigned count) {
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) result[i] = from[i];
}

class ProbeAccess {
public:
    // load() reads up to `most` words.
    ProbeAccess(int device, int rank, std::size_t most, unsigned timeout_ms)
        : rank_(rank), timeout_ms_(timeout_ms), scope_(device) {
        check(cudaHostAlloc(&result_, most * sizeof(std::uint64_t),
                            cudaHostAllocMapped | cudaHostAllocPortable),
              "allocate host memory for the probe");
    }
    ProbeAccess(const ProbeAccess&) = delete;
    ProbeAccess& operator=(const ProbeAccess&) = delete;
    ~ProbeAccess() {
        if (result_ != nullptr) (void)cudaFreeHost(result_);
    }

    void store(char* to, const std::uint64_t* words, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            probe_store<<<1, 1, 0, stream_.get()>>>(reinterpret_cast<std::uint64_t*>(to) + i, words[i]);
            check(cudaGetLastError(), "launch the probe");
        }
        finish();
    }

    void load(const char* from, std::uint64_t* words, std::size_t count) {
        void* result = nullptr;
        check(cudaHostGetDevicePointer(&result, result_, 0), "map host memory");
        probe_load<<<1, 32, 0, stream_.get()>>>(reinterpret_cast<const std::uint64_t*>(from),
                                                static_cast<std::uint64_t*>(result),
                                                static_cast<unsigned>(count));
        check(cudaGetLastError(), "launch the probe");
        finish();
        std::memcpy(words, result_, count * sizeof *words);
    }

private:
    // Waits no longer than it may: an access through a broken mapping can hang. Then stream and buffer stay
    // behind, as giving them back would wait too.
    void finish() {
        const Deadline deadline(timeout_ms_);
        cudaError_t state = cudaStreamQuery(stream_.get());
        while (state == cudaErrorNotReady && !deadline.passed()) {
            std::this_thread::yield();
            state = cudaStreamQuery(stream_.get());
        }
        if (state == cudaErrorNotReady) {
            (void)cudaGetLastError();
            stream_.abandon();
            result_ = nullptr;
            fail(
                Status::timeout, "rank ", rank_, " waited ", timeout_ms_,
                " ms for its own device to access peer memory, expected a device that is not held by another "
                "kernel, and a mapping that works");
        }
        check(state, "access peer memory");
    }

    int rank_;
    unsigned timeout_ms_;
    DeviceScope scope_;
    Stream stream_;
    void* result_ = nullptr;
};

}  // namespace pk::bootstrap::cuda
