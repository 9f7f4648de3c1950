// Fences of a single thread.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// With relaxed loads before it an acquire, with relaxed stores after it a release, for the whole device.
__device__ __forceinline__ void fence_acq_rel() {
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

// What was written in the generic proxy and is ordered before this thread's call comes before the bulk
// copies that it issues afterwards (async proxy), in global and in shared memory.
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async;" : : : "memory");
}

}  // namespace pk::ptx
