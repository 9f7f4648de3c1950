// Runs a kernel on a GPU: one launch a run, as many blocks as fit at the same time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "pk/bootstrap/cuda/scope.hpp"
#include "pk/engine/outputs.hpp"
#include "pk/engine/tensor_maps.hpp"
#include "pk/engine/weights.hpp"
#include "pk/lcsc/kernel.hpp"

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

template <class C>
class CudaBackend {
    using L = lcsc::Layout<C>;

public:
    static constexpr bool is_cuda = true;

    // Which device a rank is on; the same for ranks that share one.
    struct Place {
        cudaUUID_t device;
        std::uint32_t sms;  // wanted; 0: a fair part
    };

    CudaBackend(std::int32_t device, std::uint32_t sms, std::uint32_t blocks)
        : device_(cuda::chosen_device(device)), blocks_(blocks), wanted_(sms) {
        const cuda::DeviceScope scope(device_);
        check_device();
        maps_.emplace();
    }
    ~CudaBackend() {
        bootstrap::cuda::quietly_on(device_, [this] {
            if (done_ != nullptr) (void)cudaEventSynchronize(done_);
            if (done_ != nullptr) (void)cudaEventDestroy(done_);
            if (local_ != nullptr) (void)cudaFree(local_);
            if (report_ != nullptr) (void)cudaFreeHost(report_);
        });
    }
    CudaBackend(const CudaBackend&) = delete;
    CudaBackend& operator=(const CudaBackend&) = delete;

    int number() const { return device_; }
    std::uint32_t sms() const { return sms_; }
    std::uint64_t bytes() const { return local_bytes_; }

    Place place() const {
        const cuda::DeviceScope scope(device_);
        cudaDeviceProp properties{};
        cuda::check(cudaGetDeviceProperties(&properties, device_), "read the device's properties");
        return {properties.uuid, wanted_};
    }

    // Blocks of all ranks wait for each other, so those of ranks on one device must fit together.
    void start(const std::vector<Place>& places, std::uint32_t rank) {
        const cuda::DeviceScope scope(device_);
        const std::uint32_t most = resident_blocks();
        std::uint32_t sharing = 0, asked = 0;
        for (const Place& place : places) {
            if (std::memcmp(&place.device, &places[rank].device, sizeof place.device) != 0) continue;
            ++sharing;
            asked += place.sms;
        }
        sms_ = (wanted_ == 0 ? most / sharing : wanted_) / L::members * L::members;
        if (asked > most || sms_ == 0) {
            fail(Status::invalid_argument, "options.sms of the ", sharing, " ranks on device ", device_,
                 " are ", asked, " in all, expected at most ", most,
                 ", the blocks that can run there at the same time, and ", L::members,
                 " or more of each rank; 0 gives each its part");
        }
        allocate();
    }

    // Ranks agree on how many: tiles, and who pushes what, go by it.
    void limit(std::uint32_t sms) { sms_ = std::min(sms_, sms); }

    void fill(lcsc::Arguments& a) const {
        auto* at = static_cast<char*>(local_);
        a.state = reinterpret_cast<lcsc::State*>(at);
        a.gathered_counts = reinterpret_cast<std::uint32_t*>(at + state_bytes);
        a.staging = at + state_bytes + counts_bytes();
        a.pace = C::pace * sms_ / paced_sms;
        void* seen = nullptr;
        const cuda::DeviceScope scope(device_);
        cuda::check(cudaHostGetDevicePointer(&seen, report_, 0), "map host memory");
        a.report = static_cast<lcsc::Report*>(seen);
    }

    // One kernel object has one workspace, so a run on another stream waits for the one before. A run that is
    // captured becomes one node of the graph: whoever replays it says what it comes after.
    void run(const lcsc::Arguments& a, const Weights& weights, const CopyOut& copy, void* stream) {
        const auto s = static_cast<cudaStream_t>(stream);
        const cuda::OnDevice scope(device_);
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        cuda::check(cudaStreamIsCapturing(s, &capture), "use the stream");
        const bool captured = capture != cudaStreamCaptureStatusNone;
        if (!captured) cuda::check(cudaStreamWaitEvent(s, done_, 0), "wait for the run before this one");
        if (lcsc::takes_half<C>(a.m, a.n, a.world, sms_)) {
            launch<lcsc::Half<C>>(a, weights, s);
        } else {
            launch<C>(a, weights, s);
        }
        if (copy.rows != 0) {
            cuda::check(cudaMemcpy2DAsync(copy.to, copy.to_stride, copy.from, copy.from_stride,
                                          copy.row_bytes, copy.rows, cudaMemcpyDeviceToDevice, s),
                        "copy the output");
        }
        if (!captured) cuda::check(cudaEventRecord(done_, s), "record the end of the run");
    }

    void wait() const {
        const cuda::OnDevice scope(device_);
        cuda::check(cudaEventSynchronize(done_), "run the kernel");
    }

    // Host memory that the device writes last of all: 2 when the rest of the report is there.
    bool failed() const { return *static_cast<volatile std::uint32_t*>(&report_->state) == 2; }
    lcsc::Report report() const { return *report_; }

private:
    template <class Tiles>
    void launch(const lcsc::Arguments& a, const Weights& weights, cudaStream_t stream) {
        const lcsc::Maps maps = maps_of<Tiles>(a, weights);
        cudaLaunchConfig_t launch{};
        launch.gridDim = dim3(sms_);
        launch.blockDim = dim3(lcsc::block_size);
        launch.dynamicSmemBytes = lcsc::Layout<Tiles>::bytes;
        launch.stream = stream;
        cuda::check(cudaLaunchKernelEx(&launch, lcsc::overlapped<Tiles>, a, maps), "launch the kernel");
    }

    static constexpr std::size_t state_bytes = 256;
    static constexpr std::uint32_t paced_sms = 132;  // that share the link where C::pace was measured
    static_assert(sizeof(lcsc::State) <= state_bytes);

    std::size_t counts_bytes() const { return (blocks_ * sizeof(std::uint32_t) + 255) / 256 * 256; }

    int attribute(cudaDeviceAttr which) const {
        int value = 0;
        cuda::check(cudaDeviceGetAttribute(&value, which, device_), "read a device attribute");
        return value;
    }

    void check_device() const {
        const int major = attribute(cudaDevAttrComputeCapabilityMajor);
        const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
        if (major != 9 || minor != 0) {
            fail(Status::unsupported_device, "device ", device_, " has compute capability ", major, ".",
                 minor, ", expected 9.0");
        }
        const int room = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        static constexpr std::uint32_t bytes = std::max(L::bytes, lcsc::Layout<lcsc::Half<C>>::bytes);
        if (static_cast<std::uint32_t>(room) < bytes) {
            fail(Status::unsupported_device, "a block needs ", bytes, " bytes of shared memory, device ",
                 device_, " has ", room);
        }
    }

    // How many blocks can run at the same time, in whole clusters.
    std::uint32_t resident_blocks() const {
        return std::min(resident_blocks<C>(), resident_blocks<lcsc::Half<C>>());
    }
    template <class Tiles>
    std::uint32_t resident_blocks() const {
        const auto kernel = lcsc::overlapped<Tiles>;
        static constexpr std::uint32_t bytes = lcsc::Layout<Tiles>::bytes;
        cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                    "reserve shared memory");
        cudaLaunchConfig_t launch{};
        const auto sms = static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
        launch.gridDim = dim3(sms / L::members * L::members);
        launch.blockDim = dim3(lcsc::block_size);
        launch.dynamicSmemBytes = bytes;
        cudaLaunchAttribute cluster{};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {L::members, 1, 1};
        launch.attrs = &cluster;
        launch.numAttrs = 1;
        int clusters = 0;
        cuda::check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch), "compute the occupancy");
        if (clusters == 0) fail(Status::unsupported_device, "no block fits on an SM of device ", device_);
        return static_cast<std::uint32_t>(clusters) * L::members;
    }

    void allocate() {
        const std::uint64_t staging =
            C::reduce == lcsc::Reduce::none ? 0 : std::uint64_t{sms_} * L::staging_slots * L::staged_bytes;
        local_bytes_ = state_bytes + counts_bytes() + staging;
        cuda::check(cudaMalloc(&local_, local_bytes_), "allocate the kernel's own memory");
        bootstrap::cuda::clear(local_, state_bytes + counts_bytes());
        void* report = nullptr;
        cuda::check(cudaHostAlloc(&report, sizeof(lcsc::Report), cudaHostAllocMapped | cudaHostAllocPortable),
                    "allocate host memory for a report");
        report_ = static_cast<lcsc::Report*>(report);
        std::memset(report_, 0, sizeof *report_);
        cuda::check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "make an event");
    }

    // A rank that has no rows has no matrix of them: its map is of something that is there, and is not used.
    template <class Tiles>
    lcsc::Maps maps_of(const lcsc::Arguments& a, const Weights& weights) {
        const std::uint32_t own = C::gather ? a.shards.count(a.rank) : a.m;
        const auto weight = [&](const void* data, std::uint32_t stride) -> const auto& {
            return maps_->of(data, a.n, a.k, stride, lcsc::Layout<Tiles>::part_rows);
        };
        const auto rows = [&](const void* data, std::uint32_t count, std::uint32_t stride) -> const auto& {
            return maps_->of(data, count, a.k, stride, L::tile_m);
        };
        lcsc::Maps maps;
        maps.weight = weight(weights.weight, weights.stride);
        maps.up = C::silu_mul ? weight(weights.up, weights.up_stride) : maps.weight;
        maps.shard = own == 0 ? maps.weight : rows(a.shard, own, a.shard_stride);
        for (int turn = 0; turn < 2; ++turn) {
            const char* gathered = a.peers[a.rank] + a.workspace.gathered[turn];
            maps.gathered[turn] = C::gather ? rows(gathered, a.m, a.k) : maps.shard;
        }
        return maps;
    }

    int device_;
    std::uint32_t blocks_, wanted_, sms_ = 0;
    std::optional<TensorMaps<typename C::Type>> maps_;
    void* local_ = nullptr;  // State, counts, staging
    std::uint64_t local_bytes_ = 0;
    lcsc::Report* report_ = nullptr;
    cudaEvent_t done_ = nullptr;  // the end of the last run that was not captured
};

}  // namespace pk::engine
