// Addresses of shared memory as PTX instructions take them, and whether this pass may use those of sm_90.
#pragma once

#include "pk/platform/platform.hpp"

// 1 while nvcc compiles for a chip with bulk copies and barriers that count bytes, and in its pass for the
// host, which only parses device code. Code for older chips goes into the #else.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define PK_SM90 1
#else
#define PK_SM90 0
#endif

#if PK_CUDA  // on the host there is none

namespace pk::ptx {

// p points into the shared memory of this block.
__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// The same, held in a register: the compiler would rather compute an address again where it is used, which
// begins with the number of the block in its cluster and takes longer than many a wait.
__device__ __forceinline__ std::uint32_t held_address(const void* p) {
    std::uint32_t held;
    asm volatile("mov.u32 %0, %1;" : "=r"(held) : "r"(shared_address(p)));
    return held;
}

}  // namespace pk::ptx

#endif
