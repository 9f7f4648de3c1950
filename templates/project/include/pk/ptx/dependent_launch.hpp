// Launches of a stream that overlap (programmatic dependent launch): a kernel that was launched so may begin
// once all blocks of the kernel before it have said that it may, or have ended. Without effect on other
// launches. sm_90 and later.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

#if PK_SM90

// Until the kernels before this one have ended, and what they wrote is seen. A block that began earlier may
// share an SM with blocks of theirs, so nothing may be read before, and what they write not through L1. It
// takes as long as they do, as without an early launch: our own kernels before have bounded waits.
__device__ __forceinline__ void wait_for_launches_before() {
    asm volatile("griddepcontrol.wait;" : : : "memory");
}

// By one thread of a block: as far as this block goes, the kernel after this one may take what room the
// device has. Its blocks then wait there for the end of this kernel: so no block may say this that still
// waits for another rank, whose kernels might need the room.
__device__ __forceinline__ void let_next_launch_begin() {
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}

#endif

}  // namespace pk::ptx
