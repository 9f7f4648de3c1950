// The nanosecond clock that all SMs share, the clock of one SM, and what is between two polls.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

__device__ __forceinline__ std::uint64_t global_timer() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

// Cycles of this SM.
__device__ __forceinline__ std::uint64_t sm_clock() {
    std::uint64_t value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
    return value;
}

// Nothing: a load takes longer than a pause would.
__device__ __forceinline__ void poll_pause() {}

}  // namespace pk::ptx
