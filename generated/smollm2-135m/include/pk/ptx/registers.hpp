// How many registers each thread of the warpgroup has (setmaxnreg): a multiple of 8, 24 to 256. All threads
// of the warpgroup call. sm_90a only.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// More than at the launch; waits until others of the block have given back what it takes.
template <std::uint32_t Registers>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(Registers));
}

// Fewer: the rest is for others of the block to take.
template <std::uint32_t Registers>
__device__ __forceinline__ void give_back_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(Registers));
}

}  // namespace pk::ptx
