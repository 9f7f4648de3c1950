// Values that are equal in a warp.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// x, which is equal in the warp, by an instruction that has its result once for all lanes. (Those that
// shuffle lanes give each its own, and the compiler does not always know that they are equal.) All lanes
// call.
__device__ __forceinline__ std::uint32_t equal_in_warp(std::uint32_t x) {
    std::uint32_t all;
    asm volatile("redux.sync.or.b32 %0, %1, -1;" : "=r"(all) : "r"(x));
    return all;
}

}  // namespace pk::ptx
