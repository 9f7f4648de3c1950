// The block's number in the grid, read anew.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// blockIdx.x, of which the compiler does not know that it is the same at each call.
__device__ __forceinline__ std::uint32_t block_number() {
    std::uint32_t number;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    return number;
}

}  // namespace pk::ptx
