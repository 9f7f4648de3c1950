// What the kernels of any kind need of a GPU: its SMs, memory of their own, a report, and runs one after the
// other.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pk/bootstrap/cuda/scope.hpp"
#include "pk/engine/copies.hpp"
#include "pk/lcsc/call.hpp"

namespace pk::engine {

namespace cuda {

using bootstrap::cuda::check;
using bootstrap::cuda::DeviceScope;

inline int chosen_device(int given) {
    if (given >= 0) return given;
    if (given != -1) fail(Status::invalid_argument, "options.device is ", given, ", expected -1 or more");
    int device = 0;
    check(cudaGetDevice(&device), "read the current device");
    return device;
}

// The device of a kernel while something is enqueued on it; the caller's comes back. Lighter than
// DeviceScope: nothing here allocates.
class OnDevice {
public:
    explicit OnDevice(int device) : device_(device) {
        check(cudaGetDevice(&caller_), "read the current device");
        if (caller_ != device_) check(cudaSetDevice(device_), "select the device");
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice() {
        if (caller_ != device_) (void)cudaSetDevice(caller_);
    }

private:
    int device_, caller_ = 0;
};

}  // namespace cuda

class CudaDevice {
public:
    static constexpr bool is_cuda = true;

    // Which device a rank is on; the same for ranks that share one.
    struct Place {
        cudaUUID_t device;
        std::uint32_t sms;  // wanted; 0: a fair part
    };

    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    int number() const { return device_; }
    std::uint32_t sms() const { return sms_; }
    std::uint64_t bytes() const { return local_bytes_; }

    Place place() const {
        const cuda::DeviceScope scope(device_);
        cudaDeviceProp properties{};
        cuda::check(cudaGetDeviceProperties(&properties, device_), "read the device's properties");
        return {properties.uuid, wanted_};
    }

    // Ranks agree on how many: who does what goes by it.
    std::uint32_t capacity() const { return sms_; }
    void limit(std::uint32_t sms) { sms_ = std::min(sms_, sms); }

    void wait() const {
        const cuda::OnDevice scope(device_);
        cuda::check(cudaEventSynchronize(done_), "run the kernel");
    }

    // Host memory that the device writes last of all: 2 when the rest of the report is there.
    bool failed() const { return *static_cast<volatile std::uint32_t*>(&report_->state) == 2; }
    lcsc::Report report() const { return *report_; }

protected:
    CudaDevice(std::int32_t device, std::uint32_t sms) : device_(cuda::chosen_device(device)), wanted_(sms) {
        const cuda::DeviceScope scope(device_);
        const int major = attribute(cudaDevAttrComputeCapabilityMajor);
        const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
        if (major != 9 || minor != 0) {
            fail(Status::unsupported_device, "device ", device_, " has compute capability ", major, ".",
                 minor, ", expected 9.0");
        }
    }
    ~CudaDevice() {
        bootstrap::cuda::quietly_on(device_, [this] {
            if (done_ != nullptr) (void)cudaEventSynchronize(done_);
            if (done_ != nullptr) (void)cudaEventDestroy(done_);
            if (local_ != nullptr) (void)cudaFree(local_);
            if (report_ != nullptr) (void)cudaFreeHost(report_);
        });
    }

    int attribute(cudaDeviceAttr which) const {
        int value = 0;
        cuda::check(cudaDeviceGetAttribute(&value, which, device_), "read a device attribute");
        return value;
    }

    // Blocks of all ranks wait for each other, so those of ranks on one device must fit together. most:
    // blocks that can run there at the same time; granule: what their number is a multiple of; least: of each
    // rank.
    void take_part(const std::vector<Place>& places, std::uint32_t rank, std::uint32_t most,
                   std::uint32_t granule, std::uint32_t least) {
        std::uint32_t sharing = 0, asked = 0;
        for (const Place& place : places) {
            if (std::memcmp(&place.device, &places[rank].device, sizeof place.device) != 0) continue;
            ++sharing;
            asked += place.sms;
        }
        sms_ = (wanted_ == 0 ? most / sharing : wanted_) / granule * granule;
        if (asked <= most && sms_ >= least) return;
        fail(Status::invalid_argument, "options.sms of the ", sharing, " ranks on device ", device_, " are ",
             asked, " in all, expected at most ", most,
             ", the blocks that can run there at the same time, and ", least,
             " or more of each rank; 0 gives each its part");
    }

    // State and `cleared` bytes of zeros, then `more`.
    void allocate(std::size_t cleared, std::uint64_t more) {
        local_bytes_ = state_bytes + cleared + more;
        cuda::check(cudaMalloc(&local_, local_bytes_), "allocate the kernel's own memory");
        bootstrap::cuda::clear(local_, state_bytes + cleared);
        void* report = nullptr;
        cuda::check(cudaHostAlloc(&report, sizeof(lcsc::Report), cudaHostAllocMapped | cudaHostAllocPortable),
                    "allocate host memory for a report");
        report_ = static_cast<lcsc::Report*>(report);
        std::memset(report_, 0, sizeof *report_);
        cuda::check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "make an event");
    }
    // What was allocated after the state.
    char* local() const { return static_cast<char*>(local_) + state_bytes; }

    void fill_call(lcsc::Call& call) const {
        call.state = static_cast<lcsc::State*>(local_);
        void* seen = nullptr;
        const cuda::DeviceScope scope(device_);
        cuda::check(cudaHostGetDevicePointer(&seen, report_, 0), "map host memory");
        call.report = static_cast<lcsc::Report*>(seen);
    }

    // One kernel object has one workspace, so a run on another stream waits for the one before. A run that is
    // captured becomes part of the graph: whoever replays it says what it comes after.
    template <class Body>
    void enqueue(void* stream, Body body) {
        const auto s = static_cast<cudaStream_t>(stream);
        const cuda::OnDevice scope(device_);
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        cuda::check(cudaStreamIsCapturing(s, &capture), "use the stream");
        const bool captured = capture != cudaStreamCaptureStatusNone;
        if (!captured) cuda::check(cudaStreamWaitEvent(s, done_, 0), "wait for the run before this one");
        body(s);
        if (!captured) cuda::check(cudaEventRecord(done_, s), "record the end of the run");
    }

    static void copy_rows(const RowCopy& copy, cudaStream_t stream) {
        if (copy.rows == 0) return;
        cuda::check(cudaMemcpy2DAsync(copy.to, copy.to_stride, copy.from, copy.from_stride, copy.row_bytes,
                                      copy.rows, cudaMemcpyDeviceToDevice, stream),
                    "copy rows");
    }

    int device() const { return device_; }

private:
    static constexpr std::size_t state_bytes = 256;
    static_assert(sizeof(lcsc::State) <= state_bytes);

    int device_;
    std::uint32_t wanted_, sms_ = 0;
    void* local_ = nullptr;
    std::uint64_t local_bytes_ = 0;
    lcsc::Report* report_ = nullptr;
    cudaEvent_t done_ = nullptr;  // the end of the last run that was not captured
};

}  // namespace pk::engine
