// Bulk copies (1-D TMA) from shared to global memory of this device or a peer, which one thread issues:
// stores, and reductions at the destination. Both read shared memory and write global memory in the async
// proxy.
//
// The copies that a thread has issued since its last commit are a group. It waits for its groups in the order
// of their commits; nobody else can.
#pragma once

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

#if PK_CUDA && PK_SM90

// All three are multiples of 16. `from` was written before in the generic proxy by threads that have since
// called fence_proxy_async and synchronized with this one.
__device__ __forceinline__ void bulk_store(void* to, const void* from, std::uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :
                 : "l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

// The same, but each element is combined with what is at the destination. Every element by itself is atomic,
// and relaxed; two of these may be done in any order.
#define PK_PTX_BULK_REDUCE(NAME, OPERATION)                                                             \
    __device__ __forceinline__ void NAME(void* to, const void* from, std::uint32_t bytes) {             \
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OPERATION " [%0], [%1], %2;" \
                     :                                                                                  \
                     : "l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes)         \
                     : "memory");                                                                       \
    }

PK_PTX_BULK_REDUCE(bulk_add_f32, "add.f32")
PK_PTX_BULK_REDUCE(bulk_add_bf16, "add.noftz.bf16")
PK_PTX_BULK_REDUCE(bulk_min_bf16, "min.bf16")
PK_PTX_BULK_REDUCE(bulk_max_bf16, "max.bf16")
PK_PTX_BULK_REDUCE(bulk_add_f16, "add.noftz.f16")
PK_PTX_BULK_REDUCE(bulk_min_f16, "min.f16")
PK_PTX_BULK_REDUCE(bulk_max_f16, "max.f16")

#undef PK_PTX_BULK_REDUCE

__device__ __forceinline__ void bulk_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

// Until all but the last `Left` groups of this thread have read shared memory, which may then be written.
template <std::uint32_t Left>
__device__ __forceinline__ void bulk_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(Left) : "memory");
}

// Until all but the last `Left` groups of this thread are complete: what they wrote is seen by this thread,
// and by whom it then signals.
template <std::uint32_t Left>
__device__ __forceinline__ void bulk_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(Left) : "memory");
}

#endif

}  // namespace pk::ptx
