// The thread's number in its block, read anew.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// threadIdx.x, of which the compiler does not know that it is the same at each call.
__device__ __forceinline__ std::uint32_t thread_number() {
    std::uint32_t number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

}  // namespace pk::ptx
