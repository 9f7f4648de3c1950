// Barriers of some threads of a block: a block has 16 of them, 0 is that of __syncthreads(). Whole warps
// take part; each barrier releases before and acquires after, at block scope.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

template <std::uint32_t Barrier, std::uint32_t Threads>
__device__ __forceinline__ void named_barrier_sync() {
    asm volatile("bar.sync %0, %1;" : : "n"(Barrier), "n"(Threads) : "memory");
}

template <std::uint32_t Threads>
__device__ __forceinline__ void named_barrier_sync(std::uint32_t barrier) {
    asm volatile("bar.sync %0, %1;" : : "r"(barrier), "n"(Threads) : "memory");
}

// The same; true for all if it is for one of them.
template <std::uint32_t Barrier, std::uint32_t Threads>
__device__ __forceinline__ bool named_barrier_any(bool vote) {
    std::uint32_t result;
    asm volatile(
        "{\n"
        ".reg .pred vote, result;\n"
        "setp.ne.u32 vote, %1, 0;\n"
        "bar.red.or.pred result, %2, %3, vote;\n"
        "selp.u32 %0, 1, 0, result;\n"
        "}"
        : "=r"(result)
        : "r"(vote ? 1u : 0u), "n"(Barrier), "n"(Threads)
        : "memory");
    return result != 0;
}

}  // namespace pk::ptx
