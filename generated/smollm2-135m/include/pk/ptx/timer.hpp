// The nanosecond clock that all SMs share, and a pause between polls.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

__device__ __forceinline__ std::uint64_t global_timer() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

}  // namespace pk::ptx
