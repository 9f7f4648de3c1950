// Shared memory of a block.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// That whose size the launch of the kernel names. Its begin, a multiple of 1024.
__device__ __forceinline__ unsigned char* block_memory() {
    extern __shared__ __align__(1024) unsigned char memory[];
    return memory;
}

// A variable that all threads of the block share; for each type there is one. Not initialized.
template <class T>
__device__ __forceinline__ T& block_variable() {
    __shared__ T variable;
    return variable;
}

}  // namespace pk::ptx
