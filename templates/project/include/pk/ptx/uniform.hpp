// Values that are equal in a warp.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// x of the warp's first lane. All lanes call. Not __shfl_sync, which is left out by a part of the compiler
// where it knows itself that x is equal, whereas the part that comes after it does not.
__device__ __forceinline__ std::uint32_t of_first_lane(std::uint32_t x) {
    std::uint32_t first;
    asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, -1;" : "=r"(first) : "r"(x));
    return first;
}

}  // namespace pk::ptx
