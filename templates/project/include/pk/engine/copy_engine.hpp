// Rows copied to the peers by the copy engine, beside a kernel that waits for their like (lcsc/copies.hpp).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "pk/engine/cuda_device.hpp"
#include "pk/lcsc/copies.hpp"

namespace pk::engine {

// A stream for the copies, which branches off from that of a run and joins it again; also while that is
// captured.
class CopyEngine {
public:
    explicit CopyEngine(int device) : device_(device) {
        const cuda::DeviceScope scope(device_);
        cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
        for (cudaEvent_t* event : {&fork_, &join_})
            cuda::check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "make an event");
    }
    CopyEngine(const CopyEngine&) = delete;
    CopyEngine& operator=(const CopyEngine&) = delete;
    ~CopyEngine() {
        bootstrap::cuda::quietly_on(device_, [this] {
            if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
            for (cudaEvent_t event : {fork_, join_}) {
                if (event != nullptr) (void)cudaEventDestroy(event);
            }
        });
    }

    // What `kernel` enqueues on the stream of the run goes beside the copies of this rank's rows.
    template <class C, class Kernel>
    void beside(const lcsc::Arguments& a, cudaStream_t run, Kernel kernel) {
        lcsc::begin_copies<C><<<1, 32, 0, run>>>(a);
        cuda::check(cudaGetLastError(), "launch the kernel");
        cuda::check(cudaEventRecord(fork_, run), "branch off copies");
        cuda::check(cudaStreamWaitEvent(stream_, fork_, 0), "branch off copies");
        const std::uint32_t rows = a.shards.count(a.rank), blocks = lcsc::divide_up(rows, C::tile_m);
        const std::uint32_t together = lcsc::copied_blocks(a.k, C::tile_m);
        for (std::uint32_t block = 0; block < blocks; block += together) {
            const std::uint32_t count = std::min(together, blocks - block);
            for (std::uint32_t n = 1; n < a.world; ++n) {
                const std::uint32_t peer = (a.rank + a.world - n) % a.world;  // who needs them first
                copy_rows(a, peer, block * C::tile_m, std::min(count * C::tile_m, rows - block * C::tile_m));
                copy_flags(a, peer, block, count);
            }
        }
        kernel();
        cuda::check(cudaEventRecord(join_, stream_), "join copies");
        cuda::check(cudaStreamWaitEvent(run, join_, 0), "join copies");
    }

private:
    void copy_rows(const lcsc::Arguments& a, std::uint32_t peer, std::uint32_t row, std::uint32_t rows) {
        const std::uint64_t row_bytes = std::uint64_t{a.k} * 2, stride = std::uint64_t{a.shard_stride} * 2;
        const auto* from = static_cast<const char*>(a.shard) + row * stride;
        char* to = a.peers[peer] + a.workspace.gathered[0] + (a.shards.begin(a.rank) + row) * row_bytes;
        if (stride == row_bytes) {
            cuda::check(cudaMemcpyAsync(to, from, rows * row_bytes, cudaMemcpyDefault, stream_), "copy rows");
        } else {
            cuda::check(
                cudaMemcpy2DAsync(to, row_bytes, from, stride, row_bytes, rows, cudaMemcpyDefault, stream_),
                "copy rows");
        }
    }

    // In the order of the stream: who sees a flag sees the rows before it.
    void copy_flags(const lcsc::Arguments& a, std::uint32_t peer, std::uint32_t block, std::uint32_t count) {
        static constexpr std::uint64_t word = sizeof(std::uint32_t);
        const std::uint64_t at = std::uint64_t{a.rank} * a.workspace.blocks + block;
        cuda::check(cudaMemcpyAsync(a.peers[peer] + a.workspace.gathered_flags + at * word,
                                    a.copied_epochs + block, count * word, cudaMemcpyDefault, stream_),
                    "copy flags");
    }

    int device_;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t fork_ = nullptr, join_ = nullptr;
};

}  // namespace pk::engine
