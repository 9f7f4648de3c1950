// Runs a machine on a GPU: one cooperative launch per call, a thread block per worker.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "mpk/engine/call_state.hpp"
#include "mpk/engine/cluster_runner.hpp"
#include "mpk/engine/cuda_memory.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/engine/kernel.hpp"
#include "mpk/engine/results.hpp"
#include "mpk/engine/weight_file.hpp"
#include "mpk/machine.hpp"
#include "mpk/worker.hpp"
#include "pk/ptx/block_memory.hpp"

namespace mpk::engine {

template <class Program>
__global__ void __launch_bounds__(worker_threads, 1) run_workers(const __grid_constant__ Machine machine) {
    worker_main<Program>(machine, blockIdx.x, pk::ptx::block_memory());
}

template <class Program>
class CudaBackend {
public:
    using Buffer = DeviceBuffer;
    using OutputBuffer = PinnedBuffer;
    using Scope = CudaScope;
    static constexpr bool is_cuda = true;

    // The device is the current one. workers 0: as many as are fastest.
    CudaBackend(std::int32_t device, std::uint32_t workers)
        : device_(device), fastest_(workers == 0), report_(sizeof(Report), "a report") {
        const std::uint32_t most = co_resident_workers();
        workers_ = workers == 0 ? std::min(most, attribute(cudaDevAttrMultiProcessorCount)) : workers;
        if (workers_ > most) {
            fail(Status::invalid_argument, "options.workers is ", workers_, ", expected 0 (one per SM) to ",
                 most, ", the blocks that device ", device_, " can run at the same time");
        }
    }

    std::int32_t device() const { return device_; }
    std::uint32_t workers() const { return workers_; }

    Buffer allocate(std::size_t bytes, const char* purpose) const {
        return Buffer(bytes, purpose, copies_.get());
    }
    OutputBuffer allocate_output(std::size_t bytes) const { return OutputBuffer(bytes, "results"); }
    void* worker_view(const OutputBuffer& buffer) const { return buffer.device_data(); }
    void upload(void* destination, const void* source, std::size_t bytes) const {
        cuda_check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, copies_.get()),
                   "copy tables");
        copies_.synchronize();
    }
    void download(void* destination, const void* source, std::size_t bytes) const {
        cuda_check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, copies_.get()),
                   "copy results");
        copies_.synchronize();
    }

    // Zero memory before a call that is to be launched on `stream`; part of it when it is captured.
    void clear(void* memory, std::size_t bytes, void* stream) const {
        cuda_check(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)), "clear memory");
    }

    // Copy the weights into `weights`: while one piece travels, the next is read.
    const void* load_weights(const WeightFile& file, Buffer& weights) const {
        weights = allocate(file.size(), "weights");
        static constexpr std::uint64_t piece = std::uint64_t{16} << 20;
        struct Slot {
            PinnedBuffer memory{piece, "loading weights"};
            CudaEvent sent;
        };
        std::array<Slot, 2> slots;
        for (std::uint64_t offset = 0, turn = 0; offset < file.size(); offset += piece, ++turn) {
            const Slot& slot = slots[turn % slots.size()];
            const std::size_t bytes = std::min(piece, file.size() - offset);
            cuda_check(cudaEventSynchronize(slot.sent.get()), "copy weights");
            file.read(offset, slot.memory.data(), bytes);
            cuda_check(cudaMemcpyAsync(static_cast<std::byte*>(weights.data()) + offset, slot.memory.data(),
                                       bytes, cudaMemcpyHostToDevice, copies_.get()),
                       "copy weights");
            cuda_check(cudaEventRecord(slot.sent.get(), copies_.get()), "copy weights");
        }
        copies_.synchronize();
        return weights.data();
    }

    // Called once the machine has all its tables: decides which worker runs, and returns how many blocks it
    // has.
    template <class Tables>
    std::uint32_t prepare(const Plan& plan, Machine& machine, const Tables& tables) {
        if constexpr (!std::is_void_v<typename Program::Decoder>) {
            const std::uint32_t clusters = fastest_ ? Clusters::clusters_that_fit(*this, device_) : 0;
            if (clusters != 0) {
                clusters_.emplace(*this, plan, clusters, [&](std::uint32_t i) { return tables.tensor(i); });
                machine.rows = std::min(machine.rows, Clusters::most_rows);
                return clusters_->blocks();
            }
        }
        return workers_;
    }
    // Whether the worker that runs reads the weights as they were loaded.
    bool reads_weights() const { return !clusters_.has_value(); }
    cudaStream_t copy_stream() const { return copies_.get(); }

    // How many tokens of a new sequence are in the cache when its first step begins.
    std::uint32_t tokens_ahead(const Sequence& sequence) const {
        return clusters_ ? Clusters::tokens_ahead(sequence) : 0;
    }

    // Whether what is enqueued on `stream` becomes part of a graph.
    bool captures(void* stream) const {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        cuda_check(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status), "use the stream");
        return status == cudaStreamCaptureStatusActive;
    }

    // Where the engine writes the state that a call starts from. A call that is captured keeps its own: a
    // replay of the graph copies it again, whatever other calls were made in between.
    void* begin_call(const CallState& live, bool captured) {
        if (!captured) {
            if (staging_.data() == nullptr) staging_ = PinnedBuffer(live.bytes, "a request");
            return staging_.data();
        }
        captured_.emplace_back(live.bytes, "a captured request");
        return captured_.back().data();
    }

    // Enqueue the copy of the start state from `image`, the clearing of the results' progress, the kernel and
    // the copy of its report. Nothing waits for the device.
    void launch(Machine machine, const CallState& live, const void* image, std::size_t bytes, void* stream,
                bool captured) {
        const auto s = static_cast<cudaStream_t>(stream);
        if (!captured) *static_cast<Report*>(report_.data()) = {};
        cuda_check(cudaMemcpyAsync(live.counters, image, bytes, cudaMemcpyHostToDevice, s), "copy a request");
        cuda_check(cudaMemsetAsync(machine.output.count, 0, results_progress_bytes(machine.batch), s),
                   "clear results");
        const cudaError_t launched = launch_kernels(machine, reads_ahead(machine.batch, live, image), s);
        // The copies above read staging memory that the next call writes.
        if (launched != cudaSuccess && !captured) (void)cudaStreamSynchronize(s);
        cuda_check(launched, "launch the kernel");
        cuda_check(cudaMemcpyAsync(report_.data(), live.report, sizeof(Report), cudaMemcpyDeviceToHost, s),
                   "copy the report");
        cuda_check(cudaEventRecordWithFlags(done_.get(), s,
                                            captured ? cudaEventRecordExternal : cudaEventRecordDefault),
                   "record the end of the call");
    }

    bool busy() const {
        const cudaError_t state = cudaEventQuery(done_.get());
        if (state == cudaErrorNotReady) return true;
        cuda_check(state, "run the call before this one");
        return false;
    }

    void wait() const { cuda_check(cudaEventSynchronize(done_.get()), "run the kernel"); }

    Report report(const CallState&) const { return *static_cast<const Report*>(report_.data()); }

private:
    using Clusters = ClusterRunnerOf<Program>;

    // Whether a sequence of the start state has tokens behind it.
    static bool reads_ahead(std::uint32_t batch, const CallState& live, const void* image) {
        const auto offset = reinterpret_cast<const std::byte*>(live.sequences) -
                            reinterpret_cast<const std::byte*>(live.counters);
        const auto* sequences =
            reinterpret_cast<const Sequence*>(static_cast<const std::byte*>(image) + offset);
        return std::any_of(sequences, sequences + batch, [](const Sequence& s) { return s.position != 0; });
    }

    cudaError_t launch_kernels(Machine& machine, bool reads_ahead, cudaStream_t stream) const {
        if (clusters_) return clusters_->launch(machine, reads_ahead, stream);
        void* arguments[] = {&machine};
        return cudaLaunchCooperativeKernel(kernel_address(run_workers<Program>), dim3(workers_),
                                           dim3(worker_threads), arguments, Program::scratch_bytes, stream);
    }

    std::uint32_t attribute(cudaDeviceAttr which) const {
        int value = 0;
        cuda_check(cudaDeviceGetAttribute(&value, which, device_), "read a device attribute");
        return static_cast<std::uint32_t>(value);
    }

    // Blocks that are certain to run at the same time. Workers wait for each other, so no more may be
    // launched.
    std::uint32_t co_resident_workers() const {
        const void* kernel = kernel_address(run_workers<Program>);
        cudaFuncAttributes attributes = {};
        const cudaError_t found = cudaFuncGetAttributes(&attributes, kernel);
        if (found != cudaSuccess) {
            (void)cudaGetLastError();
            fail(Status::unsupported_device, "device ", device_, " has compute capability ",
                 attribute(cudaDevAttrComputeCapabilityMajor), ".",
                 attribute(cudaDevAttrComputeCapabilityMinor),
                 ", for which this library was not compiled (CMAKE_CUDA_ARCHITECTURES): ",
                 cudaGetErrorString(found));
        }
        if (attribute(cudaDevAttrCooperativeLaunch) == 0) {
            fail(Status::unsupported_device, "device ", device_, " has no cooperative launch");
        }
        const std::uint32_t room = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        const std::size_t needed = Program::scratch_bytes + attributes.sharedSizeBytes;
        if (needed > room) {
            fail(Status::unsupported_device, "a worker needs ", needed, " bytes of shared memory, device ",
                 device_, " has ", room);
        }
        cuda_check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Program::scratch_bytes),
            "reserve shared memory");
        int per_sm = 0;
        cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, worker_threads,
                                                                 Program::scratch_bytes),
                   "compute the occupancy");
        if (per_sm == 0) fail(Status::unsupported_device, "no worker fits on an SM of device ", device_);
        return static_cast<std::uint32_t>(per_sm) * attribute(cudaDevAttrMultiProcessorCount);
    }

    std::int32_t device_;
    bool fastest_;  // no number of workers was asked for
    std::uint32_t workers_ = 0;
    std::optional<Clusters> clusters_;
    CudaStream copies_;  // of tables, weights and results
    CudaEvent done_;     // the end of the last call
    PinnedBuffer report_;
    PinnedBuffer staging_;
    std::vector<PinnedBuffer> captured_;
};

}  // namespace mpk::engine
